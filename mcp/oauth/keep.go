package oauth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// The store contains three kinds of entries: a token by resource and issuer, with the key it is
// bound to; the last issuer by resource; and a registration by issuer.

// kept is a stored session.
type kept struct {
	Token *Token `json:"token"`
	Key   string `json:"key,omitempty"` // PEM
}

func (c *Client) lastKey() string { return "issuer " + canonical(c.address) }
func (c *Client) tokenKey(issuer string) string {
	return "token " + canonical(c.address) + " " + issuer
}
func registrationKey(issuer string) string { return "client " + issuer }

// loadJSON reads one entry; ok is false if there is no usable entry.
func (c *Client) loadJSON(ctx context.Context, key string, v any) (ok bool) {
	if c.Store == nil {
		return false
	}
	text, err := c.Store.Load(ctx, key)
	if err == nil {
		err = decode(text, v)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.report(jsonrpc.ReportStore, err)
	}
	return err == nil
}

func (c *Client) saveJSON(ctx context.Context, key string, v any) error {
	if c.Store == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Store.Save(ctx, key, text)
}

// load returns the stored token for the resource from the issuer that was last used, or nil.
func (c *Client) load(ctx context.Context) *session {
	var issuer string
	var k kept
	if !c.loadJSON(ctx, c.lastKey(), &issuer) || !c.loadJSON(ctx, c.tokenKey(issuer), &k) {
		return nil
	}
	if k.Token == nil || k.Token.Issuer != issuer || !isCredential(k.Token.Access) {
		return nil
	}
	s := &session{token: k.Token}
	if k.Token.Type == SchemeDPoP {
		key, err := ParseKey([]byte(k.Key), "")
		if err != nil {
			c.report(jsonrpc.ReportStore, err)
			return nil
		}
		s.key = key
	}
	s.works.Store(true) // it was accepted before
	return s
}

// saveSession stores a token, or deletes the last one if s is nil.
func (c *Client) saveSession(ctx context.Context, s *session) error {
	if c.Store == nil {
		return nil
	}
	if s == nil {
		var issuer string
		if !c.loadJSON(ctx, c.lastKey(), &issuer) {
			return nil
		}
		return errors.Join(c.Store.Save(ctx, c.tokenKey(issuer), nil), c.Store.Save(ctx, c.lastKey(), nil))
	}
	k := kept{Token: s.token}
	if s.key != nil {
		pem, err := s.key.marshal()
		if err != nil {
			return err
		}
		k.Key = string(pem)
	}
	if err := c.saveJSON(ctx, c.tokenKey(s.token.Issuer), &k); err != nil {
		return err
	}
	return c.saveJSON(ctx, c.lastKey(), s.token.Issuer)
}

// known returns an existing registration at a server, configured or stored, or nil.
func (c *Client) known(ctx context.Context, server *ServerMetadata) (*Registration, error) {
	if r := c.configured(server.Issuer); r != nil {
		return r, nil
	}
	c.mu.Lock()
	r := c.regs[server.Issuer]
	c.mu.Unlock()
	if r == nil {
		r = new(Registration)
		if !c.loadJSON(ctx, registrationKey(server.Issuer), r) || r.Issuer != server.Issuer || r.ClientID == "" {
			return nil, &Error{Op: "register", Err: fmt.Errorf("%w: %s", ErrClient, safeText(server.Issuer, 200))}
		}
		c.rememberRegistration(server.Issuer, r)
	}
	if !r.Expires.IsZero() && !c.now().Before(r.Expires) {
		return nil, &Error{Op: "register", Err: fmt.Errorf("%w: the secret at %s has expired", ErrClient, safeText(server.Issuer, 200))}
	}
	return r, nil
}

// rememberRegistration stores a dynamic registration in memory. A server may name another issuer
// each time.
func (c *Client) rememberRegistration(issuer string, r *Registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.regs) >= maxNonces {
		clear(c.regs)
	}
	c.regs[issuer] = r
}

// configured returns the configured registration for an issuer. A registration without issuer is
// bound to the first issuer that requires one.
func (c *Client) configured(issuer string) *Registration {
	for i := range c.Registrations {
		if c.Registrations[i].Issuer == issuer {
			return &c.Registrations[i]
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range c.Registrations {
		if r.Issuer != "" {
			continue
		}
		if c.bound[i] == "" {
			c.bound[i] = issuer
		}
		if c.bound[i] == issuer {
			r.Issuer = issuer
			return &r
		}
	}
	return nil
}

// redirects returns the redirect addresses that were registered before.
func (c *Client) redirects(ctx context.Context, server *ServerMetadata) []string {
	if r, err := c.known(ctx, server); err == nil {
		return r.RedirectURIs
	}
	return c.About.RedirectURIs
}

// register returns the client's registration at a server, in the order of MCP 2025-11-25, Client
// Registration Approaches: existing, by the address of a document, dynamic. A dynamic registration
// that lacks the redirect address is renewed.
func (c *Client) register(ctx context.Context, server *ServerMetadata, redirect string, scopes []string) (*Registration, error) {
	if r := c.configured(server.Issuer); r != nil {
		if len(r.RedirectURIs) > 0 && !slices.Contains(r.RedirectURIs, redirect) {
			return nil, &Error{Op: "register", Err: fmt.Errorf("%w: it does not have the redirect address", ErrClient)}
		}
		return r, nil
	}
	if c.Document != "" && server.ClientIDMetadataDocument {
		return &Registration{Issuer: server.Issuer, ClientID: c.Document, AuthMethod: AuthNone}, nil
	}
	if r, err := c.known(ctx, server); err == nil && slices.Contains(r.RedirectURIs, redirect) {
		return r, nil
	}
	if c.NoRegistration || server.RegistrationEndpoint == "" {
		return nil, &Error{Op: "register", Err: ErrClient}
	}
	r, err := registerDynamically(ctx, c.web, server, c.About, redirect, scopes)
	if err != nil {
		return nil, err
	}
	c.rememberRegistration(server.Issuer, r)
	c.report(jsonrpc.ReportStore, c.saveJSON(ctx, registrationKey(server.Issuer), r))
	return r, nil
}

// unregister deletes the dynamic registration at an issuer.
func (c *Client) unregister(ctx context.Context, issuer string) {
	c.mu.Lock()
	delete(c.regs, issuer)
	c.mu.Unlock()
	if c.Store != nil {
		c.report(jsonrpc.ReportStore, c.Store.Save(ctx, registrationKey(issuer), nil))
	}
}
