package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A wire is one connection to a server, line by line, as on stdio.
type wire struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

func (s *stage) wire(t *testing.T) *wire {
	here, there := net.Pipe()
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Serve(context.WithoutCancel(t.Context()), stream.New(there, stream.Line, nil)); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		here.Close()
		done.Wait()
	})
	w := &wire{t: t, conn: here, in: bufio.NewScanner(here)}
	w.in.Buffer(nil, 1<<20)
	return w
}

func (w *wire) send(line string) {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(w.conn, line+"\n"); err != nil {
		w.t.Fatalf("send %s: %v", line, err)
	}
}

func (w *wire) next() string {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(time.Minute))
	if !w.in.Scan() {
		w.t.Fatalf("nothing came: %v", w.in.Err())
	}
	return w.in.Text()
}

var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z"`)
)

// steady replaces what differs with each run: ids are numbered in order of appearance, times are T.
func steady(lines string) string {
	seen := map[string]string{}
	lines = anyUUID.ReplaceAllStringFunc(lines, func(id string) string {
		if seen[id] == "" {
			seen[id] = string(rune('A' + len(seen)))
		}
		return seen[id]
	})
	return anyTime.ReplaceAllString(lines, `"T"`)
}

const said = `"input":[{"role":"user","parts":[{"content_type":"text/plain","content":"Hi"}]}]`

// TestStreamOnTheWire checks the exchange in the definition, byte for byte.
func TestStreamOnTheWire(t *testing.T) {
	w := newStage(t, nil).wire(t)
	w.send(`{"jsonrpc":"2.0","id":"a","method":"runs/create","params":{"agent_name":"echo","mode":"stream",` + said + `}}`)
	var lines []string
	for range 7 {
		lines = append(lines, w.next())
	}
	run := func(status, rest string) string {
		return `{"run_id":"A","agent_name":"echo","session_id":"B","status":"` + status + `","output":[` + rest
	}
	event := func(seq, event string) string {
		return `{"jsonrpc":"2.0","method":"runs/event","params":{"run_id":"A","seq":` + seq + `,"request_id":"a","event":` + event + `}}`
	}
	const message = `{"role":"agent/echo","parts":[{"content_type":"text/plain","content":"Hi"}],"created_at":"T","completed_at":"T"}`
	want := []string{
		event("1", `{"type":"run.created","run":`+run("created", `],"created_at":"T"}}`)),
		event("2", `{"type":"run.in-progress","run":`+run("in-progress", `],"created_at":"T"}}`)),
		event("3", `{"type":"message.created","message":{"role":"agent/echo","parts":[],"created_at":"T","completed_at":null}}`),
		event("4", `{"type":"message.part","part":{"content_type":"text/plain","content":"Hi"}}`),
		event("5", `{"type":"message.completed","message":`+message+`}`),
		event("6", `{"type":"run.completed","run":`+run("completed", message+`],"created_at":"T","finished_at":"T"}}`)),
		`{"jsonrpc":"2.0","result":` + run("completed", message+`],"created_at":"T","finished_at":"T"}`) + `,"id":"a"}`,
	}
	got := steady(strings.Join(lines, "\n"))
	if got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// TestErrorsOnTheWire checks the responses to requests that cannot be executed: code, and the error
// object in data.
func TestErrorsOnTheWire(t *testing.T) {
	s := newStage(t, nil)
	w := s.wire(t)
	c := s.local()
	over := must(t)(c.Run(t.Context(), ask("echo", "x"))).ID
	waiting := must(t)(c.Run(t.Context(), ask("ask", "x"))).ID
	create := func(params string) string { return `"method":"runs/create","params":{` + params + `}` }
	const (
		invalid = `"code":-32602`
		resume  = `"await_resume":{"type":"message","message":{"role":"user","parts":[{"content":"x"}]}}`
	)
	tests := []struct{ name, request, code, acp, message string }{
		{"unknown method", `"method":"runs/delete"`, `"code":-32601`, "", "Method not found"},
		{"a method of the old form", `"method":"agents/run","params":{"name":"echo"}`, `"code":-32601`, "", "Method not found"},
		{"positional params", `"method":"agents/get","params":["echo"]`, invalid, "invalid_input", "params must be an object: this protocol has no positional params."},
		{"positional params to ping", `"method":"ping","params":[]`, invalid, "invalid_input", "params must be an object: this protocol has no positional params."},
		{"a name that is a number", `"method":"agents/get","params":{"name":1}`, invalid, "invalid_input", `The value at \"/name\" is not valid.`},
		{"a member twice", `"method":"agents/get","params":{"name":"a","name":"b"}`, invalid, "invalid_input", `Duplicate member \"/name\".`},
		{"unknown agent", `"method":"agents/get","params":{"name":"nope"}`, `"code":-32001`, "not_found", "The agent was not found."},
		{"no name", `"method":"agents/get","params":{}`, `"code":-32001`, "not_found", "The agent was not found."},
		{"limit 0", `"method":"agents/list","params":{"limit":0}`, invalid, "invalid_input", "The limit must be a number from 1 to 1000."},
		{"limit 1001", `"method":"agents/list","params":{"limit":1001}`, invalid, "invalid_input", "The limit must be a number from 1 to 1000."},
		{"offset -1", `"method":"agents/list","params":{"offset":-1}`, invalid, "invalid_input", "The offset must not be negative."},
		{"run of an unknown agent", create(`"agent_name":"nope",` + said), `"code":-32001`, "not_found", "The agent was not found."},
		{"stream of an unknown agent", create(`"agent_name":"nope","mode":"stream",` + said), `"code":-32001`, "not_found", "The agent was not found."},
		{"no name that could be", create(`"agent_name":"No!",` + said), invalid, "invalid_input", "agent_name must be a DNS label."},
		{"no agent", create(said), invalid, "invalid_input", "agent_name must be a DNS label."},
		{"no input", create(`"agent_name":"echo"`), invalid, "invalid_input", "The input must have at least one message."},
		{"empty input", create(`"agent_name":"echo","input":[]`), invalid, "invalid_input", "The input must have at least one message."},
		{"input that is text", create(`"agent_name":"echo","input":"hi"`), invalid, "invalid_input", `The value at \"/input\" is not valid.`},
		{"no parts", create(`"agent_name":"echo","input":[{"role":"user","parts":[]}]`), invalid, "invalid_input", "A message must have at least one part."},
		{"a wrong role", create(`"agent_name":"echo","input":[{"role":"system","parts":[{"content":"x"}]}]`), invalid, "invalid_input", "The role of a message must be user, agent or agent/NAME."},
		{"a wrong role of an agent", create(`"agent_name":"echo","input":[{"role":"agent/","parts":[{"content":"x"}]}]`), invalid, "invalid_input", "The role of a message must be user, agent or agent/NAME."},
		{"content twice", create(`"agent_name":"echo","input":[{"role":"user","parts":[{"content":"x","content_url":"https://a.example"}]}]`), invalid, "invalid_input", "A part must have either content or content_url, not both."},
		{"a wrong encoding", create(`"agent_name":"echo","input":[{"role":"user","parts":[{"content":"x","content_encoding":"hex"}]}]`), invalid, "invalid_input", "The content_encoding of a part must be plain or base64."},
		{"a wrong URL", create(`"agent_name":"echo","input":[{"role":"user","parts":[{"content_url":"x"}]}]`), invalid, "invalid_input", "The content_url of a part must be an absolute URL."},
		{"a wrong mode", create(`"agent_name":"echo","mode":"fast",` + said), invalid, "invalid_input", "The mode must be sync, async or stream."},
		{"a wrong session", create(`"agent_name":"echo","session_id":"1",` + said), invalid, "invalid_input", "session_id must be a UUID."},
		{"two sessions", create(`"agent_name":"echo","session_id":"` + uuid1 + `","session":{"id":"6f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20","history":[]},` + said), invalid, "invalid_input", "session_id and session.id differ."},
		{"a session without id", create(`"agent_name":"echo","session":{"history":[]},` + said), invalid, "invalid_input", "The id of a session must be a UUID."},
		{"a history of no URLs", create(`"agent_name":"echo","session":{"id":"` + uuid1 + `","history":["x"]},` + said), invalid, "invalid_input", "The history of a session must contain absolute URLs."},
		{"a state that is none", create(`"agent_name":"echo","session":{"id":"` + uuid1 + `","history":[],"state":"x"},` + said), invalid, "invalid_input", "The state of a session must be an absolute URL."},
		{"no run", `"method":"runs/get","params":{"run_id":"x"}`, `"code":-32001`, "not_found", "The run was not found."},
		{"events of no run", `"method":"runs/events","params":{"run_id":"x"}`, `"code":-32001`, "not_found", "The run was not found."},
		{"no run to cancel", `"method":"runs/cancel"`, `"code":-32001`, "not_found", "The run was not found."},
		{"cancel of what is over", `"method":"runs/cancel","params":{"run_id":"` + over + `"}`, `"code":-32002`, "server_error", "The run has ended."},
		{"no session", `"method":"sessions/get","params":{"session_id":"x"}`, `"code":-32001`, "not_found", "The session was not found."},
		{"resume without a run", `"method":"runs/resume","params":{"mode":"sync",` + resume + `}`, invalid, "invalid_input", "run_id is missing."},
		{"resume without a mode", `"method":"runs/resume","params":{"run_id":"` + waiting + `",` + resume + `}`, invalid, "invalid_input", "The mode must be sync, async or stream."},
		{"resume of what is over", `"method":"runs/resume","params":{"mode":"sync","run_id":"` + over + `",` + resume + `}`, `"code":-32010`, "server_error", "The run is not waiting for an answer."},
		{"resume with another type", `"method":"runs/resume","params":{"mode":"sync","run_id":"` + waiting + `","await_resume":{"type":"form"}}`, `"code":-32010`, "server_error", "The run is waiting for an answer of another type."},
		{"after what has not been", `"method":"runs/events","params":{"after":7,"run_id":"` + over + `"}`, invalid, "invalid_input", "after must be the number of an event of the run, or -1."},
		{"subscribe after what has not been", `"method":"runs/subscribe","params":{"after":-2,"run_id":"` + over + `"}`, invalid, "invalid_input", "after must be the number of an event of the run, or -1."},
	}
	for _, tt := range tests {
		w.send(`{"jsonrpc":"2.0","id":1,` + tt.request + `}`)
		got := w.next()
		want := `{"jsonrpc":"2.0","error":{` + tt.code + `,"message":"` + tt.message + `"`
		if tt.acp != "" {
			want += `,"data":{"code":"` + tt.acp + `","message":"` + tt.message + `"}`
		}
		want += `},"id":1}`
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.name, got, want)
			continue
		}
		if tt.acp != "" {
			var body struct {
				Error struct{ Data json.RawMessage }
			}
			if err := json.Unmarshal([]byte(got), &body); err != nil {
				t.Fatal(err)
			}
			mustFit(t, "Error", body.Error.Data)
		}
	}
}

func TestBatches(t *testing.T) {
	s := newStage(t, nil)
	w := s.wire(t)
	t.Run("agents by name in one round trip", func(t *testing.T) {
		got, err := s.connect(nil).AgentsNamed(t.Context(), "words", "nope", "echo")
		if err != nil || len(got) != 3 || got[0].Manifest.Name != "words" || got[1].Err == nil || got[2].Manifest.Name != "echo" {
			t.Errorf("%+v, %v", got, err)
		}
		w.send(`[{"jsonrpc":"2.0","id":1,"method":"agents/get","params":{"name":"words"}},{"jsonrpc":"2.0","id":2,"method":"agents/get","params":{"name":"no"}}]`)
		want := `[{"jsonrpc":"2.0","result":{"name":"words","description":"For tests.","input_content_types":["*/*"],"output_content_types":["*/*"]},"id":1},` +
			`{"jsonrpc":"2.0","error":{"code":-32001,"message":"The agent was not found.","data":{"code":"not_found","message":"The agent was not found."}},"id":2}]`
		if got := w.next(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
	t.Run("no streams", func(t *testing.T) {
		over := must(t)(s.local().Run(t.Context(), ask("echo", "x"))).ID
		w.send(`[{"jsonrpc":"2.0","id":1,"method":"runs/create","params":{"agent_name":"echo","mode":"stream",` + said + `}},` +
			`{"jsonrpc":"2.0","id":2,"method":"runs/subscribe","params":{"run_id":"` + over + `"}},` +
			`{"jsonrpc":"2.0","id":3,"method":"runs/resume","params":{"run_id":"` + over + `","mode":"stream","await_resume":{"type":"message","message":{"role":"user","parts":[{"content":"x"}]}}}},` +
			`{"jsonrpc":"2.0","id":4,"method":"ping"}]`)
		refused := func(id string) string {
			return `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Streams are not supported in a batch.","data":{"code":"invalid_input","message":"Streams are not supported in a batch."}},"id":` + id + `}`
		}
		want := `[` + refused("1") + `,` + refused("2") + `,` + refused("3") + `,{"jsonrpc":"2.0","result":{},"id":4}]`
		if got := w.next(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
	t.Run("runs that wait do so at once", func(t *testing.T) {
		w.send(`[{"jsonrpc":"2.0","id":1,"method":"runs/create","params":{"agent_name":"wait",` + said + `}},` +
			`{"jsonrpc":"2.0","id":2,"method":"runs/create","params":{"agent_name":"wait",` + said + `}}]`)
		eventually(t, s.begun)
		eventually(t, s.begun)
		s.release <- struct{}{}
		s.release <- struct{}{}
		if got := steady(w.next()); strings.Count(got, `"status":"completed"`) != 2 {
			t.Error(got)
		}
	})
}

// TestNotificationForm checks that a request without an id starts a run, and gets no response.
func TestNotificationForm(t *testing.T) {
	s := newStage(t, nil)
	w := s.wire(t)
	for _, mode := range []string{"sync", "async", "stream"} {
		w.send(`{"jsonrpc":"2.0","method":"runs/create","params":{"agent_name":"wait","mode":"` + mode + `",` + said + `}}`)
		job := eventually(t, s.begun)
		w.send(`{"jsonrpc":"2.0","method":"runs/subscribe","params":{"run_id":"` + job.ID() + `"}}`)
		w.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if got := w.next(); got != `{"jsonrpc":"2.0","result":{},"id":1}` {
			t.Errorf("%s: %s", mode, got)
		}
		s.release <- struct{}{}
		if run := s.settle(job.ID()); run.Text() != "done" {
			t.Errorf("%+v", run)
		}
	}
}

// TestUnknownMembersStay checks that unknown members of a part or a message pass through a run and
// a session unchanged.
func TestUnknownMembersStay(t *testing.T) {
	s := newStage(t, nil)
	s.add("again", func(ctx context.Context, j *acp.Job) error { return j.Message(ctx, j.Input()[0]) })
	w := s.wire(t)
	const part = `{"content_type":"text/x","metadata":{"kind":"new","a":[1.0,{"b":"\u00e4"}]},"x":{"y":1e400}}`
	w.send(`{"jsonrpc":"2.0","id":1,"method":"runs/create","params":{"agent_name":"again","later":1,"input":[{"role":"user","parts":[` + part + `],"z":null}]}}`)
	got := w.next()
	if !strings.Contains(got, `"parts":[`+part+`]`) || !strings.Contains(got, `"z":null`) {
		t.Errorf("%s", got)
	}
}

// TestMount adds the methods of a server to a Mux that has other methods.
func TestMount(t *testing.T) {
	s := newStage(t, nil)
	var mux jsonrpc.Mux
	s.Mount(&mux)
	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: &mux, Mode: mux.Mode}, nil)
	for method := range mux.All() {
		if mux.Mode(method) != acp.Mode(method) {
			t.Errorf("%s has mode %v", method, mux.Mode(method))
		}
	}
	if got, err := jsonrpc.Call[acp.AgentsListResponse](t.Context(), peer, acp.MethodAgentsList, acp.ListParams{Limit: 2, Offset: 1}); err != nil || len(got.Agents) != 2 || got.Agents[0].Name != "words" {
		t.Errorf("%+v, %v", got, err)
	}
	// If events cannot be sent, the stream is rejected, and no run remains.
	_, err := jsonrpc.Call[acp.Run](t.Context(), peer, acp.MethodRunsCreate, acp.RunCreateRequest{AgentName: "wait", Mode: acp.ModeStream, Input: acp.Ask("x")})
	if err == nil || !strings.Contains(err.Error(), "does not accept one") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("the run goes on: %v", err)
	}
}
