package mcpagent_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/agenttest"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
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
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

// plain returns a client that does not use package agent.
func plain(t *testing.T, f func(ctx context.Context, r *agent.Run) error, o *mcp.ClientOptions) *mcp.Client {
	t.Helper()
	s := mcp.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
	tools := mcpagent.Add(s, &agent.Agent{Card: agenttest.Card(), Run: f})
	c, err := mcp.ConnectLocal(t.Context(), s, mcp.Implementation{Name: "plain", Version: "1"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		tools.Close()
		s.Close()
	})
	return c
}

func call(t *testing.T, c *mcp.Client, text string) *mcp.ToolResult {
	t.Helper()
	r, err := c.CallTool(t.Context(), "tester", map[string]string{"text": text}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each kind of part is written on the wire as other implementations of this protocol expect it.
func TestContentOnTheWire(t *testing.T) {
	c := plain(t, func(ctx context.Context, r *agent.Run) error { return r.Emit(ctx, agenttest.Parts()...) }, nil)
	var b strings.Builder
	for _, block := range call(t, c, "go").Content {
		out, err := block.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(out)
		b.WriteByte('\n')
	}
	golden(t, b.String())
}

// How calls end on the wire for plain clients.
func TestStatesOnTheWire(t *testing.T) {
	run := func(ctx context.Context, r *agent.Run) error {
		switch r.Text() {
		case "fail":
			return agent.Errorf("no luck")
		case "refuse":
			return agent.Refusef("not me")
		case "stop":
			return agent.ErrCancelled
		case "confirm":
			ok, err := r.Confirm(ctx, "May I?")
			if err != nil || !ok {
				return err
			}
			return r.Say(ctx, "I may")
		}
		return nil
	}
	for _, v := range []mcp.Version{mcp.V20260728, mcp.V20251125} {
		c := plain(t, run, &mcp.ClientOptions{Versions: []mcp.Version{v}, Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
			want := `{"properties":{"choice":{"type":"string","title":"Answer","enum":["allow","reject"],"enumNames":["Yes","No"]}},"required":["choice"],"type":"object"}`
			if e.Message != "May I?" || string(e.RequestedSchema) != want {
				t.Errorf("asked %s %s", e.Message, e.RequestedSchema)
			}
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"choice":"allow"}`)}, nil
		}})
		for ask, want := range map[string]struct {
			text   string
			failed bool
		}{
			"do": {"", false}, "fail": {"no luck", true}, "refuse": {"not me", true}, "stop": {"The run was cancelled.", true}, "confirm": {"I may", false},
		} {
			if r := call(t, c, ask); r.Text() != want.text || r.IsError != want.failed {
				t.Errorf("%v %s: %q, failed %v", v, ask, r.Text(), r.IsError)
			}
		}
	}
	c := plain(t, run, nil)
	if r := call(t, c, "confirm"); !r.IsError {
		t.Errorf("a client that cannot be asked gets %+v", r)
	}
	if _, err := c.CallTool(t.Context(), "tester", map[string]int{"text": 3}, nil); err == nil {
		if r, _ := c.CallTool(t.Context(), "tester", map[string]int{"text": 3}, nil); !r.IsError {
			t.Errorf("a number for a text: %+v", r)
		}
	}
}

// A run that waits for an answer between two rounds runs only once, and Close ends it if the client
// does not return.
func TestRunThatWaits(t *testing.T) {
	begun, ended := 0, make(chan error, 1)
	s := mcp.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
	tools := mcpagent.Add(s, &agent.Agent{Card: agenttest.Card(), Run: func(ctx context.Context, r *agent.Run) error {
		begun++
		_, err := r.Ask(ctx, &agent.Question{Text: "Why?"})
		ended <- context.Cause(ctx)
		return err
	}})
	never := errors.New("never")
	c, err := mcp.ConnectLocal(t.Context(), s, mcp.Implementation{Name: "plain", Version: "1"}, &mcp.ClientOptions{
		Versions: []mcp.Version{mcp.V20260728},
		Elicit:   func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) { return nil, never },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.CallTool(t.Context(), "tester", map[string]string{"text": "go"}, nil); err == nil {
		t.Errorf("CallTool = %+v", r)
	}
	c.Close()
	tools.Close()
	s.Close()
	if cause := <-ended; begun != 1 || !errors.Is(cause, agent.ErrCancelled) {
		t.Errorf("it began %d times, and ended with %v", begun, cause)
	}
}

// Results of another implementation's tools are converted without loss.
func TestForeignTools(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "foreign", Version: "1"}, nil)
	type city struct {
		City string `json:"city"`
	}
	type heat struct {
		Degrees int `json:"degrees"`
	}
	mcp.AddTool(s, mcp.Tool{Name: "weather", Title: "Weather", Description: "How warm it is."}, func(_ context.Context, _ *mcp.Request, in city) (heat, error) {
		if in.City == "Atlantis" {
			return heat{}, mcp.Errorf("It is under water.")
		}
		return heat{len(in.City)}, nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "route"}, func(_ context.Context, _ *mcp.Request, in struct {
		From string `json:"from"`
		To   string `json:"to"`
	}) (string, error) {
		return in.From + "-" + in.To, nil
	})
	c, err := mcpagent.Client(nil, func(o *mcp.ClientOptions) (*mcp.Client, error) {
		return mcp.ConnectLocal(t.Context(), s, mcp.Implementation{Name: "test", Version: "1"}, o)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer c.Close()
	cards, err := c.Agents(t.Context())
	var tool mcp.Tool
	if err != nil || len(cards) != 2 || cards[0].Title != "Weather" || !cards[0].Metadata.Get("mcp/tool", &tool) || tool.InputSchema == nil {
		t.Errorf("cards %+v, %v", cards, err)
	}
	// Text goes into the member that accepts it.
	r, err := c.Run(t.Context(), &agent.Request{Agent: "weather", Input: agent.Prompt("Oslo")}, nil)
	if err != nil || r.String() != `{"degrees":4}` || string(r.Metadata["mcp/structuredContent"]) != `{"degrees":4}` {
		t.Errorf("weather: %+v, %v", r, err)
	}
	r, err = c.Run(t.Context(), &agent.Request{Agent: "weather", Input: agent.Prompt("Atlantis")}, nil)
	if err == nil || err.Error() != "It is under water." || r.State != agent.Failed {
		t.Errorf("weather: %+v, %v", r, err)
	}
	r, err = c.Run(t.Context(), &agent.Request{Agent: "route", Input: agent.User(agent.Value(map[string]string{"from": "a", "to": "b"}))}, nil)
	if err != nil || r.String() != "a-b" {
		t.Errorf("route: %+v, %v", r, err)
	}
	if _, err := c.Run(t.Context(), &agent.Request{Agent: "route", Input: agent.Prompt("from a to b")}, nil); err == nil {
		t.Error("text for a tool that takes none")
	}
	if _, err := c.Run(t.Context(), &agent.Request{Agent: "none", Input: agent.Prompt("x")}, nil); !errors.Is(err, agent.ErrUnknownAgent) {
		t.Errorf("a tool that is not there: %v", err)
	}
	if diff := cmp.Diff("weather", cards[0].Name); diff != "" {
		t.Error(diff)
	}
}
