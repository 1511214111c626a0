package acpagent_test

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/agenttest"
)

// lines returns the JSON texts of values, one per line.
func lines[T any](t *testing.T, values []T) string {
	t.Helper()
	var b strings.Builder
	for _, v := range values {
		b.Write(agent.Metadata{}.With("", v)[""])
		b.WriteByte('\n')
	}
	return b.String()
}

// Each kind of part is written on the wire as other implementations of this protocol expect it.
func TestContentOnTheWire(t *testing.T) {
	c := serve(t, &agent.Agent{Card: agenttest.Card(), Run: func(ctx context.Context, r *agent.Run) error { return r.Emit(ctx, agenttest.Parts()...) }})
	run, err := c.Run(t.Context(), acp.RunCreateRequest{AgentName: "tester", Input: acp.Ask("go")})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, lines(t, run.Output[0].Parts))
}

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
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// How runs end on the wire for plain clients.
func TestStatesOnTheWire(t *testing.T) {
	c := serve(t, &agent.Agent{Card: agenttest.Card(), Run: func(ctx context.Context, r *agent.Run) error {
		switch r.Text() {
		case "fail":
			return agent.Errorf("no luck")
		case "refuse":
			return agent.Refusef("not me")
		case "ask":
			_, err := r.Confirm(ctx, "May I?")
			return err
		}
		return nil
	}})
	for ask, want := range map[string]string{
		"do":     `completed`,
		"fail":   `failed {"code":"server_error","message":"no luck"}`,
		"refuse": `failed {"code":"server_error","message":"not me","data":{"parley/result":{"state":"rejected"}}}`,
		"ask": `awaiting {"type":"message","message":{"role":"agent/tester","parts":[{"content_type":"text/plain","content":"May I?"},{"content_type":"text/plain","content":"1 Yes, 2 No","parley/choices":true}],` +
			`"parley/question":{"text":"","options":[{"id":"allow","name":"Yes","kind":"allow_once"},{"id":"reject","name":"No","kind":"reject_once"}]}}}`,
	} {
		run, err := c.Run(t.Context(), acp.RunCreateRequest{AgentName: "tester", Input: acp.Ask(ask)})
		if err != nil {
			t.Fatal(err)
		}
		got := string(run.Status)
		if run.Error != nil {
			got += " " + strings.TrimSpace(lines(t, []*acp.Error{run.Error}))
		}
		if q := run.AwaitRequest; q != nil {
			m := *q.Message
			m.CreatedAt, m.CompletedAt = m.CompletedAt.UTC(), m.CompletedAt.UTC()
			m = acp.Message{Role: m.Role, Parts: m.Parts, Extra: m.Extra}
			got += " " + strings.TrimSpace(lines(t, []acp.AwaitRequest{{Type: q.Type, Message: &m}}))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ask, diff)
		}
	}
}

// Output of another implementation's agent is converted without loss.
func TestForeignAgent(t *testing.T) {
	citation := &acp.PartMetadata{Kind: "citation", URL: "https://example.org/a", Title: "A"}
	s := acp.NewServer(nil)
	defer s.Close()
	s.Add(acp.Agent{
		Manifest: acp.AgentManifest{Name: "foreign", Description: "Knows no seam.", Metadata: &acp.Metadata{License: "MIT", Tags: []string{"x"},
			Capabilities: []acp.Capability{{Name: "look", Description: "Looks."}}}},
		Run: func(ctx context.Context, j *acp.Job) error {
			if err := j.Generic(ctx, map[string]string{"weather": "sun"}); err != nil {
				return err
			}
			if err := j.Message(ctx, acp.Message{Parts: []acp.MessagePart{{ContentType: "text/plain", Content: "See A.", Metadata: citation}}}); err != nil {
				return err
			}
			if err := j.Emit(ctx, acp.MessagePart{ContentType: "application/json", Content: "no JSON"}, acp.MessagePart{ContentType: "image/svg+xml", Content: "<svg/>"}); err != nil {
				return err
			}
			answer, err := j.Await(ctx, acp.Message{Parts: []acp.MessagePart{acp.Text("Sure?")}})
			if err != nil {
				return err
			}
			return acp.Errorf("you said %s", answer.Text())
		},
	})
	c := acpagent.Client(acp.Local(s, nil))
	cards, err := c.Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var about acp.Metadata
	if !cards[0].Metadata.Get("acp/metadata", &about) || about.License != "MIT" || len(cards[0].Skills) != 1 || cards[0].Skills[0].Name != "look" {
		t.Errorf("the card is %+v", cards[0])
	}
	var other []agent.Event
	r, err := c.Run(t.Context(), &agent.Request{Agent: "foreign", Input: agent.Prompt("go")}, agent.Funcs{
		OnEvent: func(_ context.Context, e agent.Event) error {
			if e.Kind == agent.EventOther {
				other = append(other, e)
			}
			return nil
		},
		OnAsk: func(_ context.Context, q *agent.Question) (*agent.Answer, error) {
			if q.Text != "Sure?" {
				t.Errorf("asked %+v", q)
			}
			return agent.Choose("perhaps"), nil
		},
	})
	if err == nil || err.Error() != "you said perhaps" {
		t.Errorf("Run = %+v, %v", r, err)
	}
	want := []agent.Part{
		{Text: "See A.", Metadata: agent.Metadata{}.With("acp/metadata", citation)},
		{Text: "no JSON", MediaType: "application/json"},
		{Text: "<svg/>", MediaType: "image/svg+xml"},
	}
	if diff := cmp.Diff(want, r.Output); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if len(other) != 1 || string(other[0].Metadata["acp/generic"]) != `{"weather":"sun"}` {
		t.Errorf("events %+v", other)
	}
	// Sending it again leaves it unchanged.
	relayed := serve(t, c.Agent(cards[0]))
	run, err := relayed.Run(t.Context(), acp.RunCreateRequest{AgentName: "foreign", Input: acp.Ask("go")})
	if err != nil || run.Status != acp.RunAwaiting {
		t.Fatalf("Run = %+v, %v", run, err)
	}
	if diff := cmp.Diff(citation, run.Output[0].Parts[0].Metadata); diff != "" {
		t.Errorf("the citation (-want +got):\n%s", diff)
	}
	events, err := relayed.Events(t.Context(), run.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range events {
		found = found || string(e.Generic) == `{"weather":"sun"}`
	}
	if m, err := relayed.Agent(t.Context(), "foreign"); !found || err != nil || m.Metadata.License != "MIT" {
		t.Errorf("the generic event came through: %v; the manifest is %+v, %v", found, m, err)
	}
	if _, err := relayed.Cancel(t.Context(), run.ID); err != nil {
		t.Error(err)
	}
}
