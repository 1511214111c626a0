package orchestrator

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// Objects pass through templates to MCP tools unchanged: to any tool as its arguments; to an agent
// served as a tool as a JSON part, or as the text that the tool's schema requires; and to a plan
// served as a tool as its input by name. A prompt is text.
func TestToolArguments(t *testing.T) {
	var log memoryLog
	tools := mcp.NewServer(mcp.Implementation{Name: "tools", Version: "1"}, nil)
	t.Cleanup(tools.Close)
	look := func(ctx context.Context, r *agent.Run) error {
		p := r.Parts()
		if len(p) != 1 {
			return agent.Errorf("%d parts", len(p))
		}
		return r.Say(ctx, fmt.Sprintf("json=%s text=%s", p[0].JSON, p[0].Text))
	}
	inner := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"echo": echo})}
	nested := inner.Agent(agent.Card{Name: "nested", Version: "1"}, plan(t, `
description: Greets.
input: {who: , how: {default: Hello}}
steps: [{agent: echo, prompt: "{{ input.how }}, {{ input.who.name }}!"}]
`))
	agents := mcpagent.Add(tools, &agent.Agent{Card: agent.Card{Name: "look", Description: "x"}, Run: look}, nested)
	t.Cleanup(agents.Close)
	mcp.AddTool(tools, mcp.Tool{Name: "raw", Description: "x"}, func(_ context.Context, _ *mcp.Request, in map[string]jsonrpc.Raw) (string, error) {
		return string(in["o"]) + string(in["n"]), nil
	})
	h := mcphttp.NewHandler(tools, nil)
	t.Cleanup(func() { _ = h.Close() })
	team := dial(t, map[string]Member{"m": {Target: web(t, h), Protocol: "mcp"}}, &log)
	defer team.Close()
	team.Add("says", &Worker{Agents: agent.Local(&agent.Agent{Card: agent.Card{Name: "says", Description: "x"}, Run: says(`Here: {"a": 1}`)})})
	team.Add("json", &Worker{Agents: agent.Local(&agent.Agent{Card: agent.Card{Name: "json", Description: "x"}, Run: says(`{"a": [1, {"b": 9007199254740993}]}`)})})
	team.Add("mlook", &Worker{Agents: team.Worker("m").Agents, Agent: "look"})
	rep, err := (&Runner{Team: team}).Run(t.Context(), plan(t, `
input: {o: {default: {a: 1, b: [2]}}, big: 9007199254740993}
steps:
  - {id: made, agent: json, prompt: x}
  - {id: raw, tool: m/raw, args: {o: "{{ input.o }}", n: "{{ input.big }}"}}
  - {id: rawmade, tool: m/raw, args: {o: "{{ made.json }}"}}
  - {id: rawtext, tool: m/raw, args: {o: "{{ made }}"}}
  - {id: whole, tool: m/look, args: "{{ input.o }}"}
  - {id: member, tool: m/look, args: {o: "{{ made.json.a[1] }}"}}
  - {id: none, tool: m/look}
  - {id: text, tool: m/look, args: {text: hi}}
  - {id: number, tool: m/look, args: {text: 1}}
  - {id: more, tool: m/look, args: {text: hi, and: so}}
  - {id: prompt, agent: mlook, prompt: "{{ input.o }}"}
  - {id: nested, tool: m/nested, args: {who: {name: "{{ made.json.a[0] }}"}}}
  - {id: prose, agent: says, prompt: x}
  - {id: nojson, tool: m/raw, args: {o: "{{ prose.json }}"}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"raw":     `{"a":1,"b":[2]}9007199254740993`,
		"rawmade": `{"a":[1,{"b":9007199254740993}]}`,
		"rawtext": `"{\"a\": [1, {\"b\": 9007199254740993}]}"`,
		"whole":   `json={"a":1,"b":[2]} text=`,
		"member":  `json={"o":{"b":9007199254740993}} text=`,
		"none":    `json={} text=`,
		"number":  `json={"text":1} text=`,
		"more":    `json={"and":"so","text":"hi"} text=`,
		"text":    `json= text=hi`,
		"prompt":  `json= text={"a":1,"b":[2]}`,
		"nested":  "Hello, 1!",
		"nojson":  "null",
	} {
		if d := cmp.Diff(want, rep.Find(path).Text()); d != "" {
			t.Errorf("%s: -want +got\n%s%v", path, d, rep.Find(path).Error)
		}
	}
}
