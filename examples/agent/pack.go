package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/agent"
)

// pack is the agent: it gets a list of things, asks for how many days, and packs them. It is
// independent of the protocol.
func pack(ctx context.Context, r *agent.Run) error {
	things := strings.Split(r.Text(), ",")
	answer, err := r.Ask(ctx, &agent.Question{Text: "For how many days?"})
	if err != nil {
		return err
	}
	days, err := strconv.Atoi(strings.TrimSpace(answer.Text()))
	if err != nil || days < 1 {
		return agent.Refusef("I can only count in whole days.")
	}
	for i, thing := range things {
		thing = strings.TrimSpace(thing)
		if err := r.Progress(ctx, agent.Progress{Message: "packing " + thing, Done: float64(i + 1), Total: float64(len(things))}); err != nil {
			return err
		}
		if err := r.Say(ctx, fmt.Sprintf("%d × %s\n", days, thing)); err != nil {
			return err
		}
	}
	return r.Emit(ctx, agent.Value(map[string]int{"days": days, "things": len(things)}).Named("summary"))
}

var packer = &agent.Agent{
	Card: agent.Card{
		Name: "packer", Title: "Packer", Description: "Packs your things.", Version: "1.0",
		Skills: []agent.Skill{{ID: "pack", Name: "Pack", Description: "Packs what you name, with commas between.", Tags: []string{"travel"}, Examples: []string{"socks, shirt"}}},
		Output: []string{"text/plain", "application/json"},
	},
	Run: pack,
}
