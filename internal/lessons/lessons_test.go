package lessons_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/internal/lessons"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/playground"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// editorWord is the argument that runs this test program as the demo's agent for the Agent Client
// Protocol.
const editorWord = "PARLEY_TEST_EDITOR"

func TestMain(m *testing.M) {
	if os.Getenv(editorWord) != "" {
		report := func(string, error) {}
		// Ends with its stdin.
		_ = demo.Editor("1", "scribe", demo.Agents("1", report), report).Serve(context.Background(), stdio.New(nil))
		return
	}
	goleak.VerifyTestMain(m)
}

func Example() {
	for i, l := range lessons.All()[:3] {
		fmt.Println(i+1, l.Title, len(l.Steps))
	}
	// Output:
	// 1 A request 3
	// 2 Named and positional params 4
	// 3 Notifications 3
}

// A classroom is the demo services, a page connected to them, and one stream of the page's events.
type classroom struct {
	t      *testing.T
	page   *playground.Playground
	server *httptest.Server
	news   chan news
}

type news struct {
	method string
	params jsonrpc.Raw
}

func newClassroom(t *testing.T) *classroom {
	t.Helper()
	service := demo.New("1")
	tools := demo.NewMCP("1", nil)
	t.Cleanup(tools.Close)
	handler := mcphttp.NewHandler(tools.Server, &mcphttp.Options{Unguarded: true})
	listener := &parley.Listener{Handler: service.Handler(), Mode: service.Mux.Mode, Mounts: map[string]parley.Mount{"/mcp": {Handler: handler, Drain: handler.Shutdown}}}
	var targets []parley.Target
	for _, text := range []string{"http://127.0.0.1:0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0?jsonrpc=1.0", "tcp://127.0.0.1:0?framing=header"} {
		target, err := parley.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	bound, err := listener.Listen(t.Context(), targets...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- bound.Serve(context.Background()) }()
	t.Cleanup(func() {
		tools.Close()
		if err := bound.Close(); err != nil {
			t.Log(err)
		}
		<-done
	})
	at := bound.Targets()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	page, err := playground.New(&playground.Options{Lessons: lessons.All(), Folder: t.TempDir(), Targets: []playground.Target{
		{Name: "@demo", Address: at[0].String()},
		{Name: "@demo-tcp", Address: at[1].String()},
		{Name: "@demo-1.0", Address: at[2].String()},
		{Name: "@demo-lsp", Address: at[3].String()},
		{Name: "@table", Protocol: playground.ProtocolMCP, Address: "http://" + at[0].Address + "/mcp"},
		{Name: "@scribe", Protocol: playground.ProtocolEditor, Command: []string{self}, Env: append(os.Environ(), editorWord+"=1")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := &classroom{t: t, page: page, server: httptest.NewServer(page), news: make(chan news, 1000)}
	t.Cleanup(func() {
		if err := page.Close(); err != nil {
			t.Error(err)
		}
		c.server.Close()
	})
	c.follow()
	return c
}

func (c *classroom) post(ctx context.Context, body string) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.URL+"/rpc", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.page.Token())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := c.server.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// follow reads the event stream.
func (c *classroom) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	answer := c.post(ctx, `{"jsonrpc":"2.0","id":1,"method":"follow"}`) //nolint:bodyclose // the goroutine below does it
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok {
				continue
			}
			_ = jsonrpc.Scan(data, func(m *jsonrpc.Message) {
				if m.Request {
					select {
					case c.news <- news{m.Method, m.Params.Clone()}:
					case <-ctx.Done():
					}
				}
			})
		}
	}()
	c.t.Cleanup(func() { cancel(); <-done })
}

// call calls a method of the page.
func (c *classroom) call(method string, params, result any) {
	c.t.Helper()
	body, err := jsonrpc.AppendRequest(nil, jsonrpc.Version2, jsonrpc.IntID(1), method, params)
	if err != nil {
		c.t.Fatal(err)
	}
	answer := c.post(c.t.Context(), string(body))
	defer answer.Body.Close()
	var out struct {
		Result jsonrpc.Raw    `json:"result"`
		Error  *jsonrpc.Raw   `json:"error"`
		Rest   map[string]any `json:",embed"`
	}
	if err := json.UnmarshalRead(answer.Body, &out); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	if out.Error != nil {
		c.t.Fatalf("%s %v: %s", method, params, *out.Error)
	}
	if result != nil {
		if err := json.Unmarshal(out.Result, result); err != nil {
			c.t.Fatalf("%s: %v in %s", method, err, out.Result)
		}
	}
}

var (
	tokenOf   = regexp.MustCompile(`"next":\{"method":"whoami","params":\["([^"]+)"`)
	sessionOf = regexp.MustCompile(`"sessionId":\s*"([^"]+)"`)
)

// TestEveryLessonCanBePassed checks that every lesson can be passed step by step on the demo
// services in the way it shows, and that no step passes early.
func TestEveryLessonCanBePassed(t *testing.T) {
	for _, l := range lessons.All() {
		t.Run(l.ID, func(t *testing.T) {
			t.Parallel()
			c := newClassroom(t)
			pass(t, c, &l)
		})
	}
}

func pass(t *testing.T, c *classroom, l *playground.Lesson) {
	var view struct {
		Target string            `json:"target"`
		Passed map[string]string `json:"passed"`
		Rest   map[string]any    `json:",embed"`
	}
	c.call("lessons/open", map[string]string{"lesson": l.ID}, &view)
	passed := make(map[string]string)
	answeredRefs := make(map[string]bool)
	words := map[string]string{}
	// wait processes events until the step passes. It answers questions if an answer is required.
	wait := func(step playground.Step) {
		t.Helper()
		late := time.NewTimer(20 * time.Second)
		defer late.Stop()
		for passed[step.ID] == "" {
			select {
			case n := <-c.news:
				switch n.method {
				case "lesson":
					var in struct {
						Lesson string            `json:"lesson"`
						Passed map[string]string `json:"passed"`
						Rest   map[string]any    `json:",embed"`
					}
					if json.Unmarshal(n.params, &in) == nil && in.Lesson == l.ID {
						passed = in.Passed
					}
				case "rows":
					for _, m := range tokenOf.FindAllSubmatch(n.params, -1) {
						words["TOKEN"] = string(m[1])
					}
				case "questions":
					var in struct {
						Questions []struct {
							Ref  string         `json:"ref"`
							Rest map[string]any `json:",embed"`
						} `json:"questions"`
					}
					if json.Unmarshal(n.params, &in) != nil {
						t.Fatalf("questions: %s", n.params)
					}
					for _, q := range in.Questions {
						if !answeredRefs[q.Ref] {
							answeredRefs[q.Ref] = true
							c.call("answer", map[string]any{"ref": q.Ref, "choice": 0}, nil)
						}
					}
				}
			case <-late.C:
				t.Fatalf("step %q of %s is not passed; passed are %v\n%s", step.ID, l.ID, passed, wire(c))
			}
		}
	}
	for i, step := range l.Steps {
		if step.Way != "" {
			// Connecting to an MCP target performs the handshake.
			if i > 0 && passed[step.ID] != "" && l.ID != "mcp" {
				t.Errorf("step %q is passed before anybody did it, by #%s", step.ID, passed[step.ID])
			}
			text := step.Way
			for word, value := range words {
				text = strings.ReplaceAll(text, word, value)
			}
			var sent struct {
				Ref    string         `json:"ref"`
				Answer string         `json:"answer"`
				Rest   map[string]any `json:",embed"`
			}
			quick := strings.Contains(text, `"login"`) || strings.Contains(text, `"session/new"`) || strings.Contains(text, `"initialize"`)
			c.call("send", map[string]any{"target": l.Target, "text": text, "wait": quick}, &sent)
			if quick {
				var m struct {
					Text string         `json:"text"`
					Rest map[string]any `json:",embed"`
				}
				c.call("wire/message", map[string]string{"ref": sent.Answer}, &m)
				for word, find := range map[string]*regexp.Regexp{"TOKEN": tokenOf, "SESSION": sessionOf} {
					if found := find.FindStringSubmatch(m.Text); found != nil {
						words[word] = found[1]
					}
				}
			}
		}
		wait(step)
	}
}

// wire returns the recorded messages, for a failed test.
func wire(c *classroom) string {
	var b strings.Builder
	log := c.page.Recorder()
	for _, r := range log.Rows(capture.Ref{}, 0) {
		payload, _ := log.Payload(r.Ref)
		fmt.Fprintf(&b, "#%v %s %s %s %s %s\n", r.Ref, r.Target, r.Dir, r.Kind, r.State, payload)
	}
	return b.String()
}

// TestLessonsAreComplete checks the texts for readers: titles, descriptions, and a solution where
// it cannot be guessed.
func TestLessonsAreComplete(t *testing.T) {
	ids := make(map[string]bool)
	all := lessons.All()
	if len(all) != 16 {
		t.Errorf("there are %d lessons, want 16", len(all))
	}
	for _, l := range all {
		if l.ID == "" || ids[l.ID] || l.Title == "" || l.Target == "" || len(l.Text) == 0 || len(l.Steps) < 2 || len(l.Notes) == 0 {
			t.Errorf("lesson %q is not complete", l.ID)
		}
		ids[l.ID] = true
		steps := make(map[string]bool)
		for i, s := range l.Steps {
			if s.ID == "" || steps[s.ID] || s.Title == "" || s.Check == nil || i == 0 && s.Draft == "" {
				t.Errorf("step %q of lesson %s is not complete", s.ID, l.ID)
			}
			steps[s.ID] = true
		}
	}
}
