// Package a2aagent connects package agent to A2A, the Agent2Agent protocol, in both directions:
// [New] serves an agent, [Client] calls one.
//
//	server := a2a.NewServer(a2aagent.Card(&greeter.Card), a2aagent.New(greeter), nil)
//	c := a2aagent.Client(client, nil)
//	result, err := c.Run(ctx, &agent.Request{Input: agent.Prompt("Ada")}, nil)
//
// Package a2a handles both versions of the protocol; this package uses v1.0 throughout.
package a2aagent
