// Package agent is one agent as all protocols see it: what it is called, what it is given, what it says and asks while it works, and how it ends.
//
//	greeter := &agent.Agent{
//		Card: agent.Card{Name: "greeter", Description: "Greets whoever it is told of.", Version: "1.0"},
//		Run: func(ctx context.Context, r *agent.Run) error {
//			return r.Say(ctx, "Hello, "+r.Text()+"!")
//		},
//	}
//
// The seam is two small interfaces that mirror each other. A [Caller] is who asked, as seen from a run: it takes events and answers
// questions. A [Link] is an agent elsewhere: it is given a request and a Caller. What serves an Agent in a protocol brings a Caller, what
// calls one brings a Link; the packages below this one do both, for ACP (acpagent), A2A (a2aagent), the editor protocol
// (editoragent) and MCP (mcpagent). A [Client] makes a Link pleasant to use. Since the two fit together, an agent that is
// called in one protocol can be served in another: see [Client.Agent].
//
// What one protocol says and another has no word for travels in [Metadata] and is never dropped. docs/guides/agent.md has the table of what
// becomes what, with the test of each row.
package agent
