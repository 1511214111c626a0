package config

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
)

const (
	defaultListen = "http://127.0.0.1:7500"
	maxAddresses  = 32
	keyBytes      = 32
)

// gatewayMembers are the members of gateway.
var gatewayMembers = []string{
	"listen", "publicUrl", "tls", "admin", "key", "replicas", "drain", "identity", "policy", "limits",
	"routes", "mcp", "upstream", "audit", "capture",
}

// The flow of reading the configuration of a gateway:
//
//	reader.read
//	├─ upstreamDefaults           gateway.upstream, before the servers
//	├─ table → entry → upstream   servers with their settings
//	└─ gateway                    the rest
//	   ├─ wantRoutes              servers without protocol: JSON-RPC if a route leads to them
//	   ├─ servers                 names, groups, credentials
//	   ├─ addresses, identity     listen, admin, tls, key, tokens
//	   ├─ policy, limits, routes  each with the names of servers and groups
//	   └─ mcp, files              sets; audit, capture

// gateway reads the member gateway. Its value is nil if the file has none.
func (r *reader) gateway(m member) {
	g := &Gateway{
		Replicas: 1, Drain: 15 * time.Second, Pins: PinsOff, Lock: filepath.Join(r.dir, "parley.lock"), CaptureKeep: 256 << 20,
	}
	r.file.Gateway = g
	n := m.value
	if n != nil {
		g.Line, g.Column, g.Pins = m.line, m.column, PinsEnforce
	}
	if n == nil || n.kind == isNull {
		n = &node{kind: isMap, line: m.line, column: m.column}
	}
	f := &field{r, &r.scratch, n, "gateway"}
	if !f.members(gatewayMembers...) {
		f.n = &node{kind: isMap, line: n.line, column: n.column}
	}
	r.wantRoutes(f)
	r.servers(g.Line == 0)
	f.identity(g)
	r.callers(g)
	f.addresses(g)
	f.policy(g)
	f.limits(g)
	f.routes(g)
	f.mcp(g)
	f.files(g)
	if g.Replicas > 1 && g.Key == nil && f.member("key") == nil {
		f.member("replicas").fail("needs gateway.key: all replicas have the same key")
	}
	g.Secrets = r.scratch.Secrets
	r.warnOfMissing(f)
}

// warnOfMissing records a warning for each member that the gateway does not use yet.
func (r *reader) warnOfMissing(f *field) {
	warn := func(at *field, what string) {
		if at != nil && !at.isOff() {
			r.file.Warnings = append(r.file.Warnings, Problem{Line: at.n.line, Column: at.n.column, Path: at.path, Text: "has no effect yet: " + what})
		}
	}
	warn(f.member("capture"), "traffic is not recorded")
	warn(f.member("mcp").member("search"), "all tools are listed")
	for i := range r.file.Entries {
		e := &r.file.Entries[i]
		if s, ok := r.sources[cmp.Or(e.Renamed, e.Name)]; ok {
			warn((&field{r, e, s.f.n, s.f.path}).member("tools").member("idempotent"), "calls of tools are sent once")
		}
	}
}

// addresses reads listen, publicUrl, tls, admin, key, replicas and drain.
func (f *field) addresses(g *Gateway) {
	f.member("replicas").count(&g.Replicas, 1, 1000)
	f.member("drain").duration(&g.Drain, 0, 10*time.Minute)
	f.certificate(g)
	f.key(g)
	f.publicURL(g)

	options := f.r.options.gateway()
	listen := f.member("listen").oneOrMore()
	if options.Listen != nil {
		listen = nil
		for _, text := range options.Listen {
			listen = append(listen, &field{f.r, f.e, &node{kind: isText, text: text}, "--listen"})
		}
	}
	seen := make(map[string]bool)
	if options.Listen == nil && f.member("listen") == nil {
		g.Listen = []string{defaultListen}
		seen[strings.TrimPrefix(defaultListen, "http://")] = true
	}
	for i, at := range listen {
		if i == maxAddresses {
			at.fail("is one address too many: at most %d are allowed", maxAddresses)
			break
		}
		if t, ok := at.listenAddress(g, "http", "https", "ws", "wss", "tcp", "tls", "unix"); ok {
			if seen[t.Address] && !strings.HasSuffix(t.Address, ":0") {
				at.fail("is the same address as another one")
				continue
			}
			seen[t.Address] = true
			g.Listen = append(g.Listen, t.String())
		}
	}
	if at := f.member("admin"); at != nil {
		if t, ok := at.listenAddress(g, "http", "https"); ok {
			if seen[t.Address] && !strings.HasSuffix(t.Address, ":0") {
				at.fail("is also an address of listen; leave admin out to use the same address")
				return
			}
			g.Admin = t.String()
		}
	}
}

// listenAddress reads an address to listen on.
func (f *field) listenAddress(g *Gateway, schemes ...string) (t parley.Target, ok bool) {
	text, ok := f.word(false)
	if !ok {
		return t, false
	}
	t, err := parley.ParseTarget(text)
	if target, ok := errors.AsType[*parley.TargetError](err); ok {
		f.fail("is not an address: %s", target.Reason)
		return t, false
	}
	options := f.r.options.gateway()
	switch {
	case err != nil:
		f.fail("is not an address")
	case !slices.Contains(schemes, t.Scheme):
		f.fail("has the scheme %q; use %s%s", t.Scheme+":", strings.Join(schemes, ", "), f.r.didYouMean(t.Scheme, schemes))
	case t.Path != "" && t.Path != "/" && t.Scheme != "unix":
		f.fail("must end after the port: the gateway has paths of its own, such as /mcp and /rpc")
	case slices.Contains([]string{"https", "wss", "tls"}, t.Scheme) && g.Cert == "" && !f.r.hasTLS:
		f.fail("needs a certificate: set gateway.tls with cert and key")
	case t.Scheme != "unix" && !localAddress(t.Address) && !f.r.hasIdentity && !options.InsecureNoAuth:
		f.fail("can be reached by other machines, and the gateway has no identity: set gateway.identity, or use 127.0.0.1")
	default:
		if t.Path == "/" {
			t.Path = ""
		}
		return t, true
	}
	return t, false
}

// certificate reads tls. The flags of the command replace it.
func (f *field) certificate(g *Gateway) {
	options := f.r.options.gateway()
	at := f.member("tls")
	f.r.hasTLS = at != nil
	if options.Cert != "" || options.Key != "" {
		g.Cert, g.CertKey = options.Cert, options.Key
		at = &field{f.r, f.e, &node{kind: isMap}, "--tls-cert"}
	} else if !at.members("cert", "key") {
		return
	} else {
		at.member("cert").file(&g.Cert)
		at.member("key").file(&g.CertKey)
		for _, name := range []string{"cert", "key"} {
			if at.member(name) == nil {
				at.fail("has no %s: it needs both cert and key", name)
			}
		}
	}
	if g.Cert == "" || g.CertKey == "" {
		return
	}
	cert, ok := at.content("cert", g.Cert)
	key, okKey := at.content("key", g.CertKey)
	if !ok || !okKey {
		return
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		if c := at.member("cert"); c != nil {
			at = c
		}
		at.fail("cannot be used: %s", strings.TrimPrefix(err.Error(), "tls: "))
	}
}

// content reads the file that a member names.
func (f *field) content(member, name string) ([]byte, bool) {
	at := f.member(member)
	if at == nil {
		at = f
	}
	text, err := f.r.options.readFile(name)
	if err != nil {
		at.fail("cannot be read: %v", reasonOf(err))
		return nil, false
	}
	if len(text) > maxFile {
		at.fail("has more than 1 MiB")
		return nil, false
	}
	return text, true
}

// key reads the key that seals session IDs. Its problems do not show it.
func (f *field) key(g *Gateway) {
	at := f.member("key")
	text, ok := at.word(true)
	if !ok {
		return
	}
	text = strings.TrimSpace(text)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		key, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	}
	switch {
	case err != nil:
		at.fail("is not base64; make a key with: openssl rand -base64 32")
	case len(key) != keyBytes:
		at.fail("has %d bytes, but must have %d; make a key with: openssl rand -base64 32", len(key), keyBytes)
	default:
		g.Key = key
	}
}

func (f *field) publicURL(g *Gateway) {
	at := f.member("publicUrl")
	text, ok := at.word(false)
	if !ok {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		at.fail("is not an address that starts with https:// or http://")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		at.fail("must not have a user, a query or a fragment")
	default:
		g.PublicURL = strings.TrimRight(text, "/")
	}
}

// files reads audit and capture.
func (f *field) files(g *Gateway) {
	if a := f.member("audit"); a.members("file", "arguments") {
		a.member("file").file(&g.Audit)
		a.member("arguments").truth(&g.AuditArguments)
	}
	if c := f.member("capture"); c.members("file", "keep") {
		if c.member("file") == nil {
			c.fail("has no file")
		}
		c.member("file").file(&g.Capture)
		c.member("keep").size(&g.CaptureKeep, 1<<20, 1<<40)
	}
	used := map[string]string{}
	if abs, err := filepath.Abs(f.r.file.Name); err == nil {
		used[abs] = "the configuration"
	}
	for _, x := range []struct {
		name, what string
		at         *field
	}{
		{g.Cert, "tls.cert", nil}, {g.CertKey, "tls.key", nil}, {g.Lock, "the pins", f.member("mcp").member("lock")},
		{g.Audit, "the audit log", f.member("audit").member("file")}, {g.Capture, "the capture", f.member("capture").member("file")},
	} {
		if x.name == "" {
			continue
		}
		if other := used[x.name]; other != "" && x.at != nil {
			x.at.fail("is also the file of %s", other)
		}
		used[x.name] = x.what
	}
}

func (o *Options) isGateway() bool { return o != nil && o.Gateway != nil }

// gateway returns the options of the gateway's command line.
func (o *Options) gateway() GatewayOptions {
	if o == nil || o.Gateway == nil {
		return GatewayOptions{}
	}
	return *o.Gateway
}
