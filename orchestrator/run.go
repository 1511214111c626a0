package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// A Runner has plans done by a team. Set its fields before its first use; it is safe for concurrent use.
type Runner struct {
	Team *Team

	// Store keeps runs, for [Runs], [ReadRun] and [Follow]; the runs of one owner go into a part of it, see [store.Under]. Nil:
	// they are not kept.
	Store store.Store

	// Keep is how long a run is kept after its end. Zero means 30 days, negative means for ever. One that was interrupted is kept.
	Keep time.Duration

	// Ask puts a question to a person, whatever protocol it came by. It is called once at a time for each run, while other branches
	// go on and the time of the step that asks stands still. It may return [agent.ErrNoAnswer]. Nil: nobody is there.
	Ask func(ctx context.Context, q *Question) (*agent.Answer, error)

	// OnEvent is told what happens, one event after the other for each run. It must not wait for the run. Nil: nobody is told.
	OnEvent func(e Event)

	// Report gets what is wrong and no part of a run's report, such as a store that did not take its end. Nil drops it.
	Report func(what string, err error)
}

// A Question is something that a run needs to know from a person.
type Question struct {
	Run    string // id
	Path   string // of the step
	Member string // who asks; empty for a step of the plan that does
	agent.Question
}

// An InputError says that a run was given the wrong things. Nothing was begun.
type InputError struct{ Text string }

func (e *InputError) Error() string { return "input: " + e.Text }

// Run has a plan done with an input, by name, and returns how it went. An error says that it did not begin: the plan is wrong
// ([*PlanError]), the input is ([*InputError]), or the store does not take it. How a run ended that did begin is in the report
// alone. When ctx ends, what is under way is cancelled where it runs, and Run returns when all of it has ended, some seconds
// later at most.
func (r *Runner) Run(ctx context.Context, p *Plan, input map[string]any) (*Report, error) {
	return r.RunAs(ctx, NewID(), p, input)
}

// RunAs is Run with an id of the caller's, which must be new.
func (r *Runner) RunAs(ctx context.Context, id string, p *Plan, input map[string]any) (*Report, error) {
	team := r.Team
	if team == nil {
		team = &Team{}
	}
	if err := p.Check(team.Names()...); err != nil {
		return nil, err
	}
	given, err := p.given(input)
	if err != nil {
		return nil, err
	}
	if err := r.hasSkills(ctx, p, team); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	x := &run{r: r, plan: p, team: team, id: id, asking: make(chan struct{}, 1), sessions: map[string]*session{}}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x.cancel = cancel
	report := &Report{Kind: "plan", State: OK, Started: now()}
	if r.Store != nil {
		if x.journal, err = begin(ctx, r.Store, r.keep(), Info{ID: id, Plan: p.Name, State: Running, Started: report.Started}, cancel); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	if err := x.tell(ctx, Event{Kind: EventRunStarted, Plan: p.Name, Input: given}); err != nil {
		return nil, errors.Join(err, x.journal.end(ctx, &Report{State: Failed}))
	}
	x.whole(ctx, given, report)
	x.settle()
	report.Ms = time.Since(begun).Milliseconds()
	told := *report
	told.Steps, told.Output = nil, nil
	if err := x.tell(ctx, Event{Kind: EventRunEnded, Report: &told, Text: clipTo(report.Text(), 256<<10)}); err != nil {
		x.complain("the end of the run is not kept", err)
	}
	if err := x.journal.end(ctx, report); err != nil {
		x.complain("the end of the run is not listed", err)
	}
	return report, nil
}

func (r *Runner) keep() time.Duration {
	if r.Keep == 0 {
		return 30 * 24 * time.Hour
	}
	return max(r.Keep, 0)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// given completes an input with what the plan says.
func (p *Plan) given(input map[string]any) (jsonrpc.Raw, error) {
	all := map[string]any{}
	for _, in := range p.Input {
		v, ok := input[in.Name]
		if !ok {
			if in.Required {
				return nil, &InputError{fmt.Sprintf("%q is missing", in.Name)}
			}
			v = in.Default
		}
		all[in.Name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(input)) {
		if _, known := all[name]; !known {
			return nil, &InputError{fmt.Sprintf("the plan takes no %q", name)}
		}
	}
	raw, err := valueOf(all)
	if err != nil {
		return nil, &InputError{err.Error()}
	}
	return raw, nil
}

// hasSkills asks the team what it can do, if the plan needs to know, and says which skill nobody has.
func (r *Runner) hasSkills(ctx context.Context, p *Plan, team *Team) error {
	needed := map[string]string{}
	p.visit(func(s *Step, path string) {
		if s.Skill != "" {
			needed[path] = s.Skill
		}
	})
	if len(needed) == 0 {
		return nil
	}
	if _, err := team.Survey(ctx); err != nil && r.Report != nil {
		r.Report("some members did not say what they can do", err)
	}
	c := &checker{plan: p}
	for _, path := range slices.Sorted(maps.Keys(needed)) {
		if len(team.withSkill(needed[path])) == 0 {
			c.wrong(path+".skill", "nobody in the team declares the skill %q", needed[path])
		}
	}
	if len(c.found) > 0 {
		return problemsError(p.file, c.found)
	}
	return nil
}

// visit calls f for every step.
func (p *Plan) visit(f func(s *Step, path string)) {
	var all func(steps []Step, path string)
	all = func(steps []Step, path string) {
		for i := range steps {
			s, at := &steps[i], fmt.Sprintf("%s[%d]", path, i)
			f(s, at)
			all(s.Steps, at+".steps")
			all(s.Parallel, at+".parallel")
			all(s.Do, at+".do")
			all(s.Loop, at+".loop")
			all(s.Else, at+".else")
			for name, steps := range s.Cases {
				all(steps, at+".cases."+name)
			}
		}
	}
	all(p.Steps, "steps")
}

// A run is one time that a plan is done.
type run struct {
	r      *Runner
	plan   *Plan
	team   *Team
	id     string
	cancel context.CancelCauseFunc
	asking chan struct{} // holds one while a person is asked

	mu         sync.Mutex // guards what follows, and keeps events in order
	journal    *journal
	sessions   map[string]*session
	stragglers []straggler
}

func (x *run) complain(what string, err error) {
	if x.r.Report != nil {
		x.r.Report(what, fmt.Errorf("run %s: %w", x.id, err))
	}
}

// kept tells which events go into the store.
var kept = map[string]bool{
	EventRunStarted: true, EventStarted: true, EventQuestion: true, EventAnswered: true, EventRetry: true, EventEnded: true, EventRunEnded: true,
}

// tell hands an event on, after it is written down if it is to be. When that is not possible the run ends.
func (x *run) tell(ctx context.Context, e Event) error {
	e.Run, e.Time = x.id, now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if kept[e.Kind] {
		if err := x.journal.write(ctx, &e); err != nil {
			x.cancel(&StepError{Kind: KindStorage, Text: "the run cannot be written down: " + err.Error()})
			return err
		}
	}
	if x.r.OnEvent != nil {
		x.r.OnEvent(e)
	}
	return nil
}

// whole does the steps of the plan, and what comes of them.
func (x *run) whole(ctx context.Context, given jsonrpc.Raw, report *Report) {
	limit := x.plan.Deadline
	if limit == 0 {
		limit = defaultDeadline
	}
	ctx, clk, stop := withClock(ctx, nil, limit)
	defer stop()
	top := newVars(nil)
	top.set("input", given)
	inner := x.sequence(ctx, x.plan.Steps, "", top, clk, report)
	if report.State != OK || x.plan.Output == "" {
		return
	}
	t, err := parseTemplate(x.plan.Output)
	if err == nil {
		var v jsonrpc.Raw
		if v, err = t.eval(inner); err == nil {
			report.Output = outputOf(v)
			return
		}
	}
	report.State, report.Error = Failed, &StepError{Kind: KindTemplate, Text: "output: " + err.Error()}
}

// outputOf makes parts of a value: those of a step's result, text of text, and JSON of everything else.
func outputOf(v jsonrpc.Raw) []agent.Part {
	if kind(v) == '"' {
		return []agent.Part{agent.Text(textOf(v))}
	}
	if kind(v) == '{' && kind(member(v, "parts")) == '[' && kind(member(v, "state")) == '"' {
		var parts []agent.Part
		if member(v, "parts").Decode(&parts) == nil {
			return parts
		}
	}
	return []agent.Part{{JSON: v}}
}

// pathOf is the path of a step in its parent, with its number, from 1, if it has no id.
func pathOf(up string, s *Step, i int) string {
	name := s.ID
	if name == "" {
		name = fmt.Sprint(i + 1)
	}
	return under(up, name)
}

func under(up, name string) string {
	if up == "" {
		return name
	}
	return up + "/" + strings.ReplaceAll(name, "/", "_")
}

// sequence does steps one after the other, puts their reports into the parent's, and gives it the output of the last one. The
// first step that fails and is not optional is the end.
func (x *run) sequence(ctx context.Context, steps []Step, path string, up *vars, clk *clock, parent *Report) *vars {
	inner := newVars(up)
	for i := range steps {
		s := &steps[i]
		var rep *Report
		if parent.State != OK {
			rep = x.skip(ctx, s, pathOf(path, s, i), "an earlier step failed")
		} else {
			rep = x.step(ctx, s, pathOf(path, s, i), inner, clk)
		}
		parent.Steps = append(parent.Steps, rep)
		if s.ID != "" {
			inner.set(s.ID, rep.value())
		}
		switch rep.State {
		case OK:
			parent.Output, parent.Value = rep.Output, nil
		case Skipped:
		default:
			if !s.Optional || ctx.Err() != nil {
				parent.fail(rep)
			}
		}
	}
	return inner
}

// fail takes over how a step in it ended.
func (r *Report) fail(of *Report) {
	if r.State != OK {
		return
	}
	r.State = of.State
	e := *of.Error
	e.Step = or(e.Step, of.Path)
	r.Error = &e
}

// skip is the report of a step that does not begin.
func (x *run) skip(ctx context.Context, s *Step, path, why string) *Report {
	rep := &Report{Path: path, Kind: s.what(), State: Skipped, Error: &StepError{Kind: KindSkipped, Text: why}}
	_ = x.tell(ctx, Event{Kind: EventEnded, Path: path, Report: rep}) // a failed one ends the run
	return rep
}

// unbegun is the report of a step whose context has ended before it: for the reader of a report that is no other end than that of a
// step which had just begun.
func (x *run) unbegun(ctx context.Context, path, what string) *Report {
	rep := &Report{Path: path, Kind: what}
	rep.State, rep.Error = failure(ctx, context.Cause(ctx))
	_ = x.tell(ctx, Event{Kind: EventEnded, Path: path, Report: rep}) // a failed one ends the run
	return rep
}

// step does one step, whatever it is, within its time.
func (x *run) step(ctx context.Context, s *Step, path string, in *vars, clk *clock) *Report {
	if ctx.Err() != nil {
		return x.unbegun(ctx, path, s.what())
	}
	rep := &Report{Path: path, Kind: s.what(), State: OK, Started: now()}
	if s.When != "" {
		yes, err := condition(s.When, in)
		if err != nil {
			rep.State, rep.Error = Failed, &StepError{Kind: KindTemplate, Text: "when: " + err.Error()}
			_ = x.tell(ctx, Event{Kind: EventEnded, Path: path, Report: rep}) // a failed one ends the run
			return rep
		}
		if !yes {
			return x.skip(ctx, s, path, "when is not true")
		}
	}
	begun := time.Now()
	ctx, clk, stop := withClock(ctx, clk, s.Timeout)
	defer stop()
	do, holds := map[string]func(context.Context, *Step, *vars, *clock, *Report){
		stepSteps: x.inner, stepParallel: x.parallel, stepMap: x.each, stepRoute: x.route, stepLoop: x.loop,
	}[rep.Kind]
	if !holds {
		x.leaf(ctx, s, in, clk, rep)
		rep.Ms = time.Since(begun).Milliseconds()
		return rep
	}
	_ = x.tell(ctx, Event{Kind: EventStarted, Path: path, Step: rep.Kind, Try: 1}) // a failed one ends the run
	do(ctx, s, in, clk, rep)
	rep.Ms = time.Since(begun).Milliseconds()
	rep.late(ctx)
	told := *rep
	told.Steps, told.Output, told.Value = nil, nil, nil
	_ = x.tell(ctx, Event{Kind: EventEnded, Path: path, Report: &told}) // a failed one ends the run
	return rep
}

func (x *run) inner(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	x.sequence(ctx, s.Steps, rep.Path, in, clk, rep)
}

// late says that it was this step's own time that ended those in it.
func (r *Report) late(ctx context.Context) {
	if r.State == OK {
		return
	}
	if late, ok := errors.AsType[*timeoutError](context.Cause(ctx)); ok {
		r.State, r.Error = TimedOut, &StepError{Step: r.Error.Step, Kind: KindTimeout, Text: late.Error()}
	}
}

func condition(text string, in *vars) (bool, error) {
	e, err := parseCondition(text)
	if err != nil {
		return false, err
	}
	v, err := e.eval(in)
	return truthy(v), err
}

func (x *run) route(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	t, err := parseTemplate(s.Route)
	var name string
	if err == nil {
		name, err = t.text(in)
	}
	if err != nil {
		rep.State, rep.Error = Failed, &StepError{Kind: KindTemplate, Text: err.Error()}
		return
	}
	name = strings.TrimSpace(name)
	steps, ok := s.Cases[name]
	if !ok {
		if s.Else == nil {
			rep.State, rep.Error = Failed, &StepError{Kind: KindRoute, Text: fmt.Sprintf("there is no case %q", clip(name))}
			return
		}
		name, steps = "else", s.Else
	}
	x.sequence(ctx, steps, under(rep.Path, name), in, clk, rep)
	rep.Value, _ = valueOf(map[string]string{"case": name}) // text has JSON
}

func (x *run) loop(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	last := textValue("")
	for i := 1; i <= s.Times; i++ {
		round := newVars(in)
		loop, _ := valueOf(map[string]any{"index": i, "last": last}) // these have JSON
		round.set("loop", loop)
		one := &Report{State: OK}
		inner := x.sequence(ctx, s.Loop, under(rep.Path, fmt.Sprint(i)), round, clk, one)
		rep.Steps = append(rep.Steps, one.Steps...)
		rep.Output = one.Output
		rep.Value, _ = valueOf(map[string]int{"times": i}) // numbers have JSON
		if one.State != OK {
			rep.fail(&Report{State: one.State, Error: one.Error})
			return
		}
		last = one.value()
		if s.Until == "" {
			continue
		}
		done, err := condition(s.Until, inner)
		if err != nil {
			rep.State, rep.Error = Failed, &StepError{Kind: KindTemplate, Text: "until: " + err.Error()}
			return
		}
		if done {
			return
		}
	}
	if s.Until != "" {
		rep.State, rep.Error = Failed, &StepError{Kind: KindLoop, Text: fmt.Sprintf("until was not true after %d times", s.Times)}
	}
}
