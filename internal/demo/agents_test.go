package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// A protocol serves the demo's agents and returns a client for them. one reports whether an address
// is one agent.
type protocol struct {
	name  string
	one   bool
	serve func(t *testing.T, all []*agent.Agent) *agent.Client
}

func protocols(o *editoragent.ClientOptions) []protocol {
	return []protocol{
		{"local", false, func(_ *testing.T, all []*agent.Agent) *agent.Client { return agent.Local(all...) }},
		{"acp", false, func(t *testing.T, all []*agent.Agent) *agent.Client {
			s := acp.NewServer(nil)
			for _, a := range all {
				s.Add(acpagent.New(a))
			}
			t.Cleanup(func() { _ = s.Close() })
			return acpagent.Client(acp.Local(s, nil))
		}},
		{"a2a", true, func(t *testing.T, all []*agent.Agent) *agent.Client {
			front := Front("test", "echo", all)
			s := a2a.NewServer(a2aagent.Card(&front.Card), a2aagent.New(front), nil)
			here, there := inproc.Pipe(nil)
			var serving sync.WaitGroup
			serving.Go(func() { _ = s.Serve(context.WithoutCancel(t.Context()), there) })
			t.Cleanup(func() { s.Close(); serving.Wait() })
			return a2aagent.Client(a2a.Connect(t.Context(), here, nil), nil)
		}},
		{"editor", true, func(t *testing.T, all []*agent.Agent) *agent.Client {
			here, there := inproc.Pipe(nil)
			var serving sync.WaitGroup
			serving.Go(func() { _ = Editor("test", "echo", all, nil).Serve(context.WithoutCancel(t.Context()), there) })
			c, err := editoragent.Connect(t.Context(), here, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(serving.Wait)
			return c
		}},
	}
}

// inEach runs a test in each protocol, each with its own fake clock.
func inEach(t *testing.T, test func(t *testing.T, p protocol, c *agent.Client)) {
	for _, p := range protocols(nil) {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := p.serve(t, Agents("test", func(what string, err error) { t.Errorf("%s: %v", what, err) }))
				defer c.Close()
				test(t, p, c)
			})
		})
	}
}

// request names an agent in the way of the protocol.
func (p *protocol) request(name, text string) *agent.Request {
	if p.one {
		text = "/" + name + " " + text
	}
	return &agent.Request{Agent: name, Input: agent.Prompt(text)}
}

func TestAgentsInEveryProtocol(t *testing.T) {
	inEach(t, func(t *testing.T, p protocol, c *agent.Client) {
		for _, tt := range []struct {
			name, text, answer, want string
			pieces, steps            int // minimum numbers of output pieces and progress messages
		}{
			{"echo", "hello", "", "hello", 1, 0},
			{"words", "one two three", "", "one two three", 3, 0},
			{"ask", "hi", "Ada", "Hello Ada! Your message: hi", 1, 0},
			{"slow", "3 steps of 200ms", "", "Done, after 3 steps.", 1, 4},
			{"scribe", "tea. milk", "no", "# Tea\n\n- tea\n- milk\n\n2 words, 9 letters.\n\nNot written.\n", 5, 0},
			{"courier", "a cake, 2 stops of 1s", "", "Stop 1 of 2: passed on.\nStop 2 of 2: passed on.\nDelivered: a cake, 2 stops of 1s\n", 3, 2},
		} {
			pieces, steps := 0, 0
			r, err := c.Run(t.Context(), p.request(tt.name, tt.text), agent.Funcs{
				OnEvent: func(_ context.Context, e agent.Event) error {
					switch e.Kind {
					case agent.EventOutput:
						pieces++
					case agent.EventProgress:
						steps++
					}
					return nil
				},
				OnAsk: func(context.Context, *agent.Question) (*agent.Answer, error) { return agent.Reply(tt.answer), nil },
			})
			if err != nil {
				t.Errorf("%s %q: %v", tt.name, tt.text, err)
				continue
			}
			if r.String() != tt.want || pieces < tt.pieces || steps < tt.steps {
				t.Errorf("%s %q: %q in %d pieces after %d steps; want %q, %d, %d", tt.name, tt.text, r, pieces, steps, tt.want, tt.pieces, tt.steps)
			}
		}
	})
}

func TestCancelReachesAgentsInEveryProtocol(t *testing.T) {
	inEach(t, func(t *testing.T, p protocol, c *agent.Client) {
		for _, name := range []string{"slow", "courier"} {
			job := c.Start(t.Context(), p.request(name, "100 steps of 10s"))
			for e := range job.Events() {
				if e.Kind == agent.EventProgress {
					break
				}
			}
			begun := time.Now()
			job.Cancel()
			r, err := job.Wait(t.Context())
			if took := time.Since(begun); !errors.Is(err, agent.ErrCancelled) || r == nil || r.State != agent.Cancelled || took > 8*time.Second { // a step takes ten
				t.Errorf("%s: %+v, %v after %s, want cancelled during the step", name, r, err, took)
			}
			job.Close()
		}
	})
}

// TestScribeFilesAnArtifact checks that the note becomes an artifact in protocols without files.
func TestScribeFilesAnArtifact(t *testing.T) {
	inEach(t, func(t *testing.T, p protocol, c *agent.Client) {
		r, err := c.Run(t.Context(), p.request("scribe", "tea"), agent.Funcs{
			OnAsk: func(_ context.Context, q *agent.Question) (*agent.Answer, error) {
				if q.Text != "Write these 33 bytes to note.md?" {
					t.Errorf("asked %q", q.Text)
				}
				return agent.Reply("yes"), nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range r.Output {
			if part.Name == noteFile && part.MediaType == "text/markdown" && part.Text == draft("tea") {
				return
			}
		}
		t.Errorf("there is no artifact in %+v", r.Output)
	})
}

// TestScribeWritesThroughTheEditor checks that in the Agent Client Protocol the note becomes a
// file, written by the client.
func TestScribeWritesThroughTheEditor(t *testing.T) {
	written := map[string]string{}
	for _, p := range protocols(&editoragent.ClientOptions{CWD: "/project", Editor: editor.ClientOptions{
		WriteTextFile: func(_ context.Context, p *editor.WriteTextFileParams) error { written[p.Path] = p.Content; return nil },
	}}) {
		if p.name != "editor" {
			continue
		}
		c := p.serve(t, Agents("test", nil))
		defer c.Close()
		_, err := c.Run(t.Context(), p.request("scribe", "tea"), agent.Funcs{
			OnAsk: func(context.Context, *agent.Question) (*agent.Answer, error) { return agent.Choose("allow"), nil },
		})
		if want := filepath.FromSlash("/project/note.md"); err != nil || written[want] != draft("tea") {
			t.Errorf("%v; written: %q", err, written)
		}
	}
}

// TestCourierCanBeRejoined checks that a caller can leave a courier run and attach to it again.
func TestCourierCanBeRejoined(t *testing.T) {
	inEach(t, func(t *testing.T, p protocol, c *agent.Client) {
		if p.name == "local" || p.name == "editor" { // these cannot attach to a run
			return
		}
		job := c.Start(t.Context(), p.request("courier", "3 stops of 1s"))
		defer job.Close()
		var id string
		for e := range job.Events() {
			if id = e.ID; id != "" {
				break
			}
		}
		r, err := c.Attach(t.Context(), id, nil)
		if err != nil || !strings.HasSuffix(r.String(), "Delivered: 3 stops of 1s\n") {
			t.Errorf("Attach = %v, %v", r, err)
		}
	})
}

func TestFrontKeepsWhatIsNoName(t *testing.T) {
	c := agent.Local(Front("test", "echo", Agents("test", nil)))
	for _, tt := range []struct {
		text, skill, want string
	}{
		{"hello", "", "hello"},
		{"/etc/passwd is a file", "", "/etc/passwd is a file"},
		{"/echo /words", "", "/words"},
		{"one two", "words", "one two"},
		{"/words one", "nobody", "one"},
	} {
		req := &agent.Request{Input: agent.Prompt(tt.text)}
		if tt.skill != "" {
			req.Metadata = req.Metadata.With(skillEntry, tt.skill)
		}
		if r, err := c.Run(t.Context(), req, nil); err != nil || r.String() != tt.want {
			t.Errorf("%q with %q: %v, %v; want %q", tt.text, tt.skill, r, err, tt.want)
		}
	}
}

func TestAddAgent(t *testing.T) {
	all := Agents("test", nil)
	for name, ok := range map[string]bool{"upper": true, "echo": false, "": false, "Upper": false, "a b": false} {
		if _, err := AddAgent(all, &agent.Agent{Card: agent.Card{Name: name}}); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// asProgram runs a shell script as an agent.
func asProgram(t *testing.T, script string, report func(string, error)) *agent.Client {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Fatal("these scripts want a shell; run the tests elsewhere")
	}
	if report == nil {
		report = func(string, error) {}
	}
	return agent.Local(Program("program", "test", []string{"sh", "-c", script}, report))
}

func TestProgramAnswers(t *testing.T) {
	for _, tt := range []struct{ script, text, want, failure string }{
		{"tr a-z A-Z", "hello", "HELLO", ""},
		{"echo deaf", "hello", "deaf\n", ""},
		{`printf '\303'; cat; printf '\251'`, "", "é", ""},
		{`printf 'a\377b'`, "", "a\uFFFDb", ""},
		{"echo partly; exit 3", "", "partly\n", "The program ended with exit code 3."},
		{"kill -9 $$", "", "", "The program was ended by a signal: killed."},
		{"cat /dev/zero", "", "", "The program wrote more than 1048576 bytes."},
	} {
		r, err := asProgram(t, tt.script, nil).Run(t.Context(), &agent.Request{Input: agent.Prompt(tt.text)}, nil)
		failure := ""
		if err != nil {
			failure = err.Error()
		}
		if failure != tt.failure || tt.want != "" && r.String() != tt.want {
			t.Errorf("%s: %q, failure %q; want %q, %q", tt.script, r, failure, tt.want, tt.failure)
		}
	}
	_, err := agent.Local(Program("gone", "test", []string{"/no/such/program"}, func(string, error) {})).Run(t.Context(), &agent.Request{Input: agent.Prompt("")}, nil)
	if err == nil || err.Error() != "The agent failed." {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestProgramKeepsTheEndOfStderr(t *testing.T) {
	var told string
	c := asProgram(t, "yes complaint | head -c 100000 >&2; echo the end >&2", func(what string, err error) { told = what + ": " + err.Error() })
	if _, err := c.Run(t.Context(), &agent.Request{Input: agent.Prompt("")}, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(told, "wrote on stderr: sh: ") || !strings.HasSuffix(told, "the end") || len(told) > programStderr+40 {
		t.Errorf("%d bytes: %.60q … %q", len(told), told, told[max(0, len(told)-20):])
	}
}

// TestCancelEndsAProgram checks that cancellation ends a program and its children.
func TestCancelEndsAProgram(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "pid")
	job := asProgram(t, "sleep 1000 & echo $! >"+mark+"; echo up; wait", nil).Start(t.Context(), &agent.Request{Input: agent.Prompt("")})
	for e := range job.Events() {
		if e.Kind == agent.EventOutput {
			break
		}
	}
	begun := time.Now()
	job.Close()
	r, err := job.Wait(t.Context())
	if took := time.Since(begun); !errors.Is(err, agent.ErrCancelled) || took > time.Minute {
		t.Errorf("%v, %v after %s", r, err, took)
	}
	pid, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	// Its pipes are closed, so it ends now; its PID is released a little later.
	child, err := os.FindProcess(processOf(t, pid))
	if err != nil {
		return // it has ended
	}
	late := time.After(time.Minute)
	for look := time.NewTicker(time.Millisecond); child.Signal(syscall.Signal(0)) == nil && !isZombie(child.Pid); {
		select {
		case <-look.C:
		case <-late:
			look.Stop()
			t.Fatalf("what the program started, process %d, lives on", child.Pid)
		}
	}
}

func processOf(t *testing.T, text []byte) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// isZombie reports whether a process has ended but was not yet reaped by its new parent.
func isZombie(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // only Linux provides this
	return strings.Contains(string(stat), ") Z ")
}
