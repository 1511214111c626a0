package config

import (
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

// upstreamMembers are the members of a server that only the gateway uses.
var upstreamMembers = []string{
	"connection", "processes", "tools", "required", "timeout", "group", "exchange", "oauth",
	"forwardToken", "forwardHeaders", "push", "breaker", "health",
}

// defaultUpstream has the defaults of a server.
func defaultUpstream() Upstream {
	return Upstream{
		Connection: ConnectionAuto, Timeout: 60 * time.Second,
		MaxProcesses: 16, Idle: 5 * time.Minute,
		Inflight: 256, Queue: 1024, Wait: 5 * time.Second,
		Breaker: &Breaker{Failures: 5, Ratio: 0.5, Window: 30 * time.Second, Open: 5 * time.Second, Max: 60 * time.Second},
		Health:  &Health{Every: 10 * time.Second, Timeout: 2 * time.Second},
	}
}

// upstreamDefaults reads gateway.upstream, before the servers are read.
func (r *reader) upstreamDefaults(gateway *node) {
	r.upstreams = defaultUpstream()
	n := gateway.get("upstream")
	if n == nil || n.kind == isNull {
		return
	}
	f := &field{r, &r.scratch, n, "gateway.upstream"}
	if f.members("timeout", "breaker", "health") {
		f.common(&r.upstreams)
	}
}

// Bounds of times.
const (
	shortest = time.Millisecond
	longest  = 24 * time.Hour
)

// common reads the members that gateway.upstream and servers have.
func (f *field) common(u *Upstream) {
	f.member("timeout").duration(&u.Timeout, shortest, longest)
	if b := f.member("breaker"); b.isOff() {
		u.Breaker = nil
	} else if b != nil {
		u.Breaker = b.breaker(u.Breaker)
	}
	if h := f.member("health"); h.isOff() {
		u.Health = nil
	} else if h != nil {
		u.Health = h.health(u.Health)
	}
}

func (f *field) breaker(base *Breaker) *Breaker {
	b := *defaultUpstream().Breaker
	if base != nil {
		b = *base
	}
	if !f.members("failures", "ratio", "window", "open", "max") {
		return base
	}
	f.member("failures").count(&b.Failures, 1, 1000)
	f.member("ratio").ratio(&b.Ratio)
	f.member("window").duration(&b.Window, time.Second, time.Hour)
	f.member("open").duration(&b.Open, shortest, time.Hour)
	f.member("max").duration(&b.Max, shortest, longest)
	if b.Max < b.Open {
		at := f.member("max")
		if at == nil {
			at = f.member("open")
		}
		if at != nil {
			at.fail("is a contradiction: the breaker opens for %s, but for at most %s", shortDuration(b.Open), shortDuration(b.Max))
		}
	}
	return &b
}

func (f *field) health(base *Health) *Health {
	h := *defaultUpstream().Health
	if base != nil {
		h = *base
	}
	if !f.members("every", "timeout", "method") {
		return base
	}
	f.member("every").duration(&h.Every, 100*time.Millisecond, longest)
	f.member("timeout").duration(&h.Timeout, shortest, time.Minute)
	if m := f.member("method"); m != nil {
		h.Method, _ = m.word(false)
	}
	return &h
}

// upstream reads the members of a server for the gateway.
func (f *field) upstream(u *Upstream) {
	f.common(u)
	if at := f.member("group"); at != nil {
		u.Group, _ = at.word(false)
	}
	f.member("required").truth(&u.Required)
	f.member("connection").choice(&u.Connection, ConnectionAuto, ConnectionShared, ConnectionPrincipal, ConnectionSession)
	if p := f.member("processes"); p.members("max", "idle") {
		p.member("max").count(&u.MaxProcesses, 1, 64)
		p.member("idle").duration(&u.Idle, time.Second, longest)
	}
	if t := f.member("tools"); t.members("allow", "deny", "idempotent") {
		if allow := t.member("allow"); allow != nil {
			u.AllowTools = append([]string{}, allow.patterns()...)
		}
		u.DenyTools = t.member("deny").patterns()
		u.IdempotentTools = t.member("idempotent").patterns()
	}
	if x := f.member("exchange"); x.members("tokenEndpoint", "clientId", "clientSecret", "audience", "resource", "scopes") {
		u.Exchange = x.exchange()
	}
	if o := f.member("oauth"); o.members("grant", "tokenEndpoint", "clientId", "clientSecret", "audience", "scopes") {
		u.OAuth = o.clientCredentials()
	}
	f.member("forwardToken").truth(&u.ForwardToken)
	for _, at := range f.member("forwardHeaders").elements() {
		if name := at.forwardHeader(); name != "" && !slices.Contains(u.ForwardHeaders, name) {
			u.ForwardHeaders = append(u.ForwardHeaders, name)
		}
	}
	var push string
	f.member("push").choice(&push, "deny", "direct")
	u.DirectPush = push == "direct"
}

// need reads a member that must be there.
func (f *field) need(name string, secret bool) string {
	at := f.member(name)
	if at == nil {
		f.fail("has no %s", name)
		return ""
	}
	text, _ := at.word(secret)
	return text
}

func (f *field) scopes() (list []string) {
	for _, at := range f.member("scopes").elements() {
		text, ok := at.word(false)
		switch {
		case !ok:
		case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }):
			at.fail("%s is not a scope: it must have no spaces and no quotes", at.shown())
		case slices.Contains(list, text):
			at.fail("%s is in the list twice", at.shown())
		default:
			list = append(list, text)
		}
	}
	return list
}

// secretValue reads a secret that is read again while the gateway runs.
func (f *field) secretValue(name string) *Value {
	at := f.member(name)
	if at == nil {
		return nil
	}
	if _, ok := at.word(true); !ok {
		return nil
	}
	return at.value()
}

// value returns the text of a field as a Value.
func (f *field) value() *Value { return NewValue(f.n.text, f.expandOptions()) }

func (f *field) exchange() *Exchange {
	x := &Exchange{ClientID: f.need("clientId", false), ClientSecret: f.secretValue("clientSecret"), Scopes: f.scopes()}
	if at := f.member("tokenEndpoint"); at == nil {
		f.fail("has no tokenEndpoint")
	} else {
		at.webAddress(&x.TokenEndpoint)
	}
	x.Audience, _ = f.member("audience").word(false)
	x.Resource, _ = f.member("resource").word(false)
	if f.member("audience") == nil && f.member("resource") == nil {
		f.fail("has no audience: it names the server for which the token is")
	}
	return x
}

func (f *field) clientCredentials() *ClientCredentials {
	var grant string
	if at := f.member("grant"); at == nil {
		f.fail("has no grant: use client_credentials")
	} else if text, ok := at.word(false); ok && text != "client_credentials" {
		at.fail("%s is not supported: use client_credentials", at.shown())
	} else {
		grant = text
	}
	c := &ClientCredentials{ClientID: f.need("clientId", false), ClientSecret: f.secretValue("clientSecret"), Scopes: f.scopes()}
	if grant != "" && f.member("clientSecret") == nil {
		f.fail("has no clientSecret")
	}
	f.member("tokenEndpoint").webAddress(&c.TokenEndpoint)
	c.Audience, _ = f.member("audience").word(false)
	return c
}

// ownHeaders are headers that the gateway sets or drops, whatever a client sends: the framing of a
// message, what belongs to one connection, what claims the origin of a request, and what the
// protocols derive from the message.
var ownHeaders = []string{
	"Connection", "Content-Length", "Content-Encoding", "Content-Type", "Accept", "Accept-Encoding", "Expect", "Host", "Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
	"Forwarded", "X-Real-Ip", "Via", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Last-Event-Id", "Origin",
}

func isOwnHeader(name string) bool {
	return slices.Contains(ownHeaders, name) || strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Sec-")
}

// forwardHeader returns the name of a header that is sent upstream, or "".
func (f *field) forwardHeader() string {
	text, ok := f.word(false)
	if !ok {
		return ""
	}
	name := http.CanonicalHeaderKey(text)
	switch {
	case !httptoken.Valid(text):
		f.fail("%s is not the name of a header", f.shown())
	case name == "Authorization":
		f.fail("is the client's token: use forwardToken, exchange or oauth")
	case name == "Cookie":
		f.fail("is never sent upstream, because it belongs to the gateway")
	case isOwnHeader(name):
		f.fail("%s is set by the gateway itself", name)
	default:
		return name
	}
	return ""
}

// credentials checks the members with which the gateway authenticates at a server.
func (f *field) credentials(e *Entry) {
	u := &e.Upstream
	var has []string
	var last *field
	add := func(name string, set bool) {
		if set {
			has = append(has, name)
			last = f.member(name)
		}
	}
	for name := range e.Header {
		if isSecret(name) {
			add("headers", true)
			break
		}
	}
	add("oauth", u.OAuth != nil)
	add("exchange", u.Exchange != nil)
	add("forwardToken", u.ForwardToken)
	if len(has) > 1 {
		last.fail("is a second credential beside %s: a server gets exactly one", strings.Join(has[:len(has)-1], " and "))
	}
	if len(e.Command) == 0 {
		if p := f.member("processes").member("max"); p != nil {
			p.fail("is for programs, and this server has an address")
		}
	}
	if strings.HasPrefix(e.Address, "http") || strings.HasPrefix(e.Address, "sse+") || strings.HasPrefix(e.Address, "ws") {
		return
	}
	if len(e.Command) == 0 && e.Problem != "" {
		return // the address is the problem
	}
	for _, name := range []string{"headers", "exchange", "oauth", "forwardToken", "forwardHeaders"} {
		if at := f.member(name); at != nil && !at.isOff() {
			at.fail("is for servers with an HTTP address, and this one has none")
		}
	}
}

// isLocal reports whether a host is this machine. It looks nothing up.
func isLocal(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().IsLoopback()
	}
	return host == "localhost"
}

// localAddress is isLocal for a host with a port.
func localAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return isLocal(host)
}

// SameServer reports whether two entries describe the same server with the same settings, so that
// connections and child processes of one can serve the other. Positions, titles and the present
// values of files that are read again do not count.
func (e *Entry) SameServer(other *Entry) bool {
	a, b := *e, *other
	for _, x := range []*Entry{&a, &b} {
		x.Title, x.About, x.Line, x.Column, x.Show, x.Secrets, x.Header = "", "", 0, 0, "", nil, nil
		x.Headers = nil
		if x.Upstream.Exchange != nil {
			plain := *x.Upstream.Exchange
			plain.ClientSecret = nil
			x.Upstream.Exchange = &plain
		}
		if x.Upstream.OAuth != nil {
			plain := *x.Upstream.OAuth
			plain.ClientSecret = nil
			x.Upstream.OAuth = &plain
		}
	}
	return reflect.DeepEqual(a, b) && e.Headers.same(other.Headers) &&
		e.Upstream.secretText() == other.Upstream.secretText()
}

// secretText returns the secret of the gateway at the authorization server as it is in the file.
func (u *Upstream) secretText() string {
	switch {
	case u.Exchange != nil:
		return u.Exchange.ClientSecret.Text()
	case u.OAuth != nil:
		return u.OAuth.ClientSecret.Text()
	}
	return ""
}
