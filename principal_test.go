package parley

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

type canaryKey struct{}

// verifyUsers accepts "token-NAME" for the principal NAME.
func verifyUsers(ctx context.Context, token string) (context.Context, error) {
	switch name, ok := strings.CutPrefix(token, "token-"); {
	case token == "unverified":
		return nil, fmt.Errorf("no keys: %w", ErrNotVerified)
	case token == "weak":
		return nil, &ScopeError{Scopes: []string{"mcp", `in"valid`, "admin"}}
	case token == "panics":
		panic("in Verify")
	case token == "nothing":
		return nil, nil
	case ok && (name == "alice" || name == "bob"):
		p := &Principal{Name: name, Issuer: "https://id.example", Groups: []string{"staff"}, Scopes: []string{"mcp"}, Claims: jsonrpc.Raw(`{"sub":"` + name + `"}`)}
		return WithPrincipal(context.WithValue(ctx, canaryKey{}, "of "+name), p), nil
	}
	return nil, errors.New("wrong")
}

// whoMux has the method who, which returns the caller.
func whoMux() *jsonrpc.Mux {
	mux := testMux(nil)
	mux.Add("hang", jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}), jsonrpc.Open)
	mux.Add("who", jsonrpc.Func(func(ctx context.Context, _ struct{}) (string, error) {
		p := PrincipalOf(ctx)
		if p == nil {
			return "", nil
		}
		if addr := RemoteAddr(ctx); !addr.IsLoopback() {
			return "", fmt.Errorf("the address is %v", addr)
		}
		extra, _ := ctx.Value(canaryKey{}).(string)
		return fmt.Sprint(p.Name, " ", p.Issuer, " ", p.Groups, p.Scopes, " ", string(p.Claims), " ", extra), nil
	}))
	return mux
}

// TestVerifyOnEveryScheme checks that Verify decides on each transport, that handlers find the
// principal and the other values of its context, and that Tokens are accepted beside it.
func TestVerifyOnEveryScheme(t *testing.T) {
	files := newCertFiles(t)
	mux := whoMux()
	var reports atomic.Int32
	l := &Listener{Handler: mux, Mode: mux.Mode, TLS: files.server(t), Tokens: []string{"static"}, Verify: verifyUsers,
		Report: func(what string, err error) {
			if strings.Contains(err.Error(), "token-") || strings.Contains(err.Error(), "wrong-one") {
				t.Errorf("%s repeats a token: %v", what, err)
			}
			reports.Add(1)
		}}
	s := serve(t, l, "http://127.0.0.1:0", "https://127.0.0.1:0", "ws://127.0.0.1:0", "wss://127.0.0.1:0", "tcp://127.0.0.1:0",
		"tcp://127.0.0.1:0?framing=header", "tls://127.0.0.1:0", "sse+http://127.0.0.1:0", "unix:"+filepath.Join(t.TempDir(), "s"))
	const alice = `alice https://id.example [staff] [mcp] {"sub":"alice"} of alice`
	for _, target := range s.Targets() {
		for token, want := range map[string]string{
			"token-alice": alice, "static": "", "wrong-one": "refused", "": "refused", "unverified": "refused",
			"weak": "refused", "panics": "refused", "nothing": "refused", "token-mallory": "refused", "TOKEN-alice": "refused",
			strings.Repeat("x", 9<<10): "refused",
		} {
			if target.Scheme == "unix" {
				want = ""
			}
			c, err := (&Dialer{Token: token, TLS: files.client()}).Dial(t.Context(), target)
			got := ""
			if err == nil {
				got, err = jsonrpc.Call[string](t.Context(), c, "who", nil)
				if err == nil { // a second call has the same caller
					again, againErr := jsonrpc.Call[string](t.Context(), c, "who", nil)
					if again != got || againErr != nil {
						t.Errorf("%s: the second call is of %q, %v", target, again, againErr)
					}
				}
				_ = c.Close() // it may be closed already
			}
			if want == "refused" && err == nil || want != "refused" && (err != nil || got != want) {
				t.Errorf("%s with the token %.20q: %q, %v, want %q", target, token, got, err, want)
			}
		}
	}
	if reports.Load() == 0 {
		t.Error("no refusal was reported")
	}
}

// postWho calls the method who, and returns the status, the challenge and the body of the response.
func postWho(t *testing.T, url string, header http.Header) (status int, challenge, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"who"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("WWW-Authenticate"), string(text)
}

// TestVerifyStatuses checks the HTTP response to each result of Verify, and that tokens outside of
// one Authorization header do not count.
func TestVerifyStatuses(t *testing.T) {
	mux := whoMux()
	var asked atomic.Int32
	var header atomic.Value
	header.Store("")
	l := &Listener{Handler: mux, Mode: mux.Mode, Report: func(string, error) {}, Challenge: `Bearer resource_metadata="https://gate.example/x"`,
		Verify: func(ctx context.Context, token string) (context.Context, error) {
			asked.Add(1)
			return verifyUsers(ctx, token)
		},
		Mounts: map[string]Mount{"/mount": {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			header.Store(r.Header.Get("Authorization"))
			_, _ = io.WriteString(w, PrincipalOf(r.Context()).Name)
		})}},
		Pages: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page") }),
	}
	base := "http://" + serve(t, l, "http://127.0.0.1:0").Targets()[0].Address
	const meta = `Bearer resource_metadata="https://gate.example/x"`
	for _, tt := range []struct {
		path      string
		values    []string
		status    int
		challenge string
		verified  int32
	}{
		{"/rpc", []string{"Bearer token-alice"}, 200, "", 1},
		{"/rpc", []string{"bearer   token-alice"}, 200, "", 1},
		{"/mount", []string{"Bearer token-alice"}, 200, "", 1},
		{"/rpc", nil, 401, meta, 0},
		{"/rpc?access_token=token-alice", nil, 401, meta, 0},
		{"/rpc?token=token-alice", nil, 401, meta, 0},
		{"/mount?access_token=token-alice", nil, 401, meta, 0},
		{"/rpc", []string{"Bearer weak"}, 403, meta + `, error="insufficient_scope", scope="mcp admin"`, 1},
		{"/rpc", []string{"Bearer unverified"}, 503, "", 1},
		{"/rpc", []string{"Bearer panics"}, 503, "", 1},
		{"/rpc", []string{"Basic token-alice"}, 401, meta + `, error="invalid_token"`, 0},
		{"/rpc", []string{"token-alice"}, 401, meta + `, error="invalid_token"`, 0},
		{"/rpc", []string{"Bearer"}, 401, meta + `, error="invalid_token"`, 0},
		{"/rpc", []string{"Bearer token-alice", "Bearer token-alice"}, 401, meta + `, error="invalid_token"`, 0},
		{"/rpc", []string{"Bearer token-alice", "Bearer x"}, 401, meta + `, error="invalid_token"`, 0},
		{"/rpc", []string{"Bearer token-alice, Bearer token-bob"}, 401, meta + `, error="invalid_token"`, 1},
		{"/rpc", []string{"Bearer wrong"}, 401, meta + `, error="invalid_token"`, 1},
		{"/rpc", []string{"Bearer " + strings.Repeat("x", 8<<10+1)}, 401, meta + `, error="invalid_token"`, 0},
	} {
		before := asked.Load()
		status, challenge, body := postWho(t, base+tt.path, http.Header{"Authorization": tt.values})
		if status != tt.status || challenge != tt.challenge || asked.Load()-before != tt.verified {
			t.Errorf("%s with %.40q: %d %q, verified %d times; want %d %q, %d times", tt.path, tt.values, status,
				challenge, asked.Load()-before, tt.status, tt.challenge, tt.verified)
		}
		if strings.Contains(body, "token-") && tt.status != 200 {
			t.Errorf("the response to %.40q repeats the token: %s", tt.values, body)
		}
		if got := header.Load(); got != "" {
			t.Errorf("the handler received the header %q", got)
		}
	}
	page, err := http.Get(base + "/page")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	if page.StatusCode != 200 {
		t.Errorf("a page needs a token: %d", page.StatusCode)
	}
}

// TestVerifyCountsBadTokens checks that ten bad tokens of one address lock out further bad ones, on
// HTTP and on streams, that right ones are always accepted, and that errors of the verifier and
// missing scopes do not count.
func TestVerifyCountsBadTokens(t *testing.T) {
	mux := whoMux()
	l := &Listener{Handler: mux, Mode: mux.Mode, Verify: verifyUsers, Report: func(string, error) {}}
	targets := serve(t, l, "http://127.0.0.1:0", "tcp://127.0.0.1:0").Targets()
	status := func(token string) int {
		got, _, _ := postWho(t, "http://"+targets[0].Address+"/rpc", http.Header{"Authorization": {"Bearer " + token}})
		return got
	}
	for range 15 {
		if a, b := status("unverified"), status("weak"); a != 503 || b != 403 {
			t.Fatalf("statuses %d and %d, want 503 and 403", a, b)
		}
	}
	for i := range 12 {
		want := 401
		if i >= 10 {
			want = 429
		}
		if got := status("bad"); got != want {
			t.Errorf("bad token %d: %d, want %d", i, got, want)
		}
		if got := status("token-alice"); got != 200 {
			t.Errorf("a right token among them: %d", got)
		}
	}
	for i := range 12 {
		_, err := callOnce(t, &Dialer{Token: "bad"}, targets[1])
		e, ok := errors.AsType[*jsonrpc.Error](err)
		want := int64(jsonrpc.CodeUnauthorized)
		if i >= 10 {
			want = jsonrpc.CodeBusy
		}
		if !ok || e.Code != want {
			t.Errorf("bad token %d over tcp: %v, want the code %d", i, err, want)
		}
	}
	if got, err := callOnce(t, &Dialer{Token: "token-alice"}, targets[1]); got != 42 || err != nil {
		t.Errorf("a right token over tcp: %d, %v", got, err)
	}
}

// TestAdmitCountsVerify checks that a Listener with Verify may be reached by other machines, and
// that a wrong Challenge is an error.
func TestAdmitCountsVerify(t *testing.T) {
	if err := (&Listener{Verify: verifyUsers}).Admit(t.Context(), Target{Scheme: "http", Address: "0.0.0.0:1"}); err != nil {
		t.Error(err)
	}
	if err := new(Listener).Admit(t.Context(), Target{Scheme: "http", Address: "0.0.0.0:1"}); err == nil {
		t.Error("an open listener is admitted")
	}
	for _, challenge := range []string{"Basic x", "Bearer a\r\nX-Evil: 1"} {
		if s, err := listen(t, &Listener{Verify: verifyUsers, Challenge: challenge}, "http://127.0.0.1:0"); err == nil {
			_ = s.Close()
			t.Errorf("the challenge %q is accepted", challenge)
		}
	}
}

// TestAConnectionHasOneCaller checks that a later token on a stream may renew the credentials, and
// not change the caller.
func TestAConnectionHasOneCaller(t *testing.T) {
	mux := whoMux()
	s := serve(t, &Listener{Handler: mux, Mode: mux.Mode, Verify: verifyUsers, Tokens: []string{"static"}}, "tcp://127.0.0.1:0")
	c := dial(t, &Dialer{Token: "token-alice"}, s.Targets()[0])
	for token, ok := range map[string]bool{"token-alice": true, "token-bob": false, "static": false} {
		err := c.Call(t.Context(), MethodAuthenticate, credentials{token}, nil)
		if (err == nil) != ok {
			t.Errorf("a second token %q = %v", token, err)
		}
	}
	if got, err := jsonrpc.Call[string](t.Context(), c, "who", nil); !strings.HasPrefix(got, "alice ") || err != nil {
		t.Errorf("then the caller is %q, %v", got, err)
	}
}

// TestCredentialsExpireOnAConnection checks that a stream is closed when the credentials expire,
// and that a new token renews them.
func TestCredentialsExpireOnAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := inproc.Pipe(nil)
		mux := whoMux()
		l := &Listener{Handler: mux, Mode: mux.Mode, Report: func(string, error) {}}
		l.Verify = func(ctx context.Context, token string) (context.Context, error) {
			return WithPrincipal(ctx, &Principal{Name: "alice", Expires: time.Now().Add(time.Minute)}), nil
		}
		c := connSet{listener: l, locked: true}
		ended := make(chan time.Time, 1)
		start := time.Now()
		go func() {
			_ = c.serve(t.Context(), c.openConn(there, opening{version: jsonrpc.Version2})) // ends by itself
			ended <- time.Now()
		}()
		client := new(Dialer).Converse(t.Context(), here, jsonrpc.Version2)
		for range 3 {
			if err := (&Dialer{Token: "x"}).authenticate(t.Context(), client); err != nil {
				t.Errorf("authenticate = %v", err)
			}
			time.Sleep(50 * time.Second)
		}
		if got := (<-ended).Sub(start); got != 160*time.Second {
			t.Errorf("the connection ends after %v, want a minute after the third token", got)
		}
		_ = client.Close()
		if err := c.shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestExpiryEndsStreams checks that a WebSocket and a request that listens end when the credentials
// expire, and that a POST does not.
func TestExpiryEndsStreams(t *testing.T) {
	expires := time.Now().Add(time.Hour)
	ctx := WithPrincipal(t.Context(), &Principal{Name: "a", Expires: expires})
	for method, header := range map[string]string{"GET": "", "POST": "subscriptions/listen"} {
		r := &http.Request{Method: method, Header: http.Header{"Mcp-Method": {header}}}
		if at, ok := untilExpiry(ctx, r).Deadline(); !ok || !at.Equal(expires) {
			t.Errorf("a listening %s has the deadline %v, %t", method, at, ok)
		}
	}
	if _, ok := untilExpiry(ctx, &http.Request{Method: "POST"}).Deadline(); ok {
		t.Error("a POST ends with the credentials")
	}
	mux := whoMux()
	s := serve(t, &Listener{Handler: mux, Mode: mux.Mode, Report: func(string, error) {},
		Verify: func(ctx context.Context, token string) (context.Context, error) {
			return WithPrincipal(ctx, &Principal{Name: "a", Expires: time.Now().Add(300 * time.Millisecond)}), nil
		}}, "ws://127.0.0.1:0")
	c := dial(t, &Dialer{Token: "x"}, s.Targets()[0])
	err := c.Call(t.Context(), "hang", nil, nil)
	if err == nil {
		t.Error("a call on an expired WebSocket ends without an error")
	}
}

// TestCertificateNamesTheCaller checks the principal of a client with a verified certificate, over
// HTTP, WebSocket and TLS, and that a token comes first.
func TestCertificateNamesTheCaller(t *testing.T) {
	files := newCertFiles(t)
	server := files.server(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	san, err := url.Parse("spiffe://example/agent")
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "agent"}, URIs: []*url.URL{san},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	server.ClientCAs.AddCert(cert)
	client := files.client()
	client.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}

	mux := whoMux()
	s := serve(t, &Listener{Handler: mux, Mode: mux.Mode, TLS: server}, "https://127.0.0.1:0", "wss://127.0.0.1:0", "tls://127.0.0.1:0", "sse+https://127.0.0.1:0")
	both := serve(t, &Listener{Handler: mux, Mode: mux.Mode, TLS: server, Verify: verifyUsers}, "https://127.0.0.1:0", "tls://127.0.0.1:0")
	for i, target := range append(s.Targets(), both.Targets()...) {
		want, token := "tls:spiffe://example/agent ", ""
		if i >= len(s.Targets()) {
			want, token = "alice ", "token-alice"
		}
		c := dial(t, &Dialer{TLS: client, Token: token}, target)
		if got, err := jsonrpc.Call[string](t.Context(), c, "who", nil); !strings.HasPrefix(got, want) || err != nil {
			t.Errorf("%s: the caller is %q, %v, want %q", target, got, err, want)
		}
	}
}

// TestPairBelongsToACaller checks that a conversation over sse+http accepts messages only of the
// principal that opened it.
func TestPairBelongsToACaller(t *testing.T) {
	mux := whoMux()
	base := "http://" + serve(t, &Listener{Handler: mux, Mode: mux.Mode, Verify: verifyUsers}, "sse+http://127.0.0.1:0").Targets()[0].Address
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer token-alice"}, "Accept": {"text/event-stream"}}
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	var b [512]byte
	n, err := stream.Body.Read(b[:])
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(string(b[:n]), "data: ")
	path = strings.TrimSpace(path)
	for who, want := range map[string]int{"bob": 404, "alice": 202} {
		if got, _, _ := postWho(t, base+path, http.Header{"Authorization": {"Bearer token-" + who}}); got != want {
			t.Errorf("a message of %s: %d, want %d", who, got, want)
		}
	}
}
