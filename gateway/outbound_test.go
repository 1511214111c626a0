package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A desk is an authorization server with a token endpoint, and a server that records what it gets.
type desk struct {
	url string

	mu       sync.Mutex // guards the fields below
	forms    []url.Values
	basics   []string
	headers  []http.Header // of requests to /rpc
	expires  int           // seconds; 0 for none
	fail     bool
	rejected map[string]bool // tokens that /rpc does not accept
	gate     chan struct{}   // the token endpoint waits for it; nil for none
	from     string          // where /moved redirects to
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{expires: 3600, rejected: map[string]bool{}}
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	d.url = s.URL
	return d
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		_ = r.ParseForm()
		d.mu.Lock()
		gate := d.gate
		d.forms = append(d.forms, r.PostForm)
		d.basics = append(d.basics, r.Header.Get("Authorization"))
		n, expires, fail := len(d.forms), d.expires, d.fail
		d.mu.Unlock()
		if gate != nil {
			<-gate
		}
		w.Header().Set("Content-Type", "application/json")
		if fail {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		answer := map[string]any{"access_token": fmt.Sprint("issued-", n), "token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
		if expires != 0 {
			answer["expires_in"] = expires
		}
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.headers = append(d.headers, r.Header.Clone())
	if d.from != "" {
		http.Redirect(w, r, d.from, http.StatusTemporaryRedirect)
		return
	}
	if d.rejected[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.Copy(w, r.Body)
}

// sent returns how many tokens were requested, and the Authorization headers at the server.
func (d *desk) sent() (tokens int, at []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.headers {
		at = append(at, h.Get("Authorization"))
	}
	return len(d.forms), at
}

func userOf(name, token string) *caller {
	c := newCaller(&parley.Principal{Name: "https://id.example|" + name + "|app", Issuer: "https://id.example"})
	c.token = newBearer(token)
	return c
}

// send posts a request of a caller, and returns the status or the error.
func send(t *testing.T, trip http.RoundTripper, address string, c *caller) (int, error) {
	t.Helper()
	ctx := t.Context()
	if c != nil {
		ctx = withCaller(ctx, c)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: trip}).Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == 200 && string(text) != "body" {
		t.Errorf("the response is %q, %v", text, err)
	}
	return resp.StatusCode, nil
}

func credentialsFor(t *testing.T, d *desk, u config.Upstream, header http.Header) (*credentials, *lockedReports) {
	t.Helper()
	reports := new(lockedReports)
	e := &config.Entry{Name: "crm", Header: header, Upstream: u}
	c := newCredentials(e, d.url+"/rpc", reports.add)
	t.Cleanup(c.close)
	return c, reports
}

type lockedReports struct {
	mu   sync.Mutex
	list []string
}

func (l *lockedReports) add(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, what+": "+err.Error())
}

func (l *lockedReports) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.list, "\n")
}

// TestExchange checks that each caller's token is exchanged once for one of the server, that the
// server gets only that, and that a caller without such a token gets none of another.
func TestExchange(t *testing.T) {
	d := newDesk(t)
	c, reports := credentialsFor(t, d, config.Upstream{Exchange: &config.Exchange{TokenEndpoint: d.url + "/token", ClientID: "gate", ClientSecret: config.NewValue("gate-secret", nil),
		Audience: "crm", Scopes: []string{"crm.read", "crm.write"}}}, http.Header{"X-Api-Key": {"fixed"}})
	trip := c.trip(http.DefaultTransport, nil)
	alice, bob := userOf("alice", "canary-alice"), userOf("bob", "canary-bob")
	for range 3 {
		for _, who := range []*caller{alice, bob} {
			if status, err := send(t, trip, d.url+"/rpc", who); status != 200 || err != nil {
				t.Fatal(status, err)
			}
		}
	}
	n, at := d.sent()
	if n != 2 || strings.Join(at, " ") != strings.Repeat("Bearer issued-1 Bearer issued-2 ", 3)[:len(strings.Repeat("Bearer issued-1 Bearer issued-2 ", 3))-1] {
		t.Errorf("%d tokens, and the server got %q", n, at)
	}
	form := d.forms[0]
	for name, want := range map[string]string{"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "canary-alice",
		"subject_token_type": "urn:ietf:params:oauth:token-type:access_token", "audience": "crm", "scope": "crm.read crm.write"} {
		if form.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, form.Get(name), want)
		}
	}
	if !strings.HasPrefix(d.basics[0], "Basic ") || d.headers[0].Get("X-Api-Key") != "fixed" {
		t.Errorf("the client authenticates as %q, the header is %q", d.basics[0], d.headers[0].Get("X-Api-Key"))
	}
	// a newer token of the same caller may grant less
	if _, err := send(t, trip, d.url+"/rpc", userOf("alice", "canary-alice-2")); err != nil {
		t.Error(err)
	}
	if n, _ := d.sent(); n != 3 {
		t.Errorf("%d tokens were requested, want one more for another token", n)
	}
	static := newCaller(&parley.Principal{Name: "token:ci"})
	static.token = newBearer("canary-static")
	before, _ := d.sent()
	for name, who := range map[string]*caller{"nobody": nil, "a static token": static, "without a token": newCaller(&parley.Principal{Name: "x|y|z", Issuer: "x"})} {
		_, err := send(t, trip, d.url+"/rpc", who)
		if !errors.Is(err, errNoCredentials) || !jsonrpc.NotSent(err) {
			t.Errorf("%s: %v", name, err)
		}
		if f := faultOfCredentials("crm", err); f == nil || f.code != jsonrpc.CodeUnauthorized || f.data.Upstream != "crm" {
			t.Errorf("%s: the error is %+v", name, f)
		}
	}
	if after, at := d.sent(); after != before || len(at) != 7 {
		t.Errorf("something was sent for callers without credentials: %d tokens, %d requests", after-before, len(at))
	}
	if text := fmt.Sprint(d.headers) + reports.String() + fmt.Sprintf("%+v %+v", c.tokens, alice); strings.Contains(text, "canary") || strings.Contains(text, "gate-secret") {
		t.Errorf("a token or secret is in %s", text)
	}
}

// TestExchangeIsShared checks that requests of one caller that arrive together share one exchange,
// and that the end of one of them does not end it.
func TestExchangeIsShared(t *testing.T) {
	d := newDesk(t)
	d.gate = make(chan struct{})
	c, _ := credentialsFor(t, d, config.Upstream{Exchange: &config.Exchange{TokenEndpoint: d.url + "/token", ClientID: "gate", Audience: "crm"}}, nil)
	who := userOf("alice", "t")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	first := make(chan error, 1)
	go func() { _, _, err := c.token(ctx, who); first <- err }()
	for n := 0; n == 0; n, _ = d.sent() { //nolint:revive // waits for the request
	}
	cancel(gone)
	if err := <-first; !errors.Is(err, gone) {
		t.Errorf("the caller that left gets %v", err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if token, _, err := c.token(t.Context(), who); token != "issued-1" || err != nil {
				t.Errorf("token %q, %v", token, err)
			}
		})
	}
	close(d.gate)
	wg.Wait()
	if n, _ := d.sent(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
}

// TestOutboundTokensExpire checks that a token is not used in its last 30 s, and that a rejected
// token is replaced once.
func TestOutboundTokensExpire(t *testing.T) {
	d := newDesk(t)
	d.expires = 20
	c, _ := credentialsFor(t, d, config.Upstream{OAuth: &config.ClientCredentials{TokenEndpoint: d.url + "/token", ClientID: "gate", ClientSecret: config.NewValue("s", nil)}}, nil)
	trip := c.trip(http.DefaultTransport, nil)
	for range 2 {
		if status, err := send(t, trip, d.url+"/rpc", nil); status != 200 || err != nil {
			t.Fatal(status, err)
		}
	}
	if n, _ := d.sent(); n != 2 {
		t.Errorf("a token of 20 s was requested %d times, want twice", n)
	}
	d.expires = 3600
	if _, err := send(t, trip, d.url+"/rpc", nil); err != nil { // issued-3
		t.Fatal(err)
	}
	d.rejected["issued-3"] = true
	if status, err := send(t, trip, d.url+"/rpc", nil); status != 200 || err != nil {
		t.Errorf("after a revocation: %d, %v", status, err)
	}
	d.rejected["issued-4"], d.rejected["issued-5"], d.rejected["issued-6"] = true, true, true
	before, _ := d.sent()
	if status, err := send(t, trip, d.url+"/rpc", nil); status != 401 || err != nil {
		t.Errorf("a server that rejects all: %d, %v", status, err)
	}
	if after, _ := d.sent(); after != before+1 {
		t.Errorf("%d tokens were requested for one request", after-before)
	}
	if d.forms[0].Get("grant_type") != "client_credentials" || d.forms[0].Has("subject_token") {
		t.Errorf("the form is %v", d.forms[0])
	}
}

// TestTokenEndpointFails checks that a failure is an error of the upstream, is reported without
// secrets and not tried again at once.
func TestTokenEndpointFails(t *testing.T) {
	d := newDesk(t)
	d.fail = true
	c, reports := credentialsFor(t, d, config.Upstream{Exchange: &config.Exchange{TokenEndpoint: d.url + "/token", ClientID: "gate", ClientSecret: config.NewValue("gate-secret", nil), Audience: "crm"}}, nil)
	trip := c.trip(http.DefaultTransport, nil)
	for range 5 {
		_, err := send(t, trip, d.url+"/rpc", userOf("alice", "canary"))
		if !errors.Is(err, errCredentials) || !jsonrpc.NotSent(err) {
			t.Fatal(err)
		}
		if f := faultOfCredentials("crm", err); f.code != jsonrpc.CodeUnavailable {
			t.Errorf("the error is %+v", f)
		}
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("the error has the token: %v", err)
		}
	}
	if n, at := d.sent(); n != 1 || len(at) != 0 {
		t.Errorf("%d attempts, %d requests to the server", n, len(at))
	}
	if text := reports.String(); !strings.Contains(text, "credentials: crm: ") || strings.Contains(text, "canary") || strings.Contains(text, "gate-secret") {
		t.Errorf("reports %q", text)
	}
}

// TestForwardedTokens checks that only forwardToken sends the caller's own token, only to the
// server itself, and that a link of one caller never uses another's.
func TestForwardedTokens(t *testing.T) {
	d, other := newDesk(t), newDesk(t)
	c, _ := credentialsFor(t, d, config.Upstream{ForwardToken: true}, nil)
	alice, bob := userOf("alice", "token-a"), userOf("bob", "token-b")
	trip := c.trip(http.DefaultTransport, nil)
	if _, err := send(t, trip, d.url+"/rpc", alice); err != nil {
		t.Fatal(err)
	}
	link := c.trip(http.DefaultTransport, alice)
	newer := userOf("alice", "token-a2")
	for _, who := range []*caller{nil, bob, newer} {
		if _, err := send(t, link, d.url+"/rpc", who); err != nil {
			t.Fatal(err)
		}
	}
	if _, at := d.sent(); strings.Join(at, ",") != "Bearer token-a,Bearer token-a,Bearer token-a,Bearer token-a2" {
		t.Errorf("the server got %q", at)
	}
	if _, err := send(t, trip, d.url+"/rpc", nil); !errors.Is(err, errNoCredentials) {
		t.Errorf("without a token: %v", err)
	}
	d.from = other.url + "/rpc" // a redirect to another server
	if _, err := send(t, trip, d.url+"/rpc", alice); err != nil {
		t.Fatal(err)
	}
	if _, at := other.sent(); len(at) != 1 || at[0] != "" {
		t.Errorf("another server got %q", at)
	}
	plain, _ := credentialsFor(t, other, config.Upstream{}, http.Header{"X-Key": {"k"}})
	if _, err := send(t, plain.trip(http.DefaultTransport, nil), other.url+"/rpc", alice); err != nil {
		t.Fatal(err)
	}
	if h := other.headers[1]; h.Get("Authorization") != "" || h.Get("X-Key") != "k" {
		t.Errorf("a server with fixed headers got %v", h)
	}
}

// TestOutboundTokensAreBounded checks that tokens of many callers do not fill the memory.
func TestOutboundTokensAreBounded(t *testing.T) {
	c, _ := credentialsFor(t, newDesk(t), config.Upstream{}, nil)
	for i := range 2 * maxOutbound {
		c.mu.Lock()
		if len(c.tokens) >= maxOutbound {
			c.makeRoomLocked(time.Now())
		}
		c.tokens[fmt.Sprint(i)] = &outboundToken{until: time.Now().Add(time.Hour)}
		if len(c.tokens) > maxOutbound {
			t.Fatalf("%d tokens", len(c.tokens))
		}
		c.mu.Unlock()
	}
}
