package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

const (
	cardTime  = 5 * time.Second // to fetch a card
	cardBytes = 1 << 20
	cardFresh = 5 * time.Minute // a card is fetched again after this time
	cardRetry = 5 * time.Second // after a failure, the last card is used for this long
	a2aPrefix = "/a2a/"
)

// An a2aAgent is the endpoint /a2a/NAME of an A2A agent: its card, which names the addresses of the
// gateway, and everything below passed on.
type a2aAgent struct {
	gateway *Gateway
	pass    *pass
	client  *http.Client

	mu     sync.Mutex // guards the fields below
	loaded chan struct{}
	card   jsonrpc.Raw // as the agent has it; nil before it was fetched
	etag   string      // of the agent
	until  time.Time   // when it is fetched again
	failed error       // of the last attempt
}

func newA2AAgent(g *Gateway, u *upstream) (*a2aAgent, error) {
	p, err := newPass(g, u, a2aPrefix+u.entry.Name)
	if err != nil {
		return nil, err
	}
	client, _ := origin.Client(nil, nil)
	if creds := p.to.creds; !creds.personal() { // a card is for all callers
		client.Transport = creds.trip(client.Transport, nil)
	}
	return &a2aAgent{gateway: g, pass: p, client: client}, nil
}

// ServeHTTP serves the card, and passes on everything else.
func (x *a2aAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	if r.URL.Path != x.pass.prefix+a2ahttp.CardPath {
		x.pass.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	card, err := x.publicCard(r)
	if err != nil {
		f := failure(x.pass.to.entry.Name, notSent, err, 0).fault()
		(&refusal{status: httpStatus(f.code), err: f.error()}).write(w)
		return
	}
	writeCard(w, r, card)
}

// writeCard sends a card, or a list of cards, with a strong ETag.
func writeCard(w http.ResponseWriter, r *http.Request, card []byte) {
	sum := sha256.Sum256(card)
	h := w.Header()
	guard.Secure(h)
	h.Set("Content-Type", "application/json")
	h.Set("Etag", `"`+hex.EncodeToString(sum[:12])+`"`)
	h.Set("Cache-Control", "private, max-age=60")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(card))
}

// publicCard returns the card as clients of the gateway see it.
func (x *a2aAgent) publicCard(r *http.Request) (jsonrpc.Raw, error) {
	card, err := x.fetched(r.Context())
	if err != nil {
		return nil, err
	}
	return x.rewrite(card, x.gateway.publicURL(r)+x.pass.prefix)
}

// publicURL returns the address of the gateway for clients, without a slash at the end.
func (g *Gateway) publicURL(r *http.Request) string {
	if own := g.state.Load().file.Gateway.PublicURL; own != "" {
		return strings.TrimSuffix(own, "/")
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// fetched returns the agent's card, which is at most five minutes old unless the agent is down.
func (x *a2aAgent) fetched(ctx context.Context) (jsonrpc.Raw, error) {
	x.mu.Lock()
	for {
		if time.Now().Before(x.until) {
			defer x.mu.Unlock()
			if x.card == nil {
				return nil, x.failed
			}
			return x.card, nil
		}
		if x.loaded == nil {
			break
		}
		loaded := x.loaded
		x.mu.Unlock()
		select {
		case <-loaded:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		x.mu.Lock()
	}
	x.loaded = make(chan struct{})
	etag := x.etag
	x.mu.Unlock()
	card, etag, err := x.fetch(context.WithoutCancel(ctx), etag)
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.loaded)
	x.loaded = nil
	x.failed, x.until = err, time.Now().Add(cardFresh)
	switch {
	case err != nil:
		x.until = time.Now().Add(cardRetry)
		x.gateway.report(ReportUpstream, fmt.Errorf("%s: agent card: %w", x.pass.to.entry.Name, err))
	case card != nil:
		x.card, x.etag = card, etag
	}
	if x.card == nil {
		return nil, err
	}
	return x.card, nil
}

// fetch gets the card from the agent: nil if it has not changed since etag.
func (x *a2aAgent) fetch(ctx context.Context, etag string) (jsonrpc.Raw, string, error) {
	ctx, cancel := context.WithTimeout(ctx, cardTime)
	defer cancel()
	u := *x.pass.base
	u.Path, u.RawPath, u.RawQuery = strings.TrimSuffix(u.Path, "/")+a2ahttp.CardPath, "", ""
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Accept", "application/json")
	for name, values := range x.pass.to.entry.Header {
		r.Header[name] = values
	}
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	resp, err := x.client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified && etag != "" {
		return nil, etag, nil
	}
	if resp.StatusCode != http.StatusOK {
		return nil, "", httprpc.NewStatusError(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, cardBytes+1))
	switch {
	case err != nil:
		return nil, "", err
	case len(body) > cardBytes:
		return nil, "", fmt.Errorf("the card is longer than %d bytes: %w", cardBytes, jsonrpc.ErrTooLarge)
	}
	card, err := jsonrpc.ParseRaw(body)
	if err != nil {
		return nil, "", err
	}
	var known struct {
		Name string `json:"name"`
	}
	if err := card.Decode(&known); err != nil || known.Name == "" {
		return nil, "", errors.New("the card has no name")
	}
	return card, resp.Header.Get("Etag"), nil
}

// rewrite returns a card whose addresses are below at. Members that name other servers, or that no
// longer hold, are left out: signatures, interfaces elsewhere, and what the agent requires of
// callers, because the gateway has its own requirements.
func (x *a2aAgent) rewrite(card jsonrpc.Raw, at string) (jsonrpc.Raw, error) {
	var bad error
	out := edited(card, func(name string, value jsonrpc.Raw) (jsonrpc.Raw, bool) {
		switch name {
		case "signatures", "security", "securityRequirements", "securitySchemes":
			return nil, false
		case "url":
			text, ok := stringIn(value)
			if !ok {
				bad = errors.New("the URL in the card is not a string")
			}
			if to, ok := x.moved(text, at); ok {
				return quoted(to), true
			}
			return quoted(at), true
		case "supportedInterfaces", "additionalInterfaces":
			return x.movedInterfaces(value, at), true
		case "capabilities":
			if !x.pass.to.entry.Upstream.DirectPush { // they would not pass the gateway
				value = withMember(value, "pushNotifications", jsonrpc.Raw("false"))
			}
		}
		return value, true
	})
	if bad != nil {
		return nil, bad
	}
	if x.gateway.state.Load().file.Gateway.Identity != nil {
		out = append(out[:len(out)-1], gatewaySecurity...)
	}
	return out, nil
}

// gatewaySecurity are the members of a card that say what the gateway requires of callers, in the
// forms of both versions of A2A, and the end of the card.
const gatewaySecurity = `,"securitySchemes":{"gateway":{"httpAuthSecurityScheme":{"scheme":"bearer"},"type":"http","scheme":"bearer"}},` +
	`"securityRequirements":[{"schemes":{"gateway":{"list":[]}}}],"security":[{"gateway":[]}]}`

// movedInterfaces returns the interfaces of a card that are the agent's own, with their new
// addresses.
func (x *a2aAgent) movedInterfaces(list jsonrpc.Raw, at string) jsonrpc.Raw {
	out := []byte{'['}
	for one := range list.Elements() {
		text, ok := stringIn(memberIn(one, "url"))
		if !ok {
			continue
		}
		to, ok := x.moved(text, at)
		if !ok {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, withMember(one, "url", quoted(to))...)
	}
	return append(out, ']')
}

// moved returns the address at the gateway for one of the agent's. It is false for an address of
// another server, or outside the path of the agent.
func (x *a2aAgent) moved(text, at string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || !origin.Same(u, x.pass.base) || u.RawQuery != "" {
		return "", false
	}
	rest, ok := strings.CutPrefix(u.EscapedPath(), strings.TrimSuffix(x.pass.base.EscapedPath(), "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return at + strings.TrimSuffix(rest, "/"), true
}

// asksForPush reports whether a call to an agent sets up push notifications.
func asksForPush(a *access) bool {
	switch a.method {
	case a2a.MethodCreatePush, a2a.MethodCreatePush03:
		return true
	}
	if strings.Contains(a.method, "/pushNotificationConfigs") && strings.HasPrefix(a.method, "POST ") {
		return true
	}
	for name, value := range a.params.Members() {
		if string(name) != "configuration" {
			continue
		}
		for name, value := range value.Members() {
			switch string(name) {
			case "pushNotificationConfig", "taskPushNotificationConfig", "push_notification_config", "task_push_notification_config", "pushNotification", "push_notification":
				return string(value) != "null"
			}
		}
	}
	return false
}

// serveAgents serves GET /a2a: the cards of all agents that this caller may use and that are up.
func (g *Gateway) serveAgents(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	s := g.enter()
	defer s.leave()
	type answer struct{ card jsonrpc.Raw }
	var wait sync.WaitGroup
	cards := make([]answer, len(s.upstreams))
	for i, u := range s.upstreams {
		agent, ok := u.agent.(*a2aAgent)
		if !ok || !s.checks.policy.visible(&access{caller: callerOf(r.Context()), server: u.entry.Name, members: s.members[u.entry.Name]}) {
			continue
		}
		wait.Go(func() {
			defer rescue.Catch(g.report, nil)
			cards[i].card, _ = agent.publicCard(r) // an agent without a card is left out
		})
	}
	wait.Wait()
	list := []byte(`{"agents":[`)
	n := len(list)
	for _, c := range cards {
		if c.card == nil {
			continue
		}
		if len(list) > n {
			list = append(list, ',')
		}
		list = append(list, c.card...)
	}
	writeCard(w, r, append(list, "]}"...))
}

// serveAgent serves /a2a/NAME and everything below it.
func (g *Gateway) serveAgent(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, a2aPrefix), "/")
	s := g.enter()
	defer s.leave()
	if u := s.byName[name]; u != nil && u.agent != nil && u.entry.Protocol == config.A2A {
		u.agent.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}
