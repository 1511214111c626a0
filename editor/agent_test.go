package editor_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// A script is the peer of an agent, message by message.
type script struct {
	t    testing.TB
	in   *inproc.Transport
	done sync.WaitGroup
	out  chan string
}

func newScript(t testing.TB) *script {
	here, there := inproc.Pipe(nil)
	s := &script{t: t, in: here, out: make(chan string, 1000)}
	s.done.Go(func() {
		_ = editor.NewAgent(editor.Implementation{Name: "agent", Version: "1"}, nil).Serve(context.WithoutCancel(t.Context()), there)
	})
	s.done.Go(func() {
		defer close(s.out)
		for {
			payload, _, err := here.Read()
			if err != nil {
				return
			}
			s.out <- string(payload)
		}
	})
	return s
}

func (s *script) feed(text string) {
	var b jsonrpc.Burst
	b.Add([]byte(strings.ReplaceAll(text, "\n", " ")))
	if err := s.in.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

// await reads until a response with this id has arrived.
func (s *script) await(id string) {
	for line := range s.out {
		if strings.Contains(line, `"id":`+id) {
			return
		}
	}
	s.t.Fatal("the agent has gone")
}

func (s *script) end() {
	s.in.Close()
	s.done.Wait()
}

const hello = `
> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}
< {"jsonrpc":"2.0","result":{"protocolVersion":1,"agentCapabilities":{"loadSession":false,"promptCapabilities":{"image":false,"audio":false,"embeddedContext":false},"mcpCapabilities":{"http":false,"sse":false},"sessionCapabilities":{"close":{}}},"authMethods":[],"agentInfo":{"name":"agent","version":"1"}},"id":0}
`

// fixed returns options of an agent whose session ids are predictable.
func fixed(o *editor.AgentOptions) *editor.AgentOptions {
	o.NewSession = func(context.Context, *editor.Session, *editor.NewSessionParams) (*editor.NewSessionResult, error) {
		return &editor.NewSessionResult{SessionID: "s"}, nil
	}
	return o
}

// TestWire checks the bytes of both sides.
func TestWire(t *testing.T) {
	begun := hello + `
> {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}
< {"jsonrpc":"2.0","result":{"sessionId":"s"},"id":1}`
	for _, c := range []struct{ name, script string }{
		{"a turn: updates, then the answer", begun + `
> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"you said hi"}}}}
< {"jsonrpc":"2.0","result":{"stopReason":"end_turn"},"id":2}`},
		{"the same id in flight in both directions", begun + `
> {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"ask"}]}}
< {"jsonrpc":"2.0","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","title":"Go?"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]},"id":1}
> {"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"y"}}}}
< {"jsonrpc":"2.0","result":{"stopReason":"end_turn"},"id":1}`},
		{"cancel: the prompt is answered, not an error", begun + `
> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"wait"}]}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"waiting"}}}}
> {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}
< {"jsonrpc":"2.0","result":{"stopReason":"cancelled"},"id":2}`},
		{"cancel of the request does the same", begun + `
> {"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"wait"}]}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"waiting"}}}}
> {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p"}}
< {"jsonrpc":"2.0","result":{"stopReason":"cancelled"},"id":"p"}`},
		{"a cancel that comes late cancels nothing", begun + `
> {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}
> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"you said hi"}}}}
< {"jsonrpc":"2.0","result":{"stopReason":"end_turn"},"id":2}`},
		{"close cancels the turn", begun + `
> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"wait"}]}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"waiting"}}}}
> {"jsonrpc":"2.0","id":3,"method":"session/close","params":{"sessionId":"s"}}
< {"jsonrpc":"2.0","result":{"stopReason":"cancelled"},"id":2}
< {"jsonrpc":"2.0","result":{},"id":3}
> {"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
< {"jsonrpc":"2.0","error":{"code":-32002,"message":"Session not found","data":{"sessionId":"s"}},"id":4}`},
		{"one turn at a time", begun + `
> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"wait"}]}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"waiting"}}}}
> {"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: the session already has a turn"},"id":3}`},
		{"a prompt whose method is written with an escape", begun + `
> {"jsonrpc":"2.0","id":2,"method":"session\/prompt","params":{"sessionId":"s","prompt":[]}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"you said "}}}}
< {"jsonrpc":"2.0","result":{"stopReason":"end_turn"},"id":2}`},
		{"no batches", `
> [{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}]
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`},
		{"no JSON, and the line after it", `
> {"jsonrpc":
< {"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}` + hello},
		{"not initialized", `
> {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: not initialized"},"id":1}`},
		{"a version that is not spoken is answered with the one that is", `
> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":7}}
< {"jsonrpc":"2.0","result":{"protocolVersion":1,"agentCapabilities":{"loadSession":false,"promptCapabilities":{"image":false,"audio":false,"embeddedContext":false},"mcpCapabilities":{"http":false,"sse":false},"sessionCapabilities":{"close":{}}},"authMethods":[],"agentInfo":{"name":"agent","version":"1"}},"id":0}`},
		{"malformed params", begun + `
> {"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: protocolVersion is missing"},"id":2}
> {"jsonrpc":"2.0","id":3,"method":"session/new","params":{"mcpServers":[]}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: cwd is missing"},"id":3}
> {"jsonrpc":"2.0","id":4,"method":"session/prompt","params":["s"]}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: params must be an object"},"id":4}
> {"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"sessionId":"s","prompt":"hi"}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: session/prompt is malformed"},"id":5}
> {"jsonrpc":"2.0","id":6,"method":"session/prompt","params":{"sessionId":"s","sessionId":"s","prompt":[]}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: session/prompt is malformed"},"id":6}
> {"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"you said "}}}}
< {"jsonrpc":"2.0","result":{"stopReason":"end_turn"},"id":7}`},
		{"what is not offered is no method", begun + `
> {"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"x","cwd":"/","mcpServers":[]}}
< {"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":2}
> {"jsonrpc":"2.0","id":3,"method":"session/set_mode","params":{"sessionId":"s","modeId":"x"}}
< {"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":3}
> {"jsonrpc":"2.0","id":4,"method":"_acme/x","params":{}}
< {"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":4}
> {"jsonrpc":"2.0","method":"$/whatever","params":{}}
> {"jsonrpc":"2.0","method":"_acme/y"}
> {"jsonrpc":"2.0","id":5,"method":"logout","params":{}}
< {"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":5}`},
		{"an error of the agent stays here", begun + `
> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"fail"}]}}
< {"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":2}
> {"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"panic"}]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := dialWire(t, fixed(prompting(func(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
				switch t.Text() {
				case "wait":
					if err := t.Say(ctx, "waiting"); err != nil {
						return "", err
					}
					<-ctx.Done()
					return "", ctx.Err()
				case "ask":
					r, err := t.RequestPermission(ctx, editor.ToolCall{ID: "t", Title: "Go?"}, editor.PermissionOption{ID: "y", Name: "Yes", Kind: editor.AllowOnce})
					if err != nil {
						return "", err
					}
					return "", t.Say(ctx, r.Outcome.OptionID)
				case "fail":
					return "", errors.New("password tulip")
				case "panic":
					panic("tulip")
				}
				return "", t.Say(ctx, "you said "+t.Text())
			})))
			w.play(c.script)
		})
	}
}

// TestPanicEndsTheTurn checks that the session remains usable after a panic.
func TestPanicEndsTheTurn(t *testing.T) {
	c := pair(t, prompting(func(_ context.Context, t *editor.Turn) (editor.StopReason, error) {
		if t.Text() == "panic" {
			panic("tulip")
		}
		return "", nil
	}), nil)
	id := session(t, c)
	if _, err := c.Prompt(t.Context(), say(id, "panic"), nil); !errors.Is(err, jsonrpc.ErrInternal) {
		t.Errorf("Prompt = %v", err)
	}
	if end, err := c.Prompt(t.Context(), say(id, "more"), nil); err != nil || end.StopReason != editor.EndTurn {
		t.Errorf("Prompt = %v, %v", end, err)
	}
}

// TestCancelRightBehindThePrompt checks that a cancel that directly follows a prompt always applies
// to it, and never to the next one.
func TestCancelRightBehindThePrompt(t *testing.T) {
	var runs atomic.Int32
	w := dialWire(t, fixed(prompting(func(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
		runs.Add(1)
		if t.Text() == "wait" {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "", nil
	})))
	w.play(hello + `
> {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}
< {"jsonrpc":"2.0","result":{"sessionId":"s"},"id":1}`)
	for i := range 200 {
		// One write, so that all three messages may be read at once.
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"wait"}]}}
{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`, 10+i))
		w.want(fmt.Sprintf(`{"jsonrpc":"2.0","result":{"stopReason":"cancelled"},"id":%d}`, 10+i))
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}
{"jsonrpc":"2.0","id":"n%d","method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"now"}]}}`, i))
		w.want(fmt.Sprintf(`{"jsonrpc":"2.0","result":{"stopReason":"end_turn"},"id":"n%d"}`, i))
	}
	if runs.Load() != 400 {
		t.Errorf("%d turns", runs.Load())
	}
}

// TestAfterTheAnswer checks that the response with a session's id is sent before updates about it.
func TestAfterTheAnswer(t *testing.T) {
	o := fixed(&editor.AgentOptions{})
	begin := o.NewSession
	o.NewSession = func(ctx context.Context, s *editor.Session, p *editor.NewSessionParams) (*editor.NewSessionResult, error) {
		s.After(func(s *editor.Session) { _ = s.Say(context.Background(), "welcome") })
		return begin(ctx, s, p)
	}
	w := dialWire(t, o)
	w.play(hello)
	for i := range 100 {
		w.play(fmt.Sprintf(`
> {"jsonrpc":"2.0","id":%d,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}
< {"jsonrpc":"2.0","result":{"sessionId":"s"},"id":%[1]d}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"welcome"}}}}`, i))
	}
}

// TestUpdatesOfANewSessionWait checks that a client delivers an update only after the response with
// the id of its session.
func TestUpdatesOfANewSessionWait(t *testing.T) {
	told := make(chan string, 1000)
	var c *editor.Client
	o := &editor.AgentOptions{NewSession: func(_ context.Context, s *editor.Session, _ *editor.NewSessionParams) (*editor.NewSessionResult, error) {
		s.After(func(s *editor.Session) { _ = s.Say(context.Background(), "welcome") })
		return nil, nil
	}}
	c = pair(t, o, &editor.ClientOptions{OnUpdate: func(p *editor.UpdateParams) {
		if !c.Knows(p.SessionID) {
			t.Errorf("an update about %s, which has no answer yet", p.SessionID)
		}
		told <- p.SessionID
	}})
	for range 100 {
		id := session(t, c)
		if got := <-told; got != id {
			t.Fatalf("told about %s, the session is %s", got, id)
		}
	}
}

// TestOrder checks that all updates of a turn were delivered when Prompt returns, and that requests
// of the agent are handled after the updates before them.
func TestOrder(t *testing.T) {
	var mu sync.Mutex
	var log []string
	note := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, line)
	}
	c := pair(t, prompting(func(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
		for i := range 300 {
			if err := t.Say(ctx, fmt.Sprint(i)); err != nil {
				return "", err
			}
			if i%100 == 50 {
				if _, err := t.ReadTextFile(ctx, "/a", 0, 0); err != nil {
					return "", err
				}
			}
		}
		return "", nil
	}), &editor.ClientOptions{ReadTextFile: func(context.Context, *editor.ReadTextFileParams) (string, error) {
		note("read")
		return "", nil
	}})
	id := session(t, c)
	for range 5 {
		log = nil
		if _, err := c.Prompt(t.Context(), say(id, "go"), func(u *editor.Update) error {
			note(u.Text())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 300 {
			want = append(want, fmt.Sprint(i))
			if i%100 == 50 {
				want = append(want, "read")
			}
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
	}
}

// TestNothingIsAskedThatIsNotOffered checks that each request of an agent fails if the client does
// not support it.
func TestNothingIsAskedThatIsNotOffered(t *testing.T) {
	c := pair(t, prompting(func(ctx context.Context, turn *editor.Turn) (editor.StopReason, error) {
		_, read := turn.ReadTextFile(ctx, "/a", 0, 0)
		_, term := turn.CreateTerminal(ctx, editor.CreateTerminalParams{Command: "ls"})
		_, elicit := turn.Elicit(ctx, &editor.ElicitParams{Mode: editor.ElicitForm})
		for what, err := range map[string]error{"read": read, "write": turn.WriteTextFile(ctx, "/a", ""), "terminal": term, "elicit": elicit} {
			if !errors.Is(err, editor.ErrNotSupported) {
				t.Errorf("%s: %v", what, err)
			}
		}
		options := []editor.PermissionOption{{ID: "y", Name: "Yes", Kind: editor.AllowOnce}, {ID: "n", Name: "No", Kind: editor.RejectOnce}}
		r, err := turn.RequestPermission(ctx, editor.ToolCall{ID: "t"}, options...)
		if err != nil || r.Outcome.OptionID != "n" || r.Allowed(options) {
			t.Errorf("permission: %+v, %v", r, err)
		}
		for method, params := range map[string]any{editor.MethodReadTextFile: editor.ReadTextFileParams{}, editor.MethodCreateTerminal: editor.CreateTerminalParams{}} {
			if err := turn.Call(ctx, method, params, nil); !errors.Is(err, jsonrpc.ErrMethodNotFound) {
				t.Errorf("%s all the same: %v", method, err)
			}
		}
		return "", nil
	}), nil)
	if _, err := c.Prompt(t.Context(), say(session(t, c), "go"), nil); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"logout": c.Logout(t.Context()),
		"delete": c.DeleteSession(t.Context(), "x"),
	} {
		if !errors.Is(err, editor.ErrNotSupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.LoadSession(t.Context(), &editor.LoadSessionParams{}, nil); !errors.Is(err, editor.ErrNotSupported) {
		t.Errorf("load: %v", err)
	}
}

func TestMissingFile(t *testing.T) {
	c := pair(t, prompting(func(ctx context.Context, turn *editor.Turn) (editor.StopReason, error) {
		_, err := turn.ReadTextFile(ctx, "/a", 2, 3)
		if !errors.Is(err, editor.ErrResourceNotFound) {
			t.Errorf("read: %v", err)
		}
		return "", nil
	}), &editor.ClientOptions{ReadTextFile: func(_ context.Context, p *editor.ReadTextFileParams) (string, error) {
		if p.Line != 2 || p.Limit != 3 {
			t.Errorf("asked for %+v", p)
		}
		return "", fmt.Errorf("open: %w", fs.ErrNotExist)
	}})
	if _, err := c.Prompt(t.Context(), say(session(t, c), "go"), nil); err != nil {
		t.Fatal(err)
	}
}

func TestAnotherVersion(t *testing.T) {
	here, there := inproc.Pipe(nil)
	conn := jsonrpc.NewConn(there)
	conn.Handler = jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		return editor.InitializeResult{ProtocolVersion: 2}, nil
	})
	conn.Start(t.Context())
	defer conn.Close()
	if _, err := editor.Connect(t.Context(), here, editor.Implementation{}, nil); !errors.Is(err, editor.ErrVersion) {
		t.Errorf("Connect = %v", err)
	}
}
