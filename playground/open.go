package playground

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// openOptions control how a target is opened.
type openOptions struct {
	silent  bool   // no handshake
	version string // protocol version
}

// ensure returns the open connection of a target, or opens one.
func (p *Playground) ensure(ctx context.Context, name string) (*link, error) {
	t, err := p.find(name, "")
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	l := t.link
	p.mu.Unlock()
	if l != nil {
		return l, nil
	}
	return p.openTarget(ctx, t, openOptions{})
}

var errEnding = unavailable("parley is shutting down")

// openTarget opens a new connection to a target and replaces the current one.
func (p *Playground) openTarget(ctx context.Context, t *target, o openOptions) (*link, error) {
	p.mu.Lock()
	spec, old := t.Target, t.link
	switch {
	case p.closed:
		p.mu.Unlock()
		return nil, errEnding
	case p.targets[spec.Name] != t:
		p.mu.Unlock()
		return nil, badParam("/target", "%s no longer exists", spec.Name)
	case spec.Problem != "":
		p.mu.Unlock()
		return nil, unavailable("%s: %s", spec.Name, spec.Problem)
	case t.state == stateOpening:
		changed := p.changes.next()
		p.mu.Unlock()
		return p.opening(ctx, t, changed)
	case len(spec.Command) > 0 && spec.From == FromPage:
		p.mu.Unlock()
		// This is unreachable: find makes no programs.
		return nil, badParam("/target", "the page cannot start programs; use parley up -c FILE")
	}
	t.state, t.since, t.why, t.link, t.known = stateOpening, time.Now(), "", nil, nil
	p.running.Add(1)
	p.changes.signal()
	p.mu.Unlock()
	defer p.running.Done()
	if old != nil {
		old.end(errReplaced)
		old.close()
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(p.ctx, stop)()
	l, err := p.connect(ctx, spec, o)

	p.mu.Lock()
	defer p.mu.Unlock()
	t.since = time.Now()
	if err != nil || p.closed || p.targets[spec.Name] != t {
		if l != nil {
			p.running.Go(l.close) // the new connection is not used
		}
		switch {
		case p.closed:
			err = errEnding
		case err == nil:
			err = unavailable("%s has changed in the file; open it again", spec.Name)
		}
		t.state, t.why = stateLost, sentence(err)
		p.changes.signal()
		return nil, err
	}
	select {
	case <-l.done:
		t.state, t.why = stateLost, "the connection was closed immediately"
		p.changes.signal()
		return nil, unavailable("%s closed the connection immediately", spec.Name)
	default:
	}
	t.state, t.link = stateOpen, l
	p.changes.signal()
	return l, nil
}

// sentence returns the text of an error for people.
func sentence(err error) string {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// opening waits while another goroutine opens the target.
func (p *Playground) opening(ctx context.Context, t *target, changed <-chan struct{}) (*link, error) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		p.mu.Lock()
		state, l, why := t.state, t.link, t.why
		changed = p.changes.next()
		p.mu.Unlock()
		switch {
		case l != nil:
			return l, nil
		case state != stateOpening:
			return nil, unavailable("%s: %s", t.Name, orDefault(why, "closed"))
		}
	}
}

// connect dials and performs the handshake. It also detects an MCP server at an http address that
// supports only the older HTTP+SSE transport.
func (p *Playground) connect(ctx context.Context, spec Target, o openOptions) (*link, error) {
	l, err := p.dial(ctx, spec)
	if err != nil || o.silent {
		return l, err
	}
	err = l.greet(ctx, o.version)
	if err == nil {
		return l, nil
	}
	l.end(err)
	l.close()
	no, refused := errors.AsType[*statusError](err)
	if refused && l.transport == "http" && (no.status == 404 || no.status == 405 || no.status == 400) && spec.protocol() == ProtocolMCP {
		older := spec
		older.Address = "sse+" + spec.Address
		if second, err := p.dial(ctx, older); err == nil {
			if err = second.greet(ctx, o.version); err == nil {
				return second, nil
			}
			second.end(err)
			second.close()
		}
	}
	if _, known := errors.AsType[*jsonrpc.Error](err); known {
		return nil, err
	}
	if refused && no.status == http.StatusUnauthorized && l.transport == "http" {
		return nil, wantsToken(spec.Name)
	}
	return nil, unavailable("%s: %s", spec.Name, reason(err))
}

// wantsToken returns an error with which the page offers to sign in.
func wantsToken(name string) *jsonrpc.Error {
	f := unavailable("%s requires authentication (HTTP 401)", name)
	f.Data = raw(map[string]string{"signIn": name})
	return f
}

// greet performs the handshake of the protocol.
func (l *link) greet(ctx context.Context, version string) error {
	switch l.spec.protocol() {
	case ProtocolMCP:
		return l.greetMCP(ctx, orDefault(version, mcp.V20251125.String()))
	case ProtocolEditor:
		return l.greetEditor(ctx)
	case ProtocolLSP:
		_, err := l.call(ctx, "initialize", jsonrpc.Raw(`{"processId":null,"rootUri":null,"capabilities":{}}`))
		if err != nil {
			return err
		}
		return l.notify(ctx, "initialized", jsonrpc.Raw(`{}`))
	}
	return nil
}

// initialized is the result of initialize, in MCP and in the Agent Client Protocol.
type initialized struct {
	ProtocolVersion jsonrpc.Raw `json:"protocolVersion"`
	ServerInfo      *peerView   `json:"serverInfo"`
	AgentInfo       *peerView   `json:"agentInfo"`
}

func (l *link) greetMCP(ctx context.Context, version string) error {
	if mcp.ParseVersion(version).Modern() {
		result, err := l.call(ctx, mcp.MethodDiscover, jsonrpc.Raw(`{"_meta":`+string(modernMeta(l.p.options.Version))+`}`))
		if err != nil {
			return err
		}
		l.met(result, version)
		return nil
	}
	result, err := l.call(ctx, mcp.MethodInitialize, raw(map[string]any{
		"protocolVersion": version,
		"capabilities":    jsonrpc.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}`),
		"clientInfo":      mcp.Implementation{Name: "parley", Version: orDefault(l.p.options.Version, "devel")},
	}))
	if err != nil {
		return err
	}
	l.met(result, "")
	if err := l.notify(ctx, mcp.NotifyInitialized, nil); err != nil {
		return err
	}
	if h, ok := l.way.(*post); ok {
		h.listen(l)
	}
	return nil
}

// modernMeta is the sender's information in every request of MCP 2026-07-28.
func modernMeta(version string) jsonrpc.Raw {
	return raw(map[string]any{
		mcp.MetaProtocolVersion:    mcp.V20260728.String(),
		mcp.MetaClientCapabilities: jsonrpc.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`),
		mcp.MetaClientInfo:         mcp.Implementation{Name: "parley", Version: orDefault(version, "devel")},
	})
}

func (l *link) greetEditor(ctx context.Context) error {
	result, err := l.call(ctx, editor.MethodInitialize,
		jsonrpc.Raw(`{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":false},"clientInfo":{"name":"parley","title":"parley","version":"1"}}`))
	if err != nil {
		return err
	}
	l.met(result, "")
	return nil
}

// met stores the server's description of itself. version is the negotiated version, used if the
// response has none.
func (l *link) met(result jsonrpc.Raw, version string) {
	var in initialized
	_ = decodeLoosely(result, &in) // missing members stay empty
	l.mu.Lock()
	l.hello = result
	if l.peer = in.ServerInfo; l.peer == nil {
		l.peer = in.AgentInfo
	}
	var stated string
	if in.ProtocolVersion.Decode(&stated) != nil {
		stated = string(in.ProtocolVersion)
	}
	l.version = orDefault(version, stated)
	l.mu.Unlock()
	l.p.changes.signal()
}

// closeTarget closes the connection of a target, and stops its program.
func (p *Playground) closeTarget(name string) {
	p.mu.Lock()
	var l *link
	if t := p.targets[name]; t != nil {
		l = t.link
	}
	p.mu.Unlock()
	if l == nil {
		return
	}
	if h, ok := l.way.(*post); ok {
		h.leave(l)
	}
	l.close()
}
