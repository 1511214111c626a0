// Package tourist is the agent that the Agent Client Protocol tests run against other clients. It
// uses every feature of an agent.
package tourist

import (
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options returns the options of the agent. Its prompts are "tour", "wait", "question" and "flood".
func Options() *editor.AgentOptions {
	model := func(current string) []editor.ConfigOption {
		return []editor.ConfigOption{editor.Choice("model", "Model", current, editor.ConfigValue{Value: "small", Name: "Small"}, editor.ConfigValue{Value: "big", Name: "Big"})}
	}
	return &editor.AgentOptions{
		Prompt:       prompt,
		Prompts:      editor.PromptCapabilities{Image: true},
		AuthMethods:  []editor.AuthMethod{{ID: "key", Name: "With a key"}},
		Authenticate: func(context.Context, *editor.Editor, string) error { return nil },
		NewSession: func(_ context.Context, s *editor.Session, p *editor.NewSessionParams) (*editor.NewSessionResult, error) {
			s.After(func(s *editor.Session) {
				_ = s.Update(context.Background(), &editor.Update{Kind: editor.CommandsChanged, Commands: &editor.Commands{
					Available: []editor.Command{{Name: "tour", Description: "Shows everything"}}}})
			})
			return &editor.NewSessionResult{
				Modes:         &editor.Modes{CurrentModeID: "ask", AvailableModes: []editor.Mode{{ID: "ask", Name: "Ask"}, {ID: "code", Name: "Code", Description: p.CWD}}},
				ConfigOptions: model("small"),
			}, nil
		},
		LoadSession: func(ctx context.Context, s *editor.Session, _ *editor.LoadSessionParams) (*editor.LoadSessionResult, error) {
			if err := s.Update(ctx, &editor.Update{Kind: editor.UserMessageChunk, Chunk: &editor.Chunk{Content: editor.Text("before")}}); err != nil {
				return nil, err
			}
			return nil, s.Say(ctx, "as well")
		},
		ResumeSession: func(context.Context, *editor.Session, *editor.LoadSessionParams) (*editor.LoadSessionResult, error) {
			return nil, nil
		},
		DeleteSession: func(context.Context, *editor.Editor, string) error { return nil },
		ListSessions: func(_ context.Context, _ *editor.Editor, p *editor.ListSessionsParams) (*editor.ListSessionsResult, error) {
			return &editor.ListSessionsResult{Sessions: []editor.SessionInfo{{SessionID: "old", CWD: p.CWD, Title: "an old one"}}}, nil
		},
		SetMode: func(_ context.Context, _ *editor.Session, mode string) error {
			if mode != "ask" && mode != "code" {
				return jsonrpc.ErrInvalidParams
			}
			return nil
		},
		SetConfigOption: func(_ context.Context, _ *editor.Session, p *editor.SetConfigOptionParams) (*editor.SetConfigOptionResult, error) {
			var value string
			if err := p.Value.Decode(&value); err != nil {
				return nil, jsonrpc.ErrInvalidParams
			}
			return &editor.SetConfigOptionResult{ConfigOptions: model(value)}, nil
		},
		Extension: func(ctx context.Context, e *editor.Editor, req *jsonrpc.Request) (any, error) {
			if req.Method != "_tour/ask" {
				return nil, jsonrpc.ErrMethodNotFound
			}
			var answer jsonrpc.Raw
			if err := e.Call(ctx, "_tour/answer", req.Params, &answer); err != nil {
				return nil, err
			}
			return map[string]jsonrpc.Raw{"answer": answer}, nil
		},
	}
}

func prompt(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
	switch t.Text() {
	case "wait":
		if err := t.Say(ctx, "waiting"); err != nil {
			return "", err
		}
		<-ctx.Done()
		return "", ctx.Err()
	case "question":
		_, err := t.RequestPermission(ctx, editor.ToolCall{ID: "q", Title: "May I?"}, editor.PermissionOption{ID: "y", Name: "Yes", Kind: editor.AllowOnce})
		return "", err
	case "flood":
		for i := range 1000 {
			if err := t.Say(ctx, fmt.Sprintf("%d ", i)); err != nil {
				return "", err
			}
		}
		return editor.MaxTokens, nil
	}
	return tour(ctx, t)
}

func tour(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
	const notes = "/tour/notes.txt"
	line := 1
	for _, u := range []*editor.Update{
		editor.Thought("hm"),
		editor.MakePlan(editor.PlanEntry{Content: "look around", Priority: "high", Status: editor.StatusInProgress}),
		editor.StartTool(editor.ToolCall{ID: "edit", Title: "Edit the notes", Kind: editor.ToolEdit, Status: editor.StatusPending,
			Locations: []editor.ToolLocation{{Path: notes, Line: &line}}}),
	} {
		if err := t.Update(ctx, u); err != nil {
			return "", err
		}
	}
	text, err := t.ReadTextFile(ctx, notes, 1, 1)
	if err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	options := []editor.PermissionOption{{ID: "no", Name: "No", Kind: editor.RejectOnce}, {ID: "yes", Name: "Yes", Kind: editor.AllowOnce}}
	answer, err := t.RequestPermission(ctx, editor.ToolCall{ID: "edit", Title: "Edit the notes"}, options...)
	if err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	if !answer.Allowed(options) {
		return editor.Refusal, nil
	}
	if err := t.WriteTextFile(ctx, notes, text+"!"); err != nil {
		return "", fmt.Errorf("write: %w", err)
	}
	done := editor.ToolCall{ID: "edit", Status: editor.StatusCompleted, Content: []editor.ToolContent{editor.Changed(editor.Diff{Path: notes, OldText: &text, NewText: text + "!"})}}
	if err := t.Update(ctx, editor.ChangeTool(done)); err != nil {
		return "", err
	}
	term, err := t.CreateTerminal(ctx, editor.CreateTerminalParams{Command: "echo", Args: []string{"hello"}})
	if err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	exit, err := term.Wait(ctx)
	if err != nil {
		return "", fmt.Errorf("wait: %w", err)
	}
	out, err := term.Output(ctx)
	if err != nil {
		return "", fmt.Errorf("output: %w", err)
	}
	if err := term.Release(ctx); err != nil {
		return "", fmt.Errorf("release: %w", err)
	}
	name, err := t.Elicit(ctx, &editor.ElicitParams{Mode: editor.ElicitForm, SessionID: t.ID, Message: "Your name?", RequestedSchema: &editor.Form{
		Type: "object", Properties: map[string]editor.Field{"name": {Type: "string"}}, Required: []string{"name"}}})
	called := "nobody"
	if err == nil {
		err = name.Content["name"].Decode(&called)
	}
	if err != nil && !errors.Is(err, editor.ErrNotSupported) {
		return "", fmt.Errorf("elicit: %w", err)
	}
	t.Result.Meta = editor.Meta{}.With("miles", 12)
	return editor.EndTurn, t.Say(ctx, fmt.Sprintf("%s %s %d %s", text, out.Output, *exit.ExitCode, called))
}
