package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/orchestrator"
)

// watchEvery is the interval at which a watched run is checked.
const watchEvery = 250 * time.Millisecond

func oneRun(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, words []string) error {
		if len(words) != 1 {
			return usagef("parley run %s takes one id, or last; list them with: parley run list", command)
		}
		return nil
	}
}

func (a *app) runWatchCommand() *cobra.Command {
	var (
		output outputFlags
		state  string
	)
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "print the events of a run until it ends",
		Long: `Print the past and further events of a run until it ends. The run can be in another process. ID can
be any unique part of an id, or last. The exit code is that of the run, or 4 for an interrupted run.

  parley run watch last
  parley run watch last -o ndjson
  parley run watch last --state DIR`,
		Args: oneRun("watch"),
	}
	stateFlag(cmd, &state)
	output.registerWith(cmd, formText, []string{formText, "ndjson"})
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		p, err := a.runPrinter(output)
		if err != nil {
			return err
		}
		run, err := a.findRun(cmd.Context(), state, words[0])
		if err != nil {
			return err
		}
		return a.watchRun(cmd.Context(), p, run)
	}
	return cmd
}

func (a *app) watchRun(ctx context.Context, p *printer, run *storedRun) error {
	after, seen := uint64(0), ""
	for {
		size := sizesOf(run.dir)
		if size != seen { // the store has changed
			ended, err := a.watchMore(ctx, p, run, &after)
			if ended != nil {
				return a.verdict(ended, run.ID, "")
			}
			if err != nil {
				return err
			}
			seen = size
			continue
		}
		run.State = orchestrator.Running
		if err := run.settle(); err != nil {
			return err
		}
		if run.State == orchestrator.Interrupted && size == sizesOf(run.dir) {
			fmt.Fprintln(a.stderr, "parley: the run was interrupted: its process has ended")
			return &silentError{exitAway}
		}
		if pause.For(ctx, watchEvery) != nil {
			return context.Cause(ctx)
		}
	}
}

// watchMore prints the new events, and returns the report of the run if it has ended.
func (a *app) watchMore(ctx context.Context, p *printer, run *storedRun, after *uint64) (ended *orchestrator.Report, err error) {
	s, err := run.open(a)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for e, err := range orchestrator.Events(ctx, s, run.ID, *after) {
		if err != nil {
			return nil, err
		}
		if err := a.printWatched(ctx, p, &e); err != nil {
			return nil, err
		}
		if *after = e.Seq; e.Kind == orchestrator.EventRunEnded {
			return e.Report, nil
		}
	}
	return nil, nil
}

// sizesOf returns a text that changes with each write to a store.
func sizesOf(dir string) (text string) {
	for _, name := range []string{"parley.db", "parley.db-wal"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			text += fmt.Sprint(info.Size(), info.ModTime().UnixNano(), " ")
		}
	}
	return text
}

func (a *app) printWatched(ctx context.Context, p *printer, e *orchestrator.Event) error {
	if p.format != formText {
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		return p.line(ctx, b)
	}
	text := e.Path
	switch e.Kind {
	case orchestrator.EventRunStarted:
		text = e.Plan
	case orchestrator.EventQuestion:
		text += "  " + e.Question.Text
	case orchestrator.EventAnswered:
		text += "  " + e.Answer.Text() + mark(e.Answer.Declined, "declined")
	case orchestrator.EventRetry:
		text += "  " + e.Error.Error()
	case orchestrator.EventEnded, orchestrator.EventRunEnded:
		text += "  " + string(e.Report.State)
		if e.Report.Error != nil {
			text += "  " + e.Report.Error.Error()
		} else {
			text += "  " + firstLine(orElse(e.Text, e.Report.Text()))
		}
	}
	_, err := fmt.Fprintf(p.w, "%s  %-11s %s\n", e.Time.Local().Format(time.TimeOnly), e.Kind, visible(text, 300))
	return err
}

func (a *app) runDeleteCommand() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "delete ID…",
		Short: "delete runs that have ended or were interrupted",
		Long: `Delete runs that have ended or were interrupted. ID can be any unique part of an id, or last.

  parley run list                        lists the IDs
  parley run delete last
  parley run delete ID1 ID2`,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) == 0 {
				return usagef("parley run delete takes ids, or last; list them with: parley run list")
			}
			return nil
		},
	}
	stateFlag(cmd, &state)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		for _, word := range words {
			run, err := a.findRun(cmd.Context(), state, word)
			if err != nil {
				return err
			}
			if run.own {
				err = deleteRun(run.dir)
			} else if run.State == orchestrator.Running {
				err = errRunning
			} else {
				err = deleteOldRun(cmd.Context(), run.dir, run.ID)
			}
			if errors.Is(err, errRunning) {
				return usagef("%s is running; stop it first", run.ID)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "parley: deleted %s\n", run.ID)
		}
		return nil
	}
	return cmd
}
