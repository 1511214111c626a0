package agent_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/agent"
)

// painter asks for a colour and reports what it paints.
var painter = &agent.Agent{
	Card: agent.Card{Name: "painter", Description: "Paints what it is told.", Version: "1.0"},
	Run: func(ctx context.Context, r *agent.Run) error {
		if r.Text() == "the sky" {
			return agent.Refusef("The sky is too high.")
		}
		colour, err := r.Ask(ctx, &agent.Question{Text: "Which colour?"})
		if err != nil {
			return err
		}
		return r.Say(ctx, "The "+r.Text()+" is "+colour.Text()+" now.")
	},
}

func Example() {
	c := agent.Local(painter)
	done, err := c.Run(context.Background(), &agent.Request{Agent: "painter", Input: agent.Prompt("door")}, agent.Funcs{
		OnAsk: func(_ context.Context, q *agent.Question) (*agent.Answer, error) {
			fmt.Println(q.Text)
			return agent.Reply("blue"), nil
		},
	})
	fmt.Println(done, err)
	_, err = c.Run(context.Background(), &agent.Request{Input: agent.Prompt("the sky")}, nil)
	fmt.Println(err)
	// Output:
	// Which colour?
	// The door is blue now. <nil>
	// The sky is too high.
}

// A Job is a run in the background.
func ExampleClient_Start() {
	c := agent.Local(painter)
	job := c.Start(context.Background(), &agent.Request{Input: agent.Prompt("fence")})
	defer job.Close()
	for e := range job.Events() {
		switch e.Kind {
		case agent.EventQuestion:
			fmt.Println(e.Question.Text)
			_ = job.Answer(agent.Reply("white"))
		case agent.EventOutput:
			fmt.Println(agent.TextOf(e.Parts))
		case agent.EventEnded:
			fmt.Println(e.Result.State)
		}
	}
	// Output:
	// Which colour?
	// The fence is white now.
	// completed
}
