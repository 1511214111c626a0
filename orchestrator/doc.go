// Package orchestrator coordinates several agents on one task. A plan defines which agent does
// what, when parallel branches are done, and what happens to the remaining branches.
//
// A [Plan] is parsed from YAML or built in Go. An invalid plan is rejected with line and column
// before anything starts. A [Team] holds the members: agents of any protocol, tools of MCP servers
// and JSON-RPC methods. A [Runner] executes plans with a team:
//
//	runner := &orchestrator.Runner{Team: team, Store: kept, Ask: askTheUser, OnEvent: show}
//	report, err := runner.Run(ctx, plan, map[string]any{"topic": "cats"})
//
// The package contains no language model: it routes messages and makes no decisions. It guarantees
// the following:
//
//   - Joins are exact.
//   - A branch that is no longer needed is cancelled at its agent, in the agent's protocol.
//   - A finished step keeps its result.
//   - Every step ends within its timeout.
//   - Questions go to one person, whatever protocol they come from.
//   - Nothing is retried unless the plan allows it.
//   - If a run has a store, every reported event that belongs in the store is stored first.
//
// [Runner.Agent] serves a plan as an agent, so plans can be nested.
package orchestrator
