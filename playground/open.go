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

// openOptions say how a target is opened.
type openOptions struct {
	silent  bool   // no handshake
	version string // of the protocol
}

// ensure returns the open connection of a target, and opens it if there is none.
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

var errEnding = unavailable("parley is ending")

// openTarget opens a target anew.
func (p *Playground) openTarget(ctx context.Context, t *target, o openOptions) (*link, error) {
	p.mu.Lock()
	spec, old := t.Target, t.link
	switch {
	case p.closed:
		p.mu.Unlock()
		return nil, errEnding
	case p.targets[spec.Name] != t:
		p.mu.Unlock()
		return nil, badParam("/target", "%s is no longer there", spec.Name)
	case spec.Problem != "":
		p.mu.Unlock()
		return nil, unavailable("%s: %s", spec.Name, spec.Problem)
	case t.state == stateOpening:
		changed := p.changed
		p.mu.Unlock()
		return p.opening(ctx, t, changed)
	case len(spec.Command) > 0 && spec.From == FromPage:
		p.mu.Unlock()
		return nil, badParam("/target", "programs are started by parley up -c FILE, not from the page") // never: find makes none
	}
	t.state, t.since, t.why, t.link, t.known = stateOpening, time.Now(), "", nil, nil
	p.running.Add(1)
	p.tellLocked()
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
			p.running.Go(l.close) // it was made for nobody
		}
		switch {
		case p.closed:
			err = errEnding
		case err == nil:
			err = unavailable("%s has changed in the file meanwhile; open it again", spec.Name)
		}
		t.state, t.why = stateLost, sentence(err)
		p.tellLocked()
		return nil, err
	}
	select {
	case <-l.done:
		t.state, t.why = stateLost, "it closed the connection at once"
		p.tellLocked()
		return nil, unavailable("%s closed the connection at once", spec.Name)
	default:
	}
	t.state, t.link = stateOpen, l
	p.tellLocked()
	return l, nil
}

// sentence is what people are told of an error.
func sentence(err error) string {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// opening waits for what somebody else opens.
func (p *Playground) opening(ctx context.Context, t *target, changed chan struct{}) (*link, error) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		p.mu.Lock()
		state, l, why := t.state, t.link, t.why
		changed = p.changed
		p.mu.Unlock()
		switch {
		case l != nil:
			return l, nil
		case state != stateOpening:
			return nil, unavailable("%s: %s", t.Name, orDefault(why, "closed"))
		}
	}
}

// connect dials and shakes hands. An MCP server at an http address that knows only the older pair is found too.
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
	if refused && l.carrier == "http" && (no.status == 404 || no.status == 405 || no.status == 400) && spec.protocol() == ProtocolMCP {
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
	if refused && no.status == http.StatusUnauthorized && l.carrier == "http" {
		return nil, wantsToken(spec.Name)
	}
	return nil, unavailable("%s: %s", spec.Name, reason(err))
}

// wantsToken tells the page that there is a way: signing in.
func wantsToken(name string) *jsonrpc.Error {
	f := unavailable("%s wants to know who asks (HTTP 401)", name)
	f.Data = raw(map[string]string{"signIn": name})
	return f
}

// greet does what the protocol wants done first.
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

// initialized is the answer to MCP's initialize, and to that of editors.
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

// modernMeta is what every request of MCP 2026-07-28 says about its sender.
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

// met remembers what the server said about itself. version is what was agreed on, if the answer does not say.
func (l *link) met(result jsonrpc.Raw, version string) {
	var in initialized
	_ = decodeLoosely(result, &in) // one that says less is known less well
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
	l.p.tell()
}

// closeTarget ends the connection of a target, and its program.
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
