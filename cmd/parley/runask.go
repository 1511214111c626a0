package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/orchestrator"
)

// A givenAnswer is one --answer: a text and the question that it answers.
type givenAnswer struct {
	key  string
	said answer
}

func parseGiven(words []string) ([]givenAnswer, error) {
	var given []givenAnswer
	for _, word := range words {
		key, text, ok := strings.Cut(word, "=")
		plainKey, isJSON := strings.CutSuffix(key, ":")
		if !ok || plainKey == "" {
			return nil, usagef("--answer must be KEY=VALUE, not %q; KEY is a step, a member or a form field", cut(word, 60))
		}
		if isJSON {
			if _, err := jsonrpc.ParseRaw([]byte(text)); err != nil {
				return nil, usagef("--answer %s: %q is not JSON: %v", plainKey, cut(text, 60), err)
			}
		}
		given = append(given, givenAnswer{plainKey, answer{text, isJSON}})
	}
	return given, nil
}

// answerTo returns the --answer for a question: it matches the full path of the step, its last
// element, or the member that asks.
func (r *planRun) answerTo(q *orchestrator.Question) (answer, bool) {
	for _, key := range []string{q.Path, q.Path[strings.LastIndexByte(q.Path, '/')+1:], q.Member} {
		for _, g := range r.given {
			if g.key == key && key != "" {
				return g.said, true
			}
		}
	}
	return answer{}, false
}

// ask asks the user at the terminal, or uses --answer. Without a terminal the question is declined,
// so that nothing waits for an absent user.
func (r *planRun) ask(ctx context.Context, q *orchestrator.Question) (*agent.Answer, error) {
	fields := fieldsOf(q.Form)
	who, text := asker(q), visible(strings.Join(strings.Fields(q.Text), " "), 400)
	if r.decline {
		r.line(who + ": " + text + " (declined)")
		return &agent.Answer{Declined: true}, nil
	}
	if a, ok, err := r.blindly(q, fields); ok || err != nil {
		if err != nil {
			r.line("parley: --answer: " + visible(err.Error(), 400))
			return nil, agent.ErrNoAnswer
		}
		r.line(who + ": " + text + " (answered " + visible(saidOf(q, a), 200) + ")")
		return a, nil
	}
	if !isTerminal(r.app.stdin) || !isTerminal(r.app.stderr) {
		if choices := q.Choices(); choices != "" {
			text += " (" + visible(choices, 200) + ")"
		}
		r.line(who + ": " + text + " (no terminal to answer; use --answer " + visible(orElse(q.Path, q.Member), 100) + "=… or --decline)")
		return nil, agent.ErrNoAnswer
	}
	if r.tree != nil {
		defer r.tree.pause()()
	}
	return r.dialogue(ctx, who, q, fields)
}

// asker returns the name of the member that asks.
func asker(q *orchestrator.Question) string {
	path := visible(q.Path, 100)
	if q.Member == "" {
		return path + " asks"
	}
	return path + ": " + visible(q.Member, 60) + " asks"
}

// saidOf returns an answer as text.
func saidOf(q *orchestrator.Question, a *agent.Answer) string {
	for _, o := range q.Options {
		if o.ID == a.Option && o.ID != "" {
			return o.Name
		}
	}
	if a.Value != nil {
		return string(a.Value)
	}
	return a.Text()
}

// blindly answers with --answer. It returns false if no --answer matches.
func (r *planRun) blindly(q *orchestrator.Question, fields []field) (*agent.Answer, bool, error) {
	said, ok := r.answerTo(q)
	switch {
	case ok && said.isJSON && len(fields) > 0:
		return &agent.Answer{Value: jsonrpc.Raw(said.text)}, true, nil
	case ok && len(q.Options) > 0:
		a, err := chosen(q, said.text)
		return a, true, err
	case ok && len(fields) == 0:
		return agent.Reply(said.text), true, nil
	case len(fields) == 0:
		return nil, false, nil
	}
	content, any := []byte{'{'}, false
	for _, f := range fields {
		value := memberOf(f.schema, "default")
		for _, g := range r.given {
			if g.key != f.name {
				continue
			}
			v, err := g.said.value(&f)
			if err != nil {
				return nil, false, fmt.Errorf("%s: %w", f.name, err)
			}
			value, any = v, true
		}
		if ok && len(fields) == 1 && !any {
			v, err := said.value(&f)
			if err != nil {
				return nil, false, err
			}
			value, any = v, true
		}
		if value != nil {
			content = appendMember(content, f.name, value)
		} else if f.required {
			return nil, false, nil
		}
	}
	return &agent.Answer{Value: append(content, '}')}, any, nil
}

// chosen finds an option by its ID, its name, or its number from 1.
func chosen(q *orchestrator.Question, text string) (*agent.Answer, error) {
	a := agent.Reply(text)
	if q.Settle(a); a.Option != "" {
		return a, nil
	}
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n >= 1 && n <= len(q.Options) {
		return agent.Choose(q.Options[n-1].ID), nil
	}
	var names []string
	for _, o := range q.Options {
		names = append(names, visible(o.Name, 60))
	}
	return nil, fmt.Errorf("choose one of: %s", strings.Join(names, ", "))
}

// dialogue asks on the terminal until the answer is valid.
func (r *planRun) dialogue(ctx context.Context, who string, q *orchestrator.Question, fields []field) (*agent.Answer, error) {
	out := r.app.stderr
	v := &mcpCommand{app: r.app}
	fmt.Fprintln(out)
	fmt.Fprintln(out, who+":")
	r.app.question("", agent.TextOf(q.Content()))
	if len(fields) > 0 {
		fmt.Fprintln(out, "Press Enter for the default in brackets, Ctrl-D to decline.")
		content, err := v.fill(ctx, fields, nil)
		if err != nil {
			return r.silence(err)
		}
		fmt.Fprintln(out)
		return &agent.Answer{Value: content}, nil
	}
	for i, o := range q.Options {
		fmt.Fprintf(out, "    %d  %s\n", i+1, visible(o.Name, 120))
	}
	for {
		fmt.Fprint(out, "> ")
		line, err := r.app.typed(ctx)
		if err != nil {
			return r.silence(err)
		}
		if len(q.Options) == 0 {
			fmt.Fprintln(out)
			return agent.Reply(line), nil
		}
		a, err := chosen(q, line)
		if err == nil {
			fmt.Fprintln(out)
			return a, nil
		}
		fmt.Fprintf(out, "  %s\n", visible(err.Error(), 1000))
	}
}

// silence handles a question that the user at the terminal does not answer: Ctrl-D declines.
func (r *planRun) silence(err error) (*agent.Answer, error) {
	if is[errNoMore](err) {
		fmt.Fprintln(r.app.stderr, "declined")
		return &agent.Answer{Declined: true}, nil
	}
	fmt.Fprintln(r.app.stderr)
	return nil, err
}
