// Package harness starts other people's programs, and ours, for the tests of interop.
//
// It finds what `make setup` installed, builds our programs once per test binary, and ends every process with its test.
// What is missing fails the test and says which command installs it; nothing is skipped.
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

// scriptTime bounds one client script. Each check in it is bounded to ten seconds by itself.
const scriptTime = 3 * time.Minute

// programs is where Main lets our own programs be built.
var programs struct {
	dir string

	mu    sync.Mutex
	built map[string]string // by package; guarded by mu
}

// Main runs the tests of a package and removes what was built for them; a TestMain hands its result to os.Exit.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "parley-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs.dir, programs.built = dir, map[string]string{}
	return m.Run()
}

// Program builds one of our programs, the first time it is asked for, and returns where it is. The package is named from the
// root of the repository: "./cmd/parley", "./interop/everything-server".
func Program(t *testing.T, pkg string) string {
	t.Helper()
	if programs.built == nil {
		t.Fatal("TestMain does not call harness.Main")
	}
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if path, ok := programs.built[pkg]; ok {
		return path
	}
	path := filepath.Join(programs.dir, filepath.Base(pkg))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, pkg)
	build.Dir = root(t)
	if inner, ok := strings.CutPrefix(pkg, "./interop/"); ok { // a module of its own
		build.Dir = filepath.Join(build.Dir, "interop")
		build.Args[len(build.Args)-1] = "./" + inner
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	programs.built[pkg] = path
	return path
}

// Parley is where the program parley is.
func Parley(t *testing.T) string {
	t.Helper()
	return Program(t, "./cmd/parley")
}

// root is the folder of the repository: the one above the module interop.
func root(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(strings.TrimSpace(string(out))))
}

// Need fails the test when a peer is not installed, and says how to get it.
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

// Node is the command line of a script in node/.
func Node(t *testing.T, script string, args ...string) []string {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("node is missing (%v); install Node 20.19 or newer", err)
	}
	Need(t, "Node's packages", "node/node_modules/.installed-from")
	return append([]string{program, Need(t, script, "node/"+script)}, args...)
}

// Python is the command line of a script in python/. Debian's packages are seen by Debian's interpreter only.
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

// Output keeps what a program writes to stderr, for the case that its test fails.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the text; it may be called from many goroutines.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String is the text so far.
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

// Command makes a program that ends with ctx: politely, then by force.
func Command(ctx context.Context, t *testing.T, argv []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// KeepStderr shows what cmd writes to stderr if the test fails.
func KeepStderr(t *testing.T, cmd *exec.Cmd) {
	stderr := new(Output)
	cmd.Stderr = stderr
	stderr.ShowIfFailed(t, strings.Join(cmd.Args, " "))
}

// Checks runs a client script and reports each of its lines that is a failure.
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

// addressLine is where `parley demo` says how to call it.
var addressLine = regexp.MustCompile(`\bcall '?(([a-z]+):[^\s']+)`)

// Scheme is the scheme of an address.
func Scheme(target string) string {
	word, _, _ := strings.Cut(target, ":")
	return word
}

// Demo starts `parley demo` on targets and returns the addresses where it listens, in the same order.
func Demo(t *testing.T, targets ...string) []string {
	t.Helper()
	return DemoWith(t, nil, targets...)
}

// DemoWith is demo with further flags.
func DemoWith(t *testing.T, flags []string, targets ...string) []string {
	t.Helper()
	argv := append([]string{Parley(t), "demo"}, flags...)
	for _, target := range targets {
		argv = append(argv, "--listen", target)
	}
	cmd := Command(context.Background(), t, argv) // it outlives the test's context, which ends before the cleanup
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
			// An http address is also shown as the ws one that it is.
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
	timeout := time.After(20 * time.Second)
	for range targets {
		select {
		case address, ok := <-addresses:
			if !ok {
				t.Fatalf("parley demo ended; it had said %q", out)
			}
			out = append(out, address)
		case <-timeout:
			t.Fatalf("parley demo did not say where it listens; so far %q", out)
		}
	}
	return out
}

// StdioDemo is the command line of a demo on stdio.
func StdioDemo(t *testing.T, args ...string) []string {
	t.Helper()
	return append([]string{Parley(t), "demo", "--stdio"}, args...)
}

// Server starts a peer's server and returns the addresses of its first line, a JSON object.
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
		_ = cmd.Process.Kill() // it has no way to end by itself
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
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not say where it listens", argv)
		return nil
	}
}
