package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

// authContext is the part of the suite's context (MCP_CONFORMANCE_CONTEXT) that concerns
// authorization.
type authContext struct {
	ClientID         string `json:"client_id"`
	ClientSecret     string `json:"client_secret"`
	PrivateKey       string `json:"private_key_pem"`
	Algorithm        string `json:"signing_algorithm"`
	Issuer           string `json:"issuer"`
	IDPClientID      string `json:"idp_client_id"`
	IDPToken         string `json:"idp_id_token"`
	IDPIssuer        string `json:"idp_issuer"`
	IDPTokenEndpoint string `json:"idp_token_endpoint"`
	WorkloadJWT      string `json:"valid_jwt"`
}

// documentAddress is the client's ID at servers that accept the URL of a metadata document.
const documentAddress = "https://conformance-test.local/client-metadata.json"

// authTransport returns the HTTP transport for scenarios about authorization, and nil in others.
func authTransport(server string) (http.RoundTripper, error) {
	scenario, ok := strings.CutPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/")
	if !ok {
		return nil, nil
	}
	var about authContext
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &about); err != nil {
			return nil, fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	c := &oauth.Client{Resource: server, Document: documentAddress, Grant: &oauth.Code{Begin: beginDirect}}
	if about.ClientID != "" {
		c.Registrations = []oauth.Registration{{Issuer: about.Issuer, ClientID: about.ClientID, Secret: about.ClientSecret}}
	}
	switch scenario {
	case "client-credentials-jwt":
		key, err := oauth.ParseKey([]byte(about.PrivateKey), about.Algorithm)
		if err != nil {
			return nil, err
		}
		c.Registrations[0].Key = key
		c.Grant = oauth.ClientCredentials{}
	case "client-credentials-basic":
		c.Grant = oauth.ClientCredentials{}
	case "enterprise-managed-authorization":
		c.Grant = &oauth.Enterprise{
			IDToken:       func(context.Context) (string, error) { return about.IDPToken, nil },
			Provider:      about.IDPIssuer,
			TokenEndpoint: about.IDPTokenEndpoint,
			Client:        oauth.Registration{ClientID: about.IDPClientID},
		}
	case "wif-jwt-bearer":
		c.Grant = &oauth.Workload{Assertion: func(context.Context) (string, error) { return about.WorkloadJWT, nil }}
	}
	return c, nil
}

// redirectAddress is the URL to which the suite's servers redirect users. No server listens there:
// the redirect itself is read.
const redirectAddress = "http://localhost:3000/callback"

// beginDirect acts as a user who consents: the suite's servers redirect at once.
func beginDirect(context.Context, []string) (*oauth.Visit, error) {
	return &oauth.Visit{Redirect: redirectAddress, Go: visitDirect}, nil
}

func visitDirect(ctx context.Context, address string) (url.Values, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	location, err := resp.Location()
	if err != nil {
		return nil, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	if !strings.HasPrefix(location.String(), redirectAddress+"?") {
		return nil, errors.New("redirected to somewhere else")
	}
	return location.Query(), nil
}
