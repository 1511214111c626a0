package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

func (a *app) runRepairCommand() *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "repair DIR NEWDIR",
		Short: "save what is sound of a folder that is corrupt",
		Long: `Save what is sound of a folder of runs, or of a demo's --state, that is refused as corrupt. NEWDIR is made; DIR stays as it is.

  parley run repair ~/.local/state/parley saved
  parley run list --state saved

What is lost is told, a line each. Look at NEWDIR, and move it to the place of DIR if it will do.`,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) != 2 {
				return usagef("parley run repair takes two folders: the one that is corrupt, and one that is not there yet")
			}
			return nil
		},
	}
	output.registerWith(cmd, formText, append([]string{formText}, forms...))
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		p, err := a.runPrinter(output)
		if err != nil {
			return err
		}
		saved, err := salvage(cmd.Context(), words[0], words[1])
		if err != nil {
			return err
		}
		return a.printSaved(cmd.Context(), p, saved, words[0], words[1])
	}
	return cmd
}

// salvage is [sqlite.Salvage] with errors for whoever typed the names of the folders.
func salvage(ctx context.Context, from, to string) (*sqlite.Salvaged, error) {
	if _, err := os.Stat(filepath.Join(from, "parley.db")); errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("no runs are kept in %s", from)
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%s is there already; repair makes the folder, and overwrites nothing", to)
	}
	saved, err := sqlite.Salvage(ctx, from, to)
	if err != nil {
		return nil, &stateError{from, err}
	}
	return saved, nil
}

// printSaved tells what there is now, and what is lost.
func (a *app) printSaved(ctx context.Context, p *printer, saved *sqlite.Salvaged, from, to string) error {
	if p.format != formText {
		b, err := json.Marshal(struct {
			Logs   int      `json:"logs"`
			Events int      `json:"events"`
			Values int      `json:"values"`
			Lost   []string `json:"lost"`
			More   int      `json:"more,omitzero"` // losses that are not in lost
		}{saved.Logs, saved.Events, saved.Values, saved.Lost, saved.More})
		if err != nil {
			return err
		}
		return p.print(ctx, b)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "saved %d logs with %d events, and %d values\n", saved.Logs, saved.Events, saved.Values)
	for _, lost := range saved.Lost {
		fmt.Fprintf(&b, "lost  %s\n", visible(lost, 300))
	}
	if saved.More > 0 {
		fmt.Fprintf(&b, "lost  %d more\n", saved.More)
	}
	if len(saved.Lost) == 0 {
		b.WriteString("nothing is lost\n")
	}
	if _, err := p.w.Write([]byte(b.String())); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "parley: %s is as it was; if what is in %s will do, move it there\n", visible(from, 300), visible(to, 300))
	return nil
}

// isCorrupt reports whether a folder of runs was refused because it is not what was written.
func isCorrupt(err error) bool {
	fault, ok := errors.AsType[*store.Fault](err)
	return ok && fault.Reason == store.ReasonCorrupt
}
