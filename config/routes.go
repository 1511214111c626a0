package config

import (
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/glob"
)

// routable reports whether a route may lead to a destination.
func routable(d *destination) bool { return d.protocol == JSONRPC || d.protocol == A2A }

// routes reads the routes of JSON-RPC methods.
func (f *field) routes(g *Gateway) {
	total := 0
	for _, item := range f.member("routes").elements() {
		if !item.members("method", "to", "strip", "timeout", "idempotent", "retry", "hedge", "cache") {
			continue
		}
		r := Route{Line: item.n.line, Column: item.n.column, Attempts: 1}
		before := f.r.found
		if item.member("method") == nil {
			item.fail("has no method: use \"*\" for all methods")
		}
		r.Method = item.member("method").patterns()
		if total += len(r.Method); total > maxPatterns {
			item.fail("is too much: all routes together have at most %d patterns", maxPatterns)
			return
		}
		d := item.to(&r)
		item.strip(&r)
		item.member("timeout").duration(&r.Timeout, shortest, longest)
		item.idempotent(&r)
		if x := item.member("retry"); x.members("attempts", "backoff") {
			r.Attempts, r.Backoff = 3, 50*time.Millisecond
			x.member("attempts").count(&r.Attempts, 1, 10)
			x.member("backoff").duration(&r.Backoff, 0, time.Minute)
		}
		if x := item.member("hedge"); x.members("after", "min") {
			r.Hedge = x.hedge(item.member("idempotent") != nil && !item.member("idempotent").isOff(), d)
		}
		if x := item.member("cache"); x.members("methods", "ttl", "scope", "coalesce") {
			r.Cache = x.cache(&r)
		}
		for i := range g.Routes {
			if f.r.found == before && coversAll(g.Routes[i].Method, r.Method) {
				item.fail("can never match: the route on line %d matches all its methods", g.Routes[i].Line)
				break
			}
		}
		if f.r.found == before {
			g.Routes = append(g.Routes, r)
		}
	}
}

// to reads the destination of a route.
func (f *field) to(r *Route) *destination {
	at := f.member("to")
	if at == nil {
		f.fail("has no to: name a server or a group")
		return nil
	}
	d := f.r.member(at)
	if d == nil {
		d = at.destination(routable)
	}
	if d == nil {
		return nil
	}
	switch r.To = d.name; {
	case !routable(d):
		at.fail("%s has the protocol %s, and routes lead to servers with the protocol jsonrpc or a2a", at.shown(), d.protocol)
	case d.disabled:
		at.fail("%s is disabled", at.shown())
	}
	return d
}

// member returns the server of a group that a route names, or nil.
func (r *reader) member(at *field) *destination {
	if e, ok := r.file.Find(at.n.text); ok && e.Upstream.Group != "" && r.byName[e.Name] == nil {
		return &destination{name: e.Name, protocol: e.Protocol, entries: []*Entry{e}, disabled: e.Disabled}
	}
	return nil
}

// strip reads the text that is removed from methods.
func (f *field) strip(r *Route) {
	at := f.member("strip")
	text, ok := at.word(false)
	if !ok {
		return
	}
	r.Strip = text
	for _, p := range r.Method {
		switch {
		case !strings.HasPrefix(glob.Prefix(p), text):
			at.fail("is not the start of all methods of the route: %q may start with something else", p)
			return
		case p == text:
			at.fail("leaves nothing of the method %q", p)
			return
		}
	}
}

// idempotent reads true, false or patterns.
func (f *field) idempotent(r *Route) {
	at := f.member("idempotent")
	switch {
	case at == nil:
	case at.n.kind == isBool:
		if at.n.text == "true" {
			r.Idempotent = []string{"*"}
		}
	default:
		r.Idempotent = at.ofRoute(r)
	}
}

// ofRoute reads patterns of methods. Each must have methods of the route.
func (f *field) ofRoute(r *Route) []string {
	list := f.patterns()
	for _, p := range list {
		if len(r.Method) > 0 && !slices.ContainsFunc(r.Method, func(m string) bool { return glob.Overlap(p, m) }) {
			f.fail("%q can never match: it has no methods of the route%s", p, f.r.didYouMean(p, r.Method))
		}
	}
	return list
}

// hedge reads a hedge. declared reports whether the route declares idempotent methods.
func (f *field) hedge(declared bool, d *destination) *Hedge {
	h := &Hedge{Min: 20 * time.Millisecond}
	f.member("min").duration(&h.Min, 0, time.Minute)
	at := f.member("after")
	switch {
	case at == nil:
		h.Quantile = 0.95
	case at.n.kind == isText && (at.n.text == "p50" || at.n.text == "p75" || at.n.text == "p90" || at.n.text == "p95" || at.n.text == "p99"):
		h.Quantile = float64(int(at.n.text[1]-'0')*10+int(at.n.text[2]-'0')) / 100
	case at.n.kind == isText && strings.HasPrefix(at.n.text, "p"):
		at.fail("%s is not known: use a duration, or p50, p75, p90, p95 or p99", at.shown())
	default:
		at.duration(&h.After, shortest, time.Hour)
		if m := f.member("min"); m != nil {
			m.fail("has no meaning with a fixed time in after")
		}
	}
	if !declared {
		f.fail("needs idempotent: a hedge sends a call twice")
	}
	if d != nil && len(d.entries) < 2 {
		f.fail("needs a group of two or more servers, and %q is one server", d.name)
	}
	return h
}

func (f *field) cache(r *Route) *Cache {
	c := &Cache{}
	if f.member("methods") == nil {
		f.fail("has no methods")
	} else {
		c.Methods = f.member("methods").ofRoute(r)
	}
	if f.member("ttl") == nil {
		f.fail("has no ttl")
	}
	f.member("ttl").duration(&c.TTL, shortest, longest)
	scope := "private"
	f.member("scope").choice(&scope, "private", "shared")
	c.Shared = scope == "shared"
	f.member("coalesce").truth(&c.Coalesce)
	return c
}

// mcp reads the settings of the MCP endpoints.
func (f *field) mcp(g *Gateway) {
	m := f.member("mcp")
	if m.members("sets", "pins", "search", "lock") {
		m.member("pins").choice(&g.Pins, PinsOff, PinsWarn, PinsEnforce, PinsLocked)
		m.member("lock").file(&g.Lock)
		if s := m.member("search"); s.isOff() {
			g.SearchAbove = 0
		} else if s.members("above") {
			if s.member("above") == nil {
				s.fail("has no above")
			}
			s.member("above").count(&g.SearchAbove, 1, 10_000)
		}
		m.sets(g)
	}
	if !slices.ContainsFunc(g.Sets, func(s Set) bool { return s.Name == DefaultSet }) {
		set := Set{Name: DefaultSet, Servers: []string{}}
		for _, d := range f.r.destinations {
			if d.protocol == MCP && !d.disabled {
				set.Servers = append(set.Servers, d.name)
			}
		}
		g.Sets = slices.Insert(g.Sets, 0, set)
	}
}

// maxSets is the maximum number of sets.
const maxSets = 100

func (f *field) sets(g *Gateway) {
	sets := f.member("sets")
	if sets == nil {
		return
	}
	if sets.n.kind != isMap {
		sets.fail("is %s, but must be a mapping of names to sets", kindNames[sets.n.kind])
		return
	}
	for i, m := range sets.n.members {
		at := &field{f.r, f.e, m.value, sets.path + "." + m.name}
		fail := func(format string, args ...any) { f.r.problem(m.line, m.column, at.path, format, args...) }
		switch {
		case i == maxSets:
			fail("is one set too many: at most %d are allowed", maxSets)
			return
		case !mcpName.MatchString(m.name):
			fail("is not a name for a set: use 1 to 24 letters, digits and -; did you mean %s?", nearName(m.name, 24))
			continue
		case m.name == "sse":
			fail("is not a name for a set: /mcp/sse is the older transport of the default set")
			continue
		case !at.members("servers", "prefix"):
			continue
		}
		s := Set{Name: m.name, Line: m.line, Column: m.column, Servers: []string{}}
		if at.member("servers") == nil {
			fail("has no servers")
		}
		for _, item := range at.member("servers").elements() {
			item.setServer(&s)
		}
		if list := at.member("servers"); list != nil && list.n.kind == isList && len(list.n.items) == 0 {
			list.fail("is an empty list")
		}
		prefix := "always"
		at.member("prefix").choice(&prefix, "always", "never")
		if s.NoPrefix = prefix == "never"; s.NoPrefix && len(at.member("servers").names()) > 1 {
			at.member("prefix").fail("never is only for a set of one server, and this set has %d", len(at.member("servers").names()))
		}
		g.Sets = append(g.Sets, s)
	}
}

// names returns the elements of a list of texts as they are in the file.
func (f *field) names() (list []string) {
	if f == nil {
		return nil
	}
	for _, n := range f.n.items {
		list = append(list, n.text)
	}
	return list
}

// setServer reads one server of a set.
func (f *field) setServer(s *Set) {
	isMCP := func(d *destination) bool { return d.protocol == MCP }
	d := f.destination(isMCP)
	switch {
	case d == nil:
	case !isMCP(d) && d.entries[0].Address != "" && f.r.sources[d.entries[0].Name].inferred:
		f.fail("%s has a route, so its protocol is jsonrpc; set its protocol to mcp, or remove it here", f.shown())
	case !isMCP(d):
		f.fail("%s has the protocol %s, and a set has MCP servers", f.shown(), d.protocol)
	case d.disabled:
		f.fail("%s is disabled", f.shown())
	case slices.Contains(s.Servers, d.name):
		f.fail("%s is in the list twice", f.shown())
	default:
		s.Servers = append(s.Servers, d.name)
	}
}
