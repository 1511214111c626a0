package orchestrator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// What a leaf may cost.
const (
	maxOutput    = 512 << 10 // bytes of what it yields
	maxQuestions = 20

	retryFirst = 500 * time.Millisecond
	retryMost  = time.Minute
)

// Keys of the metadata that goes with a request.
const (
	MetaDeadline       = "parley/deadline"       // the milliseconds that are left for it
	MetaIdempotencyKey = "parley/idempotencyKey" // the same for every try of a step, and for no other step
	MetaStep           = "parley/step"           // run and path: who asks
)

// A session is a conversation of several steps with one agent, who is asked one thing at a time.
type session struct {
	turn   chan struct{} // holds one while a step talks
	member candidate
	id     string
}

// leaf does a step that calls somebody, and tells of it.
func (x *run) leaf(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	err := x.leafErr(ctx, s, in, clk, rep)
	if err != nil {
		rep.State, rep.Error = failure(ctx, err)
	}
	told := *rep
	told.Ms = now().Sub(rep.Started).Milliseconds()
	if err := x.tell(ctx, Event{Kind: EventEnded, Path: rep.Path, Member: rep.Member, Report: &told}); err != nil && rep.State == OK {
		rep.State, rep.Error = failure(context.Background(), err)
	}
}

func (x *run) leafErr(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) error {
	do, talk, err := x.prepare(ctx, s, in, clk, rep)
	if err != nil {
		return err
	}
	if talk != nil {
		defer func() {
			talk.id = or(rep.Session, talk.id)
			<-talk.turn
		}()
	}
	for try := 1; ; try++ {
		rep.Tries = try
		if err := x.tell(ctx, Event{Kind: EventStarted, Path: rep.Path, Member: rep.Member, Step: rep.Kind, Try: try}); err != nil {
			return err
		}
		c := &caller{x: x, rep: rep, clk: clk}
		attempt, cancel := context.WithCancelCause(ctx)
		c.cancel = cancel
		patience := settle
		if talk != nil {
			patience = grace // the next one in the conversation comes after its last word
		}
		res, err := x.call(attempt, patience, rep, func() (*agent.Result, error) { return do(attempt, c) })
		c.leave()
		cancel(nil)
		remote, cause := c.end(nil)
		rep.Remote = or(remote, rep.Remote)
		if cause != nil && ctx.Err() == nil {
			err = cause
		}
		if err == nil {
			err = rep.accept(res)
		}
		if asked := c.unanswered(); err != nil && asked != "" && ctx.Err() == nil {
			err = &StepError{Kind: KindQuestion, Text: fmt.Sprintf("it asks %q, and nobody answers", clipTo(asked, 200))}
		}
		if err == nil || ctx.Err() != nil || !s.Idempotent || try > s.Retries || !again(err) {
			return err
		}
		_, why := failure(ctx, err)
		if err := x.tell(ctx, Event{Kind: EventRetry, Path: rep.Path, Member: rep.Member, Error: why}); err != nil {
			return err
		}
		wait := min(retryFirst<<min(try-1, 10), retryMost)
		wait += time.Duration((rand.Float64() - 0.5) * 0.4 * float64(wait))
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// How long somebody who was cancelled has to come to an end: settle before its step ends without it, and grace in all before the run
// does. An agent elsewhere has [agent.LastWord] for its last word.
const (
	settle = 250 * time.Millisecond
	grace  = agent.LastWord + time.Second
)

// A straggler is a call whose step has ended before it.
type straggler struct {
	rep   *Report
	ended <-chan struct{}
	until time.Time
}

// call waits for f, and for no longer than patience after ctx has ended. f then comes to its end on its own, which the run waits for.
func (x *run) call(ctx context.Context, patience time.Duration, rep *Report, f func() (*agent.Result, error)) (*agent.Result, error) {
	var (
		res   *agent.Result
		err   error
		ended = make(chan struct{})
	)
	go func() {
		defer close(ended)
		res, err = f()
	}()
	select {
	case <-ended:
		return res, err
	case <-ctx.Done():
	}
	until := time.Now().Add(grace)
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-ended:
		return res, err
	case <-late.C:
	}
	x.mu.Lock()
	x.stragglers = append(x.stragglers, straggler{rep, ended, until})
	x.mu.Unlock()
	return nil, context.Cause(ctx)
}

// settle waits for calls whose steps have ended before them. One that does not stop is left behind, and its report says so.
func (x *run) settle() {
	x.mu.Lock()
	all := x.stragglers
	x.mu.Unlock()
	for _, s := range all {
		late := time.NewTimer(time.Until(s.until))
		select {
		case <-s.ended:
		case <-late.C:
			text := "it does not stop"
			if s.rep.Error != nil {
				text = s.rep.Error.Text + ", and " + text
			}
			s.rep.Error = &StepError{Kind: KindStuck, Text: text}
		}
		late.Stop()
	}
}

// again reports whether an error may be gone the next time.
func again(err error) bool {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		switch e.Code {
		case jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeUnauthorized, -31007, -31008:
			return false
		}
		return true
	}
	if f, ok := errors.AsType[*agent.Failure](err); ok {
		return f.State != agent.Rejected
	}
	if _, ok := errors.AsType[*StepError](err); ok {
		return false
	}
	return !errors.Is(err, agent.ErrNoAnswer) && !errors.Is(err, agent.ErrLater) && !errors.Is(err, agent.ErrUnknownAgent)
}

// accept takes over a result.
func (r *Report) accept(res *agent.Result) error {
	if res == nil {
		return errors.New("there is no result")
	}
	r.Remote, r.Session = or(res.ID, r.Remote), or(res.Session, r.Session)
	if res.State == agent.Waiting {
		return agent.ErrNoAnswer
	}
	if err := res.Err(); err != nil {
		return err
	}
	size := 0
	for _, p := range res.Output {
		size += len(p.Text) + len(p.JSON) + len(p.Data)*4/3
	}
	if size > maxOutput {
		return tooLarge()
	}
	r.Output = res.Output
	r.Value = res.Metadata[metaValue]
	return nil
}

func tooLarge() error {
	return &StepError{Kind: KindTooLarge, Text: fmt.Sprintf("it says more than %d bytes", maxOutput)}
}

// metaValue is the Value of a report, in the metadata of a result that this package makes.
const metaValue = "parley/value"

type doing func(ctx context.Context, c agent.Caller) (*agent.Result, error)

// prepare returns what to do, and the conversation that it belongs to, if any, whose turn it has taken.
func (x *run) prepare(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) (doing, *session, error) {
	switch rep.Kind {
	case stepAsk:
		do, err := x.question(s, in)
		return do, nil, err
	case stepTool, stepCall:
		do, err := x.method(s, in, clk, rep)
		return do, nil, err
	}
	prompt, err := evalText("prompt", s.Prompt, in)
	if err != nil {
		return nil, nil, err
	}
	who, talk, err := x.who(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	rep.Member = who.member
	w := x.team.Worker(who.member)
	if w == nil || w.Agents == nil {
		if talk != nil {
			<-talk.turn
		}
		return nil, nil, fmt.Errorf("%q is no agent", who.member)
	}
	req := agent.Request{Agent: or(who.agent, w.Agent), Input: agent.Prompt(prompt)}
	if talk != nil {
		req.Session = talk.id
	}
	return func(ctx context.Context, c agent.Caller) (*agent.Result, error) {
		one := req
		one.Metadata = x.metadata(rep.Path, clk)
		return w.Agents.Run(ctx, &one, c)
	}, talk, nil
}

func evalText(what, text string, in *vars) (string, error) {
	t, err := parseTemplate(text)
	if err == nil {
		text, err = t.text(in)
	}
	if err != nil {
		return "", &StepError{Kind: KindTemplate, Text: what + ": " + err.Error()}
	}
	return text, nil
}

// metadata is what goes with a request beside its prompt.
func (x *run) metadata(path string, clk *clock) agent.Metadata {
	key := sha256.Sum256([]byte(x.id + "\x00" + path))
	m := agent.Metadata{}.With(MetaIdempotencyKey, hex.EncodeToString(key[:])).With(MetaStep, x.id+"/"+path)
	if left, ok := clk.remaining(); ok {
		m = m.With(MetaDeadline, left.Milliseconds())
	}
	return m
}

// who returns the agent for a step, and its conversation, if any, whose turn it waits for and takes.
func (x *run) who(ctx context.Context, s *Step) (candidate, *session, error) {
	choose := func() (candidate, error) {
		if s.Skill == "" {
			return candidate{member: s.Agent}, nil
		}
		who, ok := x.team.choose(s.Skill)
		if !ok {
			return who, fmt.Errorf("nobody declares the skill %q", s.Skill)
		}
		return who, nil
	}
	if s.Session == "" {
		who, err := choose()
		return who, nil, err
	}
	talk, err := x.session(s.Agent+"\x00"+s.Skill+"\x00"+s.Session, choose)
	if err != nil {
		return candidate{}, nil, err
	}
	select {
	case talk.turn <- struct{}{}:
		return talk.member, talk, nil
	case <-ctx.Done():
		return candidate{}, nil, context.Cause(ctx)
	}
}

func (x *run) session(key string, choose func() (candidate, error)) (*session, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if talk := x.sessions[key]; talk != nil {
		return talk, nil
	}
	who, err := choose()
	if err != nil {
		return nil, err
	}
	talk := &session{turn: make(chan struct{}, 1), member: who}
	x.sessions[key] = talk
	return talk, nil
}

// method prepares a tool or a JSON-RPC method.
func (x *run) method(s *Step, in *vars, clk *clock, rep *Report) (doing, error) {
	who, name, _ := strings.Cut(s.Tool+s.Call, "/")
	rep.Member = who
	w := x.team.Worker(who)
	args, err := evalArgs(s.Args, in)
	if err != nil {
		return nil, &StepError{Kind: KindTemplate, Text: "args: " + err.Error()}
	}
	if s.Tool != "" {
		if w == nil || w.Agents == nil {
			return nil, fmt.Errorf("%q has no tools", who)
		}
		if args == nil {
			args = jsonrpc.Raw("{}")
		}
		return func(ctx context.Context, c agent.Caller) (*agent.Result, error) {
			req := &agent.Request{Agent: name, Input: agent.User(agent.Part{JSON: args}), Metadata: x.metadata(rep.Path, clk)}
			return w.Agents.Run(ctx, req, c)
		}, nil
	}
	if w == nil || w.Peer == nil {
		return nil, fmt.Errorf("%q has no methods", who)
	}
	return func(ctx context.Context, c agent.Caller) (*agent.Result, error) {
		var (
			result jsonrpc.Raw
			err    error
		)
		if w.way != nil {
			err = w.way.call(ctx, &jsonrpc.Item{Method: name, Params: args, Result: &result}, c)
		} else {
			err = w.Peer.Call(ctx, name, args, &result)
		}
		if err != nil {
			return nil, err
		}
		return &agent.Result{State: agent.Completed, Output: outputOf(result)}, nil
	}, nil
}

// evalArgs is a value with its templates filled in; nil for none.
func evalArgs(v any, in *vars) (jsonrpc.Raw, error) {
	if v == nil {
		return nil, nil
	}
	filled, err := fill(v, in)
	if err != nil {
		return nil, err
	}
	return valueOf(filled)
}

func fill(v any, in *vars) (any, error) {
	switch v := v.(type) {
	case string:
		t, err := parseTemplate(v)
		if err != nil {
			return nil, err
		}
		raw, err := t.eval(in)
		if err == nil && kind(raw) == '{' && kind(member(raw, "state")) == '"' && kind(member(raw, "parts")) == '[' {
			raw = textValue(textOf(raw)) // a step stands for its text
		}
		return raw, err
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var err error
			if out[i], err = fill(v[i], in); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			var err error
			if out[key], err = fill(v[key], in); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// question prepares a question of the plan's own.
func (x *run) question(s *Step, in *vars) (doing, error) {
	text, err := evalText("ask", s.Ask, in)
	if err != nil {
		return nil, err
	}
	q := &agent.Question{Text: text}
	for _, o := range s.Options {
		if o, err = evalText("options", o, in); err != nil {
			return nil, err
		}
		q.Options = append(q.Options, agent.Option{ID: o, Name: o})
	}
	return func(ctx context.Context, c agent.Caller) (*agent.Result, error) {
		a, err := c.Ask(ctx, q)
		if err != nil {
			return nil, err
		}
		if a.Declined {
			return nil, &StepError{Kind: KindQuestion, Text: "the person does not want to say"}
		}
		value := a.Value
		if value == nil {
			value = jsonrpc.Raw("null")
		}
		said := agent.Metadata{}.With(metaValue, map[string]any{"option": a.Option, "value": value})
		return &agent.Result{State: agent.Completed, Output: []agent.Part{agent.Text(a.Text())}, Metadata: said}, nil
	}, nil
}
