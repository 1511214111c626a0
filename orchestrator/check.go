package orchestrator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/expr"
)

// Check returns a [*PlanError] if the plan is invalid: a step with no kind or with two, an agent
// that is not in the team, a loop without a bound, a template with an unknown name, or branches
// that wait for each other. others are members that the plan does not declare itself. A parsed plan
// is already checked, except for its members if it declares no team.
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
	members map[string]bool   // nil if unknown
	ids     map[string]string // the path of each ID
}

// wrong adds a problem at a path, and at an offset in its text if known.
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
	// Escapes and folded lines make the column a guess, but the line is right.
	if known && offset > 0 && offset <= len(text) {
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

// A known describes what is known about a value at check time.
type known struct {
	fields []string // its members; nil if any
	// branches holds the IDs of the branches of a parallel result. It is nil for other values.
	branches map[string][]string
}

// names holds the names that the templates at one place may use.
type names struct {
	up    *names
	known map[string]known
	later map[string]bool // branches of the same parallel, which this one may wait for
	used  map[string]bool // the later branches that are used
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
			c.wrong("input."+in.Name, "%q is not a valid name", in.Name)
		}
		if slices.Contains(fields, in.Name) {
			c.wrong("input."+in.Name, "is a duplicate")
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

// protocols lists the protocols that a member may use.
var protocols = []string{"acp", "a2a", "editor", "mcp", "jsonrpc"}

func (c *checker) member(path, name string, m Member) {
	if !isName(name) {
		c.wrong(path, "%q is not a valid name", name)
	}
	if (m.Target == "") == (len(m.Command) == 0) {
		c.wrong(path, "needs either a target or a command")
	}
	if !slices.Contains(protocols, m.Protocol) {
		c.wrong(path+".protocol", "unknown protocol %q; the protocols are %s", m.Protocol, strings.Join(protocols, ", "))
	}
	if m.Command == nil && m.Env != nil {
		c.wrong(path+".env", "is only for a command")
	}
	if m.Target == "" && m.Token != "" {
		c.wrong(path+".token", "is only for a target; a command has env")
	}
	if m.Target == "" && m.Headers != nil {
		c.wrong(path+".headers", "are only for a target; a command has env")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if at := path + ".headers." + name; !isHeader(name) {
			c.wrong(at, "%q is not a valid header name", name)
		} else {
			c.variables(at, m.Headers[name])
		}
	}
	if m.from != nil {
		c.variables(path+".target", m.Target)
		c.variables(path+".token", m.Token)
	}
	for i, v := range m.Env {
		if m.from != nil {
			c.variables(fmt.Sprintf("%s.env[%d]", path, i), v)
		}
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			c.wrong(fmt.Sprintf("%s.env[%d]", path, i), "must be NAME=value")
		}
	}
}

// variables checks that each ${…} contains a valid variable name, whether or not the variable is
// set.
func (c *checker) variables(path, text string) {
	_, _, err := config.Expand(text, &config.ExpandOptions{
		Lookup:   func(string) (string, bool) { return "x", true },
		ReadFile: func(string) ([]byte, error) { return []byte("x"), nil },
	})
	if err != nil {
		c.wrong(path, "%v", err)
	}
}

// isHeader reports whether s is a valid HTTP header name (RFC 9110, section 5.1).
func isHeader(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

func isName(s string) bool {
	if s == "" || len(s) > 64 || !expr.IsNameStart(s[0]) {
		return false
	}
	for i := range len(s) {
		if !expr.IsNamePart(s[i]) {
			return false
		}
	}
	return true
}

// sequence checks steps in order and returns the names known after them.
func (c *checker) sequence(steps []Step, path string, in *names, depth int) *names {
	inner := &names{up: in, known: map[string]known{}}
	for i := range steps {
		s := &steps[i]
		c.step(s, fmt.Sprintf("%s[%d]", path, i), inner, depth)
		if s.ID != "" {
			inner.known[s.ID] = resultOf(s)
		}
		if len(s.After) > 0 {
			c.wrong(fmt.Sprintf("%s[%d].after", path, i), "is only for the branches of a parallel")
		}
	}
	return inner
}

// resultFields lists the members of every step's result.
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
		c.wrong(path, "a plan can have at most %d steps", maxSteps)
	}
	if c.steps > maxSteps {
		return
	}
	if depth > maxNesting {
		c.wrong(path, "steps can be nested at most %d levels deep", maxNesting)
		return
	}
	if s.ID != "" {
		switch first, taken := c.ids[s.ID]; {
		case !isName(s.ID):
			c.wrong(path+".id", "%q is not a valid name: use a letter or _, then letters, digits, _ or -", s.ID)
		case slices.Contains([]string{"input", "loop", "true", "false", "null"}, s.ID):
			c.wrong(path+".id", "%q is already in use", s.ID)
		case taken:
			c.wrong(path+".id", "%q is already the name of %s", s.ID, first)
		default:
			c.ids[s.ID] = path
		}
	}
	if s.When != "" {
		c.expression(path+".when", s.When, in)
	}
	kinds := s.kinds()
	if len(kinds) == 0 {
		c.wrong(path, "has no action: set one of agent, skill, tool, call, ask, steps, parallel, map, route, loop")
		return
	}
	if len(kinds) > 1 {
		c.wrong(path, "has more than one action (%s): split it into several steps", strings.Join(kinds, " and "))
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

// belongs reports fields that belong to another kind of step.
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
			c.wrong(path+"."+k.name, "is only for %s, but this is %s", strings.Join(k.of, " or "), what)
		}
	}
	if s.Retries < 0 || s.Retries > maxRetries {
		c.wrong(path+".retries", "must be a number from 1 to %d", maxRetries)
	} else if s.Retries > 0 && !s.Idempotent {
		c.wrong(path+".retries", "only a step with idempotent: true can be retried")
	}
	if s.Timeout < 0 {
		c.wrong(path+".timeout", "must be a duration such as 30s")
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
			c.wrong(path+"."+what, "%q must be a member of the team, a slash and a name", text)
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

// inTeam checks that a member named by a step is in the team.
func (c *checker) inTeam(path, name, what string) {
	if c.members == nil {
		return
	}
	if !c.members[name] {
		there := strings.Join(slices.Sorted(maps.Keys(c.members)), ", ")
		c.wrong(path, "%q is not in the team; the members are %s", name, or(there, "none"))
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
		c.wrong(path, "%q uses %s, which has no tools", name, m.Protocol)
	case what == stepCall && m.Protocol != "jsonrpc":
		c.wrong(path, "%q uses %s: use agent or tool", name, m.Protocol)
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
		if _, err := expr.ValueOf(v); err != nil {
			c.wrong(path, "is not a JSON value: %v", err)
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
		c.wrong(path+".agree", "is only for a quorum")
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
		c.wrong(path+".parallel", "can have at most %d branches", maxBranches)
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
				c.wrong(fmt.Sprintf("%s.after[%d]", at, k), "unknown sibling branch %q", id)
			}
			others.used[id] = true
		}
		needs[i] = slices.Sorted(maps.Keys(others.used))
	}
	c.cycles(s.Parallel, needs, path+".parallel")
}

// cycles reports branches that wait for each other.
func (c *checker) cycles(branches []Step, needs [][]string, path string) {
	index := map[string]int{}
	for i := range branches {
		index[branches[i].ID] = i
	}
	state := make([]byte, len(branches)) // 1: being visited, 2: done
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
		c.wrong(path+".limit", "must be a number from 1 to %d", maxLimit)
	}
	as := or(s.As, "item")
	if !isName(as) {
		c.wrong(path+".as", "%q is not a valid name", as)
	}
	if _, taken := in.find(as); taken && as != "item" {
		c.wrong(path+".as", "%q is already in use", as)
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
