//go:build unix

package stdio_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

func one(text string) jsonrpc.Burst {
	var b jsonrpc.Burst
	b.Add([]byte(text))
	return b
}

// called returns a socket that a child can connect to.
func called(t testing.TB) (addr string, accept func() net.Conn) {
	t.Helper()
	addr = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return addr, func() net.Conn {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

// TestContract runs the contract with a child that relays all bytes to a socket of the test.
func TestContract(t *testing.T) {
	for name, f := range map[string]stream.Framer{"line": stream.Line, "header": stream.Header} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) {
				addr, accept := called(t)
				o := stdio.Options{Framing: f, Patience: stdio.Patience{Stdin: 3 * time.Second}}
				c := start(t, o, "relay", addr)
				return c, stream.New(accept(), f, nil)
			}, nil)
		})
	}
}

func TestEcho(t *testing.T) {
	c := start(t, stdio.Options{}, "echo")
	for n := range 100 {
		want := fmt.Sprintf(`{"n":%d}`, n)
		if err := c.Write(one(want)); err != nil {
			t.Fatal(err)
		}
		if p, _, err := c.Read(); err != nil || string(p) != want {
			t.Fatalf("Read = %s, %v, want %s", p, err, want)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("Wait = %v, want exit code 0 after the end of stdin", err)
	}
	if got := string(c.Stderr()); got != "EOF\n" {
		t.Errorf("the child saw %q, want EOF", got)
	}
}

// TestOwnClose checks that a program that closes its own stdio is not blocked by its Read.
func TestOwnClose(t *testing.T) {
	c := start(t, stdio.Options{}, "closer")
	var exit *stdio.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Code != 42 {
		t.Errorf("Wait = %v, want code 42", err)
	}
}

func TestExit(t *testing.T) {
	for _, c := range []struct {
		how    string
		code   int
		signal string
	}{
		{"3", 3, ""},
		{"signal", -1, "killed"},
	} {
		child := start(t, stdio.Options{}, "exit", c.how)
		if err := child.Write(one("1")); err != nil {
			t.Fatal(err)
		}
		_, _, err := child.Read()
		exit, ok := errors.AsType[*stdio.ExitError](err)
		if !ok || exit.Code != c.code || exit.Signal != c.signal {
			t.Errorf("%s: Read = %v, want an ExitError with %d, %q", c.how, err, c.code, c.signal)
			continue
		}
		if want := "last words\\u001b[31m\nno more"; exit.LastStderr != want {
			t.Errorf("%s: LastStderr = %q, want %q", c.how, exit.LastStderr, want)
		}
		if _, _, err := child.Read(); !errors.As(err, &exit) {
			t.Errorf("%s: the second Read = %v, want the same", c.how, err)
		}
		if err := child.Write(one("1")); !errors.As(err, &exit) {
			t.Errorf("%s: Write = %v, want the same", c.how, err)
		}
		if err := child.Wait(); !errors.As(err, &exit) {
			t.Errorf("%s: Wait = %v, want the same", c.how, err)
		}
		<-child.Exited()
	}

	child := start(t, stdio.Options{}, "exit", "0")
	if err := child.Write(one("1")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := child.Read(); err != io.EOF {
		t.Errorf("exit code 0: Read = %v, want io.EOF", err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("exit code 0: Wait = %v", err)
	}
}

// TestCallInFlight checks that a waiting call returns why it will get no response.
func TestCallInFlight(t *testing.T) {
	conn := jsonrpc.NewConn(start(t, stdio.Options{}, "exit", "signal"))
	conn.Start(t.Context())
	err := conn.Call(t.Context(), "anything", nil, nil)
	if exit, ok := errors.AsType[*stdio.ExitError](err); !ok || exit.Signal != "killed" {
		t.Errorf("Call = %v, want an ExitError", err)
	}
	_ = conn.Close()
}

// TestLadder checks that each step is taken when the one before did not help, and not earlier.
func TestLadder(t *testing.T) {
	const step = 300 * time.Millisecond
	patience := stdio.Patience{Stdin: step, Terminate: step, Kill: time.Minute}
	for _, c := range []struct {
		name   string
		role   string
		args   []string
		signal string
		least  time.Duration
	}{
		{"the end of stdin", "echo", nil, "", 0},
		{"SIGTERM", "deaf", nil, "terminated", step},
		{"SIGKILL", "deaf", []string{"to all"}, "killed", 2 * step},
	} {
		child := start(t, stdio.Options{Patience: patience}, c.role, c.args...)
		if c.role == "deaf" {
			if p, _, err := child.Read(); err != nil || string(p) != `"ready"` {
				t.Fatalf("%s: Read = %s, %v", c.name, p, err)
			}
		}
		begin := time.Now()
		read := make(chan error, 1)
		go func() {
			_, _, err := child.Read()
			read <- err
		}()
		if err := child.Close(); err != nil {
			t.Errorf("%s: Close = %v", c.name, err)
		}
		if took := time.Since(begin); took < c.least {
			t.Errorf("%s: Close took %v, want at least %v", c.name, took, c.least)
		}
		if err := <-read; !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("%s: Read = %v, want %v", c.name, err, jsonrpc.ErrClosed)
		}
		exit, _ := errors.AsType[*stdio.ExitError](child.Wait())
		if got := exit; (got == nil) != (c.signal == "") || got != nil && got.Signal != c.signal {
			t.Errorf("%s: ended with %+v, want signal %q", c.name, got, c.signal)
		}
	}
}

// TestCloseUnblocksAtOnce checks that neither a Read nor a Write waits for the steps of Close, even
// if it begins after it.
func TestCloseUnblocksAtOnce(t *testing.T) {
	child := start(t, stdio.Options{Patience: stdio.Patience{Stdin: time.Minute}}, "deaf")
	if _, _, err := child.Read(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	large := one(`"` + strings.Repeat("x", 1<<20) + `"`)
	go func() {
		_, _, err := child.Read()
		done <- err
	}()
	go func() { done <- child.Write(large) }()
	closed := make(chan error, 1)
	go func() { closed <- child.Close() }()
	for range 2 {
		if err := <-done; !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want %v", err, jsonrpc.ErrClosed)
		}
	}
	for range 100 { // in some of them Close drops what the child writes
		if _, _, err := child.Read(); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Fatalf("got %v, want %v", err, jsonrpc.ErrClosed)
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-closed:
		t.Fatalf("Read and Write came back only with the end of the child; Close = %v", err)
	default:
	}
	if err := syscall.Kill(-child.PID(), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestDrain checks that a child that is still writing when it is closed can end normally.
func TestDrain(t *testing.T) {
	child := start(t, stdio.Options{}, "chatty")
	if _, _, err := child.Read(); err != nil {
		t.Fatal(err)
	}
	if err := child.Close(); err != nil {
		t.Fatal(err)
	}
	if exit, ok := errors.AsType[*stdio.ExitError](child.Wait()); !ok || exit.Code != 7 {
		t.Errorf("Wait = %v, want code 7: the child was cut off", child.Wait())
	}
}

// TestRest checks that what a child leaves in its group is killed with it, and that a process that
// has left the group does not delay Close.
func TestRest(t *testing.T) {
	for _, rest := range []string{"deaf", "clingy"} {
		child := start(t, stdio.Options{}, "leaver", rest)
		for {
			_, _, err := child.Read() // output of the remaining process
			if err == nil {
				continue
			}
			if exit, ok := errors.AsType[*stdio.ExitError](err); !ok || exit.Code != 5 {
				t.Errorf("%s: Read = %v, want code 5", rest, err)
			}
			break
		}
		if err := child.Close(); err != nil {
			t.Errorf("%s: Close = %v", rest, err)
		}
	}
}

// TestCloseEnds checks that Close returns although the function for stderr never does.
func TestCloseEnds(t *testing.T) {
	let := make(chan struct{})
	heard := make(chan struct{}, 1)
	child := start(t, stdio.Options{Stderr: func(string) { heard <- struct{}{}; <-let }}, "noise", "1")
	<-heard
	if err := child.Close(); err == nil || !strings.Contains(err.Error(), "Options.Stderr") {
		t.Errorf("Close = %v, want an error that names what does not return", err)
	}
	close(let)
}

// TestDeathSignal checks that a child dies with its parent, even if the parent cannot call Close.
func TestDeathSignal(t *testing.T) {
	addr, accept := called(t)
	argv, env := command("parent", addr)
	parent := exec.Command(argv[0], argv[1:]...)
	parent.Env = env
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	conn := accept() // the child of the parent
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // was killed
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("the child lives on: Read = %d bytes", n)
	}
	_ = conn.Close()
}

func describe(t *testing.T, o stdio.Options, args ...string) description {
	t.Helper()
	c := start(t, o, "describe", args...)
	if err := c.Write(one("1")); err != nil {
		t.Fatal(err)
	}
	p, _, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	var d description
	if err := json.Unmarshal(p, &d); err != nil {
		t.Fatal(err)
	}
	if d.PID != c.PID() {
		t.Errorf("PID = %d, want %d", c.PID(), d.PID)
	}
	return d
}

func TestDescribe(t *testing.T) {
	args := []string{"; echo harm", "$HOME", "*", "", "ü \n"}
	dir := t.TempDir()
	d := describe(t, stdio.Options{Dir: dir}, args...)
	if !slices.Equal(d.Args, args) {
		t.Errorf("arguments are %q, want %q", d.Args, args)
	}
	if real, _ := filepath.EvalSymlinks(dir); d.Dir != dir && d.Dir != real {
		t.Errorf("runs in %s, want %s", d.Dir, dir)
	}
	if d.Group != d.PID {
		t.Errorf("process group %d, want its own, %d", d.Group, d.PID)
	}
	if !slices.Contains(d.Env, "PATH="+os.Getenv("PATH")) {
		t.Error("the environment that was given is not there")
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PARLEY_TEST_SECRET", "canary")
	t.Setenv(roleName, "describe")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	inherited := describe(t, stdio.Options{Env: os.Environ()})
	if !slices.Contains(inherited.Env, "PARLEY_TEST_SECRET=canary") {
		t.Error("the environment was not inherited")
	}
	env, _ := stdio.CleanEnv(roleName+"=describe", "NAMED=yes", "GORACE=atexit_sleep_ms=0")
	got := describe(t, stdio.Options{Env: env}).Env
	if slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, "canary") }) {
		t.Errorf("a secret of ours is in the environment: %q", got)
	}
	if !slices.Contains(got, "NAMED=yes") || !slices.Contains(got, "PATH="+os.Getenv("PATH")) {
		t.Errorf("the environment is %q, want PATH and NAMED in it", got)
	}
}

func TestStartErrors(t *testing.T) {
	if _, err := stdio.Start(t.Context(), nil, nil); err == nil {
		t.Error("no command: no error")
	}
	before := openFiles(t)
	for range 10 {
		if _, err := stdio.Start(t.Context(), []string{"parley-no-such-command"}, nil); !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("no such command: %v, want %v", err, exec.ErrNotFound)
		}
		if _, err := stdio.Start(t.Context(), []string{os.Args[0]}, &stdio.Options{Dir: "/no/such/dir"}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("no such directory: %v, want %v", err, os.ErrNotExist)
		}
	}
	checkOpenFiles(t, before)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stdio.Start(ctx, []string{os.Args[0]}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ctx has ended: %v, want %v", err, context.Canceled)
	}
}

// TestNothingLeft checks that a child that started and ended leaves no open file.
func TestNothingLeft(t *testing.T) {
	run := func() {
		c := start(t, stdio.Options{}, "echo")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	run() // the first one opens files that the runtime retains
	before := openFiles(t)
	for range 10 {
		run()
	}
	checkOpenFiles(t, before)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// checkOpenFiles fails when more files are open than before. Fewer are possible: the garbage
// collector may close a file of an earlier test in between.
func checkOpenFiles(t *testing.T, before int) {
	t.Helper()
	if after := openFiles(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

var _ jsonrpc.Transport = (*stdio.Child)(nil)

// isGone reports whether no process has this ID.
func isGone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// TestReaped checks that a child that has ended is not a zombie.
func TestReaped(t *testing.T) {
	c := start(t, stdio.Options{}, "exit", "0")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if !isGone(c.PID()) {
		t.Errorf("process %d is still there", c.PID())
	}
}

// TestEndlessOutput: a child that prints without a newline is given up after 1 MiB, one that begins
// a message after 64 MiB, and Close does not wait for it to be done, nor read what it prints for as
// long as its patience is.
func TestEndlessOutput(t *testing.T) {
	for _, tt := range []struct {
		begin string
		want  error
	}{{"y", jsonrpc.ErrGarbage}, {"{", jsonrpc.ErrTooLarge}} {
		c := start(t, stdio.Options{Patience: stdio.Patience{Stdin: time.Hour}}, "endless", tt.begin)
		var err error
		for {
			if _, _, err = c.Read(); err == nil {
				t.Fatalf("%q: a message", tt.begin)
			}
			if frame, ok := errors.AsType[*jsonrpc.FrameError](err); !ok || frame.Final {
				break
			}
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("%q: %v, want %v", tt.begin, err, tt.want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
