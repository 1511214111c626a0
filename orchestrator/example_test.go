package orchestrator_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/orchestrator"
)

// Three agents are asked, two must give the same answer, and the third is cancelled.
func Example() {
	team := &orchestrator.Team{}
	for name, answer := range map[string]string{"ann": "Paris", "bob": "Paris", "eve": ""} {
		team.Add(name, &orchestrator.Worker{Agents: agent.Local(&agent.Agent{
			Card: agent.Card{Name: name, Description: "Knows capitals."},
			Run: func(ctx context.Context, r *agent.Run) error {
				if answer == "" {
					<-ctx.Done() // a slow agent
					return ctx.Err()
				}
				return r.Say(ctx, answer)
			},
		})})
	}
	plan, err := orchestrator.ParsePlan("capital.yaml", []byte(`
input: {country: }
steps:
  - id: capital
    join: quorum 2
    agree: true
    parallel:
      - {id: ann, agent: ann, prompt: "The capital of {{ input.country }}?"}
      - {id: bob, agent: bob, prompt: "The capital of {{ input.country }}?"}
      - {id: eve, agent: eve, prompt: "The capital of {{ input.country }}?"}
output: "It is {{ capital }}."
`))
	if err != nil {
		panic(err)
	}
	runner := &orchestrator.Runner{Team: team}
	report, err := runner.Run(context.Background(), plan, map[string]any{"country": "France"})
	if err != nil {
		panic(err)
	}
	fmt.Println(report.State, report.Text())
	fmt.Println(report.Find("capital/eve").State)
	// Output:
	// ok It is Paris.
	// cancelled
}

// An invalid plan is rejected before anything starts.
func ExampleParsePlan() {
	_, err := orchestrator.ParsePlan("bad.yaml", []byte(`
steps:
  - id: draft
    agent: writer
    prompt: Write about {{ topic }}
  - loop:
      - {agent: critic, prompt: "{{ draft }}"}
`))
	fmt.Println(err)
	// Output:
	// bad.yaml:5:28: steps[0].prompt: unknown name "topic"; the names are input
	// bad.yaml:6:5: steps[1]: a loop needs a bound: times, from 1 to 1000
}
