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

// A place is the discovered metadata about the authorization of a server.
type place struct {
	resource *ResourceMetadata // nil for servers of MCP 2025-03-26, which publish none
	server   *ServerMetadata
}

// indicator returns the resource parameter (RFC 8707), byte by byte as published, or "" if nothing
// was published.
func (p *place) indicator() string {
	if p.resource == nil {
		return ""
	}
	return p.resource.Resource
}

// errAbsent reports that a document does not exist.
var errAbsent = errors.New("oauth: document not found")

// fetch reads one metadata document into v. It returns errAbsent if the server does not have it.
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
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" if it cannot be parsed
	switch {
	case resp.Status/100 == 4:
		return errAbsent
	case resp.Status != http.StatusOK:
		return fmt.Errorf("status %d", resp.Status)
	case strings.HasPrefix(kind, "text/html"):
		return errAbsent // the page of an application that responds to every path
	}
	return decode(resp.Body, v)
}

// resourceMetadata fetches the resource metadata of a server: from the address in the challenge, or
// else from the well-known addresses (MCP 2025-11-25, Authorization, Protected Resource Metadata
// Discovery). It returns nil if no metadata exists, as for servers of MCP 2025-03-26.
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
		failed = errors.New("the resource metadata that the server points to does not exist")
	}
	return nil, failed
}

// checkResource rejects metadata of another resource (RFC 9728, section 3.3).
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

// serverMetadata fetches the metadata of an issuer, trying each well-known address.
func serverMetadata(ctx context.Context, web *http.Client, policy *outbound.Policy, issuer string) (*ServerMetadata, error) {
	u, err := parseAddress(issuer)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the issuer is not a valid address")
	}
	var failed error
	for _, location := range serverLocations(u) {
		var m ServerMetadata
		switch err := fetch(ctx, web, location, &m); {
		case err == nil:
			if m.Issuer != issuer { // compared byte by byte (RFC 8414, section 3.3)
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

// checkServer checks the endpoints, which receive secrets and browsers.
func checkServer(m *ServerMetadata, policy *outbound.Policy) error {
	for _, endpoint := range []string{m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint, m.RevocationEndpoint} {
		if endpoint == "" {
			continue
		}
		u, err := parseAddress(endpoint)
		if err != nil || u.Fragment != "" {
			return errors.New("an endpoint of the authorization server is not a valid address")
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

// legacyServer returns the authorization server of an MCP server that publishes no resource
// metadata: the server's own origin, with the endpoints of MCP 2025-03-26, Authorization, section
// 2.3.3, unless there is metadata at the root.
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
