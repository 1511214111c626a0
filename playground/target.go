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
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp/oauth"
	"github.com/da1ed7bb/parley/playground/internal/outline"
	"github.com/da1ed7bb/parley/playground/suite"
	"github.com/da1ed7bb/parley/transport/stream"
)

// Protocols that a target may speak. Others are treated as plain JSON-RPC.
const (
	ProtocolJSONRPC = outline.ProtocolJSONRPC
	ProtocolMCP     = outline.ProtocolMCP
	ProtocolACP     = outline.ProtocolACP
	ProtocolA2A     = outline.ProtocolA2A
	ProtocolEditor  = outline.ProtocolEditor
	ProtocolLSP     = outline.ProtocolLSP
)

// Origins of a [Target].
const (
	FromDemo = "demo" // the program's own services
	FromFile = "file" // the configuration that the program was started with
	FromPage = "page" // an address that was typed or pasted
)

// A Target is a server that the page can call.
type Target struct {
	Name     string // display name, such as "@demo"; for a typed target, its address
	Title    string
	About    string // one sentence
	Protocol string // the default is ProtocolJSONRPC
	From     string // the default is FromFile

	// Address is the server's address, as parley.ParseTarget accepts it. It is "" for a program.
	Address string

	// Command is the program and its arguments; no shell is involved. It is started when the target
	// is opened, and stopped when it is closed. Env is its complete environment; if nil, it
	// inherits ours. Dir is its working directory; if "", ours is used.
	Command []string
	Env     []string
	Dir     string
	Framing stream.Framer // of a program

	Header http.Header // sent with each HTTP request, and with the first one of a WebSocket
	Token  string      // sent as a bearer token

	// Show is the command line or the address for display, without secrets. If "", it is derived
	// from the other fields.
	Show string

	// Problem is the reason why it cannot be opened, such as an unset variable. It is "" if no
	// problem is known.
	Problem string

	// Secrets are texts that are never recorded.
	Secrets []string
}

// States of a target.
const (
	stateClosed  = "closed"
	stateOpening = "opening"
	stateOpen    = "open"
	stateLost    = "lost"
)

// A target is the current state of a Target. Its fields are guarded by Playground.mu.
type target struct {
	Target
	state string
	since time.Time
	why   string
	link  *link
	auto  []string
	roots []jsonrpc.Raw
	known *outline.Description

	login  *login      // set if someone is signed in; its token is used instead of Token
	token  *loginView  // of login
	tokens oauth.Store // stored logins
	wants  bool        // the last response was 401
}

// defaultAuto are the methods that are answered automatically.
var defaultAuto = []string{"ping"}

// show returns the address or the command for display.
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

// SetTargets replaces the targets that were not added on the page, such as after a configuration is
// read again. A target that is unchanged keeps its open connection. The connection of a removed or
// changed target is closed.
func (p *Playground) SetTargets(list []Target) {
	p.hideSecrets(list...) // before anything is sent
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
	p.changes.signal()
	p.mu.Unlock()
	for _, l := range ended {
		l.close()
	}
	for _, g := range out {
		g.close()
	}
}

// hideSecrets removes the credentials of these targets from everything that is recorded.
func (p *Playground) hideSecrets(list ...Target) {
	for i := range list {
		t := &list[i]
		p.rec.Hide(t.Secrets...)
		p.rec.Hide(t.Token)
		for name, values := range t.Header {
			if isSecretHeader(name) {
				p.rec.Hide(values...)
			}
		}
		if u, err := url.Parse(t.Address); err == nil {
			if password, ok := u.User.Password(); ok {
				p.rec.Hide(password)
			}
		}
		for _, pair := range t.Env {
			if name, value, ok := strings.Cut(pair, "="); ok && secret.Name(name) {
				p.rec.Hide(value)
			}
		}
	}
}

// same reports whether spec has the same address, command and settings as t.
func (t *target) same(spec *Target) bool {
	return t.Address == spec.Address && slices.Equal(t.Command, spec.Command) && slices.Equal(t.Env, spec.Env) && t.Dir == spec.Dir &&
		t.Token == spec.Token && t.protocol() == spec.protocol() && fmt.Sprint(t.Header) == fmt.Sprint(spec.Header)
}

// unavailable returns the error for a target that cannot be used. The functions below make other
// errors that are sent to the page.
func unavailable(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeUnavailable, Message: fmt.Sprintf(format, args...)}
}

func badParam(pointer, format string, args ...any) *jsonrpc.Error {
	reason := fmt.Sprintf(format, args...)
	// Two strings can always be encoded.
	data, _ := jsonrpc.AppendValue(nil, &jsonrpc.ParamFault{Pointer: pointer, Reason: reason})
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: reason, Data: data}
}

// find returns the named target. An address that is not in the list yet is added; it never starts a
// program.
func (p *Playground) find(name, protocol string) (*target, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.targets[name]; t != nil {
		return t, nil
	}
	if strings.HasPrefix(name, "@") {
		return nil, badParam("/target", "unknown target %s", name)
	}
	where, err := parley.ParseTarget(name)
	if err != nil {
		if e, ok := errors.AsType[*parley.TargetError](err); ok {
			return nil, badParam("/target", "%s", e.Reason)
		}
		return nil, badParam("/target", "not a valid address")
	}
	if isExec(where) {
		return nil, badParam("/target", "the page cannot start programs; use parley up -c FILE")
	}
	spec := Target{Name: name, Address: name, Protocol: protocol, From: FromPage}
	if spec.Protocol == "" {
		spec.Protocol = guessProtocol(where)
	}
	return p.addLocked(spec)
}

func (p *Playground) addLocked(spec Target) (*target, error) {
	if len(p.order) >= maxTargets {
		return nil, badParam("/target", "there are already %d targets; remove some", maxTargets)
	}
	p.hideSecrets(spec)
	t := &target{Target: spec, state: stateClosed, auto: defaultAuto}
	p.targets[spec.Name] = t
	p.order = append(p.order, spec.Name)
	p.changes.signal()
	return t, nil
}

// guessProtocol derives the most likely protocol from an address.
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

// A headerField is a header as the page sends it. A null value removes a default header.
type headerField = suite.Header

// A targetView is a target as the page receives it.
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
	Wants     bool          `json:"wants,omitzero"` // requires a token or a different one
	Problem   string        `json:"problem,omitzero"`
	Startable bool          `json:"startable"`
}

type peerView struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version,omitzero"`
}

// masked replaces a value that is not sent to the page.
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
			v.Headers = append(v.Headers, headerField{Name: name, Value: &value})
		}
	}
	if l := t.link; l != nil {
		l.mu.Lock()
		v.Conn, v.Carrier, v.Line, v.Framing = l.wire.Conn(), l.transport, l.line, l.framing
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
