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
	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// A Runner executes plans with the members of a team. Set its fields before the first use. It is
// safe for concurrent use.
type Runner struct {
	Team *Team

	// Store stores runs for [Runs], [ReadRun] and [Follow]. To separate the runs of different
	// owners, use [store.Under]. If nil, runs are not stored.
	Store store.Store

	// Keep is how long a run is stored after its end. Zero means 30 days; a negative value means
	// indefinitely. An interrupted run is stored indefinitely.
	Keep time.Duration

	// Bounds limits each run. The zero value uses the defaults.
	Bounds Bounds

	// Redact removes from a text what must not be stored, such as the credentials of the team. The
	// text is a value in JSON or any other text of a member, of the input or of an answer; valid
	// JSON must remain valid. Redact may be called by several goroutines. If nil, all is stored
	// unchanged. The report and OnEvent get the texts unchanged, except those that are cut, since
	// half of a credential could not be recognized later.
	Redact func(text []byte) []byte

	// Ask puts a question to the user, whatever protocol it came from. Each run calls it for one
	// question at a time. Other branches continue meanwhile, and the clock of the asking step is
	// paused. Ask may return [agent.ErrNoAnswer]. If nil, questions cannot be answered.
	Ask func(ctx context.Context, q *Question) (*agent.Answer, error)

	// OnEvent is called for each event of a run, one after the other. It must not wait for the run.
	// If nil, events are not reported.
	OnEvent func(e Event)

	// Report is called with problems that are not part of a run's report, such as a store that
	// failed to store its end. If nil, they are dropped.
	Report func(what string, err error)
}

// A Question is a question of a run to the user.
type Question struct {
	Run    string // the run's ID
	Path   string // the step's path
	Member string // the asking member; empty if the plan itself asks
	agent.Question
}

// An InputError reports that the input of a run is invalid. Nothing was started.
type InputError struct{ Text string }

func (e *InputError) Error() string { return "input: " + e.Text }

// Run executes p with the named inputs and returns a report. It returns an error only if the run
// did not start: [*PlanError] for an invalid plan, [*InputError] for invalid input, or an error of
// the store. How a started run ended is only in the report. When ctx ends, running calls are
// cancelled at their members, and Run returns when all of them have ended, a few seconds later at
// most.
func (r *Runner) Run(ctx context.Context, p *Plan, input map[string]any) (*Report, error) {
	return r.RunAs(ctx, NewID(), p, input)
}

// RunAs is like [Runner.Run] with a run ID chosen by the caller. The ID must be new.
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
	x.cancel, x.ctx = cancel, ctx
	x.spent.init(r.Bounds)
	report := &Report{Kind: "plan", State: OK, Started: now()}
	if r.Store != nil {
		if x.journal, err = startJournal(ctx, r, Info{ID: id, Plan: r.redact(p.Name), State: Running, Started: report.Started}, cancel); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	if err := x.emit(ctx, Event{Kind: EventRunStarted, Plan: p.Name, Input: given}); err != nil {
		return nil, errors.Join(err, x.journal.storeEnd(ctx, &Report{State: Failed}))
	}
	x.whole(ctx, given, report)
	x.settle()
	// A bound or the store ended the run, not its caller.
	if e, ok := errors.AsType[*StepError](context.Cause(ctx)); ok {
		c := *e
		report.State, report.Error = Failed, &c
	}
	report.Ms = time.Since(begun).Milliseconds()
	told := *report
	told.Steps, told.Output = nil, nil
	if err := x.emit(ctx, Event{Kind: EventRunEnded, Report: &told, Text: r.clip(report.Text(), 256<<10)}); err != nil {
		x.report(ReportRunNotStored, err)
	}
	if err := x.journal.storeEnd(ctx, report); err != nil {
		x.report(ReportRunNotListed, err)
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

// given completes the input with the plan's defaults.
func (p *Plan) given(input map[string]any) (jsonrpc.Raw, error) {
	all := map[string]any{}
	for _, in := range p.Input {
		v, ok := input[in.Name]
		if !ok {
			if in.Required {
				return nil, &InputError{fmt.Sprintf("missing %q", in.Name)}
			}
			v = in.Default
		}
		all[in.Name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(input)) {
		if _, known := all[name]; !known {
			return nil, &InputError{fmt.Sprintf("the plan has no input %q", name)}
		}
	}
	raw, err := expr.ValueOf(all)
	if err != nil {
		return nil, &InputError{err.Error()}
	}
	return raw, nil
}

// hasSkills surveys the team if the plan uses skills, and returns an error for a skill that no
// member declares.
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
		r.Report(ReportSkills, err)
	}
	c := &checker{plan: p}
	for _, path := range slices.Sorted(maps.Keys(needed)) {
		if len(team.withSkill(needed[path])) == 0 {
			c.wrong(path+".skill", "no member of the team declares the skill %q", needed[path])
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

// A run is one execution of a plan.
type run struct {
	r      *Runner
	plan   *Plan
	team   *Team
	id     string
	ctx    context.Context // the context of the whole run, ended by cancel
	cancel context.CancelCauseFunc
	asking chan struct{} // holds one element while a question is open
	spent  spending

	journal *journal // used only by the writer of events

	mu         sync.Mutex // guards the fields below; never held during I/O
	pending    []*telling // queued events, in order
	writing    bool       // a goroutine is writing events
	sessions   map[string]*session
	stragglers []straggler
}

func (x *run) report(what string, err error) {
	report.Call(x.r.Report, "orchestrator", what, fmt.Errorf("run %s: %w", x.id, err))
}

// kept contains the kinds of events that are stored.
var kept = map[string]bool{
	EventRunStarted: true, EventStarted: true, EventQuestion: true, EventAnswered: true, EventRetry: true, EventEnded: true, EventRunEnded: true,
}

// A telling is an event waiting to be stored and reported.
type telling struct {
	event Event
	err   error
	next  chan bool // true: it was written; false: the waiter writes the next ones
}

// maxTelling bounds the events that are written at once.
const maxTelling = 256

// emit reports an event, after storing it if its kind is stored. If storing fails, the run ends.
// Events that arrive while others are being stored are stored together by one of the waiters, so
// many branches need few writes.
func (x *run) emit(ctx context.Context, e Event) error {
	e.Run, e.Time = x.id, now()
	// The end of a step or run is always reported.
	if e.Kind != EventRunEnded && e.Kind != EventEnded {
		if err := x.spendEvent(); err != nil {
			return err
		}
	}
	t := &telling{event: e, next: make(chan bool, 1)}
	x.mu.Lock()
	x.pending = append(x.pending, t)
	writes := !x.writing
	x.writing = true
	x.mu.Unlock()
	if !writes && <-t.next {
		return t.err
	}
	x.mu.Lock()
	batch := x.pending[:min(len(x.pending), maxTelling)]
	x.pending = append([]*telling(nil), x.pending[len(batch):]...)
	x.mu.Unlock()
	x.store(batch)
	x.mu.Lock()
	if len(x.pending) > 0 {
		x.pending[0].next <- false
	} else {
		x.writing = false
	}
	x.mu.Unlock()
	for _, other := range batch {
		if other != t {
			other.next <- true
		}
	}
	return t.err
}

// store stores events and then reports them. Only one call runs at a time.
func (x *run) store(batch []*telling) {
	var events []*Event
	for _, t := range batch {
		if kept[t.event.Kind] {
			events = append(events, &t.event)
		}
	}
	err := rescue.Call(x.r.Report, func() error { return x.journal.write(x.ctx, events) })
	if err != nil {
		x.cancel(&StepError{Kind: KindStorage, Text: "cannot store the run: " + err.Error()})
	}
	for _, t := range batch {
		if err != nil && kept[t.event.Kind] {
			t.err = err
			continue
		}
		if x.r.OnEvent != nil {
			_ = rescue.Run(x.r.Report, func() { x.r.OnEvent(t.event) }) // the run continues
		}
	}
}

// whole executes the steps of the plan and sets the result.
func (x *run) whole(ctx context.Context, given jsonrpc.Raw, report *Report) {
	limit := x.plan.Deadline
	if limit == 0 {
		limit = defaultDeadline
	}
	ctx, clk, stop := withClock(ctx, nil, limit)
	clk.soft = x.plan.Deadline == 0
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

// outputOf converts a value to parts: the parts of a step's result, text for a string, and JSON for
// everything else.
func outputOf(v jsonrpc.Raw) []agent.Part {
	if expr.Kind(v) == '"' {
		return []agent.Part{agent.Text(expr.TextOf(v))}
	}
	if expr.Kind(v) == '{' && expr.Kind(expr.MemberOf(v, "parts")) == '[' && expr.Kind(expr.MemberOf(v, "state")) == '"' {
		var parts []agent.Part
		if expr.MemberOf(v, "parts").Decode(&parts) == nil {
			return parts
		}
	}
	return []agent.Part{{JSON: v}}
}

// pathOf returns the path of a step in its parent. A step without an ID has its number, counted
// from 1.
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

// sequence executes steps in order, adds their reports to parent and gives parent the output of the
// last step. It stops at the first step that fails and is not optional.
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

// fail copies the failure of a nested step.
func (r *Report) fail(of *Report) {
	if r.State != OK {
		return
	}
	r.State = of.State
	e := *of.Error
	e.Step = or(e.Step, of.Path)
	r.Error = &e
}

// skip returns the report of a step that is not started.
func (x *run) skip(ctx context.Context, s *Step, path, why string) *Report {
	rep := &Report{Path: path, Kind: s.what(), State: Skipped, Error: &StepError{Kind: KindSkipped, Text: why}}
	_ = x.emit(ctx, Event{Kind: EventEnded, Path: path, Report: rep}) // on failure the run ends
	return rep
}

// unbegun returns the report of a step whose context ended before it started. It looks like that of
// a step that had just started.
func (x *run) unbegun(ctx context.Context, path, what string) *Report {
	rep := &Report{Path: path, Kind: what}
	rep.State, rep.Error = failure(ctx, context.Cause(ctx))
	_ = x.emit(ctx, Event{Kind: EventEnded, Path: path, Report: rep}) // on failure the run ends
	return rep
}

// step executes one step of any kind within its timeout.
func (x *run) step(ctx context.Context, s *Step, path string, in *vars, clk *clock) *Report {
	if ctx.Err() != nil {
		return x.unbegun(ctx, path, s.what())
	}
	rep := &Report{Path: path, Kind: s.what(), State: OK, Started: now()}
	if err := x.spendSteps(1); err != nil {
		return x.unbegun(ctx, path, s.what())
	}
	if s.When != "" {
		yes, err := condition(s.When, in)
		if err != nil {
			rep.State, rep.Error = Failed, &StepError{Kind: KindTemplate, Text: "when: " + err.Error()}
			// On failure the run ends.
			_ = x.emit(ctx, Event{Kind: EventEnded, Path: path, Report: rep})
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
	// On failure the run ends.
	_ = x.emit(ctx, Event{Kind: EventStarted, Path: path, Step: rep.Kind, Try: 1})
	do(ctx, s, in, clk, rep)
	rep.Ms = time.Since(begun).Milliseconds()
	rep.late(ctx)
	told := *rep
	told.Steps, told.Output, told.Value = nil, nil, nil
	_ = x.emit(ctx, Event{Kind: EventEnded, Path: path, Report: &told}) // on failure the run ends
	return rep
}

func (x *run) inner(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	x.sequence(ctx, s.Steps, rep.Path, in, clk, rep)
}

// late records that this step's own timeout ended the steps in it.
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
	v, err := e.Eval(in)
	return expr.Truthy(v), err
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
			rep.State, rep.Error = Failed, &StepError{Kind: KindRoute, Text: fmt.Sprintf("unknown case %q", expr.Clip(name))}
			return
		}
		name, steps = "else", s.Else
	}
	x.sequence(ctx, steps, under(rep.Path, name), in, clk, rep)
	rep.Value, _ = expr.ValueOf(map[string]string{"case": name}) // strings always encode
}

func (x *run) loop(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	last := expr.Quote("")
	for i := 1; i <= s.Times; i++ {
		if err := x.spendSteps(1); err != nil {
			rep.State, rep.Error = failure(ctx, err)
			return
		}
		round := newVars(in)
		loop, _ := expr.ValueOf(map[string]any{"index": i, "last": last}) // these always encode
		round.set("loop", loop)
		one := &Report{State: OK}
		inner := x.sequence(ctx, s.Loop, under(rep.Path, fmt.Sprint(i)), round, clk, one)
		rep.Steps = append(rep.Steps, one.Steps...)
		rep.Output = one.Output
		rep.Value, _ = expr.ValueOf(map[string]int{"times": i}) // numbers always encode
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
		rep.State, rep.Error = Failed, &StepError{Kind: KindLoop, Text: fmt.Sprintf("until was not true after %d iterations", s.Times)}
	}
}
