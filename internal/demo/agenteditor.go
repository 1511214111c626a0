package demo

import (
	"context"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/editor"
)

// Editor returns the demo's agent for the Agent Client Protocol, where one connection is one agent.
// The names of all agents are its slash commands. The agent named first handles prompts without a
// slash command.
func Editor(version, first string, all []*agent.Agent, report func(what string, err error)) *editor.Agent {
	commands := &editor.Commands{}
	for _, a := range all {
		c := editor.Command{Name: a.Name, Description: a.Description}
		if len(a.Skills) > 0 && len(a.Skills[0].Examples) > 0 {
			c.Input = &editor.CommandInput{Hint: a.Skills[0].Examples[0]}
		}
		commands.Available = append(commands.Available, c)
	}
	front := Front(version, first, all)
	return editoragent.New(front, &editoragent.Options{Editor: editor.AgentOptions{
		NewSession: func(ctx context.Context, s *editor.Session, _ *editor.NewSessionParams) (*editor.NewSessionResult, error) {
			s.After(func(s *editor.Session) {
				// The client may be gone.
				_ = s.Update(context.WithoutCancel(ctx), &editor.Update{Kind: editor.CommandsChanged, Commands: commands})
			})
			return nil, nil
		},
		Report: report,
	}})
}
