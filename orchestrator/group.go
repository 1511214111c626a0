package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A group is a set of parallel branches and the condition that completes it.
type group struct {
	kind  Join
	n     int
	agree bool
	total int

	ended  int
	ok     []*Report
	first  *Report // the first report that failed
	agreed string
}

func newGroup(s *Step, total int) *group {
	kind, n, err := s.Join.parse()
	if err != nil {
		kind = JoinAll // Check has rejected invalid joins
	}
	return &group{kind: kind, n: n, agree: s.Agree, total: total}
}

// add counts an ended branch. It returns the cause with which to cancel the others, or nil.
func (g *group) add(r *Report) error {
	g.ended++
	switch {
	case r.State == OK:
		g.ok = append(g.ok, r)
	case g.first == nil && r.State != Skipped:
		g.first = r
	}
	left := g.total - g.ended
	switch g.kind {
	case JoinAll:
		if r.State != OK && r.State != Skipped {
			return errLost
		}
	case JoinAny:
		if len(g.ok) > 0 {
			return errDone
		}
	case joinQuorum:
		most := g.most()
		if most >= g.n {
			return errDone
		}
		if most+left < g.n {
			return errLost
		}
	}
	return nil
}

// most returns how many branches are OK or, if they must agree, have the same text.
func (g *group) most() int {
	if !g.agree {
		return len(g.ok)
	}
	votes, most := map[string]int{}, 0
	for _, r := range g.ok {
		text := strings.TrimSpace(r.Text())
		if votes[text]++; votes[text] > most {
			most, g.agreed = votes[text], text
		}
	}
	return most
}

// judge sets the final state of the group. Optional branches may fail.
func (g *group) judge(rep *Report) {
	switch g.kind {
	case JoinCollect:
		return
	case JoinAll:
		if g.first != nil {
			rep.fail(g.first)
		}
		return
	case JoinAny:
		if len(g.ok) > 0 {
			return
		}
	case joinQuorum:
		if g.most() >= g.n {
			return
		}
	}
	text := fmt.Sprintf("%d of %d are ok, %s needs %d", len(g.ok), g.total, g.kind, g.n)
	if g.agree {
		text = fmt.Sprintf("%d of %d agree, the quorum needs %d", g.most(), g.total, g.n)
	}
	rep.State, rep.Error = Failed, &StepError{Kind: KindJoin, Text: text}
	if g.first != nil {
		rep.Error.Text += "; first " + g.first.Error.Error()
	}
}

// output sets the output of the group: the one result of any or of a quorum that agrees, otherwise
// all results in order.
func (g *group) output(rep *Report) {
	switch {
	case len(g.ok) == 0:
	case g.kind == JoinAny:
		rep.Output = g.ok[0].Output
	case g.agree:
		for _, r := range g.ok {
			if strings.TrimSpace(r.Text()) == g.agreed {
				rep.Output = r.Output
				return
			}
		}
	default:
		for _, r := range rep.Steps {
			if r.State != OK {
				continue
			}
			if len(rep.Output) > 0 {
				rep.Output = append(rep.Output, AgentPart{Text: "\n"})
			}
			rep.Output = append(rep.Output, r.Output...)
		}
	}
}

// texts returns the texts of the branches that are OK, in plan order.
func texts(reports []*Report) []string {
	out := []string{}
	for _, r := range reports {
		if r.State == OK {
			out = append(out, r.Text())
		}
	}
	return out
}

// branches runs up to limit branches at a time and waits until all have ended. It calls do with the
// index of each branch that may start; waits lists the branches that must end before it. do does
// not panic: it uses rescued. The reports are in plan order.
func (x *run) branches(ctx context.Context, g *group, limit int, waits [][]int, do func(ctx context.Context, i int) *Report) []*Report {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type ended struct {
		i int
		r *Report
	}
	var (
		reports = make([]*Report, g.total)
		begun   = make([]bool, g.total)
		results = make(chan ended, g.total)
		running = 0
	)
	ready := func(i int) bool {
		return waits == nil || !slices.ContainsFunc(waits[i], func(j int) bool { return reports[j] == nil })
	}
	for done := 0; done < g.total; {
		for i := 0; i < g.total && running < limit; i++ {
			if begun[i] || !ready(i) {
				continue
			}
			begun[i] = true
			running++
			go func() { results <- ended{i, do(ctx, i)} }()
		}
		e := <-results // at least one runs, because there are no cycles
		running--
		done++
		reports[e.i] = e.r
		if cause := g.add(e.r); cause != nil {
			cancel(cause)
		}
	}
	return reports
}

// rescued returns the report of the branch at path, which f makes. If f panics, the branch has
// failed, and the event that ends it is stored like that of any other step.
func (x *run) rescued(ctx context.Context, path, kind string, f func() *Report) (r *Report) {
	begun := now()
	if err := rescue.Run(x.r.Report, func() { r = f() }); err == nil { // of Redact
		return r
	}
	r = &Report{Path: path, Kind: kind, State: Failed, Started: begun, Ms: now().Sub(begun).Milliseconds(),
		Error: &StepError{Kind: KindAgent, Text: "it panicked"}}
	_ = x.emit(ctx, Event{Kind: EventEnded, Path: path, Report: r}) // on failure the run ends
	return r
}

func (x *run) parallel(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	g := newGroup(s, len(s.Parallel))
	shared := newVars(in)
	waits := x.waits(s)
	// Each element is written once, before the branches that wait for it start.
	done := make([]*Report, len(s.Parallel))
	rep.Steps = x.branches(ctx, g, len(s.Parallel), waits, func(ctx context.Context, i int) *Report {
		b := &s.Parallel[i]
		path := pathOf(rep.Path, b, i)
		r := x.rescued(ctx, path, b.what(), func() *Report {
			for _, j := range waits[i] {
				if done[j].State != OK && !s.Parallel[j].Optional {
					return x.skip(ctx, b, path, "it waits for "+done[j].Path+", which is "+string(done[j].State))
				}
			}
			return x.step(ctx, b, path, shared, clk)
		})
		if b.ID != "" {
			shared.set(b.ID, r.value())
		}
		done[i] = r
		return x.forgive(ctx, b, r)
	})
	g.judge(rep)
	g.output(rep)
	results := map[string]jsonrpc.Raw{}
	for i, r := range rep.Steps {
		if id := s.Parallel[i].ID; id != "" {
			results[id] = r.value()
		}
	}
	// All of it encodes as JSON.
	rep.Value, _ = expr.ValueOf(map[string]any{"results": results, "texts": texts(rep.Steps)})
}

// forgive changes the report of an optional branch that failed so that the failure does not count.
func (x *run) forgive(ctx context.Context, s *Step, r *Report) *Report {
	if !s.Optional || r.State == OK || r.State == Skipped || ctx.Err() != nil {
		return r
	}
	c := *r
	c.State = Skipped
	return &c
}

// waits returns, for each branch, the indexes of the branches it waits for.
func (x *run) waits(s *Step) [][]int {
	index := map[string]int{}
	for i := range s.Parallel {
		if id := s.Parallel[i].ID; id != "" {
			index[id] = i
		}
	}
	waits := make([][]int, len(s.Parallel))
	for i := range s.Parallel {
		b := &s.Parallel[i]
		used := map[string]bool{}
		for _, id := range b.After {
			used[id] = true
		}
		b.names(used)
		for id := range used {
			if j, ok := index[id]; ok {
				waits[i] = append(waits[i], j)
			}
		}
	}
	return waits
}

// names collects the names that a step and its nested steps use.
func (s *Step) names(used map[string]bool) {
	note := func(e *expr.Expr) {
		if e.Op == expr.Name {
			used[e.Text] = true
		}
	}
	template := func(text string) {
		if t, err := parseTemplate(text); err == nil {
			t.walk(note)
		}
	}
	for _, text := range []string{s.When, s.Until} {
		if e, err := parseCondition(text); err == nil && text != "" {
			e.Walk(note)
		}
	}
	for _, text := range append([]string{s.Prompt, s.Ask, s.Map, s.Route}, s.Options...) {
		template(text)
	}
	var args func(v any)
	args = func(v any) {
		switch v := v.(type) {
		case string:
			template(v)
		case []any:
			for _, e := range v {
				args(e)
			}
		case map[string]any:
			for _, e := range v {
				args(e)
			}
		}
	}
	args(s.Args)
	inner := [][]Step{s.Steps, s.Parallel, s.Do, s.Loop, s.Else}
	for _, c := range s.Cases {
		inner = append(inner, c)
	}
	for _, steps := range inner {
		for i := range steps {
			steps[i].names(used)
		}
	}
}

func (x *run) each(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	items, err := x.items(s, in)
	if err != nil {
		rep.State, rep.Error = Failed, &StepError{Kind: KindTemplate, Text: "map: " + err.Error()}
		return
	}
	if err := x.spendSteps(int64(len(items))); err != nil {
		rep.State, rep.Error = failure(ctx, err)
		return
	}
	limit := s.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	as := or(s.As, "item")
	g := newGroup(s, len(items))
	rep.Steps = x.branches(ctx, g, limit, nil, func(ctx context.Context, i int) *Report {
		path := under(rep.Path, fmt.Sprint(i+1))
		return x.rescued(ctx, path, stepSteps, func() *Report {
			one := &Report{Path: path, Kind: stepSteps, State: OK, Started: now()}
			if ctx.Err() != nil {
				one.State, one.Error = failure(ctx, context.Cause(ctx))
				return one
			}
			inner := newVars(in)
			inner.set(as, items[i])
			inner.set("index", jsonrpc.Raw(fmt.Sprint(i+1)))
			x.sequence(ctx, s.Do, path, inner, clk, one)
			one.Ms = now().Sub(one.Started).Milliseconds()
			return one
		})
	})
	g.judge(rep)
	g.output(rep)
	results := []jsonrpc.Raw{}
	for _, r := range rep.Steps {
		results = append(results, r.value())
	}
	// All of it encodes as JSON.
	rep.Value, _ = expr.ValueOf(map[string]any{"results": results, "texts": texts(rep.Steps)})
}

// items returns the list that a map iterates over.
func (x *run) items(s *Step, in *vars) ([]jsonrpc.Raw, error) {
	t, err := parseTemplate(s.Map)
	if err != nil {
		return nil, err
	}
	v, err := t.eval(in)
	if err != nil {
		return nil, err
	}
	if expr.Kind(v) == '{' && expr.Kind(expr.MemberOf(v, "state")) == '"' {
		v = expr.MemberOf(v, "json") // the result of a step
	}
	if expr.Kind(v) == '"' {
		if v, err = expr.ParseJSON(expr.TextOf(v)); err != nil {
			return nil, fmt.Errorf("%w; lines() makes a list of text", err)
		}
	}
	if expr.Kind(v) != '[' {
		return nil, fmt.Errorf("%s is not a list", expr.Clip(string(v)))
	}
	l := expr.List(v)
	if len(l) > maxItems {
		return nil, errors.New("the list has more than 10,000 values")
	}
	out := make([]jsonrpc.Raw, len(l))
	for i := range l {
		out[i] = jsonrpc.Raw(l[i])
	}
	return out, nil
}
