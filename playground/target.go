package playground

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp/oauth"
	"github.com/da1ed7bb/parley/transport/stream"
)

// Protocols that a target may speak. Others are treated as JSON-RPC alone.
const (
	ProtocolJSONRPC = "jsonrpc"
	ProtocolMCP     = "mcp"
	ProtocolACP     = "acp"
	ProtocolA2A     = "a2a"
	ProtocolEditor  = "editor"
	ProtocolLSP     = "lsp"
)

// Where a [Target] comes from.
const (
	FromDemo = "demo" // the program's own services
	FromFile = "file" // the configuration that the program was started with
	FromPage = "page" // somebody typed or pasted an address
)

// A Target is a server that can be spoken to.
type Target struct {
	Name     string // what people call it, "@demo"; for one that was typed, its address
	Title    string
	About    string // one sentence
	Protocol string // "" is ProtocolJSONRPC
	From     string // "" is FromFile

	// Address is where it is, as parley.ParseTarget reads it. "" for a program.
	Address string

	// Command is the program and its arguments; no shell is involved. It is started when the target is opened, and ended when it
	// is closed. Env is its whole environment, nil for ours. Dir is where it runs, "" for where we do.
	Command []string
	Env     []string
	Dir     string
	Framing stream.Framer // of a program

	Header http.Header // sent with each request over HTTP, and the first one of a WebSocket
	Token  string      // sent as a bearer token

	// Show is the command line or the address as people may see it: without secrets. "" is made of the other fields.
	Show string

	// Problem is why it cannot be opened, such as a variable that is not set. "" if nothing is known to be wrong.
	Problem string

	// Secrets are texts that are never recorded.
	Secrets []string
}

// Typical states of a target.
const (
	stateClosed  = "closed"
	stateOpening = "opening"
	stateOpen    = "open"
	stateLost    = "lost"
)

// A target is what is known of a Target now. Its fields are guarded by Playground.mu.
type target struct {
	Target
	state string
	since time.Time
	why   string
	link  *link
	auto  []string
	roots []jsonrpc.Raw
	known *description

	login  *login      // who is signed in has one; it shows its token instead of Token
	token  *loginView  // of login
	tokens oauth.Store // what is kept of logins
	wants  bool        // the last answer was 401
}

// defaultAuto is answered without asking anybody.
var defaultAuto = []string{"ping"}

// show is the address or the command as people may see it.
func (t *Target) show() string {
	switch {
	case t.Show != "":
		return t.Show
	case len(t.Command) > 0:
		return strings.Join(t.Command, " ")
	}
	return withoutPassword(t.Address)
}

func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	u.User = url.User("…")
	return u.String()
}

func (t *Target) kind() string {
	if len(t.Command) > 0 {
		return "command"
	}
	return "url"
}

func (t *Target) protocol() string {
	if t.Protocol == "" {
		return ProtocolJSONRPC
	}
	return t.Protocol
}

// SetTargets replaces the targets that did not come from the page: the list of a configuration that was read again. One whose
// connection is open keeps it, unless it is gone from the list or other than before.
func (p *Playground) SetTargets(list []Target) {
	p.mu.Lock()
	var ended []*link
	var out []*login
	next := make(map[string]*target)
	var order []string
	for _, spec := range list {
		if spec.Name == "" || next[spec.Name] != nil || len(order) >= maxTargets {
			continue
		}
		if spec.From == "" {
			spec.From = FromFile
		}
		t := p.targets[spec.Name]
		if t == nil || !t.same(&spec) {
			if t != nil && t.link != nil {
				ended = append(ended, t.link)
			}
			if t != nil && t.login != nil {
				out = append(out, t.signOutLocked())
			}
			t = &target{state: stateClosed, auto: defaultAuto}
		}
		t.Target = spec
		next[spec.Name] = t
		order = append(order, spec.Name)
	}
	for _, name := range p.order {
		switch t := p.targets[name]; {
		case next[name] != nil:
		case t.From == FromPage && len(order) < maxTargets:
			next[name] = t
			order = append(order, name)
		default:
			if t.link != nil {
				ended = append(ended, t.link)
			}
			if t.login != nil {
				out = append(out, t.signOutLocked())
			}
		}
	}
	p.targets, p.order = next, order
	p.tellLocked()
	p.mu.Unlock()
	for _, l := range ended {
		l.close()
	}
	for _, g := range out {
		g.close()
	}
}

// same reports whether spec leads to the same place in the same way.
func (t *target) same(spec *Target) bool {
	return t.Address == spec.Address && slices.Equal(t.Command, spec.Command) && slices.Equal(t.Env, spec.Env) && t.Dir == spec.Dir &&
		t.Token == spec.Token && t.protocol() == spec.protocol() && fmt.Sprint(t.Header) == fmt.Sprint(spec.Header)
}

// faults that the page is told.
func unavailable(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeUnavailable, Message: fmt.Sprintf(format, args...)}
}

func badParam(pointer, format string, args ...any) *jsonrpc.Error {
	reason := fmt.Sprintf(format, args...)
	data, _ := jsonrpc.AppendValue(nil, &jsonrpc.ParamFault{Pointer: pointer, Reason: reason}) // two strings
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: reason, Data: data}
}

// find returns the target of that name. An address that is not in the list yet is added to it: it leads to no program.
func (p *Playground) find(name, protocol string) (*target, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.targets[name]; t != nil {
		return t, nil
	}
	if strings.HasPrefix(name, "@") {
		return nil, badParam("/target", "there is no target %s", name)
	}
	where, err := parley.ParseTarget(name)
	if err != nil {
		if e, ok := errors.AsType[*parley.TargetError](err); ok {
			return nil, badParam("/target", "%s", e.Reason)
		}
		return nil, badParam("/target", "that is no address")
	}
	if isExec(where) {
		return nil, badParam("/target", "programs are started by parley up -c FILE, not from the page")
	}
	spec := Target{Name: name, Address: name, Protocol: protocol, From: FromPage}
	if spec.Protocol == "" {
		spec.Protocol = guessProtocol(where)
	}
	return p.addLocked(spec)
}

func (p *Playground) addLocked(spec Target) (*target, error) {
	if len(p.order) >= maxTargets {
		return nil, badParam("/target", "there are %d targets already; forget some", maxTargets)
	}
	t := &target{Target: spec, state: stateClosed, auto: defaultAuto}
	p.targets[spec.Name] = t
	p.order = append(p.order, spec.Name)
	p.tellLocked()
	return t, nil
}

// guessProtocol reads an address for what it most probably leads to.
func guessProtocol(t parley.Target) string {
	path, _, _ := strings.Cut(t.Path, "?")
	switch {
	case strings.HasSuffix(path, "/mcp"), strings.HasPrefix(t.Scheme, "sse+"):
		return ProtocolMCP
	case strings.HasSuffix(path, "/a2a"):
		return ProtocolA2A
	case strings.HasSuffix(path, "/acp"):
		return ProtocolACP
	case t.Framing == stream.Header:
		return ProtocolLSP
	}
	return ProtocolJSONRPC
}

// A headerField is a header as the page has it. A null value leaves out a header that we would send.
type headerField struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

func headerOf(fields []headerField) (http.Header, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	h := make(http.Header)
	for i, f := range fields {
		if !isToken(f.Name) {
			return nil, badParam(fmt.Sprintf("/headers/%d/name", i), "%q is no name of a header", f.Name)
		}
		name := http.CanonicalHeaderKey(f.Name)
		if f.Value == nil {
			h[name] = nil
			continue
		}
		if strings.ContainsAny(*f.Value, "\r\n\x00") {
			return nil, badParam(fmt.Sprintf("/headers/%d/value", i), "a header is one line")
		}
		h.Add(name, *f.Value)
	}
	return h, nil
}

// isToken reports whether text can be the name of a header (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return text != ""
}

// A targetView is a target as the page sees it.
type targetView struct {
	Name      string        `json:"name"`
	Address   string        `json:"address"`
	Title     string        `json:"title,omitzero"`
	About     string        `json:"about,omitzero"`
	Protocol  string        `json:"protocol"`
	From      string        `json:"from"`
	Kind      string        `json:"kind"`
	State     string        `json:"state"`
	Since     time.Time     `json:"since,omitzero"`
	Why       string        `json:"why,omitzero"`
	Conn      int64         `json:"conn,omitzero"`
	Carrier   string        `json:"carrier,omitzero"`
	Line      bool          `json:"line,omitzero"`
	Framing   string        `json:"framing,omitzero"`
	Session   string        `json:"session,omitzero"`
	Version   string        `json:"version,omitzero"`
	Peer      *peerView     `json:"peer,omitzero"`
	Auto      []string      `json:"auto"`
	Next      int64         `json:"next"`
	Headers   []headerField `json:"headers"`
	HasToken  bool          `json:"hasToken,omitzero"`
	Login     *loginView    `json:"login,omitzero"`
	Wants     bool          `json:"wants,omitzero"` // a token, or another one
	Problem   string        `json:"problem,omitzero"`
	Startable bool          `json:"startable"`
}

type peerView struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version,omitzero"`
}

// masked stands for a value that the page does not get to see.
const masked = "•••"

func (t *target) viewLocked() targetView {
	v := targetView{
		Name: t.Name, Address: t.show(), Title: t.Title, About: t.About, Protocol: t.protocol(), From: t.From, Kind: t.kind(),
		State: t.state, Since: t.since, Why: t.why, Auto: t.auto, HasToken: t.Token != "" || t.login != nil, Login: t.token, Wants: t.wants, Problem: t.Problem, Startable: t.Problem == "", Next: 1,
	}
	for _, name := range slices.Sorted(mapsKeys(t.Header)) {
		for _, value := range t.Header[name] {
			if isSecretHeader(name) {
				value = masked
			}
			v.Headers = append(v.Headers, headerField{name, &value})
		}
	}
	if l := t.link; l != nil {
		l.mu.Lock()
		v.Conn, v.Carrier, v.Line, v.Framing = l.wire.Conn(), l.carrier, l.line, l.framing
		v.Session, v.Version, v.Peer, v.Next = l.session, l.version, l.peer, l.next
		l.mu.Unlock()
	}
	return v
}

func (p *Playground) targetViews() []targetView {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.targetViewsLocked()
}

func (p *Playground) targetViewsLocked() []targetView {
	views := make([]targetView, 0, len(p.order))
	for _, name := range p.order {
		views = append(views, p.targets[name].viewLocked())
	}
	return views
}
