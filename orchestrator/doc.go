// Package orchestrator lets agents work on one task: a plan says who does what, when branches that run at the same time are done,
// and what becomes of the rest.
//
// A [Plan] is read from YAML or made in Go, and refused, with line and column, before anything begins. A [Team] is who takes part:
// agents, in whatever protocol, tools of MCP servers and JSON-RPC methods. A [Runner] brings both together:
//
//	runner := &orchestrator.Runner{Team: team, Store: kept, Ask: askTheUser, OnEvent: show}
//	report, err := runner.Run(ctx, plan, map[string]any{"topic": "cats"})
//
// No language model is inside: it moves messages and does not decide. What it promises: a join is exact; a branch that lost is
// cancelled at the agent, in its protocol; what is finished keeps its result; every step ends within its time; a question comes
// to one person, whatever protocol asked; nothing is tried twice unless the plan says that it may be; and of a run that is kept
// in a store, what was told is written down.
//
// A plan is served as an agent by [Runner.Agent], so that plans nest.
package orchestrator
