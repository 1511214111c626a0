package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Bounds of the history of parley repl. A file may have twice as many lines before the oldest are
// removed.
const (
	maxHistory      = 1000      // lines of one target
	maxHistoryLine  = 4096      // bytes of one line; a longer one is not stored
	maxHistoryFile  = 16 << 20  // bytes of a file; of a larger one, only the end is read
	maxHistoryFiles = 200       // targets; the oldest files are removed
	historyFolder   = "history" // in the folder of the state
	historyWait     = 100 * time.Millisecond
)

// A history is the lines that were typed in the sessions with one target. It implements
// term.History for the line editor, which uses it from one goroutine.
//
// The lines are stored in a file of the target, one per line, newest last. Each write locks the
// file, so that two sessions can use it at once; a session sees the lines of another when it
// starts.
type history struct {
	file  string // "" if nothing is stored
	lines []string
	hides func(line string) bool // reports whether a line contains a secret
}

// openHistory reads the history of a target. A history that cannot be read is empty.
func (r *repl) openHistory() *history {
	h := &history{hides: r.hasSecret}
	dir := r.app.stateDir()
	if dir == "" {
		return h
	}
	dir = filepath.Join(dir, historyFolder)
	if private.Folder(dir) != nil {
		return h
	}
	removeOldest(dir, maxHistoryFiles-1)
	sum := sha256.Sum256([]byte(r.target.String())) // an address can contain a secret
	h.file = filepath.Join(dir, hex.EncodeToString(sum[:16]))
	// Without the file, this session still has its own lines.
	_ = h.open(func(f *private.File, lines []string) error {
		h.lines = lines
		return nil
	})
	return h
}

// removeOldest removes files of a folder until at most n remain.
func removeOldest(dir string, n int) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= n {
		return
	}
	type aged struct {
		name string
		at   time.Time
	}
	var files []aged
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, aged{filepath.Join(dir, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b aged) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.name, b.name)) })
	for _, f := range files[:max(0, len(files)-n)] {
		_ = private.RemoveUnused(f.name) // one that is used is not old
	}
}

// open locks the file and calls f with its lines. It waits at most historyWait for another session.
func (h *history) open(f func(file *private.File, lines []string) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), historyWait)
	defer cancel()
	file, err := private.Open(h.file)
	for errors.Is(err, private.ErrLocked) && pause.For(ctx, 2*time.Millisecond) == nil {
		file, err = private.Open(h.file)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if file.Special {
		return errors.New("not a regular file")
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	text := make([]byte, min(size, maxHistoryFile))
	if _, err := file.ReadAt(text, size-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); storable(line) {
			lines = append(lines, line)
		}
	}
	return f(file, lines)
}

// storable reports whether a line may be in a file of the history.
func storable(line string) bool {
	return line != "" && len(line) <= maxHistoryLine && line[0] != ' ' && !harmless.Has(line)
}

// Add adds a line, unless it repeats the one before. A line with a secret, or that begins with a
// blank, is not stored.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > 2*maxHistory {
		h.lines = slices.Delete(h.lines, 0, len(h.lines)-maxHistory)
	}
	if h.file == "" || !storable(line) || h.hides(line) {
		return
	}
	// A line that cannot be stored is still in this session.
	_ = h.open(func(f *private.File, lines []string) error {
		if len(lines) < 2*maxHistory {
			_, err := io.WriteString(f, line+"\n") // the position is the end
			return err
		}
		text := strings.Join(append(lines[len(lines)-maxHistory+1:], line), "\n") + "\n"
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			return err
		}
		return f.Truncate(int64(len(text)))
	})
}

// Len returns the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// hasSecret reports whether a line contains a credential: by its form, by its value, or by the name
// of the parameter that it is.
func (r *repl) hasSecret(line string) bool {
	if plainSecrets.Address(line) != line || r.app.secrets.Address(line) != line {
		return true
	}
	words, err := splitLine(strings.TrimSuffix(strings.TrimSpace(line), "&"))
	if err != nil || len(words) == 0 {
		return true // the line cannot be examined, and does not run
	}
	if words[0] == ".notify" {
		words = words[1:]
	}
	if len(words) < 2 {
		return false
	}
	for _, word := range words[1:] {
		if name, _, ok := strings.Cut(word, "="); ok && plainSecrets.Name(strings.TrimSuffix(name, ":")) {
			return true
		}
		if value, err := jsonrpc.ParseRaw([]byte(word)); err == nil && string(plainSecrets.JSON(value)) != string(value) {
			return true
		}
		if _, value, ok := strings.Cut(word, ":="); ok && string(plainSecrets.JSON([]byte(value))) != value {
			return true
		}
	}
	if r.offered == nil {
		return false
	}
	m, ok := r.offered.Method(words[0])
	if !ok {
		return false
	}
	for i := range words[1:] { // positions have the names of the method
		if i < len(m.Params) && plainSecrets.Name(m.Params[i].Name) {
			return true
		}
	}
	return false
}
