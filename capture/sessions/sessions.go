// Package sessions manages a folder of session files: one file per process that records, named
// after its start, and removed when it is old.
//
// A file is locked while its process records, so a session is live exactly as long as its process.
// [New] returns the name of a new file, [List] the sessions of a folder, and [Prune] removes old
// ones. Only this user can read the folder and its files.
package sessions

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/private"
)

// Bounds of a folder. Live sessions count and are never removed.
const (
	maxAge   = 30 * 24 * time.Hour // since the last message
	maxBytes = 1 << 30             // of all files together
	maxFiles = 1_000

	// MaxFile is the maximum size of one file, for [capture.Options].MaxDisk.
	MaxFile = 256 << 20
)

// maxName is the number of bytes of a session's name that its file's name contains.
const maxName = 48

// A Session is a file of a folder.
type Session struct {
	ID      string    // the name of the file without its extension
	Path    string    // the file
	Name    string    // what was recorded, such as "cursor/notes"; "/" and blanks are "-"
	Started time.Time // to the second
	Changed time.Time // the last write
	Size    int64     // in bytes
	Live    bool      // its process still records
}

const (
	extension = ".jsonl"
	timestamp = "20060102T150405Z"
)

var fileName = regexp.MustCompile(`^(\d{8}T\d{6}Z)-([A-Za-z0-9._-]*)-(\d+)-([A-Z2-7]{6})(\.\d+)?\.jsonl$`)

// New creates the folder, if it does not exist, and returns the name of a new file in it, which
// contains the time, name, the ID of this process and random letters. The caller creates the file,
// usually with capture.New.
func New(dir, name string, now time.Time) (path string, err error) {
	if err := private.Folder(dir); err != nil {
		return "", err
	}
	id := now.UTC().Format(timestamp) + "-" + plain(name) + "-" + strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:6]
	return filepath.Join(dir, id+extension), nil
}

// plain returns a name for a file: letters, digits, dots and underscores, and "-" for the rest.
func plain(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case b.Len() >= maxName:
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-.")
}

// List returns the sessions of a folder: live ones first, then the newest. A folder that does not
// exist has none. Other files are ignored.
func List(dir string) ([]Session, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []Session
	for _, e := range entries {
		if s, ok := session(dir, e); ok {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b Session) int {
		if a.Live != b.Live {
			return map[bool]int{true: -1, false: 1}[a.Live]
		}
		if c := b.Started.Compare(a.Started); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// session returns the session of a file, if it is one.
func session(dir string, e fs.DirEntry) (s Session, ok bool) {
	m := fileName.FindStringSubmatch(e.Name())
	if m == nil || !e.Type().IsRegular() {
		return s, false
	}
	info, err := e.Info()
	if err != nil {
		return s, false // removed meanwhile
	}
	started, err := time.Parse(timestamp, m[1])
	if err != nil {
		return s, false
	}
	path := filepath.Join(dir, e.Name())
	live, err := private.Held(path)
	if err != nil {
		return s, false
	}
	return Session{
		ID: strings.TrimSuffix(e.Name(), extension), Path: path, Name: m[2], Started: started, Changed: info.ModTime(), Size: info.Size(), Live: live,
	}, true
}

// Find returns the session of a folder with the given ID, or "last" for the newest. An ID may be
// abbreviated to any part that only one session contains.
func Find(dir, id string) (Session, error) {
	all, err := List(dir)
	if err != nil {
		return Session{}, err
	}
	var found []Session
	for _, s := range all {
		switch {
		case s.ID == id:
			return s, nil
		case id == "last":
			if len(found) == 0 || s.Started.After(found[0].Started) {
				found = []Session{s}
			}
		case id != "" && strings.Contains(s.ID, id):
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return Session{}, fmt.Errorf("%w: %q", errUnknown, id)
	case 1:
		return found[0], nil
	}
	return Session{}, fmt.Errorf("%w: %q may be %s or %s", errUnknown, id, found[0].ID, found[1].ID)
}

// errUnknown means that no session, or more than one, has an ID.
var errUnknown = errors.New("no such session")

// Prune removes sessions until the folder is within its bounds, the oldest first: those without a
// message for 30 days, and then as many as needed for 1,000 files and 1 GiB. Live sessions are not
// removed. An error does not stop it.
func Prune(dir string, now time.Time) error {
	all, err := List(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b Session) int { return b.Changed.Compare(a.Changed) }) // newest first
	files, size := 0, int64(0)
	for _, s := range all {
		if s.Live {
			files, size = files+1, size+s.Size
		}
	}
	var errs []error
	for _, s := range all {
		if s.Live {
			continue
		}
		if files, size = files+1, size+s.Size; files <= maxFiles && size <= maxBytes && now.Sub(s.Changed) <= maxAge {
			continue
		}
		if err := private.RemoveUnused(s.Path); err == nil {
			files, size = files-1, size-s.Size
		} else if !errors.Is(err, private.ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
