package demo

import (
	"context"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/editor"
)

// Editor makes the demo's agent for editors, where one connection is one agent: the names of all are its slash commands, and first does what
// has none.
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
				_ = s.Update(context.WithoutCancel(ctx), &editor.Update{Kind: editor.CommandsChanged, Commands: commands}) // the client may be gone
			})
			return nil, nil
		},
		Report: report,
	}})
}
