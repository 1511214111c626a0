package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ResourceMetadata is the metadata of a protected resource (RFC 9728, section 2).
type ResourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers,omitempty"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported,omitempty"`
	ResourceName         string   `json:"resource_name,omitempty"`
	Documentation        string   `json:"resource_documentation,omitempty"`
	DPoPAlgorithms       []string `json:"dpop_signing_alg_values_supported,omitempty"`
	DPoPRequired         bool     `json:"dpop_bound_access_tokens_required,omitzero"`
}

// ServerMetadata is the part of the metadata of an authorization server that MCP clients use (RFC
// 8414, section 2, and OpenID Connect Discovery 1.0).
type ServerMetadata struct {
	Issuer                 string   `json:"issuer"`
	AuthorizationEndpoint  string   `json:"authorization_endpoint,omitempty"`
	TokenEndpoint          string   `json:"token_endpoint,omitempty"`
	RegistrationEndpoint   string   `json:"registration_endpoint,omitempty"`
	RevocationEndpoint     string   `json:"revocation_endpoint,omitempty"`
	IntrospectionEndpoint  string   `json:"introspection_endpoint,omitempty"`
	JWKSURI                string   `json:"jwks_uri,omitempty"`
	ScopesSupported        []string `json:"scopes_supported,omitempty"`
	ResponseTypesSupported []string `json:"response_types_supported,omitempty"`
	GrantTypesSupported    []string `json:"grant_types_supported,omitempty"`
	TokenAuthMethods       []string `json:"token_endpoint_auth_methods_supported,omitempty"`
	TokenAuthAlgorithms    []string `json:"token_endpoint_auth_signing_alg_values_supported,omitempty"`
	CodeChallengeMethods   []string `json:"code_challenge_methods_supported,omitempty"`
	// IssParameter is defined in RFC 9207.
	IssParameter             bool `json:"authorization_response_iss_parameter_supported,omitzero"`
	ClientIDMetadataDocument bool `json:"client_id_metadata_document_supported,omitzero"`
	// DPoPAlgorithms is defined in RFC 9449, section 5.1.
	DPoPAlgorithms []string `json:"dpop_signing_alg_values_supported,omitempty"`

	// guessed is true if there was no document and the endpoints are those of MCP 2025-03-26,
	// Authorization, section 2.3.3.
	guessed bool
}

// ClientMetadata is the metadata of a client in its dynamic registration (RFC 7591, section 2) or
// in the document whose address is its client ID (draft-ietf-oauth-client-id-metadata-document).
type ClientMetadata struct {
	ClientID        string   `json:"client_id,omitempty"` // only in a document: its address
	ClientName      string   `json:"client_name,omitempty"`
	ClientURI       string   `json:"client_uri,omitempty"`
	LogoURI         string   `json:"logo_uri,omitempty"`
	RedirectURIs    []string `json:"redirect_uris,omitempty"`
	GrantTypes      []string `json:"grant_types,omitempty"`
	ResponseTypes   []string `json:"response_types,omitempty"`
	TokenAuthMethod string   `json:"token_endpoint_auth_method,omitempty"`
	// ApplicationType is "native" or "web". MCP 2026-07-28 requires it.
	ApplicationType string `json:"application_type,omitempty"`
	Scope           string `json:"scope,omitempty"`
	SoftwareID      string `json:"software_id,omitempty"`
	SoftwareVersion string `json:"software_version,omitempty"`
	JWKSURI         string `json:"jwks_uri,omitempty"`
	DPoPBound       bool   `json:"dpop_bound_access_tokens,omitzero"`
}

// decode parses one JSON object from the network: exact names, no duplicates, nothing after it. Its
// errors contain nothing of the input, which may be secret.
func decode(text []byte, v any) error {
	err := json.Unmarshal(text, v)
	if fault, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("not JSON, near byte %d", fault.ByteOffset)
	}
	if err != nil {
		return errors.New("not the JSON object that was expected")
	}
	return nil
}

const (
	wellKnown         = "/.well-known/"
	wellKnownResource = wellKnown + "oauth-protected-resource"
	wellKnownServer   = wellKnown + "oauth-authorization-server"
	wellKnownOpenID   = wellKnown + "openid-configuration"
)

// withPath returns an address with the origin of u.
func withPath(u *url.URL, escaped string) string {
	return u.Scheme + "://" + u.Host + escaped
}

// tidyPath returns the escaped path of u without trailing slashes.
func tidyPath(u *url.URL) string { return strings.TrimRight(u.EscapedPath(), "/") }

// resourceLocations returns the addresses where the metadata of a resource may be if no challenge
// names it (RFC 9728, section 3.1; MCP 2025-11-25, Authorization): the well-known path followed by
// the path of the resource, then the well-known path alone.
func resourceLocations(resource *url.URL) []string {
	root := withPath(resource, wellKnownResource)
	if p := tidyPath(resource); p != "" {
		at := root + p
		if resource.RawQuery != "" {
			at += "?" + resource.RawQuery
		}
		return []string{at, root}
	}
	return []string{root}
}

// serverLocations returns the addresses where the metadata of an issuer may be (MCP 2025-11-25,
// Authorization Server Metadata Discovery).
func serverLocations(issuer *url.URL) []string {
	p := tidyPath(issuer)
	if p == "" {
		return []string{withPath(issuer, wellKnownServer), withPath(issuer, wellKnownOpenID)}
	}
	return []string{
		withPath(issuer, wellKnownServer+p),
		withPath(issuer, wellKnownOpenID+p),
		withPath(issuer, p+wellKnownOpenID),
	}
}

// covers reports whether the resource named in metadata is the server at address or contains it:
// the same origin, and a path that is a prefix of address's path, by segments. Metadata at the root
// covers the whole origin.
func covers(resource, address *url.URL) bool {
	if !strings.EqualFold(resource.Scheme, address.Scheme) || !strings.EqualFold(hostPort(resource), hostPort(address)) || resource.Fragment != "" {
		return false
	}
	if resource.RawQuery != "" && resource.RawQuery != address.RawQuery {
		return false
	}
	if strings.Contains(resource.Path, "..") && path.Clean(resource.Path) != resource.Path {
		return false
	}
	outer, inner := tidyPath(resource), tidyPath(address)
	return outer == inner || strings.HasPrefix(inner, outer+"/")
}

// hostPort returns the host and port, with the default port of the scheme if the port is missing.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if u.Scheme == "https" {
		return u.Host + ":443"
	}
	return u.Host + ":80"
}

// Canonical returns the resource identifier of an MCP server's address (MCP 2025-11-25, Canonical
// Server URI; RFC 8707, section 2): scheme and host in lower case, no fragment, and no path if the
// path is only a slash.
func Canonical(address string) (string, error) {
	u, err := parseAddress(address)
	if err != nil {
		return "", err
	}
	return canonical(u), nil
}

func canonical(u *url.URL) string {
	c := *u
	c.Scheme, c.Host = strings.ToLower(c.Scheme), strings.ToLower(c.Host)
	c.Fragment, c.RawFragment, c.User = "", "", nil
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	return c.String()
}

// parseAddress parses an absolute http or https address. Its errors contain no part of it.
func parseAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.Opaque != "":
		return nil, fmt.Errorf("oauth: not an absolute address")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("oauth: an address that is neither http nor https")
	}
	return u, nil
}

// offers reports whether a server lists a value. If the list is missing, its default applies.
func offers(list []string, value string, byDefault ...string) bool {
	if list == nil {
		list = byDefault
	}
	return slices.Contains(list, value)
}
