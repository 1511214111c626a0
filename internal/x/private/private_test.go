//go:build unix

package private_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/private"
)

const nobody = 65534

func write(t *testing.T, name string, mode fs.FileMode) string {
	t.Helper()
	if err := os.WriteFile(name, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func folder(t *testing.T, name string, mode fs.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(name, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func mode(t *testing.T, name string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func refused(err error) bool {
	_, ok := errors.AsType[*private.RefusedError](err)
	return ok
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "new")
	f, err := private.Open(name)
	if err != nil || mode(t, name) != 0o600 || f.Special {
		t.Fatalf("%v, %v", err, mode(t, name))
	}
	if _, err := private.Open(name); !errors.Is(err, private.ErrLocked) {
		t.Errorf("a second time: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	old := write(t, filepath.Join(dir, "old"), 0o644)
	if f, err = private.Open(old); err != nil || mode(t, old) != 0o600 {
		t.Fatalf("%v, %v", err, mode(t, old))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "old\n" {
		t.Errorf("the file holds %q, %v", text, err)
	}

	link := filepath.Join(dir, "link")
	for _, target := range []string{old, filepath.Join(dir, "nothing")} {
		if err := errors.Join(os.Symlink(target, link)); err != nil {
			t.Fatal(err)
		}
		if _, err := private.Open(link); !refused(err) {
			t.Errorf("a link to %s: %v", target, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := private.Open(dir); err == nil {
		t.Error("a folder was opened")
	}
	if f, err = private.Open(os.DevNull); err != nil || !f.Special {
		t.Errorf("the null device: %v", err)
	} else {
		_ = f.Close()
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if f, err = private.Open(fmt.Sprintf("/dev/fd/%d", w.Fd())); err != nil || !f.Special {
		t.Fatalf("an open descriptor: %v", err)
	}
	_, err = f.WriteString("x")
	if err = errors.Join(err, f.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("the pipe got %d bytes, %v", n, err)
	}
}

// TestOfSomebodyElse needs root to create files of another user; other users run it with a file of
// root.
func TestOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	name := write(t, filepath.Join(dir, "theirs"), 0o666)
	other := folder(t, filepath.Join(dir, "folder"), 0o755)
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chown(name, nobody, nobody), os.Chown(other, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	} else {
		name, other = "/etc/passwd", "/etc"
	}
	if _, err := private.Open(name); !refused(err) && !errors.Is(err, fs.ErrPermission) {
		t.Errorf("open: %v", err)
	}
	if err := private.Folder(other); !refused(err) {
		t.Errorf("folder: %v", err)
	}
	if os.Getuid() != 0 {
		return
	}
	if err := private.Write(name, nil); !refused(err) {
		t.Errorf("write: %v", err)
	}
	if err := private.Place(other); !refused(err) {
		t.Errorf("place: %v", err)
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := private.Read(name, false); err != nil {
		t.Errorf("a file that was named: %v", err)
	}
	if _, err := private.Read(name, true); !refused(err) {
		t.Errorf("a file that was found: %v", err)
	}
	inside := write(t, filepath.Join(other, "ours"), 0o644)
	if _, err := private.Read(inside, true); !refused(err) {
		t.Errorf("a file that was found in a folder of somebody else: %v", err)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	good := write(t, filepath.Join(dir, "good"), 0o644)
	link := filepath.Join(dir, "link")
	open := folder(t, filepath.Join(dir, "it's open"), 0o777)
	below := folder(t, filepath.Join(open, "below"), 0o755)
	sticky := folder(t, filepath.Join(dir, "sticky"), 0o777|fs.ModeSticky)
	for _, err := range []error{os.Symlink(good, link), os.Symlink(good, filepath.Join(open, "link")), os.Symlink(filepath.Join(open, "f"), filepath.Join(dir, "out"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, mend string }{
		{good, ""}, {link, ""}, {write(t, filepath.Join(sticky, "f"), 0o600), ""},
		{write(t, filepath.Join(dir, "all"), 0o646), "chmod o-w "},
		{write(t, filepath.Join(dir, "more"), 0o666), "chmod "},
		{write(t, filepath.Join(sticky, "all"), 0o666), "chmod "},
		{write(t, filepath.Join(open, "f"), 0o600), "chmod "},
		{write(t, filepath.Join(below, "f"), 0o600), "chmod "},
		{filepath.Join(open, "link"), "chmod "},
		{filepath.Join(dir, "out"), "chmod "},
	} {
		text, err := private.Read(c.name, true)
		if c.mend == "" {
			if err != nil || string(text) != "old\n" {
				t.Errorf("%s: %q, %v", c.name, text, err)
			}
			continue
		}
		e, ok := errors.AsType[*private.RefusedError](err)
		if !ok || !strings.HasPrefix(e.Mend, c.mend) || !strings.Contains(err.Error(), e.Mend) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if os.Getuid() == 0 { // root decides who is in its group
		if _, err := private.Read(write(t, filepath.Join(dir, "group"), 0o664), false); !refused(err) {
			t.Errorf("a file of a group: %v", err)
		}
	}
	if _, err := private.Read(filepath.Join(dir, "nothing"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = w.WriteString("piped")
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if text, err := private.Read(name, false); err != nil || string(text) != "piped" {
		t.Errorf("a pipe: %q, %v", text, err)
	}
}

// TestMendHelps runs the command of a refusal.
func TestMendHelps(t *testing.T) {
	dir := folder(t, filepath.Join(t.TempDir(), "a b"), 0o777)
	name := write(t, filepath.Join(dir, "f"), 0o666)
	for range 2 {
		_, err := private.Read(name, true)
		e, ok := errors.AsType[*private.RefusedError](err)
		if !ok {
			t.Fatal(err)
		}
		run(t, e.Mend)
	}
	if _, err := private.Read(name, true); err != nil {
		t.Error(err)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{filepath.Join(dir, "a", "b"), folder(t, filepath.Join(dir, "old"), 0o777)} {
		if err := private.Folder(name); err != nil || mode(t, name).Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, err, mode(t, name))
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := private.Folder(link); !refused(err) {
		t.Errorf("a link: %v", err)
	}
	if err := private.Folder(write(t, filepath.Join(dir, "file"), 0o600)); err == nil {
		t.Error("a file is a folder")
	}
}

func TestPlace(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]bool{"private": true, "open": false, "sticky": true} {
		m := map[string]fs.FileMode{"private": 0o755, "open": 0o777, "sticky": 0o777 | fs.ModeSticky}[name]
		if err := private.Place(folder(t, filepath.Join(dir, name), m)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "f"), filepath.Join(dir, "link")
	target := write(t, filepath.Join(dir, "target"), 0o644)
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{name, name, link} {
		if err := private.Write(n, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(n); err != nil || string(text) != "new" || mode(t, n) != 0o600 {
			t.Errorf("%s holds %q, %v, %v", n, text, mode(t, n), err)
		}
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "old\n" {
		t.Errorf("the link was followed: %q, %v", text, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 3 {
		t.Errorf("there are %v, %v", names, err)
	}
}

func TestTemp(t *testing.T) {
	f, stale, err := private.Temp("parley-test-*")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := os.Lstat(f.Name()); stale || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", f.Name(), err)
	}
	info, err := f.Stat()
	if err != nil || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Nlink != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestBeside(t *testing.T) {
	pid := os.Getpid()
	for name, want := range map[string]string{
		"s.jsonl": fmt.Sprintf("s.%d.jsonl", pid), "a.b/s": fmt.Sprintf("a.b/s.%d", pid), "/x/.hidden": fmt.Sprintf("/x/.hidden.%d", pid),
	} {
		if got := private.Beside(name); got != want {
			t.Errorf("beside %s is %s, want %s", name, got, want)
		}
	}
}

func run(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	f, err := private.Open(filepath.Join(dir, "session.jsonl"))
	if err != nil {
		panic(err)
	}
	defer f.Close()
	_, err = private.Open(f.Name())
	fmt.Println(errors.Is(err, private.ErrLocked))
	// Output: true
}

// TestReplace keeps the mode and the link of a file of another program, and its changes.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := write(t, filepath.Join(dir, "real.json"), 0o640)
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink("real.json", link); err != nil {
		t.Fatal(err)
	}
	if err := private.Replace(link, []byte("old\n"), []byte("new\n")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "new\n" || mode(t, name) != 0o640 || mode(t, link)&fs.ModeSymlink == 0 {
		t.Errorf("%q, %v, %v, %v", text, mode(t, name), mode(t, link), err)
	}
	if err := private.Replace(link, []byte("old\n"), []byte("newer\n")); !refused(err) {
		t.Errorf("a file that was changed meanwhile: %v", err)
	}
	if err := private.Replace(dir, nil, nil); !refused(err) {
		t.Errorf("a folder: %v", err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(name, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		if err := private.Replace(name, []byte("new\n"), []byte("x")); !refused(err) {
			t.Errorf("a file of another user: %v", err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v remain, %v", files, err)
	}
}

// TestHeld reports whether a process writes a file, which is removed only after that.
func TestHeld(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	f, err := private.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := private.Held(name); !held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	if err := private.RemoveUnused(name); !errors.Is(err, private.ErrLocked) {
		t.Errorf("%v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if held, err := private.Held(name); held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	if err := private.RemoveUnused(name); err != nil {
		t.Errorf("%v", err)
	}
	if _, err := private.Held(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
