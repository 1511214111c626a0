package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/store/sqlite"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

// runPage is how many runs are read at a time, and listed if nobody says how many.
const runPage = 100

func (a *app) runListCommand() *cobra.Command {
	var (
		output outputFlags
		state  string
		last   int
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "the runs that are kept, the newest last",
		Long: `List the runs that are kept, the newest last.

  parley run list
  parley run list --last 5 -o json
  parley run list --state DIR

A run that was under way when its process ended is interrupted.`,
		Args: noWords,
	}
	stateFlag(cmd, &state)
	cmd.Flags().IntVarP(&last, "last", "n", runPage, "list the newest `N`; 0 lists all")
	output.registerWith(cmd, formText, append([]string{formText}, forms...))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := a.runPrinter(output)
		if err != nil {
			return err
		}
		var all []orchestrator.Info
		err = a.withRuns(state, func(s *sqlite.Store) error {
			return eachRun(cmd.Context(), s, func(info orchestrator.Info) bool {
				all = append(all, info)
				if last > 0 && len(all) > 2*last+runPage {
					all = append(all[:0], all[len(all)-last:]...)
				}
				return true
			})
		})
		if err != nil {
			return err
		}
		if last > 0 && len(all) > last {
			all = all[len(all)-last:]
		}
		if p.format != formText {
			if all == nil {
				all = []orchestrator.Info{}
			}
			b, err := json.Marshal(all)
			if err != nil {
				return err
			}
			return p.print(cmd.Context(), b)
		}
		return a.listRuns(p, all)
	}
	return cmd
}

func (a *app) runPrinter(output outputFlags) (*printer, error) {
	if output.jq != "" && output.format == formText {
		output.format = "json"
	}
	return a.printer(output)
}

func (a *app) listRuns(p *printer, all []orchestrator.Info) error {
	if len(all) == 0 {
		fmt.Fprintln(a.stderr, "parley: no runs are kept there yet")
		return nil
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tPLAN\tSTATE\tSTARTED\tTOOK\tRESULT")
	for _, info := range all {
		took := ""
		if !info.Ended.IsZero() {
			took = shortTime(info.Ended.Sub(info.Started))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", visible(info.ID, 64), visible(info.Plan, 30), info.State,
			info.Started.Local().Format(time.DateTime), took, visible(strings.TrimSpace(firstLine(info.Text)), 40))
	}
	_ = w.Flush() // into memory
	_, err := p.w.Write(trimLines([]byte(b.String())))
	return err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func (a *app) runShowCommand() *cobra.Command {
	var (
		output outputFlags
		state  string
		events bool
	)
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "what became of a run, step by step",
		Long: `Show what became of a run, step by step. ID may be any part of an id that no other has, or last.

  parley run show last
  parley run show last -o json
  parley run show last --events -o ndjson`,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) != 1 {
				return usagef("parley run show takes one id, or last; parley run list has them")
			}
			return nil
		},
	}
	stateFlag(cmd, &state)
	cmd.Flags().BoolVar(&events, "events", false, "all that is kept of it, in order, instead of the report")
	output.registerWith(cmd, formText, append([]string{formText}, forms...))
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		p, err := a.runPrinter(output)
		if err != nil {
			return err
		}
		if events && p.format == formText {
			p.format = "ndjson"
		}
		return a.withRuns(state, func(s *sqlite.Store) error {
			id, err := findRun(cmd.Context(), s, words[0])
			if err != nil {
				return err
			}
			if events {
				return a.showEvents(cmd.Context(), p, s, id)
			}
			return a.showRun(cmd.Context(), p, s, id)
		})
	}
	return cmd
}

func (a *app) showRun(ctx context.Context, p *printer, s *sqlite.Store, id string) error {
	info, report, err := orchestrator.ReadRun(ctx, s, id)
	if err != nil {
		return err
	}
	info.State = settled(info.State)
	settleAll(report)
	if p.format != formText {
		b, err := json.Marshal(keptRun{ID: info.ID, Plan: info.Plan, Text: info.Text, Report: report})
		if err != nil {
			return err
		}
		return p.print(ctx, b)
	}
	t := &tree{w: p.w, width: 100, height: 1 << 20, name: info.Plan}
	if p.terminal {
		t.width = widthOf(p.w)
	}
	if p.palette != (palette{}) {
		t.palette = treeColours
	}
	t.fill(report)
	_, err = fmt.Fprintf(p.w, "%s  %s  %s\n%s", info.ID, info.State, info.Started.Local().Format(time.DateTime), t.whole())
	if err == nil && info.State == orchestrator.OK && info.Text != "" {
		_, err = fmt.Fprintf(p.w, "\n%s\n", appendHarmless(nil, []byte(strings.TrimSpace(info.Text))))
	}
	return err
}

func (a *app) showEvents(ctx context.Context, p *printer, s *sqlite.Store, id string) error {
	for e, err := range orchestrator.Events(ctx, s, id, 0) {
		if err != nil {
			return err
		}
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if err := p.line(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// withRuns opens the store of runs to read it. It makes none: where nothing was ever kept there is nothing to read.
func (a *app) withRuns(flag string, do func(s *sqlite.Store) error) error {
	dir := orElse(flag, a.stateDir())
	if _, err := os.Stat(filepath.Join(dir, "parley.db")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return usagef("no runs are kept in %s", orElse(dir, "any folder"))
		}
		return err
	}
	s, err := sqlite.Open(dir, &sqlite.Options{Report: (&reporter{w: a.stderr}).report})
	if err != nil {
		return &stateError{dir, err}
	}
	return errors.Join(do(s), s.Close())
}

// eachRun calls f for every run that is kept, the oldest first, until it returns false.
func eachRun(ctx context.Context, s *sqlite.Store, f func(orchestrator.Info) bool) error {
	for after := ""; ; {
		page, err := orchestrator.Runs(ctx, s, after, runPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, info := range page {
			info.State = settled(info.State)
			if !f(info) {
				return nil
			}
		}
		after = page[len(page)-1].ID
	}
}

// settled is a state as it is while this process has the store: it is the only one then, so nothing goes on, even where the sign
// of life of a process that is gone is still fresh.
func settled(s orchestrator.State) orchestrator.State {
	if s == orchestrator.Running {
		return orchestrator.Interrupted
	}
	return s
}

func settleAll(report *orchestrator.Report) {
	report.State = settled(report.State)
	for _, s := range report.Steps {
		settleAll(s)
	}
}

// findRun finds the run that a word means: an id, a part of one that no other has, or last.
func findRun(ctx context.Context, s *sqlite.Store, word string) (string, error) {
	var found []string
	err := eachRun(ctx, s, func(info orchestrator.Info) bool {
		switch {
		case info.ID == word:
			found = []string{info.ID}
			return false
		case word == "last":
			found = []string{info.ID}
		case strings.Contains(info.ID, word):
			found = append(found, info.ID)
		}
		return true
	})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", usagef("there is no run %q; parley run list has those that are kept", cut(word, 60))
	case len(found) > 1:
		return "", usagef("%d runs have %q in their id; more of it, please", len(found), cut(word, 60))
	}
	return found[0], nil
}
