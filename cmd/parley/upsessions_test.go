package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/sessions"
)

// TestUpListsSessions lists what is recorded now before what was recorded last.
func TestUpListsSessions(t *testing.T) {
	state := t.TempDir()
	var out strings.Builder
	a := &app{stderr: &out, getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }}
	a.tellSessions()
	if out.Len() != 0 {
		t.Errorf("without sessions: %q", out.String())
	}
	dir := filepath.Join(state, "parley", "sessions")
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	path, err := sessions.New(dir, "cursor/notes", now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := capture.New(&capture.Options{File: path})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	for i := range 10 {
		name := fmt.Sprintf("202611%02dT120000Z-past-%d-ABCDEF.jsonl", i+1, i)
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.tellSessions()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 10 || !strings.HasPrefix(lines[0], "parley: 11 sessions in ") || !strings.Contains(lines[0], " 1 of them live.") ||
		!strings.Contains(lines[1], "-cursor-notes-") || !strings.HasSuffix(lines[1], "  live") || !strings.Contains(lines[2], "20261110T120000Z-past-9-") || lines[9] != "  and 3 older" {
		t.Errorf("%s", out.String())
	}
}
