package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// Each run is stored in its own folder, DIR/runs/ID, which is a store with its own lock, so that
// runs do not wait for each other. Readers take no lock. Versions before this layout stored all
// runs in DIR itself; those runs can still be listed, shown and deleted.

const (
	runsFolder = "runs"
	// The list entry of a run that has ended, so that a list does not open its store.
	infoFile = "info.json"
)

// keepTime is how long runs are stored, including interrupted ones.
const keepTime = 30 * 24 * time.Hour

// A storedRun is one run of a folder.
type storedRun struct {
	orchestrator.Info
	dir string // the folder of its store
	own bool   // the folder contains only this run
}

// open opens the store of a run for reading.
func (r *storedRun) open(a *app) (*sqlite.Store, error) {
	s, err := sqlite.OpenReader(r.dir, &sqlite.Options{Report: (&reporter{w: a.stderr}).report})
	if err != nil {
		return nil, &stateError{r.root(), err}
	}
	return s, nil
}

// root returns the folder that --state names.
func (r *storedRun) root() string {
	if r.own {
		return filepath.Dir(filepath.Dir(r.dir))
	}
	return r.dir
}

// settle corrects the state of a run whose process is gone. The store cannot detect that while the
// heartbeat is recent.
func (r *storedRun) settle() error {
	if r.State != orchestrator.Running {
		return nil
	}
	held, err := sqlite.Held(r.dir)
	if err == nil && !held {
		r.State = orchestrator.Interrupted
	}
	return err
}

// storedRuns returns the runs of a folder, the oldest first. A run that cannot be read does not
// hide the others: it is reported, and its error is returned in broken.
func (a *app) storedRuns(ctx context.Context, dir string) (all []storedRun, broken error, err error) {
	there := false
	if _, err := os.Stat(filepath.Join(dir, "parley.db")); err == nil {
		there = true
		old, err := a.oldRuns(ctx, dir)
		all = append(all, old...)
		broken = errors.Join(broken, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, runsFolder))
	if err == nil {
		there = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	if !there {
		return nil, nil, usagef("no runs are stored in %s", orElse(dir, "any folder"))
	}
	for _, e := range entries {
		if !e.IsDir() || !isRunID(e.Name()) {
			continue
		}
		run, err := a.storedRun(ctx, filepath.Join(dir, runsFolder, e.Name()), e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrNotFound): // just begun, or being deleted
		case err != nil:
			broken = errors.Join(broken, err)
		default:
			all = append(all, *run)
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
	}
	slices.SortStableFunc(all, func(a, b storedRun) int { return cmp.Compare(a.ID, b.ID) })
	return all, broken, nil
}

// oldRuns returns the runs of the previous layout.
func (a *app) oldRuns(ctx context.Context, dir string) (all []storedRun, err error) {
	run := storedRun{dir: dir}
	s, err := run.open(a)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for after := ""; ; {
		page, err := orchestrator.Runs(ctx, s, after, runPage)
		if err != nil || len(page) == 0 {
			return all, err
		}
		for _, info := range page {
			one := storedRun{Info: info, dir: dir}
			if err := one.settle(); err != nil {
				return all, err
			}
			all = append(all, one)
		}
		after = page[len(page)-1].ID
	}
}

// storedRun reads the list entry of a run in its own folder.
func (a *app) storedRun(ctx context.Context, dir, id string) (*storedRun, error) {
	run := &storedRun{dir: dir, own: true}
	if b, err := os.ReadFile(filepath.Join(dir, infoFile)); err == nil && json.Unmarshal(b, &run.Info) == nil && run.ID == id {
		return run, nil
	}
	s, err := sqlite.OpenReader(dir, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, &stateError{run.root(), err}
	}
	defer s.Close()
	if run.Info, _, err = orchestrator.ReadRun(ctx, s, id); err != nil {
		return nil, err
	}
	return run, run.settle()
}

// isRunID reports whether name has the form of IDs that [orchestrator.NewID] generates.
func isRunID(name string) bool {
	return len(name) == 32 && !strings.ContainsFunc(name, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
}

// findRun finds a run by its ID, by a unique part of its ID, or by the word last.
func (a *app) findRun(ctx context.Context, flag, word string) (*storedRun, error) {
	all, broken, err := a.storedRuns(ctx, orElse(flag, a.stateDir()))
	if err != nil {
		return nil, err
	}
	var found []storedRun
	for _, run := range all {
		switch {
		case run.ID == word:
			return &run, nil
		case word == "last":
			found = []storedRun{run}
		case strings.Contains(run.ID, word):
			found = append(found, run)
		}
	}
	switch {
	case len(found) == 0 && broken != nil:
		return nil, broken
	case len(found) == 0:
		return nil, usagef("unknown run %q; list the stored runs with: parley run list", cut(word, 60))
	case len(found) > 1:
		return nil, usagef("%d runs have %q in their id; give more of the id", len(found), cut(word, 60))
	}
	return &found[0], nil
}

// openState creates the store of a new run and returns its folder. If flag names a folder that
// cannot be used, or if a store is damaged, it returns an error. If the default folder is in use or
// fails, the run continues and is reported as not stored.
func (a *app) openState(flag, id string, log *reporter) (*sqlite.Store, string, error) {
	if flag == "none" {
		return nil, "", nil
	}
	root := orElse(flag, a.stateDir())
	dir := filepath.Join(root, runsFolder, id)
	a.expireRuns(root, log)
	var s *sqlite.Store
	err := private.Folder(dir)
	for range 50 { // a process that checks the lock holds it briefly
		if err != nil {
			break
		}
		s, err = sqlite.Open(dir, &sqlite.Options{Report: log.report, Limits: runLimits})
		if fault, ok := errors.AsType[*store.Fault](err); !ok || fault.Reason != store.ReasonInUse {
			break
		}
		_ = pause.For(context.Background(), 20*time.Millisecond) // the context is never cancelled
	}
	if err == nil {
		return s, dir, nil
	}
	_ = os.Remove(dir) // succeeds only if it is empty
	if fault, ok := errors.AsType[*store.Fault](err); flag != "" || ok && fault.Reason != store.ReasonInUse && fault.Reason != store.ReasonFailed {
		return nil, "", &stateError{root, err}
	}
	fmt.Fprintf(a.stderr, "parley: this run is not stored: %s\n", visible((&stateError{root, err}).Error(), 400))
	return nil, "", nil
}

// runLimits are the limits of a run's store. Output and progress events are not stored.
var runLimits = store.Limits{LogEvents: 400_000, LogBytes: 256 << 20}

// summarize writes the list entry of a run that has ended.
func (r *storedRun) summarize(ctx context.Context, s *sqlite.Store, id string) error {
	info, _, err := orchestrator.ReadRun(ctx, s, id)
	if err != nil || info.State == orchestrator.Running || info.State == orchestrator.Interrupted {
		return err
	}
	b, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return private.Write(filepath.Join(r.dir, infoFile), b)
}

// expireRuns deletes runs that were not written to for 30 days.
func (a *app) expireRuns(root string, log *reporter) {
	entries, err := os.ReadDir(filepath.Join(root, runsFolder))
	if err != nil {
		return // there are no runs
	}
	before := time.Now().Add(-keepTime)
	for _, e := range entries {
		if !e.IsDir() || !isRunID(e.Name()) {
			continue
		}
		dir := filepath.Join(root, runsFolder, e.Name())
		if touched(dir).After(before) {
			continue
		}
		if err := deleteRun(dir); err != nil {
			log.report(reportExpiredRun, err)
		}
	}
}

// touched returns the time of the last write to a run.
func touched(dir string) (last time.Time) {
	for _, name := range []string{".", "parley.db", "parley.db-wal", infoFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

var errRunning = errors.New("the run has not ended")

// deleteRun deletes the folder of a run that no process has open.
func deleteRun(dir string) error {
	held, err := sqlite.Held(dir)
	switch {
	case err != nil:
		return err
	case held:
		return errRunning
	}
	return os.RemoveAll(dir)
}

// deleteOldRun deletes a run of the previous layout.
func deleteOldRun(ctx context.Context, dir, id string) error {
	s, err := sqlite.Open(dir, nil)
	if err != nil {
		return &stateError{dir, err}
	}
	return errors.Join(orchestrator.DeleteRun(ctx, s, id), s.Close())
}
