package orchestrator

import (
	"context"
	"errors"
	"strings"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Agent returns an agent that executes p. It can be served in any protocol and can be a member of
// another team. A JSON request is the input by name; a text request is the first required input, or
// else the first input. Started steps are reported as progress, questions are sent to the caller of
// the agent, and the result of the run is the agent's result. The fields Ask and OnEvent of r are
// not used.
func (r *Runner) Agent(card agent.Card, p *Plan) *agent.Agent {
	if card.Name == "" {
		card.Name = p.Name
	}
	if card.Description == "" {
		card.Description = p.Description
	}
	return &agent.Agent{Card: card, Report: r.Report, Run: func(ctx context.Context, said *agent.Run) error {
		input, err := p.inputOf(said)
		if err != nil {
			return agent.Refusef("%v", err)
		}
		return r.runFor(ctx, p, input, said)
	}}
}

// runFor executes a plan for a caller of it as an agent.
func (r *Runner) runFor(ctx context.Context, p *Plan, input map[string]any, said *agent.Run) error {
	done := 0.0
	one := *r
	one.Ask = func(ctx context.Context, q *Question) (*agent.Answer, error) { return said.Ask(ctx, &q.Question) }
	one.OnEvent = func(e Event) {
		switch e.Kind {
		case EventStarted:
			// A caller that is not listening misses it.
			_ = said.Progress(ctx, agent.Progress{Message: strings.TrimSpace(e.Path + " " + e.Member), Done: done})
		case EventEnded:
			done++
		}
	}
	report, err := one.Run(ctx, p, input)
	if _, wrong := errors.AsType[*InputError](err); wrong {
		return agent.Refusef("%v", err)
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := report.Err(); err != nil {
		return agent.Errorf("%v", err)
	}
	return said.Emit(ctx, report.Output...)
}

// inputOf reads the input of a plan from a request.
func (p *Plan) inputOf(said *agent.Run) (map[string]any, error) {
	for _, part := range said.Parts() {
		if part.JSON != nil {
			return p.byName(part.JSON)
		}
	}
	text := said.Text()
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		if raw, err := jsonrpc.ParseRaw([]byte(strings.TrimSpace(text))); err == nil {
			return p.byName(raw)
		}
	}
	if len(p.Input) == 0 {
		return nil, nil
	}
	to := p.Input[0].Name
	for _, in := range p.Input {
		if in.Required {
			to = in.Name
			break
		}
	}
	return map[string]any{to: text}, nil
}

func (p *Plan) byName(v jsonrpc.Raw) (map[string]any, error) {
	if expr.Kind(v) != '{' {
		return nil, errors.New("the input must be an object")
	}
	input := map[string]any{}
	for name, value := range expr.Object(v) {
		input[name] = jsonrpc.Raw(value)
	}
	return input, nil
}
