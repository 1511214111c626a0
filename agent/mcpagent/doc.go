// Package mcpagent connects package agent to MCP in both directions: [Add] offers agents as tools
// of a server, [Connect] calls the tools of a server as agents.
//
//	tools := mcpagent.Add(server, greeter)
//	defer tools.Close()
//
//	c, err := mcpagent.Connect(ctx, transport, mcp.Implementation{Name: "caller", Version: "1.0"}, nil)
//	result, err := c.Run(ctx, &agent.Request{Agent: "greeter", Input: agent.Prompt("Ada")}, nil)
//
// A tool has one argument, text. Its output is returned as one result at the end; progress is sent
// while it runs. Its questions are sent as forms, in both eras of the protocol. In the modern era
// the run waits in this process until the client calls again with the answer.
package mcpagent
