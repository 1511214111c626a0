package a2ahttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/outbound"
)

// Names of the header with the token of a webhook. The specification does not settle which to use,
// so both are sent (v0.3: the first).
const (
	HeaderToken  = "X-A2A-Notification-Token"
	HeaderToken1 = "A2A-Notification-Token"
)

// A Pusher posts notifications to webhooks, for [a2a.ServerOptions]. The zero value connects to
// public addresses with https only, because a caller chooses the address, and could choose an
// internal one. The check applies to the resolved address of the socket itself. Redirects are not
// followed. A notification has 5 s to connect and 10 s in total. It is safe for concurrent use;
// [Pusher.Close] closes idle connections.
type Pusher struct {
	// Hosts lists names and addresses, in lower case and without port, that may also be reached
	// with http and at private addresses. Loopback adds this machine. Both are for development, and
	// for networks whose webhooks are known.
	Hosts    []string
	Loopback bool

	setup  sync.Once
	policy outbound.Policy
	client *http.Client
}

func (p *Pusher) init() {
	p.setup.Do(func() {
		p.policy = outbound.Policy{Plain: p.Hosts, Loopback: p.Loopback}
		p.client = p.policy.Client()
	})
}

// lookup is the timeout for resolving a webhook's name when it is registered.
const lookup = 2 * time.Second

// Check returns an error for a webhook that would not be reachable. A name that cannot be resolved
// yet is accepted: it is checked again for each notification.
func (p *Pusher) Check(ctx context.Context, c a2a.PushConfig) error {
	p.init()
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.User != nil {
		return a2a.BadParams("url", "is not a valid webhook address")
	}
	if err := p.policy.Check(u); err != nil {
		return a2a.BadParams("url", "is not allowed for notifications; the address must be public and use https")
	}
	if !isHeader(c.Token) || c.Authentication != nil && !isHeader(c.Authentication.Scheme+" "+c.Authentication.Credentials) {
		return a2a.BadParams("token", "cannot be sent in a header")
	}
	host := strings.ToLower(u.Hostname())
	if slices.Contains(p.Hosts, host) || p.Loopback && outbound.IsLoopback(host) {
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil // the policy has checked it
	}
	ctx, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, ip := range found {
		if !outbound.IsPublic(ip) {
			return a2a.BadParams("url", "is not allowed for notifications; the address must be public and use https")
		}
	}
	return nil
}

// isHeader reports whether s can be the value of a header.
func isHeader(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// Push posts one notification.
func (p *Pusher) Push(ctx context.Context, n a2a.Notice) error {
	p.init()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Config.URL, bytes.NewReader(n.Body))
	if err != nil {
		return errors.Join(a2a.ErrPushRefused, err)
	}
	h := req.Header
	h.Set("Content-Type", ContentType)
	if !n.Version.WrapsResults() {
		h.Set("Content-Type", "application/json")
	}
	h.Set(a2a.HeaderVersion, n.Version.String())
	if token := n.Config.Token; token != "" {
		h.Set(HeaderToken, token)
		if n.Version.WrapsResults() {
			h.Set(HeaderToken1, token)
		}
	}
	if a := n.Config.Authentication; a != nil {
		h.Set("Authorization", strings.TrimSpace(a.Scheme+" "+a.Credentials))
	}
	answer, err := p.client.Do(req)
	if err != nil {
		if errors.Is(err, outbound.ErrForbidden) {
			return errors.Join(a2a.ErrPushRefused, err)
		}
		return err
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be reused
	_ = answer.Body.Close()
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		return nil
	case answer.StatusCode == http.StatusGone:
		return fmt.Errorf("%w: %s", a2a.ErrPushRefused, answer.Status)
	}
	return fmt.Errorf("a2ahttp: the webhook returned %s", answer.Status)
}

// Close closes idle connections.
func (p *Pusher) Close() {
	p.init()
	p.client.CloseIdleConnections()
}
