// Package mcpagent is the seam of package agent to MCP, in both directions: [Add] offers agents as tools of a server, [Connect] calls the tools of
// a server as agents.
//
//	tools := mcpagent.Add(server, greeter)
//	defer tools.Close()
//
//	c, err := mcpagent.Connect(ctx, transport, mcp.Implementation{Name: "caller", Version: "1.0"}, nil)
//	result, err := c.Run(ctx, &agent.Request{Agent: "greeter", Input: agent.Prompt("Ada")}, nil)
//
// A tool has one argument, text. What it says is its result, all at once; how far it is, it tells meanwhile. What it asks becomes a form, in both
// eras of the protocol: in the modern one the run waits in this process while the client finds the answer.
package mcpagent
