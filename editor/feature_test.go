package editor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A house is an agent that supports everything, and records its requests.
type house struct {
	mu     sync.Mutex
	log    []string
	logged bool // a client has logged in
}

func (h *house) note(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, line)
}

func (h *house) options(t *testing.T) *editor.AgentOptions {
	return &editor.AgentOptions{
		AuthMethods: []editor.AuthMethod{{ID: "key", Name: "Key"}, {Type: editor.AuthTerminal, ID: "tty", Name: "Terminal", Args: []string{"--login"}, Env: map[string]string{"A": "b"}}},
		Authenticate: func(_ context.Context, e *editor.Editor, method string) error {
			if e.Info().Name != "client" {
				t.Errorf("the client is %+v", e.Info())
			}
			h.note("login " + method)
			h.logged = true
			return nil
		},
		Logout: func(context.Context, *editor.Editor) error { h.note("logout"); return nil },
		NewSession: func(_ context.Context, s *editor.Session, p *editor.NewSessionParams) (*editor.NewSessionResult, error) {
			if !h.logged {
				return nil, editor.ErrAuthRequired
			}
			h.note("new " + s.CWD + " " + p.MCPServers[0].Name + " " + strings.Join(p.AdditionalDirectories, ","))
			return &editor.NewSessionResult{Modes: &editor.Modes{CurrentModeID: "a", AvailableModes: []editor.Mode{{ID: "a", Name: "A"}}},
				ConfigOptions: []editor.ConfigOption{editor.Switch("fast", "Fast", false)}}, nil
		},
		LoadSession: func(ctx context.Context, s *editor.Session, p *editor.LoadSessionParams) (*editor.LoadSessionResult, error) {
			if p.SessionID == "gone" {
				return nil, editor.ErrResourceNotFound
			}
			return &editor.LoadSessionResult{}, s.Say(ctx, "before")
		},
		ResumeSession: func(context.Context, *editor.Session, *editor.LoadSessionParams) (*editor.LoadSessionResult, error) {
			return nil, nil
		},
		CloseSession:  func(_ context.Context, s *editor.Session) error { h.note("close " + s.ID); return nil },
		DeleteSession: func(_ context.Context, _ *editor.Editor, id string) error { h.note("delete " + id); return nil },
		ListSessions: func(_ context.Context, _ *editor.Editor, p *editor.ListSessionsParams) (*editor.ListSessionsResult, error) {
			if p.Cursor == "" {
				return &editor.ListSessionsResult{Sessions: []editor.SessionInfo{{SessionID: "old", CWD: "/w", Title: "Old"}}, NextCursor: "2"}, nil
			}
			return nil, nil
		},
		SetMode: func(_ context.Context, _ *editor.Session, mode string) error { h.note("mode " + mode); return nil },
		SetConfigOption: func(_ context.Context, _ *editor.Session, p *editor.SetConfigOptionParams) (*editor.SetConfigOptionResult, error) {
			return &editor.SetConfigOptionResult{ConfigOptions: []editor.ConfigOption{editor.Switch(p.ConfigID, "Fast", string(p.Value) == "true")}}, nil
		},
		Extension: func(ctx context.Context, e *editor.Editor, req *jsonrpc.Request) (any, error) {
			if req.IsNotification() {
				h.note(req.Method)
				return nil, e.Notify(ctx, "_acme/heard", map[string]int{"n": 1})
			}
			var out jsonrpc.Raw
			return &out, e.Call(ctx, "_acme/back", req.Params, &out)
		},
		Prompts: editor.PromptCapabilities{Image: true}, MCP: editor.MCPCapabilities{HTTP: true}, AdditionalDirectories: true,
		Capabilities: func(c *editor.AgentCapabilities) { c.Extra = editor.Meta{}.With("acme", true) },
		Meta:         editor.Meta{}.With("acme", "house"),
		Prompt:       h.prompt(t),
	}
}

// prompt returns a prompt function that makes every request that the client supports.
func (h *house) prompt(t *testing.T) func(context.Context, *editor.Turn) (editor.StopReason, error) {
	return func(ctx context.Context, turn *editor.Turn) (editor.StopReason, error) {
		if err := turn.WriteTextFile(ctx, "/w/a", "text"); err != nil {
			t.Errorf("write: %v", err)
		}
		term, err := turn.CreateTerminal(ctx, editor.CreateTerminalParams{Command: "ls", Env: []editor.Variable{{Name: "A", Value: "b"}}, CWD: "/w", OutputByteLimit: new(int64)})
		if err != nil {
			t.Fatalf("terminal: %v", err)
		}
		out, err := term.Output(ctx)
		if err != nil || out.Output != "out" || !out.Truncated || *out.ExitStatus.ExitCode != 3 {
			t.Errorf("output %+v, %v", out, err)
		}
		status, err := term.Wait(ctx)
		if err != nil || status.Signal != "KILL" {
			t.Errorf("status %+v, %v", status, err)
		}
		if err := errors.Join(term.Kill(ctx), term.Release(ctx)); err != nil {
			t.Error(err)
		}
		form := &editor.ElicitParams{Mode: editor.ElicitForm, SessionID: turn.ID, ToolCallID: "t", Message: "Who?", RequestedSchema: &editor.Form{Type: "object", Title: "You",
			Properties: map[string]editor.Field{
				"name":  {Type: "string", MinLength: new(int), Format: "email", Default: raw(`"a@b"`)},
				"age":   {Type: "integer", Minimum: new(float64)},
				"sure":  {Type: "boolean", Default: raw("true")},
				"size":  {Type: "string", OneOf: []editor.EnumOption{{Const: "s", Title: "Small"}}},
				"likes": {Type: "array", Items: &editor.Items{Type: "string", Enum: []string{"x", "y"}}},
			}, Required: []string{"name"}}}
		said, err := turn.Elicit(ctx, form)
		if err != nil || said.Action != editor.ActionAccept || string(said.Content["name"]) != `"c@d"` {
			t.Errorf("form %+v, %v", said, err)
		}
		said, err = turn.Elicit(ctx, &editor.ElicitParams{Mode: editor.ElicitURL, SessionID: turn.ID, Message: "Go there", ElicitationID: "e1", URL: "https://example.org"})
		if err != nil || said.Action != editor.ActionDecline {
			t.Errorf("url %+v, %v", said, err)
		}
		if err := turn.ElicitationDone(ctx, "e1"); err != nil {
			t.Error(err)
		}
		if _, err := turn.RequestPermission(ctx, editor.ToolCall{}); !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("a permission for nothing: %v", err)
		}
		for _, c := range []editor.Content{editor.Image("image/png", []byte{1}), editor.Audio("audio/wav", nil), editor.Embed(editor.ResourceContents{URI: "file:///x", Blob: []byte{2}}),
			editor.LinkTo(editor.ResourceLink{Name: "n", URI: "file:///n"})} {
			if err := turn.Update(ctx, editor.Message(c)); err != nil {
				t.Error(err)
			}
		}
		tool := editor.StartTool(editor.ToolCall{ID: "t", Title: "T", Content: []editor.ToolContent{editor.Shown(editor.Text("x")), {Kind: editor.ShowTerminal, TerminalID: term.ID}}})
		return editor.MaxTurnRequests, errors.Join(turn.Update(ctx, tool), turn.Update(ctx, editor.Thought("hm")))
	}
}

// shellOf is a Terminals implementation that runs nothing.
type shellOf struct{ h *house }

func (s shellOf) Create(_ context.Context, p *editor.CreateTerminalParams) (*editor.CreateTerminalResult, error) {
	return &editor.CreateTerminalResult{TerminalID: "t-" + p.Command}, nil
}

func (s shellOf) Output(context.Context, *editor.TerminalParams) (*editor.TerminalOutputResult, error) {
	code := 3
	return &editor.TerminalOutputResult{Output: "out", Truncated: true, ExitStatus: &editor.ExitStatus{ExitCode: &code}}, nil
}

func (s shellOf) Wait(context.Context, *editor.TerminalParams) (*editor.ExitStatus, error) {
	return &editor.ExitStatus{Signal: "KILL"}, nil
}

func (s shellOf) Kill(_ context.Context, p *editor.TerminalParams) error {
	s.h.note("kill " + p.TerminalID)
	return nil
}

func (s shellOf) Release(_ context.Context, p *editor.TerminalParams) error {
	s.h.note("release " + p.TerminalID)
	return nil
}

// TestEverything uses each feature once, and validates every message against the schema.
func TestEverything(t *testing.T) {
	h := &house{}
	heard := make(chan string, 10)
	c := pair(t, h.options(t), &editor.ClientOptions{
		WriteTextFile: func(_ context.Context, p *editor.WriteTextFileParams) error { h.note("write " + p.Path); return nil },
		Terminals:     shellOf{h},
		ElicitURL:     true,
		Elicit: func(_ context.Context, p *editor.ElicitParams) (*editor.ElicitResult, error) {
			if p.Mode == editor.ElicitURL {
				h.note("visit " + p.URL)
				return &editor.ElicitResult{Action: editor.ActionDecline}, nil
			}
			return &editor.ElicitResult{Action: editor.ActionAccept, Content: map[string]jsonrpc.Raw{"name": raw(`"c@d"`), "likes": raw(`["x"]`)}}, nil
		},
		OnElicitationDone: func(id string) { h.note("done " + id) },
		Extension: func(_ context.Context, req *jsonrpc.Request) (any, error) {
			if req.IsNotification() {
				heard <- req.Method
				return nil, nil
			}
			return map[string]jsonrpc.Raw{"back": req.Params}, nil
		},
		Capabilities: func(c *editor.ClientCapabilities) {
			c.Auth, c.Session = &editor.ClientAuthCapabilities{Terminal: true}, &editor.ClientSessionCapabilities{Notices: &editor.Mark{}}
		},
		Meta: editor.Meta{}.With("acme", 1),
	})
	ctx := t.Context()
	in := c.Agent()
	var name string
	if len(in.AuthMethods) != 2 || !in.AgentCapabilities.LoadSession || in.AgentCapabilities.Extra["acme"] == nil || !in.Meta.Get("acme", &name) || name != "house" ||
		!in.AgentCapabilities.PromptCapabilities.Image || !in.AgentCapabilities.MCPCapabilities.HTTP || in.AgentCapabilities.SessionCapabilities.AdditionalDirectories == nil {
		t.Errorf("the agent says %+v", in)
	}
	params := &editor.NewSessionParams{CWD: "/w", AdditionalDirectories: []string{"/x"}, MCPServers: []editor.MCPServer{{Name: "m", Command: "/m"}}}
	if _, err := c.NewSession(ctx, params); !errors.Is(err, editor.ErrAuthRequired) {
		t.Errorf("NewSession = %v", err)
	}
	for method, want := range map[string]error{"smile": jsonrpc.ErrInvalidParams, "tty": jsonrpc.ErrInvalidParams, "key": nil} {
		if err := c.Authenticate(ctx, method); !errors.Is(err, want) {
			t.Errorf("Authenticate(%s) = %v", method, err)
		}
	}
	s, err := c.NewSession(ctx, params)
	if err != nil || s.Modes.CurrentModeID != "a" || s.ConfigOptions[0].ID != "fast" || !c.Knows(s.SessionID) {
		t.Fatalf("NewSession = %+v, %v", s, err)
	}
	if err := c.SetMode(ctx, s.SessionID, "a"); err != nil {
		t.Error(err)
	}
	if err := c.SetMode(ctx, s.SessionID, ""); !errors.Is(err, jsonrpc.ErrInvalidParams) {
		t.Errorf("no mode: %v", err)
	}
	if err := c.SetMode(ctx, "nobody", "a"); !errors.Is(err, editor.ErrResourceNotFound) {
		t.Errorf("no session: %v", err)
	}
	if options, err := c.SetConfigOption(ctx, s.SessionID, "fast", true); err != nil || string(options[0].CurrentValue) != "true" {
		t.Errorf("SetConfigOption = %+v, %v", options, err)
	}
	var kinds []string
	end, err := c.Prompt(ctx, say(s.SessionID, "all"), func(u *editor.Update) error {
		kinds = append(kinds, u.Kind)
		return nil
	})
	if err != nil || end.StopReason != editor.MaxTurnRequests {
		t.Errorf("Prompt = %+v, %v", end, err)
	}
	message := editor.AgentMessageChunk
	if diff := cmp.Diff([]string{message, message, message, message, editor.ToolCallStarted, editor.AgentThoughtChunk}, kinds); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
	page, err := c.ListSessions(ctx, &editor.ListSessionsParams{CWD: "/w"})
	if err != nil || page.Sessions[0].Title != "Old" || page.NextCursor != "2" {
		t.Errorf("ListSessions = %+v, %v", page, err)
	}
	if page, err = c.ListSessions(ctx, &editor.ListSessionsParams{Cursor: "2"}); err != nil || len(page.Sessions) != 0 {
		t.Errorf("ListSessions = %+v, %v", page, err)
	}
	var told []string
	old := &editor.LoadSessionParams{SessionID: "old", CWD: "/w"}
	if _, err := c.LoadSession(ctx, old, func(u *editor.Update) error { told = append(told, u.Text()); return nil }); err != nil || !slices.Equal(told, []string{"before"}) {
		t.Errorf("LoadSession: %q, %v", told, err)
	}
	if _, err := c.LoadSession(ctx, &editor.LoadSessionParams{SessionID: "gone", CWD: "/w"}, nil); !errors.Is(err, editor.ErrResourceNotFound) {
		t.Errorf("LoadSession = %v", err)
	}
	if _, err := c.Prompt(ctx, say("gone", "x"), nil); !errors.Is(err, editor.ErrResourceNotFound) {
		t.Errorf("a session that could not be loaded: %v", err)
	}
	if _, err := c.ResumeSession(ctx, &editor.LoadSessionParams{SessionID: "older", CWD: "/w"}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.CloseSession(ctx, "older"), c.DeleteSession(ctx, "old"), c.Logout(ctx)); err != nil || c.Knows("older") {
		t.Error(err)
	}
	var out struct {
		Back map[string]int `json:"back"`
	}
	if err := c.Call(ctx, "_acme/ask", map[string]int{"n": 2}, &out); err != nil || out.Back["n"] != 2 {
		t.Errorf("an extension: %+v, %v", out, err)
	}
	if err := c.Notify(ctx, "_acme/tell", map[string]int{"n": 3}); err != nil {
		t.Error(err)
	}
	if got := <-heard; got != "_acme/heard" {
		t.Errorf("heard %s", got)
	}
	want := []string{"login key", "new /w m /x", "mode a", "write /w/a", "kill t-ls", "release t-ls", "visit https://example.org", "done e1", "close older", "delete old", "logout", "_acme/tell"}
	if diff := cmp.Diff(want, h.log); diff != "" {
		t.Errorf("what was asked (-want +got):\n%s", diff)
	}
}
