package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/internal/x/glob"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A policy decides which calls are allowed. It is made once for each configuration and never
// changes. Use it so:
//
//	p, err := newPolicy(file.Gateway.Policy)
//	a := access{caller: callerOf(ctx), address: …, server: "crm", method: "tools/call", tool: "export_all", exposed: "crm__export_all", …}
//	if v := p.decide(&a); !v.allowed { … -31007, with v.err in the log … }
//
// A nil policy allows everything. To filter a list of tools, call visible for each with the method
// tools/call.
type policy struct {
	rules    []rule
	fallback bool // allowed if no rule applies
}

// A rule is a compiled config.Rule.
type rule struct {
	selector
	deny         bool
	line         int
	when, unless *expr.Expr // nil if not set
	arguments    bool       // when or unless reads arguments
}

// A selector are the lists of a rule of access or of a limit. A nil list selects everything.
type selector struct{ principal, group, server, method, tool []string }

// An access is a call, or an entry of a list, for which a policy decides. Its fields are from the
// checked message and the configuration, never from a header.
type access struct {
	caller  *caller    // never nil
	address netip.Addr // of the client; zero if unknown

	server  string   // name of the server or group in the file; may be empty
	members []string // servers of the group, if server is one
	method  string
	tool    string // original name; empty if the call is not of a tool or a prompt
	exposed string // the name that clients use; empty if it is not different

	// params are those of the call. The value of arguments in expressions is their member arguments
	// if named is set, as in tools/call and prompts/get, and otherwise all of them.
	params jsonrpc.Raw
	named  bool

	annotations jsonrpc.Raw // of the tool; nil if unknown
}

// A ruling is the decision of a policy.
type ruling struct {
	allowed bool
	line    int   // of the rule that applied; 0 if none did
	err     error // why a rule could not be evaluated; the call is then denied
}

func newPolicy(rules []config.Rule) (*policy, error) {
	p := &policy{fallback: true}
	for i := range rules {
		r := &rules[i]
		c := rule{deny: r.Deny, line: r.Line, selector: selector{r.Principal, r.Group, r.Server, r.Method, r.Tool}}
		var err error
		if c.when, err = compileCondition(r.When); err != nil {
			return nil, fmt.Errorf("gateway: policy, line %d: when: %w", r.Line, err)
		}
		if c.unless, err = compileCondition(r.Unless); err != nil {
			return nil, fmt.Errorf("gateway: policy, line %d: unless: %w", r.Line, err)
		}
		c.arguments = readsArguments(c.when) || readsArguments(c.unless)
		p.rules = append(p.rules, c)
		if !r.Deny {
			p.fallback = false
		}
	}
	return p, nil
}

func compileCondition(text string) (*expr.Expr, error) {
	if text == "" {
		return nil, nil
	}
	e, err := expr.ParseStrict(text)
	if err != nil {
		return nil, err
	}
	return e, e.Check(expr.PolicyNames)
}

func readsArguments(e *expr.Expr) bool { return e != nil && slices.Contains(e.Names(), "arguments") }

// decide returns the decision about a call.
func (p *policy) decide(a *access) ruling { return p.apply(a, false) }

// visible reports whether an entry of a list is shown. Rules that read arguments cannot be
// evaluated for a list: the entry is shown if such a rule may allow the call.
func (p *policy) visible(a *access) bool { return p.apply(a, true).allowed }

func (p *policy) apply(a *access, listing bool) ruling {
	if p == nil || len(p.rules) == 0 {
		return ruling{allowed: true}
	}
	var s *scope
	defer func() { s.release() }()
	for i := range p.rules {
		r := &p.rules[i]
		if !r.selects(a, r.deny) {
			continue
		}
		if r.when == nil && r.unless == nil {
			return ruling{allowed: !r.deny, line: r.line}
		}
		if listing && r.arguments {
			if r.deny {
				continue
			}
			return ruling{allowed: true, line: r.line}
		}
		if s == nil {
			s = newScope(a)
		}
		applies, err := r.applies(s)
		if err != nil {
			return ruling{line: r.line, err: fmt.Errorf("policy, line %d: %w", r.line, err)}
		}
		if applies {
			return ruling{allowed: !r.deny, line: r.line}
		}
	}
	return ruling{allowed: p.fallback}
}

// applies evaluates the conditions of a rule.
func (r *rule) applies(s *scope) (bool, error) {
	if r.when != nil {
		is, err := s.match(r.when)
		if !is || err != nil {
			return false, err
		}
	}
	if r.unless != nil {
		is, err := s.match(r.unless)
		return !is && err == nil, err
	}
	return true, nil
}

// selects reports whether all lists select a. For a limit or a rule that denies, wide is set: one
// member of a group of servers is enough, and so is one of the two names of a tool. Otherwise all
// members must be selected, and a pattern with "__" is for the name that clients use: a server that
// calls its tool notes__read is not the server notes.
func (s *selector) selects(a *access, wide bool) bool {
	return (s.principal == nil || matchesPrincipal(s.principal, a.caller.Name)) &&
		(s.group == nil || slices.ContainsFunc(a.caller.Groups, func(g string) bool { return glob.Any(s.group, g) })) &&
		(s.method == nil || glob.Any(s.method, a.method)) &&
		(s.tool == nil || s.selectsTool(a, wide)) &&
		(s.server == nil || s.selectsServer(a, wide))
}

func (s *selector) selectsTool(a *access, wide bool) bool {
	if a.tool == "" {
		return false
	}
	if a.exposed == "" {
		return glob.Any(s.tool, a.tool)
	}
	for _, pattern := range s.tool {
		if glob.Match(pattern, a.exposed) || (wide || !strings.Contains(pattern, "__")) && glob.Match(pattern, a.tool) {
			return true
		}
	}
	return false
}

func (s *selector) selectsServer(a *access, wide bool) bool {
	if glob.Any(s.server, a.server) {
		return true
	}
	if wide {
		return slices.ContainsFunc(a.members, func(m string) bool { return glob.Any(s.server, m) })
	}
	return len(a.members) > 0 && !slices.ContainsFunc(a.members, func(m string) bool { return !glob.Any(s.server, m) })
}

const tokenPrefix = "token:"

// matchesPrincipal matches the name of a principal. Callers with a token of the file of tokens also
// match without "token:": no principal of an authorization server has such a name.
func matchesPrincipal(patterns []string, name string) bool {
	if glob.Any(patterns, name) {
		return true
	}
	short, ok := strings.CutPrefix(name, tokenPrefix)
	return ok && glob.Any(patterns, short)
}

// A scope has the values of the names in expressions, for one decision.
type scope struct {
	a         *access
	buf       []byte // texts as JSON
	arguments jsonrpc.Raw
	decoded   bool
	err       error // the arguments are not strict JSON
}

var scopes = sync.Pool{New: func() any { return &scope{buf: make([]byte, 0, 512)} }}

func newScope(a *access) *scope {
	s := scopes.Get().(*scope)
	*s = scope{a: a, buf: s.buf[:0]}
	return s
}

func (s *scope) release() {
	if s == nil {
		return
	}
	*s = scope{buf: s.buf[:0]}
	if cap(s.buf) <= 16<<10 {
		scopes.Put(s)
	}
}

// match evaluates one condition.
func (s *scope) match(e *expr.Expr) (bool, error) {
	is, err := e.Match(s)
	if s.err != nil {
		return false, s.err
	}
	return is, err
}

// Lookup implements [expr.Scope].
func (s *scope) Lookup(name string) (jsonrpc.Raw, bool) {
	switch name {
	case "principal":
		return s.a.caller.json, true
	case "server":
		return s.quote(s.a.server), true
	case "method":
		return s.quote(s.a.method), true
	case "tool":
		return s.quote(s.a.tool), true
	case "address":
		return s.quoteAddress(), true
	case "annotations":
		return s.a.annotations, true
	case "arguments":
		return s.args(), true
	}
	return nil, false
}

// quote returns a text as JSON, without an allocation if the buffer has room.
func (s *scope) quote(text string) jsonrpc.Raw {
	start := len(s.buf)
	s.buf = jsonrpc.AppendString(s.buf, text)
	return s.buf[start:len(s.buf):len(s.buf)]
}

// quoteAddress returns the address of the client as JSON, or nil if it is unknown.
func (s *scope) quoteAddress() jsonrpc.Raw {
	if !s.a.address.IsValid() {
		return nil
	}
	start := len(s.buf)
	s.buf = append(s.a.address.AppendTo(append(s.buf, '"')), '"')
	return s.buf[start:len(s.buf):len(s.buf)]
}

var errArguments = errors.New("the arguments are not strict JSON: a name occurs twice, or the text is not UTF-8")

// args returns the arguments, which are checked once. A policy must read the same values as the
// server does, and with duplicates that is unknown.
func (s *scope) args() jsonrpc.Raw {
	if s.decoded {
		return s.arguments
	}
	s.decoded = true
	if len(s.a.params) == 0 {
		return nil
	}
	if !jsontext.Value(s.a.params).IsValid() {
		s.err = errArguments
		return nil
	}
	s.arguments = s.a.params
	if s.a.named {
		s.arguments = nil
		for name, value := range s.a.params.Members() {
			if string(name) == "arguments" {
				s.arguments = value
			}
		}
	}
	return s.arguments
}
