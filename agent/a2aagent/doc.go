// Package a2aagent is the seam of package agent to A2A, the Agent2Agent protocol, in both directions: [New] serves an agent, [Client] calls one.
//
//	server := a2a.NewServer(a2aagent.Card(&greeter.Card), a2aagent.New(greeter), nil)
//	c := a2aagent.Client(client, nil)
//	result, err := c.Run(ctx, &agent.Request{Input: agent.Prompt("Ada")}, nil)
//
// Both versions of the protocol are package a2a's business; here all is v1.0.
package a2aagent
