package orchestrator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Check says what is wrong with a plan, as a [*PlanError]: a step of no kind or of two, an agent that is not in the team, a
// loop without a bound, a template that names nothing, branches that wait for each other. others are members that the plan does
// not name itself. A plan that was read is checked already, except for its members if it has no team of its own.
func (p *Plan) Check(others ...string) error {
	if found := p.problems(others...); len(found) > 0 {
		return problemsError(p.file, found)
	}
	return nil
}

func (p *Plan) problems(others ...string) []Problem {
	c := &checker{plan: p, steps: 0, ids: map[string]string{}}
	if p.Team != nil || others != nil {
		c.members = map[string]bool{}
		for name := range p.Team {
			c.members[name] = true
		}
		for _, name := range others {
			c.members[name] = true
		}
	}
	c.checkPlan()
	return c.found
}

type checker struct {
	plan    *Plan
	found   []Problem
	steps   int
	members map[string]bool   // nil: not known
	ids     map[string]string // where each id is
}

// wrong notes a problem at a path, or in the text there.
func (c *checker) wrong(path, format string, args ...any) {
	c.wrongIn(path, "", 0, format, args...)
}

func (c *checker) wrongIn(path, text string, offset int, format string, args ...any) {
	if len(c.found) >= maxProblems {
		return
	}
	pos, known := c.plan.positions[path]
	for up := path; !known && up != ""; pos, known = c.plan.positions[up] {
		cut := strings.LastIndexAny(up, ".[")
		up = up[:max(cut, 0)]
	}
	if known && offset > 0 && offset <= len(text) { // escapes and folded lines make this a guess, good for the line at least
		before := text[:offset]
		if lines := strings.Count(before, "\n"); lines > 0 {
			pos.Line += lines
			pos.Column += len(before) - strings.LastIndexByte(before, '\n') - 1
		} else {
			pos.Column += len(before)
		}
	}
	c.found = append(c.found, Problem{Position: pos, Path: or(path, "plan"), Text: fmt.Sprintf(format, args...)})
}

// A name is what is known of a value when a plan is checked.
type known struct {
	fields   []string            // its members; nil: any
	branches map[string][]string // of results: the ids of branches; nil: not a parallel
}

// names is what the templates at one place may use.
type names struct {
	up    *names
	known map[string]known
	later map[string]bool // branches of the same parallel, which are waited for
	used  map[string]bool // those that were
}

func (n *names) find(name string) (known, bool) {
	for ; n != nil; n = n.up {
		if k, ok := n.known[name]; ok {
			if n.later[name] {
				n.used[name] = true
			}
			return k, true
		}
	}
	return known{}, false
}

func (n *names) all() string {
	set := map[string]bool{}
	for ; n != nil; n = n.up {
		for name := range n.known {
			set[name] = true
		}
	}
	if len(set) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}

func (c *checker) checkPlan() {
	p := c.plan
	top := &names{known: map[string]known{}}
	fields := []string{}
	for _, in := range p.Input {
		if !isName(in.Name) {
			c.wrong("input."+in.Name, "%q is no name", in.Name)
		}
		if slices.Contains(fields, in.Name) {
			c.wrong("input."+in.Name, "stands here twice")
		}
		fields = append(fields, in.Name)
	}
	top.known["input"] = known{fields: fields}
	c.checkTeam()
	if len(p.Steps) == 0 {
		c.wrong("steps", "a plan needs steps")
	}
	inner := c.sequence(p.Steps, "steps", top, 0)
	if p.Output != "" {
		c.template("output", p.Output, inner)
	}
}

func (c *checker) checkTeam() {
	for _, name := range slices.Sorted(maps.Keys(c.plan.Team)) {
		c.member("team."+name, name, c.plan.Team[name])
	}
}

// Protocols that a member may speak.
var protocols = []string{"acp", "a2a", "editor", "mcp", "jsonrpc"}

func (c *checker) member(path, name string, m Member) {
	if !isName(name) {
		c.wrong(path, "%q is no name", name)
	}
	if (m.Target == "") == (len(m.Command) == 0) {
		c.wrong(path, "needs either a target or a command")
	}
	if !slices.Contains(protocols, m.Protocol) {
		c.wrong(path+".protocol", "%q is no protocol; there are %s", m.Protocol, strings.Join(protocols, ", "))
	}
	if m.Command == nil && m.Env != nil {
		c.wrong(path+".env", "is for a command")
	}
	for i, v := range m.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			c.wrong(fmt.Sprintf("%s.env[%d]", path, i), "should be NAME=value")
		}
	}
}

func isName(s string) bool {
	if s == "" || len(s) > 64 || !isNameStart(s[0]) {
		return false
	}
	for i := range len(s) {
		if !isNamePart(s[i]) {
			return false
		}
	}
	return true
}

// sequence checks steps one after the other, and returns what is known behind them.
func (c *checker) sequence(steps []Step, path string, in *names, depth int) *names {
	inner := &names{up: in, known: map[string]known{}}
	for i := range steps {
		s := &steps[i]
		c.step(s, fmt.Sprintf("%s[%d]", path, i), inner, depth)
		if s.ID != "" {
			inner.known[s.ID] = resultOf(s)
		}
		if len(s.After) > 0 {
			c.wrong(fmt.Sprintf("%s[%d].after", path, i), "is for the branches of a parallel")
		}
	}
	return inner
}

// resultFields are the members of every step's result.
var resultFields = []string{"text", "json", "parts", "state", "error", "ms"}

func resultOf(s *Step) known {
	k := known{fields: slices.Clone(resultFields)}
	switch s.what() {
	case stepAsk:
		k.fields = append(k.fields, "option", "value")
	case stepParallel:
		k.fields = append(k.fields, "results", "texts")
		k.branches = map[string][]string{}
		for i := range s.Parallel {
			if id := s.Parallel[i].ID; id != "" {
				k.branches[id] = resultOf(&s.Parallel[i]).fields
			}
		}
	case stepMap:
		k.fields = append(k.fields, "results", "texts")
	case stepLoop:
		k.fields = append(k.fields, "times")
	case stepRoute:
		k.fields = append(k.fields, "case")
	}
	return k
}

func (c *checker) step(s *Step, path string, in *names, depth int) {
	if c.steps++; c.steps == maxSteps+1 {
		c.wrong(path, "a plan has at most %d steps", maxSteps)
	}
	if c.steps > maxSteps {
		return
	}
	if depth > maxNesting {
		c.wrong(path, "steps are nested at most %d deep", maxNesting)
		return
	}
	if s.ID != "" {
		switch first, taken := c.ids[s.ID]; {
		case !isName(s.ID):
			c.wrong(path+".id", "%q is no name: a letter or _, then letters, digits, _ or -", s.ID)
		case slices.Contains([]string{"input", "loop", "true", "false", "null"}, s.ID):
			c.wrong(path+".id", "%q means something else already", s.ID)
		case taken:
			c.wrong(path+".id", "%q is the name of %s already", s.ID, first)
		default:
			c.ids[s.ID] = path
		}
	}
	if s.When != "" {
		c.expression(path+".when", s.When, in)
	}
	kinds := s.kinds()
	if len(kinds) == 0 {
		c.wrong(path, "says nothing to do: one of agent, skill, tool, call, ask, steps, parallel, map, route, loop")
		return
	}
	if len(kinds) > 1 {
		c.wrong(path, "is both %s: make two steps of it", strings.Join(kinds, " and "))
		return
	}
	c.belongs(s, path, kinds[0])
	switch kinds[0] {
	case stepAgent, stepSkill, stepTool, stepCall, stepAsk:
		c.leaf(s, path, in)
	case stepSteps:
		c.sub(s.Steps, path+".steps", in, depth)
	case stepParallel:
		c.parallel(s, path, in, depth)
	case stepMap:
		c.each(s, path, in, depth)
	case stepRoute:
		c.route(s, path, in, depth)
	case stepLoop:
		c.loop(s, path, in, depth)
	}
}

func (c *checker) sub(steps []Step, path string, in *names, depth int) *names {
	if len(steps) == 0 {
		c.wrong(path, "needs steps")
	}
	return c.sequence(steps, path, in, depth+1)
}

// belongs looks for keys of another kind of step.
func (c *checker) belongs(s *Step, path, what string) {
	for _, k := range []struct {
		name string
		set  bool
		of   []string
	}{
		{"prompt", s.Prompt != "", []string{stepAgent, stepSkill}},
		{"session", s.Session != "", []string{stepAgent, stepSkill}},
		{"args", s.Args != nil, []string{stepTool, stepCall}},
		{"options", s.Options != nil, []string{stepAsk}},
		{"join", s.Join != "", []string{stepParallel, stepMap}},
		{"agree", s.Agree, []string{stepParallel, stepMap}},
		{"as", s.As != "", []string{stepMap}},
		{"limit", s.Limit != 0, []string{stepMap}},
		{"do", s.Do != nil, []string{stepMap}},
		{"cases", s.Cases != nil, []string{stepRoute}},
		{"else", s.Else != nil, []string{stepRoute}},
		{"times", s.Times != 0, []string{stepLoop}},
		{"until", s.Until != "", []string{stepLoop}},
		{"idempotent", s.Idempotent, []string{stepAgent, stepSkill, stepTool, stepCall}},
		{"retries", s.Retries != 0, []string{stepAgent, stepSkill, stepTool, stepCall}},
	} {
		if k.set && !slices.Contains(k.of, what) {
			c.wrong(path+"."+k.name, "is for %s, and this is %s", strings.Join(k.of, " or "), what)
		}
	}
	if s.Retries < 0 || s.Retries > maxRetries {
		c.wrong(path+".retries", "should be a number from 1 to %d", maxRetries)
	} else if s.Retries > 0 && !s.Idempotent {
		c.wrong(path+".retries", "only a step that says idempotent: true is tried again")
	}
	if s.Timeout < 0 {
		c.wrong(path+".timeout", "should be a time such as 30s")
	}
}

func (c *checker) leaf(s *Step, path string, in *names) {
	switch what := s.what(); what {
	case stepAgent, stepSkill:
		if what == stepAgent {
			c.inTeam(path+".agent", s.Agent, "agent")
		}
		if s.Prompt == "" {
			c.wrong(path, "an agent needs a prompt")
		}
		c.template(path+".prompt", s.Prompt, in)
	case stepTool, stepCall:
		text := s.Tool + s.Call
		who, name, ok := strings.Cut(text, "/")
		if !ok || who == "" || name == "" {
			c.wrong(path+"."+what, "%q should be a member of the team, a slash and a name", text)
			break
		}
		c.inTeam(path+"."+what, who, what)
		c.args(path+".args", s.Args, in)
	case stepAsk:
		c.template(path+".ask", s.Ask, in)
		for i, o := range s.Options {
			c.template(fmt.Sprintf("%s.options[%d]", path, i), o, in)
		}
	}
}

// inTeam looks for a member that a step names.
func (c *checker) inTeam(path, name, what string) {
	if c.members == nil {
		return
	}
	if !c.members[name] {
		there := strings.Join(slices.Sorted(maps.Keys(c.members)), ", ")
		c.wrong(path, "there is no %q in the team; there are %s", name, or(there, "none"))
		return
	}
	m, here := c.plan.Team[name]
	if !here {
		return
	}
	switch {
	case what == "agent" && m.Protocol == "jsonrpc":
		c.wrong(path, "%q has methods, not agents: use call", name)
	case what == stepTool && m.Protocol != "mcp":
		c.wrong(path, "%q speaks %s, which has no tools", name, m.Protocol)
	case what == stepCall && m.Protocol != "jsonrpc":
		c.wrong(path, "%q speaks %s: use agent or tool", name, m.Protocol)
	}
}

func (c *checker) args(path string, v any, in *names) {
	switch v := v.(type) {
	case string:
		c.template(path, v, in)
	case []any:
		for i, e := range v {
			c.args(fmt.Sprintf("%s[%d]", path, i), e, in)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			c.args(path+"."+key, v[key], in)
		}
	default:
		if _, err := valueOf(v); err != nil {
			c.wrong(path, "is no JSON value: %v", err)
		}
	}
}

func (c *checker) joining(s *Step, path string, branches int) {
	kind, n, err := s.Join.parse()
	if err != nil {
		c.wrong(path+".join", "%v", err)
		return
	}
	if s.Agree && kind != joinQuorum {
		c.wrong(path+".agree", "is for a quorum")
	}
	if branches > 0 && n > branches {
		c.wrong(path+".join", "a quorum of %d needs more than %d branches", n, branches)
	}
}

func (c *checker) parallel(s *Step, path string, in *names, depth int) {
	if len(s.Parallel) == 0 {
		c.wrong(path+".parallel", "needs branches")
	}
	if len(s.Parallel) > maxBranches {
		c.wrong(path+".parallel", "has at most %d branches", maxBranches)
		return
	}
	c.joining(s, path, len(s.Parallel))
	needs := make([][]string, len(s.Parallel))
	for i := range s.Parallel {
		b := &s.Parallel[i]
		at := fmt.Sprintf("%s.parallel[%d]", path, i)
		others := &names{up: in, known: map[string]known{}, later: map[string]bool{}, used: map[string]bool{}}
		for j := range s.Parallel {
			if id := s.Parallel[j].ID; id != "" {
				others.known[id], others.later[id] = resultOf(&s.Parallel[j]), true
			}
		}
		c.step(b, at, others, depth+1)
		for k, id := range b.After {
			if !others.later[id] {
				c.wrong(fmt.Sprintf("%s.after[%d]", at, k), "there is no branch %q beside this one", id)
			}
			others.used[id] = true
		}
		needs[i] = slices.Sorted(maps.Keys(others.used))
	}
	c.cycles(s.Parallel, needs, path+".parallel")
}

// cycles looks for branches that wait for each other.
func (c *checker) cycles(branches []Step, needs [][]string, path string) {
	index := map[string]int{}
	for i := range branches {
		index[branches[i].ID] = i
	}
	state := make([]byte, len(branches)) // 1: on the way, 2: done
	var visit func(i int, way []string) bool
	visit = func(i int, way []string) bool {
		way = append(way, branches[i].ID)
		state[i] = 1
		for _, id := range needs[i] {
			j, ok := index[id]
			if !ok {
				continue
			}
			if state[j] == 1 {
				from := slices.Index(way, id)
				c.wrong(fmt.Sprintf("%s[%d]", path, i), "waits for itself: %s -> %s", strings.Join(way[from:], " -> "), id)
				return false
			}
			if state[j] == 0 && !visit(j, way) {
				return false
			}
		}
		state[i] = 2
		return true
	}
	for i := range branches {
		if state[i] == 0 && !visit(i, nil) {
			return
		}
	}
}

func (c *checker) each(s *Step, path string, in *names, depth int) {
	c.template(path+".map", s.Map, in)
	c.joining(s, path, 0)
	if s.Limit < 0 || s.Limit > maxLimit {
		c.wrong(path+".limit", "should be a number from 1 to %d", maxLimit)
	}
	as := or(s.As, "item")
	if !isName(as) {
		c.wrong(path+".as", "%q is no name", as)
	}
	if _, taken := in.find(as); taken && as != "item" {
		c.wrong(path+".as", "%q means something else already", as)
	}
	inner := &names{up: in, known: map[string]known{as: {}, "index": {fields: []string{}}}}
	if s.Do == nil {
		c.wrong(path, "a map needs do: the steps for each value")
		return
	}
	c.sub(s.Do, path+".do", inner, depth)
}

func (c *checker) route(s *Step, path string, in *names, depth int) {
	c.template(path+".route", s.Route, in)
	if len(s.Cases) == 0 {
		c.wrong(path, "a route needs cases")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Cases)) {
		c.sub(s.Cases[name], path+".cases."+name, in, depth)
	}
	if s.Else != nil {
		c.sub(s.Else, path+".else", in, depth)
	}
}

func (c *checker) loop(s *Step, path string, in *names, depth int) {
	if s.Times < 1 || s.Times > maxTimes {
		c.wrong(path, "a loop needs a bound: times, from 1 to %d", maxTimes)
	}
	inner := &names{up: in, known: map[string]known{"loop": {fields: []string{"index", "last"}}}}
	behind := c.sub(s.Loop, path+".loop", inner, depth)
	if s.Until != "" {
		c.expression(path+".until", s.Until, behind)
	}
}
