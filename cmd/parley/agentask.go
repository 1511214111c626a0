package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Questions of an agent are answered by --answer, --yes and --no, or by the user at the terminal.
// If none of these applies, the run is left waiting where its protocol supports it.

func (v *agentCommand) ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	v.question.Lock()
	defer v.question.Unlock()
	defer v.patience.pause()()
	v.screen.clear()
	v.endLine()
	if v.output.format == "ndjson" {
		if err := v.printLine(ctx, agent.Event{Kind: agent.EventQuestion, Question: q}); err != nil {
			return nil, err
		}
	}
	text := visible(agent.TextOf(q.Content()), 400)
	if a := v.permit(q); a != nil {
		v.screen.line("the agent asks: " + text + " (" + visible(optionName(q, a.Option), 60) + ")")
		return a, nil
	}
	if v.asked < len(v.answers) {
		given := v.answers[v.asked]
		v.asked++
		a, err := answerWith(q, given)
		if err != nil {
			return nil, usagef("--answer %s: %v", cut(given, 60), err)
		}
		v.screen.line("the agent asks: " + text + " (answered " + visible(given, 200) + ")")
		return a, nil
	}
	if !isTerminal(v.app.stdin) || !isTerminal(v.app.stderr) {
		if v.acp == nil && v.a2a == nil { // the Agent Client Protocol cannot answer later
			return nil, agent.ErrNoAnswer
		}
		return nil, agent.ErrLater
	}
	return v.dialogue(ctx, q)
}

// permit answers a permission question with --yes or --no. It returns nil if neither applies.
func (v *agentCommand) permit(q *agent.Question) *agent.Answer {
	kinds := map[bool][]string{true: {agent.AllowOnce, agent.AllowAlways}, false: {agent.RejectOnce, agent.RejectAlways}}[v.yes]
	if !v.yes && !v.no {
		return nil
	}
	for _, kind := range kinds {
		for _, o := range q.Options {
			if o.Kind == kind {
				return agent.Choose(o.ID)
			}
		}
	}
	return nil
}

func optionName(q *agent.Question, id string) string {
	for _, o := range q.Options {
		if o.ID == id {
			return o.Name
		}
	}
	return id
}

// answerWith parses the text of an answer to a question.
func answerWith(q *agent.Question, said string) (*agent.Answer, error) {
	switch {
	case len(q.Options) > 0:
		a := agent.Reply(said)
		if n, err := strconv.Atoi(strings.TrimSpace(said)); err == nil && n >= 1 && n <= len(q.Options) {
			return agent.Choose(q.Options[n-1].ID), nil
		}
		if q.Settle(a); a.Option == "" {
			return nil, fmt.Errorf("choose one of the %d options", len(q.Options))
		}
		return a, nil
	case q.Form != nil:
		value, err := jsonrpc.ParseRaw([]byte(said))
		if err != nil || kind(value) != '{' {
			return nil, fmt.Errorf("the question is a form; the answer must be a JSON object")
		}
		return &agent.Answer{Value: value}, nil
	}
	return agent.Reply(said), nil
}

// dialogue asks the user at the terminal.
func (v *agentCommand) dialogue(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	defer v.screen.ask()()
	b := &listing{width: min(textWidth, widthOf(v.app.stderr)-1)}
	b.question("the agent asks:", agent.TextOf(q.Content()))
	for i, o := range q.Options {
		fmt.Fprintf(b, "  %d  %s\n", i+1, visible(orElse(o.Name, o.ID), 120))
	}
	fmt.Fprint(v.app.stderr, b.String())
	a, err := v.reply(ctx, q)
	if is[errNoMore](err) {
		fmt.Fprintln(v.app.stderr, "declined")
		return &agent.Answer{Declined: true}, nil
	}
	return a, err
}

// reply reads lines until one is a valid answer.
func (v *agentCommand) reply(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	if fields := fieldsOf(q.Form); len(fields) > 0 {
		return v.fillIn(ctx, fields)
	}
	for {
		fmt.Fprint(v.app.stderr, "> ")
		line, err := v.app.typed(ctx)
		if err != nil {
			return nil, err
		}
		a, err := answerWith(q, line)
		if err == nil {
			return a, nil
		}
		fmt.Fprintln(v.app.stderr, visible(err.Error(), 200))
	}
}

// fillIn asks for the fields of a form one after another.
func (v *agentCommand) fillIn(ctx context.Context, fields []field) (*agent.Answer, error) {
	content := []byte{'{'}
	for _, f := range fields {
		fmt.Fprintf(v.app.stderr, "  %s%s\n", label(orElse(f.text("title"), f.name), 80), f.bounds())
		for i, c := range choicesOf(f.schema) {
			fmt.Fprintf(v.app.stderr, "    %d  %s\n", i+1, visible(c.text(), 120))
		}
		for {
			fmt.Fprint(v.app.stderr, "  > ")
			line, err := v.app.typed(ctx)
			if err != nil {
				return nil, err
			}
			if line == "" && !f.required {
				break
			}
			value, err := f.read(line)
			if err == nil {
				content = appendMember(content, f.name, value)
				break
			}
			fmt.Fprintf(v.app.stderr, "  %s\n", visible(err.Error(), 200))
		}
	}
	return &agent.Answer{Value: append(content, '}')}, nil
}
