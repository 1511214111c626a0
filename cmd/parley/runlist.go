package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/store/sqlite"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

// runPage is the number of runs that are read at a time, and the default number of listed runs.
const runPage = 100

func (a *app) runListCommand() *cobra.Command {
	var (
		output outputFlags
		state  string
		last   int
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the stored runs, the newest last",
		Long: `List the stored runs, the newest last.

  parley run list
  parley run list --last 5 -o json
  parley run list --state DIR

A run whose process has ended without a report is "interrupted". Runs are deleted 30 days after the
last write.`,
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
		stored, broken, err := a.storedRuns(cmd.Context(), orElse(state, a.stateDir()))
		if err != nil {
			return err
		}
		all := make([]orchestrator.Info, len(stored))
		for i := range stored {
			all[i] = stored[i].Info
		}
		if last > 0 && len(all) > last {
			all = all[len(all)-last:]
		}
		if p.format != formText {
			b, err := json.Marshal(all)
			if err != nil {
				return err
			}
			return errors.Join(p.print(cmd.Context(), b), broken)
		}
		if len(all) == 0 && broken != nil {
			return broken
		}
		return errors.Join(a.listRuns(p, all), broken)
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
		fmt.Fprintln(a.stderr, "parley: no runs are stored there yet")
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
	_ = w.Flush() // writes to memory
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
		Short: "show a run, step by step",
		Long: `Show a run, step by step. ID can be any unique part of an id, or last.

  parley run show last
  parley run show last -o json
  parley run show last --events -o ndjson`,
		Args: oneRun("show"),
	}
	stateFlag(cmd, &state)
	cmd.Flags().BoolVar(&events, "events", false, "print all stored events in order, instead of the report")
	output.registerWith(cmd, formText, append([]string{formText}, forms...))
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		p, err := a.runPrinter(output)
		if err != nil {
			return err
		}
		if events && p.format == formText {
			p.format = "ndjson"
		}
		run, err := a.findRun(cmd.Context(), state, words[0])
		if err != nil {
			return err
		}
		s, err := run.open(a)
		if err != nil {
			return err
		}
		if events {
			return errors.Join(a.showEvents(cmd.Context(), p, s, run.ID), s.Close())
		}
		return errors.Join(a.showRun(cmd.Context(), p, s, run), s.Close())
	}
	return cmd
}

func (a *app) showRun(ctx context.Context, p *printer, s *sqlite.Store, run *storedRun) error {
	info, report, err := orchestrator.ReadRun(ctx, s, run.ID)
	if err != nil {
		return err
	}
	one := &storedRun{Info: info, dir: run.dir}
	if err := one.settle(); err != nil {
		return err
	}
	if info.State != one.State {
		info.State = one.State
		settleAll(report)
	}
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
	_, err = fmt.Fprintf(p.w, "%s  %s  %s\n%s", visible(info.ID, 64), visible(string(info.State), 40), info.Started.Local().Format(time.DateTime), t.whole())
	if err == nil && info.State == orchestrator.OK && info.Text != "" {
		_, err = fmt.Fprintln(p.w)
		if err == nil {
			err = p.peer(strings.TrimSpace(info.Text))
		}
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

// settleAll marks the running parts of a report as interrupted.
func settleAll(report *orchestrator.Report) {
	if report.State == orchestrator.Running {
		report.State = orchestrator.Interrupted
	}
	for _, s := range report.Steps {
		settleAll(s)
	}
}
