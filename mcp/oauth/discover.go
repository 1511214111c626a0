package oauth

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

// A place is what was found out about who gives tokens for a server.
type place struct {
	resource *ResourceMetadata // nil for servers of MCP 2025-03-26, which say nothing
	server   *ServerMetadata
}

// indicator is the resource parameter (RFC 8707): as published, byte by byte; "" where nothing was published.
func (p *place) indicator() string {
	if p.resource == nil {
		return ""
	}
	return p.resource.Resource
}

// errAbsent is a document that is not there.
var errAbsent = errors.New("oauth: there is no such document")

// fetch reads one document of metadata into v. errAbsent: the server says that it has none there.
func fetch(ctx context.Context, web *http.Client, address string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return errors.New("not an address")
	}
	r.Header.Set("Accept", "application/json")
	resp, err := outbound.Do(web, r)
	if err != nil {
		return err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" when it cannot be read
	switch {
	case resp.Status/100 == 4:
		return errAbsent
	case resp.Status != http.StatusOK:
		return fmt.Errorf("status %d", resp.Status)
	case strings.HasPrefix(kind, "text/html"):
		return errAbsent // the page of an application that answers to everything
	}
	return decode(resp.Body, v)
}

// resourceMetadata finds what a server says about itself: where the challenge points, else at the well-known places (MCP 2025-11-25,
// Authorization, Protected Resource Metadata Discovery). nil: it says nothing anywhere, as servers of MCP 2025-03-26 do.
func resourceMetadata(ctx context.Context, web *http.Client, address *url.URL, named string) (*ResourceMetadata, error) {
	locations := resourceLocations(address)
	if named != "" {
		locations = append([]string{named}, locations...)
	}
	var failed error
	for _, location := range locations {
		var m ResourceMetadata
		switch err := fetch(ctx, web, location, &m); {
		case err == nil:
			return &m, checkResource(&m, address)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, errAbsent) && failed == nil:
			failed = fmt.Errorf("resource metadata: %w", err)
		}
	}
	if failed == nil && named != "" {
		failed = errors.New("the resource metadata that the server points to is not there")
	}
	return nil, failed
}

// checkResource refuses metadata that speaks for somebody else (RFC 9728, section 3.3).
func checkResource(m *ResourceMetadata, address *url.URL) error {
	u, err := parseAddress(m.Resource)
	if err != nil || !covers(u, address) {
		return ErrResource
	}
	if len(m.AuthorizationServers) == 0 {
		return errors.New("the resource metadata names no authorization server")
	}
	return nil
}

// serverMetadata asks an issuer about itself, at each place where that may be written.
func serverMetadata(ctx context.Context, web *http.Client, policy *outbound.Policy, issuer string) (*ServerMetadata, error) {
	u, err := parseAddress(issuer)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the issuer is no address that one could ask")
	}
	var failed error
	for _, location := range serverLocations(u) {
		var m ServerMetadata
		switch err := fetch(ctx, web, location, &m); {
		case err == nil:
			if m.Issuer != issuer { // byte by byte (RFC 8414, section 3.3)
				return nil, ErrIssuer
			}
			return &m, checkServer(&m, policy)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, errAbsent) && failed == nil:
			failed = fmt.Errorf("metadata of the authorization server: %w", err)
		}
	}
	if failed == nil {
		failed = errAbsent
	}
	return nil, failed
}

// checkServer looks at the endpoints, which get secrets and send browsers somewhere.
func checkServer(m *ServerMetadata, policy *outbound.Policy) error {
	for _, endpoint := range []string{m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint, m.RevocationEndpoint} {
		if endpoint == "" {
			continue
		}
		u, err := parseAddress(endpoint)
		if err != nil || u.Fragment != "" {
			return errors.New("an endpoint of the authorization server is no address")
		}
		if err := policy.Check(u); err != nil {
			return err
		}
	}
	if m.TokenEndpoint == "" {
		return errors.New("the authorization server has no token endpoint")
	}
	return nil
}

// legacyServer is the authorization server of a server that publishes nothing about itself: the server's own origin, with the
// endpoints of MCP 2025-03-26, Authorization, section 2.3.3, unless there is metadata at the root.
func legacyServer(ctx context.Context, web *http.Client, policy *outbound.Policy, address *url.URL) (*ServerMetadata, error) {
	origin := withPath(address, "")
	m, err := serverMetadata(ctx, web, policy, origin)
	if err == nil || !errors.Is(err, errAbsent) {
		return m, err
	}
	return &ServerMetadata{
		Issuer:                origin,
		AuthorizationEndpoint: origin + "/authorize",
		TokenEndpoint:         origin + "/token",
		RegistrationEndpoint:  origin + "/register",
		guessed:               true,
	}, nil
}
