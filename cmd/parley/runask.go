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

// A givenAnswer is one --answer: what it says to whom.
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
			return nil, usagef("--answer is KEY=VALUE, not %q; the key is a step, a member, or a field of a form", cut(word, 60))
		}
		if isJSON {
			if _, err := jsonrpc.ParseRaw([]byte(text)); err != nil {
				return nil, usagef("--answer %s: %q is no JSON: %v", plainKey, cut(text, 60), err)
			}
		}
		given = append(given, givenAnswer{plainKey, answer{text, isJSON}})
	}
	return given, nil
}

// answerTo finds what --answer says to a question: by the whole path of the step, its last word, or the member who asks.
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

// ask puts a question of the run to the person at the terminal, or takes what --answer says. Where nobody is, it is declined, so
// that nothing waits for a person who is not there.
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
		r.line(who + ": " + text + " (declined; --answer " + visible(orElse(q.Path, q.Member), 100) + "=… would answer)")
		return &agent.Answer{Declined: true}, nil
	}
	if r.tree != nil {
		defer r.tree.pause()()
	}
	return r.dialogue(ctx, who, q, fields)
}

// asker says who asks.
func asker(q *orchestrator.Question) string {
	path := visible(q.Path, 100)
	if q.Member == "" {
		return path + " asks"
	}
	return path + ": " + visible(q.Member, 60) + " asks"
}

// saidOf is an answer for people.
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

// blindly answers by --answer; false if it says nothing to this.
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

// chosen finds an option by its id, its name, or its number from 1.
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
	return nil, fmt.Errorf("one of these, please: %s", strings.Join(names, ", "))
}

// dialogue asks on the terminal until the answer fits.
func (r *planRun) dialogue(ctx context.Context, who string, q *orchestrator.Question, fields []field) (*agent.Answer, error) {
	out := r.app.stderr
	v := &mcpVerb{app: r.app}
	fmt.Fprintln(out)
	v.tell("", who+":")
	for line := range strings.Lines(cut(agent.TextOf(q.Content()), maxQuestion)) {
		if strings.TrimSpace(line) == "" {
			fmt.Fprintln(out)
			continue
		}
		v.tell("  ", line)
	}
	if len(fields) > 0 {
		fmt.Fprintln(out, "Enter takes what is in brackets, Ctrl-D declines.")
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
		fmt.Fprintf(out, "  %s\n", err)
	}
}

// silence is what becomes of a question that the person at the terminal does not answer: Ctrl-D declines.
func (r *planRun) silence(err error) (*agent.Answer, error) {
	if is[errNoMore](err) {
		fmt.Fprintln(r.app.stderr, "declined")
		return &agent.Answer{Declined: true}, nil
	}
	fmt.Fprintln(r.app.stderr)
	return nil, err
}
