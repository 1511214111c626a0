package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Level is the weight of a rule.
type Level string

// The levels of rules.
const (
	Must   Level = "MUST"   // a specification requires it
	Expect Level = "EXPECT" // clients rely on it
	Should Level = "SHOULD" // recommended
	Free   Level = "free"   // left to the server; reported only
)

// An Outcome is the result of one rule.
type Outcome string

// The outcomes of a rule.
const (
	Pass       Outcome = "pass"
	Fail       Outcome = "fail"
	NotChecked Outcome = "not_checked"
)

// A Result is the outcome of one rule.
type Result struct {
	ID       string  `json:"id"` // such as "error/unknown-method"
	Level    Level   `json:"level"`
	Section  string  `json:"section"` // the specification and its section
	Outcome  Outcome `json:"outcome"`
	Sent     string  `json:"sent"`     // at most 2,000 bytes
	Received string  `json:"received"` // at most 2,000 bytes; text of the server
	Why      string  `json:"why"`      // why the outcome is not pass; may quote the server
}

// Counts are the numbers of rules by outcome, and of failed rules by level.
type Counts struct {
	Pass       int `json:"pass"`
	Fail       int `json:"fail"`
	NotChecked int `json:"not_checked"`

	Must   int `json:"must"`
	Expect int `json:"expect"`
	Should int `json:"should"`
}

// A Report is the verdict on one server. Its texts may hold text of the server: escape them before
// they reach a terminal.
type Report struct {
	Target    string   `json:"target"`
	Transport string   `json:"transport"` // http, ws, tcp, unix or stdio; tls is tcp, wss is ws
	Verdict   Outcome  `json:"verdict"`   // Fail if a Must failed, or with Options.Strict an Expect
	Counts    Counts   `json:"counts"`
	Rules     []Result `json:"rules"`
}

// Violations returns the rules because of which the verdict is Fail.
func (r *Report) Violations(strict bool) (violations []Result) {
	for _, rule := range r.Rules {
		if rule.Outcome == Fail && (rule.Level == Must || strict && rule.Level == Expect) {
			violations = append(violations, rule)
		}
	}
	return violations
}

// A Call is a call with an expected result.
type Call struct {
	Method string
	Params jsonrpc.Raw // nil sends no params
	Result jsonrpc.Raw // nil accepts any result
}

// Defaults and bounds of Options.
const (
	defaultTimeout = 5 * time.Second
	defaultBudget  = 5 * time.Minute
)

// Options configure a check. The zero value checks the rules that need no method.
type Options struct {
	Echo  string // a method that returns its params unchanged
	Fail  string // a method with params {code, message, data} that returns this error
	Sleep string // a method that waits for params {ms} and then responds
	Panic string // a method whose handler panics or throws

	// Named is a method with two named params, which are numbers, and NamedParams are their names
	// in positional order. For subtract with minuend and subtrahend the results are known;
	// otherwise only the two forms of the call are compared.
	Named       string
	NamedParams []string

	// Calls are checked for their results, at level Must.
	Calls []Call

	// Only limits the check to rules by their IDs, or by the part of the ID before the first slash.
	// If empty, all rules run.
	Only []string

	Strict bool // a failed Expect makes the verdict Fail

	// Hard adds deep nesting, large messages and batches, floods and broken frames. Without it,
	// messages are below 1 MiB and have at most 1,000 batch members.
	Hard bool

	// NoDiscovery prevents the call of rpc.discover, which maps methods named echo, fail, sleep
	// and subtract if no method is given. It is not called if a method is given.
	NoDiscovery bool

	// Profile is a protocol on top of JSON-RPC 2.0: "mcp", "a2a" or "acp" (Agent Communication
	// Protocol). Its own rules and those about all messages run, and rules about IDs, errors and
	// survival through a method of the protocol, since such a server may reject other requests
	// before a handshake. If empty, all rules of JSON-RPC 2.0 run.
	Profile string

	// Probe makes Check return an *UnreachableError if none of a few requests gets JSON as a response,
	// because the target speaks another protocol, closes its connections or never responds. Without
	// it, such a server fails rules.
	Probe bool

	// Timeout is the time to wait for one response. The default is 5 s. A quarter of it is used after
	// three responses that did not arrive, then less: a fiftieth after forty.
	Timeout time.Duration

	// Budget is the time for the whole check. The default is 5 minutes. Rules that have not run by
	// then are not checked.
	Budget time.Duration

	Header http.Header // sent with HTTP requests and WebSocket handshakes
	TLS    *tls.Config // for https, wss and tls; nil uses the system's authorities

	// Stderr is called with each line that a child process writes to its stderr, escaped.
	Stderr func(line string)

	// Progress is called after each rule with the number of rules done and in total.
	Progress func(done, total int, r Result)
}

// An UnreachableError reports that no server was found before the first rule: the connection
// failed, or all requests got an HTTP status that concerns the address or the credentials, such as
// 404 or 401, and no message. Err is then an [*httprpc.StatusError].
type UnreachableError struct {
	Target string
	Err    error
}

func (e *UnreachableError) Error() string { return "cannot reach " + e.Target + ": " + e.Err.Error() }

func (e *UnreachableError) Unwrap() error { return e.Err }

// Check runs all rules that apply to the target. It returns an *UnreachableError if there is no
// server, a *parley.TargetError for a scheme that it cannot check, and the cause of ctx when ctx
// ends. A server that breaks rules is not an error.
func Check(ctx context.Context, target parley.Target, o *Options) (*Report, error) {
	if o == nil {
		o = new(Options)
	}
	own := *o
	if own.Timeout <= 0 {
		own.Timeout = defaultTimeout
	}
	if own.Budget <= 0 {
		own.Budget = defaultBudget
	}
	if own.Named != "" && len(own.NamedParams) != 2 {
		return nil, errors.New("check: Named needs the names of two params")
	}
	if own.Profile != "" && profileRules(own.Profile) == nil {
		return nil, fmt.Errorf("check: unknown profile %q", own.Profile)
	}
	s := &session{ctx: ctx, o: own, target: target, ends: time.Now().Add(own.Budget), seen: map[string]*finding{}, counted: map[string]int{}}
	switch target.Scheme {
	case "http", "https":
		s.kind = kindHTTP
	case "ws", "wss":
		s.kind = kindWS
	case "tcp", "tls", "unix":
		s.kind = kindStream
	case "exec":
		s.kind = kindChild
	default:
		return nil, &parley.TargetError{Target: target.String(), Reason: "check works with http, https, ws, wss, tcp, tls, unix and a command after --"}
	}
	defer s.hangUp()
	if err := s.reach(); err != nil {
		return nil, &UnreachableError{Target: target.String(), Err: err}
	}
	if err := s.greet(); err != nil {
		return nil, err
	}
	return s.run()
}

// reach opens the first connection.
func (s *session) reach() error {
	if s.kind == kindHTTP {
		c, err := s.dialHTTP()
		if err == nil {
			s.web = c
		}
		return err
	}
	w, err := s.dial()
	if err == nil {
		s.wire = w
	}
	return err
}

// run runs all rules.
func (s *session) run() (*Report, error) {
	s.discover()
	var rules []rule
	all := profileRules(s.o.Profile)
	if all == nil {
		all = allRules()
	}
	for _, r := range append(all, callRules(&s.o)...) {
		if r.applies(s) && s.o.selects(r.id) {
			rules = append(rules, r)
		}
	}
	passive := slices.DeleteFunc(universal(), func(r rule) bool { return !r.applies(s) || !s.o.selects(r.id) })
	report := &Report{Target: s.target.String(), Transport: s.transport(), Verdict: Pass}
	total := len(rules) + len(passive)
	add := func(r Result) {
		report.Rules = append(report.Rules, r)
		if s.o.Progress != nil {
			s.o.Progress(len(report.Rules), total, r)
		}
	}
	for _, r := range rules {
		if s.ctx.Err() != nil {
			return nil, context.Cause(s.ctx)
		}
		add(s.runRule(r))
	}
	for _, r := range passive {
		add(s.passiveResult(r))
	}
	slices.SortStableFunc(report.Rules, func(a, b Result) int { return strings.Compare(family(a.ID), family(b.ID)) })
	report.count(s.o.Strict)
	return report, nil
}

// selects reports whether Only contains a rule.
func (o *Options) selects(id string) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, id) || slices.Contains(o.Only, family(id))
}

// family is the part of a rule's ID by which the report is grouped.
func family(id string) string {
	f, _, _ := strings.Cut(id, "/")
	return f
}

func (r *Report) count(strict bool) {
	for _, rule := range r.Rules {
		switch rule.Outcome {
		case Pass:
			r.Counts.Pass++
		case NotChecked:
			r.Counts.NotChecked++
		case Fail:
			r.Counts.Fail++
			switch rule.Level {
			case Must:
				r.Counts.Must++
			case Expect:
				r.Counts.Expect++
			case Should, Free:
				r.Counts.Should++
			}
		}
	}
	if len(r.Violations(strict)) > 0 {
		r.Verdict = Fail
	}
}

// runRule runs one rule.
func (s *session) runRule(r rule) Result {
	out := Result{ID: r.id, Level: r.level, Section: r.section}
	s.stillAnswers()
	s.lastSent, s.lastReceived = "", ""
	var f *finding
	switch why := s.missing(r); {
	case why != "":
		f = skipped(why)
	case s.dead:
		f = skipped("the server no longer answers")
	case time.Now().After(s.ends):
		f = skipped("the time for the whole check is over (Budget)")
	default:
		f = r.run(s)
	}
	out.Sent, out.Received = shown(s.lastSent), shown(s.lastReceived)
	if f == nil {
		out.Outcome = Pass
		return out
	}
	out.Outcome, out.Why = Fail, f.why
	if f.skip {
		out.Outcome = NotChecked
		return out
	}
	if f.sent != "" {
		out.Sent, out.Received = shown(f.sent), shown(f.received)
	}
	s.hangUp() // what the server still sends must not be attributed to the next rule
	return out
}

// passiveResult returns the outcome of a rule about all messages.
func (s *session) passiveResult(r rule) Result {
	out := Result{ID: r.id, Level: r.level, Section: r.section, Outcome: Pass}
	switch f := s.seen[r.id]; {
	case f != nil:
		out.Outcome, out.Sent, out.Received, out.Why = Fail, shown(f.sent), shown(f.received), f.why
	case s.counted[r.counts] == 0:
		out.Outcome, out.Why = NotChecked, "no message of this kind was received"
	}
	return out
}

// TB is the part of *testing.T that [Run] uses.
type TB interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Run checks a target in a test: each violation is an error of the test, each other failed rule is
// logged. At most one Options is used. For a child process, use [Check] with [parley.Command].
func Run(t TB, target string, options ...*Options) *Report {
	t.Helper()
	at, err := parley.ParseTarget(target)
	if err != nil {
		t.Fatalf("check: %v", err)
		return nil
	}
	o := new(Options)
	if len(options) > 0 && options[0] != nil {
		o = options[0]
	}
	report, err := Check(t.Context(), at, o)
	if err != nil {
		t.Fatalf("check: %v", err)
		return nil
	}
	for _, r := range report.Rules {
		switch {
		case r.Outcome != Fail:
		case r.Level == Must || o.Strict && r.Level == Expect:
			t.Errorf("%s %s (%s): %s\n\tsent     %s\n\treceived %s", r.Level, r.ID, r.Section, r.Why, r.Sent, r.Received)
		default:
			t.Logf("%s %s (%s): %s", r.Level, r.ID, r.Section, r.Why)
		}
	}
	return report
}
