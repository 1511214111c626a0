// Package acpagent connects package agent to ACP, IBM's Agent Communication Protocol, in both
// directions: [New] serves an agent, [Client] calls the agents of a server.
//
//	server := acp.NewServer(nil)
//	server.Add(acpagent.New(greeter))
//	c := acpagent.Client(acp.Local(server, nil))
//	result, err := c.Run(ctx, &agent.Request{Agent: "greeter", Input: agent.Prompt("Ada")}, nil)
package acpagent
