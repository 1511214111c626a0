package config

import (
	"cmp"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/internal/x/glob"
)

// MCP methods of which rules name the tool.
const toolsCall = "tools/call"

// subjects are the members of rules and limits that select calls.
type subjects struct{ principal, group, server, method, tool []string }

// subjects reads the members that select calls.
func (f *field) subjects(g *Gateway) (s subjects) {
	s.principal, s.group = f.member("principal").patterns(), f.member("group").patterns()
	s.server, s.method, s.tool = f.member("server").serverPatterns(), f.member("method").patterns(), f.member("tool").patterns()
	if s.tool != nil && s.method != nil && !glob.Any(s.method, toolsCall) {
		f.member("tool").fail("can never match: only %s has a tool, and method does not match it", toolsCall)
	}
	switch {
	case !f.r.hasIdentity:
		if s.principal != nil && !glob.Any(s.principal, "local") {
			f.member("principal").fail("can never match: without gateway.identity every caller is the principal local")
		}
		if s.group != nil {
			f.member("group").fail("can never match: without gateway.identity no caller has groups")
		}
	case g.Identity != nil && g.Identity.OAuth == nil && !f.r.brokenIdentity:
		f.knownGroups(g, s.group)
	}
	return s
}

// knownGroups checks that a token of the file of tokens has each of the groups.
func (f *field) knownGroups(g *Gateway, patterns []string) {
	var all []string
	for _, t := range g.Identity.Tokens {
		for _, name := range t.Groups {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	for _, p := range patterns {
		if !slices.ContainsFunc(all, func(name string) bool { return glob.Match(p, name) }) {
			f.member("group").fail("%q can never match: no token has such a group%s", p, f.r.didYouMean(p, all))
		}
	}
}

// coversAll reports whether each text that one of the patterns other matches is matched by one of
// the patterns of list. A nil list matches everything.
func coversAll(list, other []string) bool {
	if list == nil {
		return true
	}
	if other == nil {
		other = []string{"*"}
	}
	for _, o := range other {
		if !slices.ContainsFunc(list, func(p string) bool { return glob.Covers(p, o) }) {
			return false
		}
	}
	return true
}

// maxPatterns is the maximum number of patterns in all rules, and in all routes.
const maxPatterns = 1024

// policy reads the rules of access.
func (f *field) policy(g *Gateway) {
	total := 0
	for _, item := range f.member("policy").elements() {
		before := f.r.found
		rule := item.rule(g)
		if f.r.found > before {
			continue
		}
		if total += len(rule.Principal) + len(rule.Group) + len(rule.Server) + len(rule.Method) + len(rule.Tool); total > maxPatterns {
			item.fail("is too much: all rules together have at most %d patterns", maxPatterns)
			return
		}
		for i := range g.Policy {
			if e := &g.Policy[i]; e.When == "" && e.Unless == "" && coversAll(e.Principal, rule.Principal) && coversAll(e.Group, rule.Group) &&
				coversAll(e.Server, rule.Server) && coversAll(e.Method, rule.Method) && coversAll(e.Tool, rule.Tool) {
				item.fail("can never apply: the rule on line %d matches all its calls", e.Line)
				break
			}
		}
		g.Policy = append(g.Policy, rule)
	}
}

// rule reads one rule of access.
func (f *field) rule(g *Gateway) (rule Rule) {
	if !f.members("allow", "deny") {
		return rule
	}
	rule.Line, rule.Column = f.n.line, f.n.column
	if len(f.n.members) != 1 {
		f.fail("must have exactly one member: allow or deny")
		return rule
	}
	m := f.n.members[0]
	rule.Deny = m.name == "deny"
	body := &field{f.r, f.e, m.value, f.path + "." + m.name}
	if m.value.kind == isNull {
		f.r.problem(m.line, m.column, body.path, "is nothing; write %s: {} for all calls", m.name)
		return rule
	}
	if m.name != "allow" && m.name != "deny" || !body.members("principal", "group", "server", "method", "tool", "when", "unless") {
		return rule
	}
	s := body.subjects(g)
	rule.Principal, rule.Group, rule.Server, rule.Method, rule.Tool = s.principal, s.group, s.server, s.method, s.tool
	rule.When, rule.Unless = body.member("when").expression(expr.PolicyNames), body.member("unless").expression(expr.PolicyNames)
	return rule
}

// expression reads an expression over names. Variables ${…} are not expanded in it.
func (f *field) expression(names map[string][]string) string {
	if f == nil {
		return ""
	}
	if f.n.kind != isText && f.n.kind != isBool {
		f.fail("is %s, but must be an expression", kindNames[f.n.kind])
		return ""
	}
	if f.n.text == "" {
		f.fail("is an empty expression")
		return ""
	}
	e, err := expr.ParseStrict(f.n.text)
	if err == nil {
		err = e.Check(names)
	}
	if at, ok := errors.AsType[*expr.SyntaxError](err); ok {
		f.fail("character %d: %s", utf8.RuneCountInString(f.n.text[:min(max(at.Offset, 0), len(f.n.text))])+1, at.Text)
		return ""
	} else if err != nil {
		f.fail("%v", err)
		return ""
	}
	return f.n.text
}

// limits reads the limits. Those on calls in flight become settings of the servers.
func (f *field) limits(g *Gateway) {
	total, done := 0, make(map[*Entry]int)
	for _, item := range f.member("limits").elements() {
		if !item.members("per", "principal", "group", "server", "method", "tool", "rate", "burst", "inflight", "queue", "wait") {
			continue
		}
		var per string
		if item.member("per") == nil {
			item.fail("has no per: use principal or server")
		}
		item.member("per").choice(&per, "principal", "server")
		s := item.subjects(g)
		if total += len(s.principal) + len(s.group) + len(s.server) + len(s.method) + len(s.tool); total > maxPatterns {
			item.fail("is too much: all limits together have at most %d patterns", maxPatterns)
			return
		}
		item.rates(g, per, s)
		item.inflight(per, s, done)
	}
}

// rates reads a rate limit.
func (f *field) rates(g *Gateway, per string, s subjects) {
	burst := 0
	f.member("burst").count(&burst, 1, maxRate)
	calls := f.member("inflight") != nil || f.member("queue") != nil || f.member("wait") != nil
	if f.member("rate") == nil {
		if at := f.member("burst"); at != nil {
			at.fail("needs rate")
		} else if !calls {
			f.fail("limits nothing: set rate, or inflight, queue and wait")
		}
		return
	}
	before := f.r.found
	l := Limit{
		Line: f.n.line, Column: f.n.column, PerServer: per == "server",
		Principal: s.principal, Group: s.group, Server: s.server, Method: s.method, Tool: s.tool,
	}
	f.member("rate").rate(&l.Rate)
	l.Burst = cmp.Or(burst, l.Rate.Count)
	if f.r.found == before {
		g.Limits = append(g.Limits, l)
	}
}

// inflight reads the limit of calls in flight. The first that matches a server applies.
func (f *field) inflight(per string, s subjects, done map[*Entry]int) {
	var first *field
	for _, name := range []string{"inflight", "queue", "wait"} {
		if at := f.member(name); at != nil && first == nil {
			first = at
		}
	}
	if first == nil {
		return
	}
	if per == "principal" {
		first.fail("needs per: server")
		return
	}
	for _, name := range []string{"principal", "group", "method", "tool"} {
		if at := f.member(name); at != nil {
			at.fail("has no meaning here: calls in flight are limited for each server")
		}
	}
	u := defaultUpstream()
	f.member("inflight").count(&u.Inflight, 1, 65_536)
	f.member("queue").count(&u.Queue, 0, 1_000_000)
	f.member("wait").duration(&u.Wait, 0, time.Hour)
	applies, earlier := false, 0
	for _, d := range f.r.destinations {
		for _, e := range d.entries {
			if s.server != nil && !glob.Any(s.server, d.name) && !glob.Any(s.server, e.Name) {
				continue
			}
			if line := done[e]; line != 0 {
				earlier = line
				continue
			}
			applies = true
			done[e] = f.n.line
			e.Upstream.Inflight, e.Upstream.Queue, e.Upstream.Wait = u.Inflight, u.Queue, u.Wait
		}
	}
	if !applies && earlier != 0 {
		f.fail("can never apply: the limit on line %d applies to all its servers", earlier)
	}
}
