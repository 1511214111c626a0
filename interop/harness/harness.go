// Package harness starts other projects' programs, and ours, for the tests of interop.
//
// It finds what `make setup` installed, builds our programs once for all tests, and ends every
// process with its test. If a peer is missing, the test fails and names the command that installs
// it; no test is skipped.
package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// scriptTime is the timeout of one client script. Each check in it has its own timeout of ten
// seconds.
const scriptTime = 3 * time.Minute

// programs holds the paths of our own programs that this test binary has used.
var programs struct {
	mu    sync.Mutex
	built map[string]string // by package; guarded by mu
}

// Program builds one of our programs, on its first use by a test binary, and returns its path. The
// package is named from the root of the repository: "./cmd/parley", "./interop/everything-server".
//
// All test binaries share .cache/programs: the Go tool does not link again what is already there
// and up to date. A program must not change while tests use it, so do not edit its sources
// during a run.
func Program(t *testing.T, pkg string) string {
	t.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if path, ok := programs.built[pkg]; ok {
		return path
	}
	base := root(t)
	// one for each, since tests add it to PATH
	dir := filepath.Join(base, ".cache", "programs", pkg)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(pkg))
	// Another package's tests may need the same program at this moment.
	defer lock(t, path+".lock")()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, pkg)
	build.Dir = base
	if inner, ok := strings.CutPrefix(pkg, "./interop/"); ok { // in its own module
		build.Dir = filepath.Join(base, "interop")
		build.Args[len(build.Args)-1] = "./" + inner
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	if programs.built == nil {
		programs.built = map[string]string{}
	}
	programs.built[pkg] = path
	return path
}

// lock waits until no other process holds the lock of a file, takes it, and returns what releases
// it. The system releases it if the process dies.
func lock(t *testing.T, name string) (release func()) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

// Parley returns the path of the program parley.
func Parley(t *testing.T) string {
	t.Helper()
	return Program(t, "./cmd/parley")
}

// GoTool returns the path of a program that go.mod of interop lists as a tool. The Go tool builds
// it on its first use, and keeps it in its cache.
func GoTool(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "-n", name).Output()
	if err != nil {
		t.Fatalf("go tool %s: %v; run: make setup", name, err)
	}
	return strings.TrimSpace(string(out))
}

// root returns the folder of the repository: the one above the module interop.
func root(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(strings.TrimSpace(string(out))))
}

// Need fails the test if a peer is not installed, with the command that installs it.
func Need(t *testing.T, what, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s: %v; run: make setup", what, err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// Node returns the command line of a script in node/.
func Node(t *testing.T, script string, args ...string) []string {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("node is missing (%v); install Node 20.19 or newer", err)
	}
	Need(t, "Node's packages", "node/node_modules/.installed-from")
	return append([]string{program, Need(t, script, "node/"+script)}, args...)
}

// Python returns the command line of a script in python/. Only Debian's interpreter finds Debian's
// packages.
func Python(t *testing.T, script string, args ...string) []string {
	t.Helper()
	program := "/usr/bin/python3"
	Need(t, "Python", program)
	probe := exec.CommandContext(t.Context(), program, "-c", "import jsonrpc, pylsp_jsonrpc, fastapi, uvicorn")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Fatalf("a Python package is missing; run: make setup\n%s", out)
	}
	return append([]string{program, "-B", Need(t, script, "python/"+script)}, args...)
}

// Output stores what a program writes to stderr, for the case that its test fails.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the text. It is safe for concurrent use.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the text so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// ShowIfFailed logs the text after the test, if that failed.
func (o *Output) ShowIfFailed(t *testing.T, name string) {
	t.Cleanup(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if t.Failed() && o.text.Len() > 0 {
			t.Logf("stderr of %s:\n%s", name, o.text.String())
		}
	})
}

// Command returns a command that ends with ctx: by a signal first, then by force.
func Command(ctx context.Context, t *testing.T, argv []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// KeepStderr logs what cmd writes to stderr if the test fails.
func KeepStderr(t *testing.T, cmd *exec.Cmd) {
	stderr := new(Output)
	cmd.Stderr = stderr
	stderr.ShowIfFailed(t, strings.Join(cmd.Args, " "))
}

// Checks runs a client script and reports each line that is a failure.
func Checks(t *testing.T, argv []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	cmd := Command(ctx, t, argv)
	KeepStderr(t, cmd)
	text, exit := cmd.Output()
	passed, failed, closing := 0, 0, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "ok "):
			passed++
		case strings.HasPrefix(line, "FAIL "):
			failed++
			t.Error(line)
		case strings.HasPrefix(line, "\t"):
			t.Log(line)
		case strings.HasPrefix(line, "done "):
			closing = line
		default:
			t.Errorf("unexpected line: %q", line)
		}
	}
	if want := fmt.Sprintf("done %d passed %d failed", passed, failed); closing != want {
		t.Errorf("the script closed with %q, want %q", closing, want)
	}
	if passed == 0 {
		t.Error("no check passed")
	}
	if failed == 0 && exit != nil {
		t.Errorf("the script ended with %v", exit)
	}
	t.Logf("%d checks", passed)
}

// addressLine matches the lines in which `parley demo` prints how to call it.
var addressLine = regexp.MustCompile(`\bcall '?(([a-z]+):[^\s']+)`)

// Scheme returns the scheme of an address.
func Scheme(target string) string {
	word, _, _ := strings.Cut(target, ":")
	return word
}

// Demo starts `parley demo` on targets and returns the addresses where it listens, in the same
// order.
func Demo(t *testing.T, targets ...string) []string {
	t.Helper()
	return DemoWith(t, nil, targets...)
}

// DemoWith is [Demo] with further flags.
func DemoWith(t *testing.T, flags []string, targets ...string) []string {
	t.Helper()
	argv := append([]string{Parley(t), "demo"}, flags...)
	for _, target := range targets {
		argv = append(argv, "--listen", target)
	}
	// It outlives the test's context, which is canceled before the cleanup.
	cmd := Command(context.Background(), t, argv)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := new(Output)
	log.ShowIfFailed(t, "parley demo")
	addresses := make(chan string, 100)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(addresses)
		lines := bufio.NewScanner(io.TeeReader(stderr, log))
		for n := 0; lines.Scan(); {
			// An http address is also printed as its ws address.
			found := addressLine.FindStringSubmatch(lines.Text())
			if found != nil && n < len(targets) && found[2] == Scheme(targets[n]) {
				addresses <- found[1]
				n++
			}
		}
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("parley demo was gone: %v", err)
		}
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("parley demo ended with %v", err)
		}
	})
	var out []string
	timeout := time.After(time.Minute)
	for range targets {
		select {
		case address, ok := <-addresses:
			if !ok {
				t.Fatalf("parley demo ended; it had printed %q", out)
			}
			out = append(out, address)
		case <-timeout:
			t.Fatalf("parley demo did not say where it listens; so far %q", out)
		}
	}
	return out
}

// StdioDemo returns the command line of a demo on stdio.
func StdioDemo(t *testing.T, args ...string) []string {
	t.Helper()
	return append([]string{Parley(t), "demo", "--stdio"}, args...)
}

// Server starts a peer's server and returns the addresses in its first line, a JSON object.
func Server(t *testing.T, argv []string) map[string]string {
	t.Helper()
	cmd := Command(context.Background(), t, argv)
	KeepStderr(t, cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it does not end by itself
		_ = cmd.Wait()
	})
	type answer struct {
		addresses map[string]string
		err       error
	}
	first := make(chan answer, 1)
	go func() {
		var a answer
		line, err := bufio.NewReader(stdout).ReadBytes('\n')
		a.err = errors.Join(err, json.Unmarshal(line, &a.addresses))
		first <- a
	}()
	select {
	case a := <-first:
		if a.err != nil {
			t.Fatalf("%s did not say where it listens: %v", argv, a.err)
		}
		return a.addresses
	case <-time.After(time.Minute):
		t.Fatalf("%s did not say where it listens", argv)
		return nil
	}
}
