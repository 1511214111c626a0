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

	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

func (a *app) runRepairCommand() *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "repair DIR NEWDIR",
		Short: "recover the intact data of a corrupt folder",
		Long: `Recover the intact data of a corrupt folder of runs, or of the --state folder of a demo, into the
new folder NEWDIR. DIR is not changed.

  parley run repair ~/.local/state/parley saved
  parley run list --state saved
  parley run show last --state saved

Lost data is listed, one item per line. Check NEWDIR, then replace DIR with it.`,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) != 2 {
				return usagef("parley run repair takes two folders: the corrupt one, and a new one that does not exist yet")
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

// salvage calls [sqlite.Salvage] and returns errors for the user who typed the folder names.
func salvage(ctx context.Context, from, to string) (*sqlite.Salvaged, error) {
	folders, err := storesOf(from)
	if err != nil {
		return nil, err
	}
	if len(folders) == 0 {
		return nil, usagef("no runs are stored in %s", from)
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%s already exists; repair creates the folder and does not overwrite one", to)
	}
	all := &sqlite.Salvaged{}
	for _, folder := range folders {
		target := filepath.Join(to, folder)
		if err := private.Folder(filepath.Dir(target)); err != nil {
			return nil, err
		}
		saved, err := sqlite.Salvage(ctx, filepath.Join(from, folder), target)
		if err != nil {
			return nil, &stateError{filepath.Join(from, folder), err}
		}
		all.Logs, all.Events, all.Values, all.More = all.Logs+saved.Logs, all.Events+saved.Events, all.Values+saved.Values, all.More+saved.More
		room := max(100-len(all.Lost), 0)
		all.Lost = append(all.Lost, saved.Lost[:min(len(saved.Lost), room)]...)
		all.More += max(len(saved.Lost)-room, 0)
	}
	return all, nil
}

// storesOf returns the store folders in a folder of runs: "" for its own, and those of its runs.
func storesOf(dir string) (folders []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, "parley.db")); err == nil {
		folders = append(folders, "")
	}
	entries, err := os.ReadDir(filepath.Join(dir, runsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && len(folders) == 0 {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(runsFolder, e.Name())
		if _, err := os.Stat(filepath.Join(dir, name, "parley.db")); err == nil && isRunID(e.Name()) {
			folders = append(folders, name)
		}
	}
	return folders, nil
}

// printSaved prints what was recovered and what is lost.
func (a *app) printSaved(ctx context.Context, p *printer, saved *sqlite.Salvaged, from, to string) error {
	if p.format != formText {
		b, err := json.Marshal(struct {
			Logs   int      `json:"logs"`
			Events int      `json:"events"`
			Values int      `json:"values"`
			Lost   []string `json:"lost"`
			More   int      `json:"more,omitzero"` // number of losses not listed in lost
		}{saved.Logs, saved.Events, saved.Values, saved.Lost, saved.More})
		if err != nil {
			return err
		}
		return p.print(ctx, b)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "recovered %d logs with %d events, and %d values\n", saved.Logs, saved.Events, saved.Values)
	for _, lost := range saved.Lost {
		fmt.Fprintf(&b, "lost  %s\n", visible(lost, 300))
	}
	if saved.More > 0 {
		fmt.Fprintf(&b, "lost  %d more\n", saved.More)
	}
	if len(saved.Lost) == 0 {
		b.WriteString("nothing was lost\n")
	}
	if _, err := p.w.Write([]byte(b.String())); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "parley: %s is unchanged; check %s, then replace the folder with it\n", visible(from, 300), visible(to, 300))
	return nil
}

// isCorrupt reports whether a folder of runs was rejected because its data is damaged.
func isCorrupt(err error) bool {
	fault, ok := errors.AsType[*store.Fault](err)
	return ok && fault.Reason == store.ReasonCorrupt
}
