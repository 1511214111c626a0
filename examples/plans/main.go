// Command plans runs one of the plans in this folder with agents in this process, instead of the
// team that the plan names:
//
//	go run ./examples/plans quorum 'question=What is the capital of France?'
//	go run ./examples/plans review topic=cats
//	go run ./examples/plans translate 'lines=one
//	two'
//
// The agents are simple and need no other programs. parley run uses the team that the plan names.
package main

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/orchestrator"
)

//go:embed *.yaml
var plans embed.FS

func main() {
	// cancelling ctx cancels the running agents
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: plans quorum|review|translate [NAME=VALUE…]")
	}
	text, err := plans.ReadFile(args[0] + ".yaml")
	if err != nil {
		return err
	}
	plan, err := orchestrator.ParsePlan(args[0]+".yaml", text)
	if err != nil {
		return err
	}
	input := map[string]any{}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		input[name] = value
	}
	answers := bufio.NewScanner(in)
	runner := &orchestrator.Runner{
		Team: team(),
		OnEvent: func(e orchestrator.Event) {
			if e.Kind == orchestrator.EventEnded {
				fmt.Fprintf(out, "%-9s %s\n", e.Report.State, e.Path)
			}
		},
		Ask: func(_ context.Context, q *orchestrator.Question) (*agent.Answer, error) {
			fmt.Fprintln(out, q.Text)
			for _, o := range q.Options {
				fmt.Fprintln(out, "-", o.Name)
			}
			if !answers.Scan() {
				return nil, agent.ErrNoAnswer
			}
			return agent.Reply(answers.Text()), nil
		},
	}
	report, err := runner.Run(ctx, plan, input)
	if err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return err
	}
	fmt.Fprintln(out, report.Text())
	return nil
}

// team returns the agents that execute the plans.
func team() *orchestrator.Team {
	t := &orchestrator.Team{}
	add := func(name string, run func(ctx context.Context, r *agent.Run) error) {
		t.Add(name, &orchestrator.Worker{Agents: agent.Local(&agent.Agent{
			Card: agent.Card{Name: name, Description: "An agent of the example."}, Run: run,
		})})
	}
	begun := make(chan struct{}, 2) // eve has begun, so that there is a run to cancel
	knows := func(ctx context.Context, r *agent.Run) error {
		select {
		case <-begun:
		case <-ctx.Done():
			return ctx.Err()
		}
		return r.Say(ctx, "Paris")
	}
	add("ann", knows)
	add("bob", knows)
	add("eve", func(ctx context.Context, _ *agent.Run) error {
		begun <- struct{}{}
		begun <- struct{}{}
		<-ctx.Done() // still running when the others agree
		return ctx.Err()
	})
	texts := map[string]string{} // by conversation
	add("writer", func(ctx context.Context, r *agent.Run) error {
		switch ask, about, _ := strings.Cut(r.Text(), " about "); {
		case about != "":
			texts[r.Session] = "Here is a sentence about " + about
		case strings.HasPrefix(ask, "Make it better"):
			texts[r.Session] = strings.Replace(texts[r.Session], "a sentence", "a very good sentence", 1)
		case strings.HasPrefix(ask, "Say goodbye"):
			return r.Say(ctx, "Goodbye.")
		}
		return r.Say(ctx, texts[r.Session])
	})
	add("stylist", func(ctx context.Context, r *agent.Run) error {
		if strings.Contains(r.Text(), "very") {
			return r.Say(ctx, "Good.")
		}
		return r.Say(ctx, "A little dry.")
	})
	add("checker", func(ctx context.Context, r *agent.Run) error { return r.Say(ctx, "Yes.") })
	add("scribe", func(ctx context.Context, r *agent.Run) error {
		if ok, err := r.Confirm(ctx, "Shall I write this down?"); err != nil || !ok {
			return err
		}
		return r.Say(ctx, "Written: "+r.Text())
	})
	add("interpreter", func(ctx context.Context, r *agent.Run) error {
		_, word, _ := strings.Cut(r.Text(), ": ")
		french := map[string]string{"one": "un", "two": "deux", "three": "trois"}[word]
		if french == "" {
			return agent.Errorf("I do not know %q.", word)
		}
		return r.Say(ctx, french)
	})
	return t
}
