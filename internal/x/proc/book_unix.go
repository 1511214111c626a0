//go:build unix

package proc

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A book is a file that lists our children, for [CleanUp] in a later process. Its lines are
//
//	parley PID START     the process that wrote it
//	seen TIME            when the groups below were ours for certain
//	+ PID START          a child
//
// Its name contains the scope of its PIDs: the boot of the system and the PID namespace, see
// [numbersOf]. Failing to write a book is not an error, because it is needed only if the watcher is
// killed too.
type book struct {
	dirs   []string // folders of books; the first is for ours
	file   string   // empty until the book is written
	seen   *time.Timer
	groups []group
	mu     sync.Mutex // guards the fields above against the timer; acquired after guard.mu
}

const (
	seenEvery = 30 * time.Second // how often a book is written again
	// How much younger than the last write a member may be; PIDs do not wrap around in that time.
	seenSlack = 60 * seconds
	bookMax   = 64 << 10            // maximum bytes read of a book
	bookAge   = 7 * 24 * time.Hour  // age after which a book of another boot is removed
	bookName  = "children-%s-%d-%d" // numbersOf, PID, start time
	bookTitle = "parley %d %d\n"    // PID, start time
	bookBody  = "seen %d\n"         // current time
)

// Keep sets the folders of books, for example in $XDG_RUNTIME_DIR. The book is written to the first
// usable folder, which is created with mode 0700; a folder that other users own or can read is not
// used. Call Keep before the first Start.
func Keep(dirs ...string) {
	watched.mu.Lock()
	defer watched.mu.Unlock()
	watched.book.dirs = dirs
}

// path returns the path of the book, or "" without a usable folder.
func (b *book) path() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pathLocked()
}

func (b *book) pathLocked() string {
	if b.file != "" {
		return b.file
	}
	numbers := numbersOf()
	if numbers == "" {
		return ""
	}
	for _, dir := range b.dirs {
		if os.MkdirAll(dir, 0o700) == nil && private(dir) {
			start, _ := startOf(os.Getpid())
			b.file = filepath.Join(dir, fmt.Sprintf(bookName, numbers, os.Getpid(), start))
			return b.file
		}
	}
	b.dirs = nil // do not try again
	return ""
}

// write replaces the book.
func (b *book) write(groups []group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.groups = slices.Clone(groups)
	b.writeLocked()
}

func (b *book) writeLocked() {
	file := b.pathLocked()
	if file == "" {
		return
	}
	var text bytes.Buffer
	start, _ := startOf(os.Getpid())
	fmt.Fprintf(&text, bookTitle+bookBody, os.Getpid(), start, now())
	for _, g := range b.groups {
		fmt.Fprintf(&text, "+ %d %d\n", g.pid, g.start)
	}
	fresh := file + ".new"
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(fresh, file)
	}
	if err != nil {
		_ = os.Remove(fresh) // the old book is still there
	}
	if b.seen == nil {
		b.seen = time.AfterFunc(seenEvery, b.again)
	} else {
		b.seen.Reset(seenEvery)
	}
}

// again records that the groups are still ours.
func (b *book) again() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen != nil {
		b.writeLocked()
	}
}

// close removes the book.
func (b *book) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil {
		return
	}
	b.seen.Stop()
	b.seen = nil
	_ = os.Remove(b.file) // it lists no children
}

// private reports whether a file or folder is accessible only to this user and is not a link.
func private(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && privateInfo(info)
}

func privateInfo(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid() && info.Mode().Perm()&0o077 == 0 && (info.IsDir() || info.Mode().IsRegular())
}

// CleanUp ends the remaining children of processes that died together with their watchers. It
// returns at once; a watcher ends the groups.
func CleanUp() {
	watched.mu.Lock()
	dirs, self := watched.book.dirs, watched.self
	watched.mu.Unlock()
	numbers := numbersOf()
	if numbers == "" {
		return
	}
	for _, dir := range dirs {
		if !private(dir) {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			cleanBook(filepath.Join(dir, entry.Name()), numbers, self)
		}
	}
}

// cleanBook ends the processes that a book lists, if its owner has ended.
func cleanBook(file, numbers string, self []string) {
	name := filepath.Base(file)
	if !strings.HasPrefix(name, "children-") {
		return
	}
	if !strings.HasPrefix(name, "children-"+numbers+"-") {
		// PIDs have another scope there: another boot, or another machine or container that shares
		// the folder.
		if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > bookAge {
			_ = os.Remove(file)
		}
		return
	}
	owner, seen, groups, ok := readBook(file)
	if !ok {
		return
	}
	if start, alive := startOf(owner.pid); alive && start == owner.start {
		return
	}
	left := slices.DeleteFunc(groups, func(g group) bool { return !g.provenAt(seen) })
	if len(left) > 0 {
		w, err := newWatcher(self, file)
		if err != nil {
			return // the next start tries again
		}
		_ = w.pipe.SetWriteDeadline(time.Now().Add(pipeTime)) // a new pipe has room
		for _, g := range left {
			fmt.Fprintf(w.pipe, "+ %d %d\n", g.pid, g.start)
		}
		_ = w.pipe.Close() // this starts the work
		go func() { _ = w.cmd.Wait() }()
		if self != nil {
			return // the watcher removes the book when no process is left
		}
	}
	_ = os.Remove(file)
}

// provenAt reports whether the group is the same as at a time when it was certainly ours. If the
// child is gone, a member that is about as old as that time proves it: the group was never empty
// since then, so its PID was never reused.
func (g group) provenAt(seen uint64) bool {
	if g.start == 0 {
		return false
	}
	if start, alive := startOf(g.pid); alive {
		return start == g.start
	}
	return slices.ContainsFunc(startsIn(g.pid), func(start uint64) bool {
		return start >= g.start && start <= seen+seenSlack
	})
}

// readBook reads a book that only this user can have written.
func readBook(file string) (owner group, seen uint64, groups []group, ok bool) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() || !privateInfo(info) {
		return
	}
	in := bufio.NewReader(io.LimitReader(f, bookMax))
	if _, err := fmt.Fscanf(in, bookTitle+bookBody, &owner.pid, &owner.start, &seen); err != nil {
		return
	}
	groups, _ = readGroups(in)
	return owner, seen, groups, true
}

// digest returns a short hash of text for use as a name.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:8])
}
