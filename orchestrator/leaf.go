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
	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Bounds of a leaf step.
const (
	maxOutput    = 512 << 10 // bytes of its output
	maxQuestions = 20

	retryFirst = 500 * time.Millisecond
	retryMost  = time.Minute
)

// Keys of the metadata that is sent with a request.
const (
	MetaDeadline = "parley/deadline" // the milliseconds left for the request
	// MetaIdempotencyKey is the same for every try of a step, and unique to the step.
	MetaIdempotencyKey = "parley/idempotencyKey"
	MetaStep           = "parley/step" // run and path of the calling step
)

// A session is a conversation of several steps with one agent, which handles one request at a time.
type session struct {
	turn   chan struct{} // holds one element while a step uses the session
	member candidate
	id     string
}

// leaf executes a step that calls a member and reports its events.
func (x *run) leaf(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	err := x.leafErr(ctx, s, in, clk, rep)
	if err != nil {
		rep.State, rep.Error = failure(ctx, err)
	}
	told := *rep
	told.Ms = now().Sub(rep.Started).Milliseconds()
	if err := x.emit(ctx, Event{Kind: EventEnded, Path: rep.Path, Member: rep.Member, Report: &told}); err != nil && rep.State == OK {
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
		if err := x.spendCall(); err != nil {
			return err
		}
		if err := x.emit(ctx, Event{Kind: EventStarted, Path: rep.Path, Member: rep.Member, Step: rep.Kind, Try: try}); err != nil {
			return err
		}
		c := &caller{x: x, rep: rep, clk: clk}
		attempt, cancel := context.WithCancelCause(ctx)
		c.cancel = cancel
		patience := settle
		if talk != nil {
			// The next step of the session must wait until the agent has ended this one.
			patience = grace
		}
		res, err := x.call(attempt, patience, rep, func() (*agent.Result, error) { return do(attempt, c) })
		c.leave()
		cancel(nil)
		remote, cause := c.endCall(nil)
		rep.Remote = or(remote, rep.Remote)
		if cause != nil && ctx.Err() == nil {
			err = cause
		}
		if err == nil {
			err = rep.accept(res)
		}
		if err == nil {
			err = x.spendOutput(rep.Output)
		}
		if asked := c.unanswered(); err != nil && asked != "" && ctx.Err() == nil {
			err = &StepError{Kind: KindQuestion, Text: fmt.Sprintf("the question %q has no answer", x.r.clip(asked, 200))}
		}
		if err == nil || ctx.Err() != nil || !s.Idempotent || try > s.Retries || !again(err) {
			return err
		}
		_, why := failure(ctx, err)
		if err := x.emit(ctx, Event{Kind: EventRetry, Path: rep.Path, Member: rep.Member, Error: why}); err != nil {
			return err
		}
		wait := min(retryFirst<<min(try-1, 10), retryMost)
		wait += time.Duration((rand.Float64() - 0.5) * 0.4 * float64(wait))
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// How long a cancelled call may take to end: its step waits for settle, and the run waits for grace
// in total. A remote agent has [agent.LastWord] for its final events.
const (
	settle = 250 * time.Millisecond
	grace  = agent.LastWord + time.Second
)

// A straggler is a call that is still running after its step has ended.
type straggler struct {
	rep   *Report
	ended <-chan struct{}
	until time.Time
}

// call runs f and stops waiting for it when patience has passed after ctx ended. f then continues
// in the background, and the run waits for it.
func (x *run) call(ctx context.Context, patience time.Duration, rep *Report, f func() (*agent.Result, error)) (*agent.Result, error) {
	var (
		res   *agent.Result
		err   error
		ended = make(chan struct{})
	)
	go func() {
		defer close(ended)
		err = rescue.Call(x.r.Report, func() (err error) {
			res, err = f()
			return err
		})
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

// settle waits for stragglers. A call that does not stop is abandoned, and its report says so.
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

// again reports whether a retry may succeed after an error.
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

// accept stores a result in the report.
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
	return &StepError{Kind: KindTooLarge, Text: fmt.Sprintf("the output exceeds %d bytes", maxOutput)}
}

// metaValue is the metadata key that carries a report's Value in results made by this package.
const metaValue = "parley/value"

type doing func(ctx context.Context, c agent.Caller) (*agent.Result, error)

// prepare returns the call to make and its session, if any, after acquiring the session's turn.
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
		return nil, nil, fmt.Errorf("the member %q offers no agent; a step with a prompt needs one", who.member)
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

// metadata returns the metadata that is sent with a request.
func (x *run) metadata(path string, clk *clock) agent.Metadata {
	key := sha256.Sum256([]byte(x.id + "\x00" + path))
	m := agent.Metadata{}.With(MetaIdempotencyKey, hex.EncodeToString(key[:])).With(MetaStep, x.id+"/"+path)
	if left, ok := clk.remaining(); ok {
		m = m.With(MetaDeadline, left.Milliseconds())
	}
	return m
}

// who returns the agent for a step and its session, if any, after acquiring the session's turn.
func (x *run) who(ctx context.Context, s *Step) (candidate, *session, error) {
	choose := func() (candidate, error) {
		if s.Skill == "" {
			return candidate{member: s.Agent}, nil
		}
		who, ok := x.team.choose(s.Skill)
		if !ok {
			return who, fmt.Errorf("no agent declares the skill %q", s.Skill)
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

// method prepares a tool call or a JSON-RPC call.
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

// evalArgs returns a value with its templates evaluated, or nil if v is nil.
func evalArgs(v any, in *vars) (jsonrpc.Raw, error) {
	if v == nil {
		return nil, nil
	}
	filled, err := fill(v, in)
	if err != nil {
		return nil, err
	}
	return expr.ValueOf(filled)
}

func fill(v any, in *vars) (any, error) {
	switch v := v.(type) {
	case string:
		t, err := parseTemplate(v)
		if err != nil {
			return nil, err
		}
		raw, err := t.eval(in)
		if err == nil && expr.Kind(raw) == '{' && expr.Kind(expr.MemberOf(raw, "state")) == '"' && expr.Kind(expr.MemberOf(raw, "parts")) == '[' {
			raw = expr.Quote(expr.TextOf(raw)) // a step evaluates to its text
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

// question prepares a question that the plan itself asks.
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
			return nil, &StepError{Kind: KindQuestion, Text: "the user declined to answer"}
		}
		value := a.Value
		if value == nil {
			value = jsonrpc.Raw("null")
		}
		said := agent.Metadata{}.With(metaValue, map[string]any{"option": a.Option, "value": value})
		return &agent.Result{State: agent.Completed, Output: []agent.Part{agent.Text(a.Text())}, Metadata: said}, nil
	}, nil
}
