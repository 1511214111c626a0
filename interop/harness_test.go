package interop

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

// parley is the program that the peers talk to.
var parleyPath string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "parley-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	parleyPath = filepath.Join(dir, "parley")
	build := exec.Command("go", "build", "-o", parleyPath, "./cmd/parley")
	build.Dir = ".."
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build parley:", err)
		return 1
	}
	return m.Run()
}

// need fails the test when a peer is not installed, and says how to get it.
func need(t *testing.T, what, path string) string {
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

// node is the command line of a script in node/.
func node(t *testing.T, script string, args ...string) []string {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("node is missing (%v); install Node 20.19 or newer", err)
	}
	need(t, "Node's packages", "node/node_modules/.installed-from")
	return append([]string{program, need(t, script, "node/"+script)}, args...)
}

// python is the command line of a script in python/. Debian's packages are seen by Debian's interpreter only.
func python(t *testing.T, script string, args ...string) []string {
	t.Helper()
	program := "/usr/bin/python3"
	need(t, "Python", program)
	probe := exec.CommandContext(t.Context(), program, "-c", "import jsonrpc, pylsp_jsonrpc, fastapi, uvicorn")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Fatalf("a Python package is missing; run: make setup\n%s", out)
	}
	return append([]string{program, "-B", need(t, script, "python/"+script)}, args...)
}

// output keeps what a program writes to stderr, for the case that its test fails.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) showIfFailed(t *testing.T, name string) {
	t.Cleanup(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if t.Failed() && o.text.Len() > 0 {
			t.Logf("stderr of %s:\n%s", name, o.text.String())
		}
	})
}

// command makes a program that ends with ctx: politely, then by force.
func command(ctx context.Context, t *testing.T, argv []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// keepStderr shows what cmd writes to stderr if the test fails.
func keepStderr(t *testing.T, cmd *exec.Cmd) {
	stderr := new(output)
	cmd.Stderr = stderr
	stderr.showIfFailed(t, strings.Join(cmd.Args, " "))
}

// checks runs a client script and reports each of its lines that is a failure.
func checks(t *testing.T, argv []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	cmd := command(ctx, t, argv)
	keepStderr(t, cmd)
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

func scheme(target string) string {
	word, _, _ := strings.Cut(target, ":")
	return word
}

// demo starts `parley demo` on targets and returns the addresses where it listens, in the same order.
func demo(t *testing.T, targets ...string) []string {
	t.Helper()
	return demoWith(t, nil, targets...)
}

// demoWith is demo with further flags.
func demoWith(t *testing.T, flags []string, targets ...string) []string {
	t.Helper()
	argv := append([]string{parleyPath, "demo"}, flags...)
	for _, target := range targets {
		argv = append(argv, "--listen", target)
	}
	cmd := command(context.Background(), t, argv) // it outlives the test's context, which ends before the cleanup
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := new(output)
	log.showIfFailed(t, "parley demo")
	addresses := make(chan string, 100)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(addresses)
		lines := bufio.NewScanner(io.TeeReader(stderr, log))
		for n := 0; lines.Scan(); {
			// An http address is also shown as the ws one that it is.
			found := addressLine.FindStringSubmatch(lines.Text())
			if found != nil && n < len(targets) && found[2] == scheme(targets[n]) {
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

// stdioDemo is the command line of a demo on stdio.
func stdioDemo(args ...string) []string {
	return append([]string{parleyPath, "demo", "--stdio"}, args...)
}

// server starts a peer's server and returns the addresses of its first line, a JSON object.
func server(t *testing.T, argv []string) map[string]string {
	t.Helper()
	cmd := command(context.Background(), t, argv)
	keepStderr(t, cmd)
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
