// Package agent defines an agent independently of any protocol: its card, its input, its output and
// questions, and how its runs end.
//
//	greeter := &agent.Agent{
//		Card: agent.Card{Name: "greeter", Description: "Greets people by name.", Version: "1.0"},
//		Run: func(ctx context.Context, r *agent.Run) error {
//			return r.Say(ctx, "Hello, "+r.Text()+"!")
//		},
//	}
//
// Two small interfaces mirror each other. A [Caller] is the caller of a run, as seen by the run: it
// receives events and answers questions. A [Link] is a connection to a remote agent: it takes a
// request and a Caller. A server of a protocol provides a Caller, a client provides a Link. The
// subpackages implement both for ACP (acpagent), A2A (a2aagent), the Agent Client Protocol
// (editoragent) and MCP (mcpagent). A [Client] is a convenient wrapper of a Link. Because the two
// interfaces match, an agent that is called in one protocol can be served in another: see
// [Client.Agent].
//
// Content of one protocol that another protocol has no field for is passed on in [Metadata] and
// never dropped. docs/agent-mapping.md lists how everything is mapped, with the test of each row.
package agent
