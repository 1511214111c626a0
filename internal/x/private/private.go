// Package private opens files that only this user may access, and checks that other users cannot
// modify files and folders.
//
// Everything that parley writes goes through [Open], [Write] and [Folder]: mode 0600 or 0700, no
// links, owner checked. Files that decide which programs run are read by [Read], which rejects a
// file that other users may write. On Windows the access lists of the user's folders provide this
// protection, and the package only locks files.
package private

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrLocked is returned if another process holds the lock of a file.
var ErrLocked = errors.New("another process writes it")

// A RefusedError reports a file or folder whose permissions or owner are not safe.
type RefusedError struct {
	Path   string // the rejected path
	Reason string // the reason, for example "others may write it"
	Mend   string // the command that corrects it; empty if no command does
}

func (e *RefusedError) Error() string {
	text := e.Path + ": " + e.Reason
	if e.Mend != "" {
		text += "; to fix it, run: " + e.Mend
	}
	return text
}

// refuse returns a RefusedError. mend is a command to be followed by the path, or "".
func refuse(path, mend, format string, args ...any) error {
	if mend != "" {
		mend += " " + quote(path)
	}
	return &RefusedError{path, fmt.Sprintf(format, args...), mend}
}

var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// quote quotes a path for a shell.
func quote(path string) string {
	if plain.MatchString(path) && path[0] != '-' {
		return path
	}
	if path != "" && path[0] == '-' {
		path = "./" + path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// A File is open for writing. Its lock is held until Close, or until the process ends.
type File struct {
	*os.File

	// Special reports whether it is not a file on a disk: /dev/stdout, /dev/fd/3, a pipe, a device.
	// Such a file has no content to continue, and it is not locked.
	Special bool
}

// Open opens a file for writing and reading: it creates one with mode 0600, or opens the existing
// one unchanged and corrects its mode. It follows no link except /dev/stdout, /dev/stderr and
// /dev/fd/N, rejects a file of another user, and locks the file; if another process holds the lock,
// it returns [ErrLocked]. The caller writes at the end, or truncates.
func Open(name string) (*File, error) {
	if isStream(name) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil { // on some systems a pipe that is open for writing cannot be opened again
			f, err = os.OpenFile(name, os.O_WRONLY, 0)
		}
		if err != nil {
			return nil, err
		}
		return &File{f, true}, nil
	}
	for tries := 1; ; tries++ {
		f, err := openFile(name)
		if err != nil {
			return nil, err
		}
		p, err := admit(name, f)
		if err == nil {
			return p, nil
		}
		err = errors.Join(err, f.Close())
		if !errors.Is(err, errRemoved) || tries == 10 {
			return nil, err
		}
	}
}

// errRemoved is returned for a file that was removed or replaced before it was locked.
var errRemoved = errors.New("it was removed while it was being opened; try again")

// admit checks an opened file, and locks it.
func admit(name string, f *os.File) (*File, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is a folder")}
	case info.Mode()&fs.ModeCharDevice != 0:
		return &File{f, true}, nil
	}
	if uid, known := owner(info); known && uid != self() {
		return nil, refuse(name, "", "it belongs to user %d; use another file", uid)
	}
	if !info.Mode().IsRegular() {
		return &File{f, true}, nil
	}
	if hasModes && info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return nil, refuse(name, "chmod 600", "other users can read it")
		}
	}
	if err := lock(f); err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	// [RemoveUnused] of another process may have removed it before the lock. What is written to it
	// would be lost.
	if now, err := os.Lstat(name); err != nil || !os.SameFile(info, now) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errRemoved}
	}
	return &File{f, false}, nil
}

// Held reports whether a process holds the lock of a file that [Open] opened. It follows no link.
func Held(name string) (bool, error) {
	f, err := openExisting(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = lock(f)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	return false, err
}

// RemoveUnused removes a file whose lock no process holds; otherwise it returns [ErrLocked].
func RemoveUnused(name string) error {
	f, err := openExisting(name)
	if err != nil {
		return err
	}
	if err := lock(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if !hasModes { // Windows does not remove an open file
		return errors.Join(f.Close(), os.Remove(name))
	}
	return errors.Join(os.Remove(name), f.Close())
}

// openExisting opens a regular file of this user.
func openExisting(name string) (*os.File, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if uid, known := owner(info); !info.Mode().IsRegular() || known && uid != self() {
		return nil, refuse(name, "", "it is not a regular file of this user")
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, errors.Join(refuse(name, "", "it was replaced while it was being opened; try again"), f.Close())
	}
	return f, nil
}

// Settle creates a file with mode 0600 for another component to open, or corrects the mode of the
// existing one; if the file does not exist and create is false, it does nothing. Like [Open], it
// rejects links and files of other users. It does not open an existing file, because that would
// release the locks that this process holds on it (POSIX, fcntl).
func Settle(name string, create bool) error {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil
		}
		// O_EXCL follows no link.
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	}
	if err != nil {
		return err
	}
	if uid, known := owner(info); known && uid != self() {
		return refuse(name, "", "it belongs to user %d; use another folder", uid)
	}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return refuse(name, "", "it is a symbolic link, which is not followed")
	case hasModes && mode.IsRegular() && mode.Perm()&0o077 != 0:
		return os.Chmod(name, 0o600)
	}
	return nil
}

var stream = regexp.MustCompile(`^/dev/(stdout|stderr|fd/\d+)$|^/proc/self/fd/\d+$`)

// isStream reports whether name is a file that the process has open already.
func isStream(name string) bool { return hasModes && stream.MatchString(name) }

// Beside returns the alternative name of a file that another process has locked: session.jsonl
// becomes session.1234.jsonl, with the PID of this process.
func Beside(name string) string {
	ext := filepath.Ext(name)
	if ext == filepath.Base(name) {
		ext = "" // .session
	}
	return strings.TrimSuffix(name, ext) + "." + strconv.Itoa(os.Getpid()) + ext
}

// Write replaces a file atomically with content and mode 0600: readers see the old file or the new
// one. A link is replaced and not followed.
func Write(name string, content []byte) (err error) {
	if info, err := os.Lstat(name); err == nil {
		if uid, known := owner(info); known && uid != self() && info.Mode().IsRegular() {
			return refuse(name, "", "it belongs to user %d; use another file", uid)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".parley-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Replace replaces the content of an existing file of another program atomically. Unlike [Write] it
// keeps the file's mode, and follows a link, because people link such files from elsewhere. The
// file must be regular and belong to this user, its folder must allow a new file, and its
// content must be before: a file that was changed meanwhile is not replaced.
func Replace(name string, before, content []byte) (err error) {
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Lstat(target)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return refuse(target, "", "it is not a regular file")
	}
	if uid, known := owner(info); known && uid != self() {
		return refuse(target, "", "it belongs to user %d", uid)
	}
	f, err := os.CreateTemp(filepath.Dir(target), ".parley-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && hasModes {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		var now []byte
		if now, err = os.ReadFile(target); err == nil && !bytes.Equal(now, before) {
			err = refuse(target, "", "it was changed meanwhile; try again")
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Temp creates a file for this process that has no name, where the system supports that: it
// disappears when it is closed, also after kill -9. Elsewhere the caller must remove the name, and
// stale is true.
func Temp(pattern string) (f *os.File, stale bool, err error) {
	f, err = os.CreateTemp("", pattern) // mode 0600
	if err != nil {
		return nil, false, err
	}
	removed := hasModes && os.Remove(f.Name()) == nil
	return f, !removed, nil
}

// Folder creates a folder with mode 0700, including its parents, or uses the existing one if this
// user owns it and it is not a link, and corrects its mode.
func Folder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return refuse(dir, "", "it is a symbolic link; use the folder itself")
	}
	if uid, known := owner(info); known && uid != self() {
		return refuse(dir, "", "it belongs to user %d; use another folder", uid)
	}
	if hasModes && info.Mode().Perm() != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return refuse(dir, "chmod 700", "other users can open it")
		}
	}
	return nil
}

// Place checks that no other user can replace what we store in a folder, such as a socket: the
// folder and its parents must belong to this user or root, and may be writable by others only if
// they are sticky, like /tmp.
func Place(dir string) error {
	return chain(dir, true)
}

// maxRead is the maximum number of bytes that Read reads.
const maxRead = 64 << 20

// Read reads a file that decides which programs run. It rejects a file that other users may write,
// or that is in or below a folder in which they may replace it; a sticky folder such as /tmp is
// accepted. It follows links and checks both ends. If found is true, the user did not name the
// file, and it must also belong to this user or root. A named file that is not regular, such as a
// pipe, is read without these checks.
func Read(name string, found bool) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() || found {
		if err := check(name, info, found); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err == nil && len(text) > maxRead {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is larger than 64 MiB")}
	}
	return text, err
}

// ReadSecret reads a file that [Write] made, of at most limit bytes. It rejects a link, a file of
// another user, and a file that other users can read or write.
func ReadSecret(name string, limit int64) ([]byte, error) {
	before, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() { // checked before it is opened, because opening a pipe waits
		return nil, refuse(name, "", "it is not a regular file; remove it")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, info) {
		return nil, refuse(name, "", "it was replaced while it was being opened; try again")
	}
	if uid, known := owner(info); known && uid != self() {
		return nil, refuse(name, "", "it belongs to user %d; remove it", uid)
	}
	if hasModes && info.Mode().Perm()&0o077 != 0 {
		return nil, refuse(name, "chmod 600", "other users can read it")
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it is larger than %d KiB", limit>>10)}
	}
	return text, err
}

// check decides whether an open file with this info may be trusted.
func check(name string, info fs.FileInfo, found bool) error {
	if !hasModes {
		return nil
	}
	whole, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(whole)
	if err != nil {
		return err
	}
	if there, err := os.Lstat(target); err != nil || !os.SameFile(there, info) {
		return refuse(name, "", "it was replaced while it was being opened; try again")
	}
	if !info.Mode().IsRegular() {
		return refuse(name, "", "it is not a regular file")
	}
	if uid, known := owner(info); known && found && !ours(uid) {
		return refuse(name, "", "it belongs to user %d; use -c to trust it", uid)
	}
	if mend, ok := writable(info); ok {
		return refuse(target, mend, "other users can write it, and so choose the programs that run")
	}
	places := []string{filepath.Dir(target), filepath.Dir(whole)}
	for _, dir := range slices.Compact(places) {
		if err := chain(dir, found); err != nil {
			return err
		}
	}
	return nil
}

// chain checks a folder and its parents.
func chain(dir string, owned bool) error {
	if !hasModes {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	for first := true; ; first = false {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		mend, ok := writable(info)
		if !first && info.Mode().Perm()&0o002 == 0 {
			ok = false // root trusts the group of /usr/local or /opt/homebrew
		}
		if ok && info.Mode()&fs.ModeSticky == 0 {
			return refuse(dir, mend, "other users can replace the files in this folder")
		}
		if uid, known := owner(info); known && owned && !ours(uid) {
			return refuse(dir, "", "this folder belongs to user %d, who can replace its files; use another", uid)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// ours reports whether a user is this user or root, or owns "/": in a container with a user
// namespace, root of the host has another UID.
func ours(uid int) bool {
	if uid == 0 || uid == self() {
		return true
	}
	info, err := os.Lstat("/")
	if err != nil {
		return false
	}
	system, known := owner(info)
	return known && uid == system
}

// writable reports whether users other than the owner may write, and returns the command that
// corrects it. A group with the user's own ID is treated as the user's, as most systems create one
// for each user; root's group is not.
func writable(info fs.FileInfo) (mend string, ok bool) {
	perm := info.Mode().Perm()
	group := perm&0o020 != 0
	if gid, known := groupOf(info); known && group && gid != 0 && gid == self() {
		group = false
	}
	switch {
	case perm&0o002 != 0 && group:
		return "chmod go-w", true
	case perm&0o002 != 0:
		return "chmod o-w", true
	case group:
		return "chmod g-w", true
	}
	return "", false
}
