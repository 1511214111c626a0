package editoragent_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/agenttest"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

var update = flag.Bool("update", false, "rewrite testdata/content.jsonl")

// golden compares the wire traffic with the golden file.
func golden(t *testing.T, got string) {
	t.Helper()
	const name = "testdata/content.jsonl"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}

// open returns a plain client of an agent, which does not use package agent, and a session.
func open(t *testing.T, a *editor.Agent, o *editor.ClientOptions) (c *editor.Client, session string) {
	t.Helper()
	here, there := inproc.Pipe(nil)
	var serving sync.WaitGroup
	serving.Go(func() { _ = a.Serve(context.WithoutCancel(t.Context()), there) })
	c, err := editor.Connect(t.Context(), here, editor.Implementation{Name: "plain", Version: "1"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		serving.Wait()
	})
	s, err := c.NewSession(t.Context(), &editor.NewSessionParams{CWD: "/"})
	if err != nil {
		t.Fatal(err)
	}
	return c, s.SessionID
}

// prompt runs one turn and returns its updates, one per line.
func prompt(t *testing.T, c *editor.Client, session, text string) (updates string, end *editor.PromptResult, err error) {
	t.Helper()
	var b strings.Builder
	end, err = c.Prompt(t.Context(), &editor.PromptParams{SessionID: session, Prompt: []editor.Content{editor.Text(text)}}, func(u *editor.Update) error {
		out, err := u.AppendJSON(nil)
		b.Write(out)
		b.WriteByte('\n')
		return err
	})
	return b.String(), end, err
}

// Each kind of part is written on the wire as editors expect it.
func TestContentOnTheWire(t *testing.T) {
	c, session := open(t, editoragent.New(&agent.Agent{Card: agenttest.Card(), Run: func(ctx context.Context, r *agent.Run) error {
		if err := r.Progress(ctx, agent.Progress{Message: "looking", Done: 1, Total: 2}); err != nil {
			return err
		}
		return r.Emit(ctx, agenttest.Parts()...)
	}}, nil), nil)
	updates, end, err := prompt(t, c, session, "go")
	if err != nil || end.StopReason != editor.EndTurn {
		t.Fatalf("Prompt = %+v, %v", end, err)
	}
	golden(t, updates)
}

// How turns end on the wire for plain clients.
func TestStatesOnTheWire(t *testing.T) {
	run := func(ctx context.Context, r *agent.Run) error {
		switch r.Text() {
		case "fail":
			return agent.Errorf("no luck")
		case "refuse":
			return agent.Refusef("not me")
		case "stop":
			return agent.ErrCancelled
		case "ask":
			answer, err := r.Ask(ctx, &agent.Question{Text: "Which colour?"})
			if err != nil {
				return err
			}
			return r.Say(ctx, answer.Text())
		case "confirm":
			ok, err := r.Confirm(ctx, "May I?")
			if err != nil || !ok {
				return err
			}
			return r.Say(ctx, "I may")
		}
		return nil
	}
	c, session := open(t, editoragent.New(&agent.Agent{Card: agenttest.Card(), Run: run}, nil), &editor.ClientOptions{
		Permission: func(_ context.Context, p *editor.PermissionParams) (*editor.PermissionResult, error) {
			if p.ToolCall.Title != "May I?" || len(p.Options) != 2 || p.Options[0].Kind != editor.AllowOnce {
				t.Errorf("asked %+v", p)
			}
			return editor.Select(p.Options[0].ID), nil
		},
	})
	say := func(text, about string) string {
		return `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"` + about + "}\n"
	}
	for _, c1 := range []struct {
		ask, updates string
		end          editor.StopReason
	}{
		{"do", "", editor.EndTurn},
		{"refuse", say("not me", `},"_meta":{"parley/result":true}`), editor.Refusal},
		{"stop", "", editor.Cancelled},
		{"confirm", say("I may", "}"), editor.EndTurn},
		// Without forms the question ends the turn.
		{"ask", say("Which colour?", `,"_meta":{"parley/question":true}},"_meta":{"parley/question":true}`), editor.EndTurn},
		{"blue", say("blue", "}"), editor.EndTurn}, // and the next prompt is the answer
	} {
		updates, end, err := prompt(t, c, session, c1.ask)
		if err != nil || end.StopReason != c1.end {
			t.Errorf("%s: %+v, %v", c1.ask, end, err)
		}
		if diff := cmp.Diff(c1.updates, updates); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c1.ask, diff)
		}
	}
	_, _, err := prompt(t, c, session, "fail")
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInternalError || e.Message != "no luck" {
		t.Errorf("fail: %v", err)
	}
}

// A session that is closed while its run waits for an answer ends the run.
func TestRunThatWaitsEndsWithItsSession(t *testing.T) {
	for _, how := range []string{"close", "hang up"} {
		ended := make(chan error, 1)
		c, session := open(t, editoragent.New(&agent.Agent{Card: agenttest.Card(), Run: func(ctx context.Context, r *agent.Run) error {
			_, err := r.Ask(ctx, &agent.Question{Text: "Which colour?"})
			ended <- context.Cause(ctx)
			return err
		}}, nil), nil)
		if _, _, err := prompt(t, c, session, "ask"); err != nil {
			t.Fatal(err)
		}
		var err error
		if how == "close" {
			err = c.CloseSession(t.Context(), session)
		} else {
			err = c.Close()
		}
		if cause := <-ended; err != nil || !errors.Is(cause, agent.ErrCancelled) {
			t.Errorf("%s: %v, the run ended with %v", how, err, cause)
		}
	}
}

// Output of another implementation's agent is converted without loss.
func TestForeignAgent(t *testing.T) {
	updates := []string{
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`,
		`{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"completed"},{"content":"b","priority":"low","status":"in_progress"}]}`,
		`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Look","kind":"read"}`,
		`{"sessionUpdate":"_acme/mood","mood":1}`,
	}
	foreign := editor.NewAgent(editor.Implementation{Name: "foreign", Title: "Foreign", Version: "3"}, &editor.AgentOptions{Prompt: func(ctx context.Context, turn *editor.Turn) (editor.StopReason, error) {
		for _, text := range updates {
			if err := turn.Update(ctx, &editor.Update{Raw: jsonrpc.Raw(text)}); err != nil {
				return "", err
			}
		}
		link := editor.LinkTo(editor.ResourceLink{Name: "A file", URI: "file:///a", MIMEType: "text/x-go"})
		if err := turn.Update(ctx, editor.Message(link)); err != nil {
			return "", err
		}
		options := []editor.PermissionOption{{ID: "a", Name: "Always", Kind: editor.AllowAlways}, {ID: "n", Name: "Never", Kind: editor.RejectAlways}}
		said, err := turn.RequestPermission(ctx, editor.ToolCall{ID: "t", Title: "Look at it?"}, options...)
		if err != nil {
			return "", err
		}
		form, err := turn.Elicit(ctx, &editor.ElicitParams{Mode: editor.ElicitForm, SessionID: turn.ID, Message: "How old?", RequestedSchema: &editor.Form{
			Type: "object", Properties: map[string]editor.Field{"age": {Type: "integer"}}}})
		if err != nil {
			return "", err
		}
		return editor.MaxTokens, turn.Say(ctx, said.Outcome.OptionID+" "+string(form.Content["age"]))
	}})
	here, there := inproc.Pipe(nil)
	var serving sync.WaitGroup
	serving.Go(func() { _ = foreign.Serve(context.WithoutCancel(t.Context()), there) })
	c, err := editoragent.Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer serving.Wait()
	defer c.Close()
	cards, err := c.Agents(t.Context())
	if err != nil || cards[0].Name != "foreign" || cards[0].Title != "Foreign" || cards[0].Version != "3" || cards[0].Metadata["editor/initialize"] == nil {
		t.Errorf("the card is %+v, %v", cards, err)
	}
	var other []string
	var steps []agent.Progress
	r, err := c.Run(t.Context(), &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{
		OnEvent: func(_ context.Context, e agent.Event) error {
			if e.Kind == agent.EventProgress {
				steps = append(steps, *e.Progress)
			}
			if e.Kind != agent.EventOutput && e.Kind != agent.EventStarted {
				other = append(other, string(e.Metadata["editor/update"]))
			}
			return nil
		},
		OnAsk: func(_ context.Context, q *agent.Question) (*agent.Answer, error) {
			switch q.Text {
			case "Look at it?":
				if len(q.Options) != 2 || q.Options[0] != (agent.Option{ID: "a", Name: "Always", Kind: agent.AllowAlways}) {
					t.Errorf("options %+v", q.Options)
				}
				return agent.Reply("always"), nil
			case "How old?":
				return agent.Reply("7"), nil
			}
			return nil, agent.ErrNoAnswer
		},
	})
	var reason string
	if err != nil || r.State != agent.Completed || !r.Metadata.Get("editor/stopReason", &reason) || reason != "max_tokens" {
		t.Errorf("Run = %+v, %v", r, err)
	}
	if diff := cmp.Diff(updates, other); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]agent.Progress{{Message: "b", Done: 1, Total: 2}}, steps); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if len(r.Output) != 2 || r.Output[0].URL != "file:///a" || r.Output[0].MediaType != "text/x-go" || r.Output[0].Metadata["editor/link"] == nil || r.Output[1].Text != "a 7" {
		t.Errorf("output %+v", r.Output)
	}
}

// An agent that is served to an editor may use the editor's files; with other callers it has none.
func TestTurn(t *testing.T) {
	a := &agent.Agent{Card: agenttest.Card(), Run: func(ctx context.Context, r *agent.Run) error {
		session := editoragent.Turn(r)
		if session == nil {
			return agent.Refusef("no editor")
		}
		text, err := session.ReadTextFile(ctx, "/a", 0, 0)
		if err != nil {
			return err
		}
		return r.Say(ctx, text)
	}}
	c, session := open(t, editoragent.New(a, nil), &editor.ClientOptions{
		ReadTextFile: func(_ context.Context, p *editor.ReadTextFileParams) (string, error) { return "text of " + p.Path, nil },
	})
	updates, _, err := prompt(t, c, session, "go")
	if want := `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"text of /a"}}` + "\n"; err != nil || updates != want {
		t.Errorf("%s, %v", updates, err)
	}
	if _, err := agent.Local(a).Run(t.Context(), &agent.Request{Input: agent.Prompt("go")}, nil); err == nil || err.Error() != "no editor" {
		t.Errorf("without an editor: %v", err)
	}
}
