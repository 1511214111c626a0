package sessions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func record(t *testing.T, dir, name string, at time.Time) *capture.Recorder {
	t.Helper()
	path, err := New(dir, name, at)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := capture.New(&capture.Options{File: path, MaxDisk: MaxFile})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestList lists live sessions before past ones, and ignores other files.
func TestList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parley", "sessions")
	if list, err := List(dir); err != nil || len(list) != 0 {
		t.Fatalf("a folder that does not exist has %v, %v", list, err)
	}
	past := record(t, dir, "cursor/my notes", now)
	if err := past.Close(); err != nil {
		t.Fatal(err)
	}
	live := record(t, dir, "../../etc/passwd", now.Add(-time.Hour))
	defer live.Close()
	for _, other := range []string{"notes.txt", "x.jsonl", "20261123T120000Z-a-1-ABCDEF.jsonl.bak"} {
		if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("notes.txt", filepath.Join(dir, "20261123T120000Z-a-1-ABCDEF.jsonl")); err != nil {
		t.Log(err) // Windows
	}
	list, err := List(dir)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if s := list[0]; !s.Live || s.Name != "etc-passwd" || s.Path != live.Name() || !s.Started.Equal(now.Add(-time.Hour)) {
		t.Errorf("the live session is %+v", s)
	}
	if s := list[1]; s.Live || s.Name != "cursor-my-notes" || s.Size == 0 {
		t.Errorf("the past session is %+v", s)
	}
	if s, err := Find(dir, "last"); err != nil || s.ID != list[1].ID {
		t.Errorf("the last session is %v, %v", s, err)
	}
	if s, err := Find(dir, "etc-pass"); err != nil || s.ID != list[0].ID {
		t.Errorf("a part of an ID finds %v, %v", s, err)
	}
	for _, id := range []string{"", "nope", "Z"} {
		if _, err := Find(dir, id); !errors.Is(err, errUnknown) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 && os.PathSeparator == '/' {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestNamesDiffer gives each recording of a process a file of its own.
func TestNamesDiffer(t *testing.T) {
	dir := t.TempDir()
	seen := make(map[string]bool)
	for range 100 {
		path, err := New(dir, strings.Repeat("ä€ x", 100), now)
		if err != nil || seen[path] || len(filepath.Base(path)) > 120 {
			t.Fatalf("%q, %v", path, err)
		}
		seen[path] = true
	}
}

// TestPrune removes the oldest sessions, and never a live one.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	add := func(i int, changed time.Time, size int64) string {
		t.Helper()
		path := filepath.Join(dir, fmt.Sprintf("20261123T120000Z-a-%d-ABCDEF.jsonl", i))
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size), os.Chtimes(path, changed, changed)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return !errors.Is(err, fs.ErrNotExist)
	}
	live := record(t, dir, "live", now.Add(-90*24*time.Hour))
	if err := os.Chtimes(live.Name(), now.Add(-90*24*time.Hour), now.Add(-90*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	old := add(1, now.Add(-maxAge-time.Second), 1)
	kept := add(2, now.Add(-maxAge+time.Second), 1)
	if err := Prune(dir, now); err != nil || exists(old) || !exists(kept) || !exists(live.Name()) {
		t.Errorf("after a month: %v, old %v, kept %v, live %v", err, exists(old), exists(kept), exists(live.Name()))
	}
	big, next := add(3, now.Add(-time.Hour), maxBytes-10), add(4, now, 20) // sparse files
	if err := Prune(dir, now); err != nil || exists(big) || !exists(next) || !exists(kept) {
		t.Errorf("beyond the size: %v, big %v, next %v, kept %v", err, exists(big), exists(next), exists(kept))
	}
	for i := range maxFiles {
		add(1000+i, now.Add(-time.Duration(i)*time.Second), 0)
	}
	if err := Prune(dir, now); err != nil {
		t.Fatal(err)
	}
	list, err := List(dir)
	if err != nil || len(list) != maxFiles || !list[0].Live || exists(kept) {
		t.Errorf("%d sessions remain, %v", len(list), err)
	}
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
}
