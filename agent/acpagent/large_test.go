package acpagent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/acpagent"
)

// A long text is split into several parts; content that cannot be split fails with the limit;
// invalid base64 is rejected.
func TestLongAnswers(t *testing.T) {
	s := acp.NewServer(nil)
	t.Cleanup(func() { _ = s.Close() })
	s.Add(acpagent.New(&agent.Agent{Card: agent.Card{Name: "echo"}, Run: func(ctx context.Context, r *agent.Run) error { return r.Emit(ctx, r.Parts()...) }}))
	s.Add(acpagent.New(&agent.Agent{Card: agent.Card{Name: "asks"}, Run: func(ctx context.Context, r *agent.Run) error {
		_, err := r.Ask(ctx, &agent.Question{Text: "How many lines?"})
		return err
	}}))
	c := acp.Local(s, nil)
	run := func(p acp.MessagePart) *acp.Run {
		t.Helper()
		got, err := c.Run(t.Context(), acp.RunCreateRequest{AgentName: "echo", Input: []acp.Message{{Role: acp.RoleUser, Parts: []acp.MessagePart{p}}}})
		if got == nil {
			t.Fatal(err)
		}
		return got
	}
	for _, text := range []string{strings.Repeat("x", 1<<20), strings.Repeat("ä", 1<<20), strings.Repeat("x", 1<<20-4<<10)} {
		got := run(acp.Text(text))
		if got.Status != acp.RunCompleted || got.Text() != text {
			t.Errorf("%d bytes: %s, %d bytes, %v", len(text), got.Status, len(got.Text()), got.Error)
		}
	}
	got := run(acp.MessagePart{Name: "a.txt", ContentType: "text/plain", Content: strings.Repeat("x", 1<<20)})
	if got.Status != acp.RunFailed || got.Error.Message != "The agent sent a part of more than 1048576 bytes." {
		t.Errorf("an artifact: %s %v", got.Status, got.Error)
	}
	for content, ok := range map[string]bool{"aGk=": true, "": true, "%%%": false, "aGk": false, "aGk=x": false, "a-_=": false} {
		_, err := c.Run(t.Context(), acp.RunCreateRequest{AgentName: "echo", Input: []acp.Message{{Role: acp.RoleUser,
			Parts: []acp.MessagePart{{ContentType: "image/png", Content: content, ContentEncoding: acp.EncodingBase64}}}}})
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "base64") {
			t.Errorf("%q: %v", content, err)
		}
	}
}
