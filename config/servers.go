package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/glob"
)

var (
	// mcpName is the form of names that are part of tool names: <server>__<tool>.
	mcpName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,23}$`)
	// otherName is the form of names that are only part of paths.
	otherName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// A source is the place of an entry in the file.
type source struct {
	f        *field
	inferred bool // the file does not name the protocol
}

// A destination is a server, or a group of equal servers. Its name is used in routes, sets, rules
// and URLs.
type destination struct {
	name     string
	protocol string
	entries  []*Entry
	group    bool
	disabled bool // all of its servers are
}

// wantRoutes sets the protocol of servers to which a route leads and whose entry names none.
func (r *reader) wantRoutes(f *field) {
	to := make(map[string]bool)
	if routes := f.n.get("routes"); routes != nil {
		for _, item := range routes.items {
			if n := item.get("to"); n != nil {
				to[n.text] = true
			}
		}
	}
	for _, e := range r.file.Entries { // a route to one server of a group
		if to[e.Name] && e.Upstream.Group != "" {
			to[e.Upstream.Group] = true
		}
	}
	for i := range r.file.Entries {
		e := &r.file.Entries[i]
		if s, ok := r.sources[e.Name]; ok && s.inferred && len(e.Command) == 0 && (to[e.Name] || e.Upstream.Group != "" && to[e.Upstream.Group]) {
			e.Protocol = JSONRPC
		}
	}
}

// servers checks names, groups and credentials. In a file without the member gateway, names that
// do not fit are changed.
func (r *reader) servers(rename bool) {
	r.byName = make(map[string]*destination)
	for i := range r.file.Entries {
		e := &r.file.Entries[i]
		s, ok := r.sources[e.Name]
		if !ok { // an address of a server.json
			s = source{f: &field{r, e, &node{line: e.Line, column: e.Column}, e.Name}}
		}
		f := &field{r, e, s.f.n, s.f.path}
		if !e.Disabled {
			f.name(e, rename)
		}
		f.credentials(e)
		f.fits(e)
		if e.Upstream.Group != "" {
			f.join(e)
		} else {
			r.add(&destination{name: e.Name, protocol: e.Protocol, entries: []*Entry{e}, disabled: e.Disabled})
		}
	}
}

func (r *reader) add(d *destination) {
	r.byName[d.name] = d
	r.destinations = append(r.destinations, d)
}

// name checks the name of a server.
func (f *field) name(e *Entry, rename bool) {
	form, length, letters := otherName, 64, "letters, digits, ., _ and -"
	if e.Protocol == MCP {
		form, length, letters = mcpName, 24, "letters, digits and -"
	}
	if form.MatchString(e.Name) {
		return
	}
	near := nearName(e.Name, length)
	if rename {
		if _, taken := f.r.file.Find(near); taken {
			f.r.problem(e.Line, e.Column, f.path, "cannot be called %s in the gateway, because another server has this name", near)
			return
		}
		e.Renamed, e.Name = e.Name, near
		return
	}
	why := ""
	if e.Protocol == MCP {
		why = ", because it becomes part of the names of tools"
	}
	e.Problem = f.r.problem(e.Line, e.Column, f.path, "is not a name for a server: use 1 to %d %s%s; did you mean %s?", length, letters, why, near)
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

// nearName returns a valid name that is similar to a name.
func nearName(name string, length int) string {
	name = strings.Trim(notInNames.ReplaceAllString(name, "-"), "-")
	if name == "" {
		return "server"
	}
	return strings.TrimRight(name[:min(len(name), length)], "-")
}

// join adds a server to its group.
func (f *field) join(e *Entry) {
	r, at, name := f.r, f.member("group"), e.Upstream.Group
	d := r.byName[name]
	switch {
	case d == nil:
		form, length := otherName, 64
		if e.Protocol == MCP {
			form, length = mcpName, 24
		}
		if !form.MatchString(name) {
			at.fail("is not a name for a group; did you mean %s?", nearName(name, length))
			return
		}
		if _, taken := r.file.Find(name); taken {
			at.fail("is also the name of a server")
			return
		}
		r.add(&destination{name: name, protocol: e.Protocol, entries: []*Entry{e}, group: true, disabled: e.Disabled})
	case !d.group:
		at.fail("is also the name of a server")
	case d.protocol != e.Protocol:
		at.fail("has servers of two protocols: %s is %s, and %s is %s", d.entries[0].Name, d.protocol, e.Name, e.Protocol)
	default:
		d.entries = append(d.entries, e)
		d.disabled = d.disabled && e.Disabled
	}
}

// fits checks that settings of a server fit its protocol.
func (f *field) fits(e *Entry) {
	if at := f.member("tools"); at != nil && e.Protocol != MCP {
		at.fail("is for MCP servers, and the protocol of this one is %s", e.Protocol)
	}
	if at := f.member("push"); at != nil && e.Protocol != A2A {
		at.fail("is for A2A agents, and the protocol of this server is %s", e.Protocol)
	}
	if at := f.member("health").member("method"); at != nil && e.Protocol != JSONRPC {
		at.fail("is for servers with the protocol jsonrpc; this one is checked as its protocol %s does it", e.Protocol)
	}
	for name := range e.Header {
		if isOwnHeader(name) && name != "Origin" && name != "Accept" {
			at := f.member("headers").member(name)
			if at == nil {
				at = f.member("headers")
			}
			if at != nil {
				at.fail("%s is set by the gateway itself", name)
			}
		}
	}
}

// destinationNames returns the names of all destinations for which ok returns true.
func (r *reader) destinationNames(ok func(*destination) bool) (names []string) {
	for _, d := range r.destinations {
		if ok(d) {
			names = append(names, d.name)
		}
	}
	return names
}

func anyDestination(*destination) bool { return true }

// destination reads the name of a server or of a group. A server of a group is a part of it, and
// nil.
func (f *field) destination(ok func(*destination) bool) *destination {
	text, valid := f.word(false)
	if !valid {
		return nil
	}
	d := f.r.byName[text]
	if d != nil || f.r.broken[text] {
		return d
	}
	if e, found := f.r.file.Find(text); found {
		if e.Upstream.Group != "" {
			f.fail("%s is in the group %s; use the name of the group", f.shown(), e.Upstream.Group)
		} // otherwise the entry has a problem of its own
		return nil
	}
	f.fail("%s is not a server or group of the file%s", f.shown(), f.r.didYouMean(text, f.r.destinationNames(ok)))
	return nil
}

// serverPatterns reads patterns of names of servers and groups. Each must match at least one.
func (f *field) serverPatterns() []string {
	list := f.patterns()
	for _, p := range list {
		if f.r.broken[p] {
			continue
		}
		if !slices.ContainsFunc(f.r.destinations, func(d *destination) bool {
			return glob.Match(p, d.name) || slices.ContainsFunc(d.entries, func(e *Entry) bool { return glob.Match(p, e.Name) })
		}) {
			at := f
			for _, x := range f.n.items {
				if slices.Contains(strings.Split(x.text, "|"), p) {
					at = &field{f.r, f.e, x, f.path}
				}
			}
			at.fail("%q matches no server or group of the file%s", p, f.r.didYouMean(p, f.r.destinationNames(anyDestination)))
		}
	}
	return list
}
