package stdio

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// A program is an end whose stdin and stdout are closed with it, as at the exit of a process.
type program struct {
	*stream.Transport
	in, out *os.File
}

func (p program) Close() error {
	err := p.Transport.Close()
	_, _ = p.in.Close(), p.out.Close()
	return err
}

// blockingPipe returns a pipe as a shell creates it between two programs.
func blockingPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
}

// socketPair returns a socket pair as Node creates it for its children.
func socketPair(t *testing.T) (a, b *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
}

func TestOwnContract(t *testing.T) {
	for name, pipe := range map[string]func(*testing.T) (r, w *os.File){"pipes": blockingPipe, "sockets": socketPair} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) {
				r1, w1 := pipe(t)
				r2, w2 := pipe(t)
				return program{newOwn(r1, w2, &Options{}), r1, w2}, program{newOwn(r2, w1, &Options{}), r2, w1}
			}, nil)
		})
	}
}

// TestShared checks that the blocking mode, which is shared with other processes, is restored by
// Close.
func TestShared(t *testing.T) {
	for name, pipe := range map[string]func(*testing.T) (r, w *os.File){"pipes": blockingPipe, "sockets": socketPair} {
		in, peer := pipe(t)
		peer2, out := pipe(t)
		own := newOwn(in, out, &Options{})
		if nonblocking(t, in) != (name == "sockets") { // sockets have no other way
			t.Errorf("%s: stdin was changed while it is in use", name)
		}
		if err := own.Close(); err != nil {
			t.Error(err)
		}
		if nonblocking(t, in) || nonblocking(t, out) {
			t.Errorf("%s: stdin or stdout does not block any more", name)
		}
		for _, f := range []*os.File{in, out, peer, peer2} {
			_ = f.Close()
		}
	}
}

func nonblocking(t *testing.T, f *os.File) bool {
	t.Helper()
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETFL, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return flags&syscall.O_NONBLOCK != 0
}

// TestFiles checks that `program < in > out` reads a file to its end, and appends to existing
// content.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in"), []byte("1\n2"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = out.WriteString("before\n")
	own := newOwn(in, out, &Options{})
	var b jsonrpc.Burst
	b.Add([]byte("[]"))
	if err := own.Write(b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1", "2"} {
		if p, _, err := own.Read(); err != nil || string(p) != want {
			t.Errorf("Read = %s, %v, want %s", p, err, want)
		}
	}
	if _, _, err := own.Read(); err != io.EOF {
		t.Errorf("Read = %v, want io.EOF", err)
	}
	_ = own.Close()
	_, _ = in.Close(), out.Close()
	if got, _ := os.ReadFile(out.Name()); string(got) != "before\n[]\n" {
		t.Errorf("the file holds %q", got)
	}
}

// TestPump checks that Close ends a Read on inputs that need a pump.
func TestPump(t *testing.T) {
	r, w := blockingPipe(t)
	p := newPump(r)
	if _, err := w.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	for _, want := range []string{"hel", "lo"} {
		if n, err := p.Read(b); err != nil || string(b[:n]) != want {
			t.Errorf("Read = %q, %v, want %q", b[:n], err, want)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := p.Read(b)
		done <- err
	}()
	_, _ = p.Close(), p.Close()
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read = %v, want %v", err, os.ErrClosed)
	}
	_, _ = w.Close(), r.Close() // unblocks the goroutine
}
