package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	gosdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/da1ed7bb/parley/interop/authserver"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// goConnect connects the official Go SDK's client to a realm.
func goConnect(t *testing.T, r *realm, handler gosdkauth.OAuthHandler) *gosdk.ClientSession {
	t.Helper()
	carrier := &http.Transport{}
	t.Cleanup(carrier.CloseIdleConnections)
	c := gosdk.NewClient(&gosdk.Implementation{Name: "go-sdk", Version: "1.8.0"}, nil)
	session, err := c.Connect(t.Context(), &gosdk.StreamableClientTransport{Endpoint: r.resource, HTTPClient: &http.Client{Transport: carrier},
		OAuthHandler: handler, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// goSay calls a tool and returns its text.
func goSay(t *testing.T, s *gosdk.ClientSession, tool string) string {
	t.Helper()
	result, err := s.CallTool(t.Context(), &gosdk.CallToolParams{Name: tool})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text, ok := result.Content[0].(*gosdk.TextContent)
	if !ok {
		t.Fatalf("%s: %T", tool, result.Content[0])
	}
	return text.Text
}

// TestAuthGoSDKClient checks that the official Go SDK's client passes our guard: 401, metadata,
// registration, code, and the step-up.
func TestAuthGoSDKClient(t *testing.T) {
	r := newRealm(t, authserver.Options{}, nil)
	handler, err := gosdkauth.NewAuthorizationCodeHandler(&gosdkauth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &gosdkauth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			RedirectURIs: []string{redirectAddress}, ClientName: "go-sdk"}},
		RedirectURL: redirectAddress,
		AuthorizationCodeFetcher: func(ctx context.Context, args *gosdkauth.AuthorizationArgs) (*gosdkauth.AuthorizationResult, error) {
			back, err := authserver.Login(ctx, args.URL)
			if err != nil {
				return nil, err
			}
			return &gosdkauth.AuthorizationResult{Code: back.Get("code"), State: back.Get("state"), Iss: back.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	session := goConnect(t, r, handler)
	if got := goSay(t, session, "whoami"); !strings.HasPrefix(got, "alice at "+r.as.Issuer) {
		t.Errorf("whoami = %q", got)
	}
	if got := goSay(t, session, "admin/reset"); !strings.Contains(got, "mcp:admin") {
		t.Errorf("after the step-up the scopes are %q", got)
	}
}

// TestAuthGoSDKClientCredentials is the same without a user. This handler of v1.8.0 sends no
// resource parameter (RFC 8707), so the tokens have the authorization server's default audience.
func TestAuthGoSDKClientCredentials(t *testing.T) {
	const meant = "https://meant.example"
	r := newRealm(t, authserver.Options{NoRegistration: true, AuthMethods: []string{"client_secret_basic"}, Otherwise: meant,
		Clients: []authserver.Client{{ID: "robot", Secret: "s", Method: "client_secret_basic"}}},
		func(r *realm, o *oauth.ProtectOptions) { o.Verify = &oauth.JWT{Issuer: r.as.Issuer, Audience: meant} })
	handler, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
		Credentials: &oauthex.ClientCredentials{ClientID: "robot", ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: "s"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := goSay(t, goConnect(t, r, handler), "whoami"); !strings.HasPrefix(got, "robot at ") {
		t.Errorf("whoami = %q", got)
	}
}

// TestAuthGoSDKServer checks that our client passes the official Go SDK's guard.
func TestAuthGoSDKServer(t *testing.T) {
	as, err := authserver.Start(t.Context(), authserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(as.Close)
	server := httptest.NewUnstartedServer(nil)
	r := &realm{as: as, resource: "http://" + server.Listener.Addr().String() + "/mcp"}
	verify := &oauth.JWT{Issuer: as.Issuer, Audience: r.resource}
	const document = "/.well-known/oauth-protected-resource/mcp"
	guard := gosdkauth.RequireBearerToken(func(ctx context.Context, token string, _ *http.Request) (*gosdkauth.TokenInfo, error) {
		i, err := verify.Verify(ctx, token)
		if err != nil {
			return nil, gosdkauth.ErrInvalidToken
		}
		return &gosdkauth.TokenInfo{Scopes: i.Scopes, Expiration: i.Expires, UserID: i.Subject}, nil
	}, &gosdkauth.RequireBearerTokenOptions{ResourceMetadataURL: "http://" + server.Listener.Addr().String() + document, Scopes: []string{"mcp:use"}})
	s := gosdk.NewServer(&gosdk.Implementation{Name: "go-sdk", Version: "1.8.0"}, nil)
	gosdk.AddTool(s, &gosdk.Tool{Name: "whoami"}, func(_ context.Context, r *gosdk.CallToolRequest, _ struct{}) (*gosdk.CallToolResult, any, error) {
		return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: r.Extra.TokenInfo.UserID}}}, nil, nil
	})
	mux := http.NewServeMux()
	mux.Handle(document, gosdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: r.resource, AuthorizationServers: []string{as.Issuer}, ScopesSupported: []string{"mcp:use"}}))
	mux.Handle("/mcp", guard(gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s }, nil)))
	server.Config.Handler = mux
	server.Start()
	t.Cleanup(server.Close)

	c, err := r.connect(t, &oauth.Client{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if got := say(t, c, "whoami"); got != "alice" {
		t.Errorf("whoami = %q", got)
	}
	if got := r.sent("/authorize", "scope"); !slices.Equal(got, []string{"mcp:use"}) {
		t.Errorf("asked for %q", got)
	}
}
