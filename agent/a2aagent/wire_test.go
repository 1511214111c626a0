package a2aagent_test

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/agenttest"
	"github.com/da1ed7bb/parley/jsonrpc"
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
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
}

// lines returns the JSON texts of values, one per line.
func lines[T any](values []T) string {
	var b strings.Builder
	for _, v := range values {
		b.Write(agent.Metadata{}.With("", v)[""])
		b.WriteByte('\n')
	}
	return b.String()
}

// send sends a text and returns the resulting task.
func send(t *testing.T, c *a2a.Client, m *a2a.Message) *a2a.Task {
	t.Helper()
	e, err := c.Send(t.Context(), &a2a.SendRequest{Message: m})
	if err != nil || e.Task == nil {
		t.Fatalf("Send = %+v, %v", e, err)
	}
	return e.Task
}

// Each kind of part is written on the wire as other implementations of this protocol expect it, in
// the artifact of its name.
func TestContentOnTheWire(t *testing.T) {
	c := serve(t, &agent.Agent{Card: agenttest.Card(), Run: func(ctx context.Context, r *agent.Run) error { return r.Emit(ctx, agenttest.Parts()...) }}, a2a.V10)
	golden(t, lines(send(t, c, a2a.UserMessage(a2a.Text("go"))).Artifacts))
}

// How tasks end on the wire for plain clients.
func TestStatesOnTheWire(t *testing.T) {
	c := serve(t, &agent.Agent{Card: agenttest.Card(), Run: func(ctx context.Context, r *agent.Run) error {
		switch r.Text() {
		case "fail":
			return agent.Errorf("no luck")
		case "refuse":
			return agent.Refusef("not me")
		case "stop":
			return agent.ErrCancelled
		case "ask":
			_, err := r.Confirm(ctx, "May I?")
			return err
		case "login":
			_, err := r.Ask(ctx, &agent.Question{Text: "Who are you?", Auth: true})
			return err
		}
		return nil
	}}, a2a.V10)
	for ask, want := range map[string]string{
		"do":     `TASK_STATE_COMPLETED`,
		"fail":   `TASK_STATE_FAILED [{"text":"no luck"}]`,
		"refuse": `TASK_STATE_REJECTED [{"text":"not me"}]`,
		"stop":   `TASK_STATE_CANCELED [{"text":""}]`,
		"login":  `TASK_STATE_AUTH_REQUIRED [{"text":"Who are you?"}]`,
		"ask": `TASK_STATE_INPUT_REQUIRED [{"metadata":{"parley/question":{"text":"","options":[{"id":"allow","name":"Yes","kind":"allow_once"},` +
			`{"id":"reject","name":"No","kind":"reject_once"}]}},"text":"May I?"},{"metadata":{"parley/choices":true},"text":"1 Yes, 2 No"}]`,
	} {
		task := send(t, c, a2a.UserMessage(a2a.Text(ask)))
		got := string(task.Status.State)
		if m := task.Status.Message; m != nil {
			got += " " + strings.TrimSpace(lines([][]a2a.Part{m.Parts}))
		}
		if canonical(t, got) != canonical(t, want) {
			t.Errorf("%s:\n got %s\nwant %s", ask, got, want)
		}
	}
}

// canonical sorts the members of the JSON after the state.
func canonical(t *testing.T, text string) string {
	t.Helper()
	state, rest, ok := strings.Cut(text, " ")
	if !ok {
		return text
	}
	var parts []map[string]jsonrpc.Raw
	if err := jsonrpc.Raw(rest).Decode(&parts); err != nil {
		t.Fatal(err)
	}
	return state + lines([][]map[string]jsonrpc.Raw{parts})
}

// Output of another implementation's agent is converted without loss.
func TestForeignAgent(t *testing.T) {
	card := a2a.AgentCard{Name: "Foreign Agent", Description: "Knows no seam.", Version: "3", DocumentationURL: "https://example.org", DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities: a2a.AgentCapabilities{Streaming: true}, Skills: []a2a.AgentSkill{{ID: "x", Name: "X", Description: "Does x.", Tags: []string{"t"}, InputModes: []string{"image/png"}}}}
	s := a2a.NewServer(card, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		switch r.Message.Text() {
		case "small talk":
			return r.Reply(ctx, a2a.Text("Hi!"))
		case "replace":
			for _, text := range []string{"old", "new"} {
				if err := r.Artifact(ctx, a2a.Artifact{ArtifactID: "a1", Name: "result", Description: "about", Parts: []a2a.Part{a2a.Text(text)}}); err != nil {
					return err
				}
			}
			return r.Reply(ctx, a2a.Text("Done."))
		}
		if err := r.Working(ctx, a2a.Text("halfway")); err != nil {
			return err
		}
		if err := r.Update(ctx, a2a.StateWorking, a2a.Metadata{}.With("example.org/heat", 3)); err != nil {
			return err
		}
		answer, err := r.Ask(ctx, a2a.Text("Sure?"), a2a.Data(map[string]int{"n": 1}))
		if err != nil {
			return err
		}
		return a2a.Reject("you said " + answer.Text())
	}), nil)
	c := a2aagent.Client(connect(t, s), nil)
	defer s.Close()
	cards, err := c.Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var about a2a.AgentCard
	if !cards[0].Metadata.Get("a2a/card", &about) || about.DocumentationURL != "https://example.org" || cards[0].Name != "Foreign Agent" || cards[0].Skills[0].Metadata["a2a/skill"] == nil {
		t.Errorf("the card is %+v", cards[0])
	}
	if back := a2aagent.Card(&cards[0]); back.DocumentationURL != card.DocumentationURL || len(back.Skills) != 1 || back.Skills[0].InputModes[0] != "image/png" {
		t.Errorf("written again, it is %+v", back)
	}

	r, err := c.Run(t.Context(), &agent.Request{Input: agent.Prompt("small talk")}, nil)
	if err != nil || r.String() != "Hi!" || r.State != agent.Completed {
		t.Errorf("a message for an answer: %+v, %v", r, err)
	}

	r, err = c.Run(t.Context(), &agent.Request{Input: agent.Prompt("replace")}, agent.Funcs{OnEvent: func(_ context.Context, e agent.Event) error {
		if e.Kind == agent.EventOutput && agent.TextOf(e.Parts) == "new" && e.Metadata["a2a/replaces"] == nil {
			t.Errorf("nothing says that it replaces: %+v", e)
		}
		return nil
	}})
	if err != nil || r.String() != "oldnewDone." {
		t.Errorf("artifacts: %q, %v", r, err)
	}

	var events []agent.Event
	r, err = c.Run(t.Context(), &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{
		OnEvent: func(_ context.Context, e agent.Event) error {
			if e.Kind != agent.EventStarted {
				events = append(events, e)
			}
			return nil
		},
		OnAsk: func(_ context.Context, q *agent.Question) (*agent.Answer, error) {
			if q.Text != "Sure?" || len(q.Parts) != 1 || string(q.Parts[0].JSON) != `{"n":1}` {
				t.Errorf("asked %+v", q)
			}
			return agent.Choose("perhaps"), nil
		},
	})
	if err == nil || err.Error() != "you said perhaps" || r.State != agent.Rejected {
		t.Errorf("Run = %+v, %v", r, err)
	}
	if len(events) != 2 || events[0].Kind != agent.EventProgress || events[0].Progress.Message != "halfway" ||
		events[1].Kind != agent.EventOther || string(events[1].Metadata["example.org/heat"]) != "3" {
		t.Errorf("events %+v", events)
	}
}
