package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A group is branches that run at the same time, and when they are done.
type group struct {
	kind  Join
	n     int
	agree bool
	total int

	ended  int
	ok     []*Report
	first  *Report // the first that failed
	agreed string
}

func newGroup(s *Step, total int) *group {
	kind, n, err := s.Join.parse()
	if err != nil {
		kind = JoinAll // the check has refused it
	}
	return &group{kind: kind, n: n, agree: s.Agree, total: total}
}

// add counts a branch that has ended, and returns a cause to end the others with, or nil.
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

// most is how many are ok, or say the same.
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

// judge says how the whole ended. optional branches may fail.
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
		text = fmt.Sprintf("%d of %d say the same, the quorum needs %d", g.most(), g.total, g.n)
	}
	rep.State, rep.Error = Failed, &StepError{Kind: KindJoin, Text: text}
	if g.first != nil {
		rep.Error.Text += "; first " + g.first.Error.Error()
	}
}

// output is what came of the whole: the one answer of any and of a quorum that agrees, or else all, one after the other.
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

// texts is the list of what those that are ok say, in the order of the plan.
func texts(reports []*Report) []string {
	out := []string{}
	for _, r := range reports {
		if r.State == OK {
			out = append(out, r.Text())
		}
	}
	return out
}

// branches does things at the same time, a few at a time, and waits until all have ended. do is called with the number of each
// that may begin; waits tells which others it comes after. Reports are in the order of the plan.
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
		e := <-results // one runs at least, since nobody waits in a circle
		running--
		done++
		reports[e.i] = e.r
		if cause := g.add(e.r); cause != nil {
			cancel(cause)
		}
	}
	return reports
}

func (x *run) parallel(ctx context.Context, s *Step, in *vars, clk *clock, rep *Report) {
	g := newGroup(s, len(s.Parallel))
	shared := newVars(in)
	waits := x.waits(s)
	done := make([]*Report, len(s.Parallel)) // each is written once, before those that wait for it begin
	rep.Steps = x.branches(ctx, g, len(s.Parallel), waits, func(ctx context.Context, i int) *Report {
		b := &s.Parallel[i]
		path := pathOf(rep.Path, b, i)
		r := func() *Report {
			for _, j := range waits[i] {
				if done[j].State != OK && !s.Parallel[j].Optional {
					return x.skip(ctx, b, path, "it waits for "+done[j].Path+", which is "+string(done[j].State))
				}
			}
			return x.step(ctx, b, path, shared, clk)
		}()
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
	rep.Value, _ = valueOf(map[string]any{"results": results, "texts": texts(rep.Steps)}) // all of it is JSON
}

// forgive makes a failed branch that is optional one that does not count.
func (x *run) forgive(ctx context.Context, s *Step, r *Report) *Report {
	if !s.Optional || r.State == OK || r.State == Skipped || ctx.Err() != nil {
		return r
	}
	c := *r
	c.State = Skipped
	return &c
}

// waits returns for each branch the numbers of those it waits for.
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

// names collects the names that a step and those in it use.
func (s *Step) names(used map[string]bool) {
	note := func(e *expr) {
		if e.op == opName {
			used[e.text] = true
		}
	}
	template := func(text string) {
		if t, err := parseTemplate(text); err == nil {
			t.walk(note)
		}
	}
	for _, text := range []string{s.When, s.Until} {
		if e, err := parseCondition(text); err == nil && text != "" {
			e.walk(note)
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
	limit := s.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	as := or(s.As, "item")
	g := newGroup(s, len(items))
	rep.Steps = x.branches(ctx, g, limit, nil, func(ctx context.Context, i int) *Report {
		one := &Report{Path: under(rep.Path, fmt.Sprint(i+1)), Kind: stepSteps, State: OK, Started: now()}
		if ctx.Err() != nil {
			one.State, one.Error = failure(ctx, context.Cause(ctx))
			return one
		}
		inner := newVars(in)
		inner.set(as, items[i])
		inner.set("index", jsonrpc.Raw(fmt.Sprint(i+1)))
		x.sequence(ctx, s.Do, one.Path, inner, clk, one)
		one.Ms = now().Sub(one.Started).Milliseconds()
		return one
	})
	g.judge(rep)
	g.output(rep)
	results := []jsonrpc.Raw{}
	for _, r := range rep.Steps {
		results = append(results, r.value())
	}
	rep.Value, _ = valueOf(map[string]any{"results": results, "texts": texts(rep.Steps)}) // all of it is JSON
}

// items is the list that a map goes over.
func (x *run) items(s *Step, in *vars) ([]jsonrpc.Raw, error) {
	t, err := parseTemplate(s.Map)
	if err != nil {
		return nil, err
	}
	v, err := t.eval(in)
	if err != nil {
		return nil, err
	}
	if kind(v) == '{' && kind(member(v, "state")) == '"' {
		v = member(v, "json") // of a step
	}
	if kind(v) == '"' {
		if v, err = parseJSON([]jsonrpc.Raw{v}); err != nil {
			return nil, fmt.Errorf("%w; lines() makes a list of text", err)
		}
	}
	if kind(v) != '[' {
		return nil, fmt.Errorf("%s is no list", clip(string(v)))
	}
	l := list(v)
	if len(l) > maxItems {
		return nil, errors.New("the list has more than 10,000 values")
	}
	out := make([]jsonrpc.Raw, len(l))
	for i := range l {
		out[i] = jsonrpc.Raw(l[i])
	}
	return out, nil
}
