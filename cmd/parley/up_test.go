package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// An upProcess is "parley up" in a separate process: this test program, under the name that
// testscript gives it.
type upProcess struct {
	*testing.T
	cmd   *exec.Cmd
	base  string
	token string

	mu     sync.Mutex // guards the fields below
	stderr bytes.Buffer
	more   chan struct{} // closed at the next output
}

var upAddress = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/#token=([\w-]{43})`)

// parleyProgram returns this test program under the name by which testscript runs it as parley. It
// is a separate file, because parley up starts itself again.
func parleyProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "parley")
	if os.Link(self, program) == nil {
		return program
	}
	content, err := os.ReadFile(self) // another file system
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, content, 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}

func startUp(t *testing.T, args ...string) *upProcess {
	t.Helper()
	program := parleyProgram(t)
	u := &upProcess{T: t, more: make(chan struct{})}
	u.cmd = exec.CommandContext(context.Background(), program, append([]string{"up", "--listen", "127.0.0.1:0"}, args...)...)
	u.cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	u.cmd.Stderr = u
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.cmd.Process.Kill(); _ = u.cmd.Wait() }) // it has usually ended already
	m := upAddress.FindStringSubmatch(u.wait(upAddress))
	u.base, u.token = m[1], m[2]
	return u
}

// Write receives the stderr of the process.
func (u *upProcess) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stderr.Write(p)
	close(u.more)
	u.more = make(chan struct{})
	return len(p), nil
}

// wait waits until the output of the process matches what, and returns all of the output.
func (u *upProcess) wait(what *regexp.Regexp) string {
	u.Helper()
	late := time.After(time.Minute)
	for {
		u.mu.Lock()
		text, more := u.stderr.String(), u.more
		u.mu.Unlock()
		if what.MatchString(text) {
			return text
		}
		select {
		case <-more:
		case <-late:
			u.Fatalf("parley up did not say %v, but:\n%s", what, text)
		}
	}
}

func (u *upProcess) call(method, params string) string {
	u.Helper()
	r, err := http.NewRequestWithContext(u.Context(), http.MethodPost, u.base+"/rpc", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	if err != nil {
		u.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+u.token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		u.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		u.Fatal(err)
	}
	return string(text)
}

// TestUp checks that the page starts with its demo services in separate processes, and that all of
// them end with it.
func TestUp(t *testing.T) {
	u := startUp(t)
	for _, c := range []struct{ target, text, want string }{
		{"@demo", `{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subtract\",\"params\":[42,23]}`, `"answer":"`},
		{"@demo-1.0", `{\"id\":1,\"method\":\"get_data\"}`, `"answer":"`},
		{"@demo-lsp", `{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_data\"}`, `"answer":"`},
		{"@table", `{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\"}`, `"answer":"`},
		{"@agents", `{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"agents/list\"}`, `"answer":"`},
		{"@scribe", `{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"session/new\",\"params\":{\"cwd\":\"/\",\"mcpServers\":[]}}`, `"answer":"`},
	} {
		if got := u.call("send", `{"target":"`+c.target+`","wait":true,"text":"`+c.text+`"}`); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.target, got)
		}
	}
	if got := u.call("describe", `{"target":"@courier"}`); !strings.Contains(got, `"SendStreamingMessage"`) || !strings.Contains(got, "courier") {
		t.Errorf("@courier: %.300s", got)
	}
	child := regexp.MustCompile(`@scribe started \(pid (\d+)\)`).FindStringSubmatch(u.wait(regexp.MustCompile(`@scribe started`)))
	if err := u.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	u.wait(regexp.MustCompile(`@scribe ended \(pid ` + child[1] + `\)`))
	_ = u.cmd.Wait() // its exit code is that of an interrupt
	if code := u.cmd.ProcessState.ExitCode(); code != 0 && code != exitCancelled {
		t.Errorf("it ended with %d:\n%s", code, u.stderr.String())
	}
}

// TestUpWithAFile checks that a file of servers approves its programs. A program that is added
// later is shown and does not run; an address that is added later can be used.
func TestUpWithAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, trace := filepath.Join(dir, "parley.yaml"), filepath.Join(dir, "trace")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	mine := fmt.Sprintf("servers:\n  mine:\n    command: %s\n    args: [demo, --stdio]\n    protocol: jsonrpc\n", parleyProgram(t))
	write(mine)
	u := startUp(t, "-c", file, "--no-demo")
	ask := `","wait":true,"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_data\"}"}`
	if got := u.call("send", `{"target":"@mine`+ask); !strings.Contains(got, `"answer":"`) {
		t.Fatalf("@mine: %s", got)
	}
	write(mine + "  later:\n    command: touch\n    args: [" + trace + "]\n  away:\n    url: tcp://127.0.0.1:1\n")
	u.wait(regexp.MustCompile(`@later is not approved`))
	if got := u.call("targets/open", `{"target":"@later"}`); !strings.Contains(got, "not in the file when parley up started") {
		t.Errorf("@later: %s", got)
	}
	if got := u.call("targets/open", `{"target":"@away"}`); !strings.Contains(got, "no server is listening there") {
		t.Errorf("@away: %s", got)
	}
	write(strings.Replace(mine, "[demo, --stdio]", "[demo, --stdio, --changed]", 1))
	u.wait(regexp.MustCompile(`@mine is not approved`))
	if got := u.call("targets/open", `{"target":"@mine"}`); !strings.Contains(got, "not in the file when parley up started") {
		t.Errorf("@mine, changed: %s", got)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a program was started that nobody has approved")
	}
	write("servers: nonsense\n")
	u.wait(regexp.MustCompile(`the file lists no servers; the previous ones stay active`))
}

// TestUpRefuses checks that invalid addresses of the page are rejected before anything is started.
func TestUpRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"up", "--listen", "0.0.0.0:0"}, "on this machine only"},
		{[]string{"up", "--listen", "192.0.2.1:80"}, "on this machine only"},
		{[]string{"up", "--listen", "nonsense"}, "--listen must be an address"},
		{[]string{"up", "-c", filepath.Join(t.TempDir(), "none.json")}, "no such file"},
		{[]string{"up", "word"}, "word"},
		{[]string{"config", "check"}, "missing FILE"},
	} {
		var out, output bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &output, getenv: func(string) string { return "" }}
		if code := a.main(t.Context(), c.args); code != exitUsage || !strings.Contains(output.String(), c.want) {
			t.Errorf("parley %v: %d %s, want %q", c.args, code, output.String(), c.want)
		}
	}
}
