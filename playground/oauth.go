package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// visitTime bounds how long an authorization may take.
const visitTime = 5 * time.Minute

type oauthParams struct {
	Target  string       `json:"target,omitzero"`
	Address string       `json:"address,omitzero"`
	Scopes  []string     `json:"scopes,omitzero"`
	Client  *oauthClient `json:"client"`
}

// An oauthClient is a registration that was made beforehand.
type oauthClient struct {
	Issuer string `json:"issuer"`
	ID     string `json:"id"`
	Secret string `json:"secret,omitzero"`
}

type oauthResult struct {
	Token  tokenView `json:"token"`
	Target string    `json:"target"`
}

type tokenView struct {
	Scope   string `json:"scope,omitzero"`
	Expires string `json:"expires,omitzero"`
	Masked  string `json:"masked"`
}

// A stepOfLogin is one thing that happened on the way to a token.
type stepOfLogin struct {
	N        int           `json:"n"`
	Title    string        `json:"title"`
	Request  *exchangeHead `json:"request,omitzero"`
	Response *exchangeHead `json:"response,omitzero"`
	State    string        `json:"state"`
	Text     string        `json:"text,omitzero"`
}

// oauthStart gets a token for a server, and tells the page each step. The person goes to the authorization server by a link that
// the page shows; nothing is opened by itself.
func (p *Playground) oauthStart(ctx context.Context, page jsonrpc.Peer, in oauthParams) (oauthResult, error) {
	t, err := p.find(orDefault(in.Target, in.Address), "")
	if err != nil {
		return oauthResult{}, err
	}
	p.mu.Lock()
	spec := t.Target
	p.mu.Unlock()
	where, err := parley.ParseTarget(spec.Address)
	if err != nil || where.Scheme != "http" && where.Scheme != "https" {
		return oauthResult{}, badParam("/target", "%s is not reached over HTTP, so there is nothing to log in to", spec.Name)
	}
	ctx, stop := context.WithTimeout(ctx, visitTime)
	defer stop()
	defer context.AfterFunc(p.ctx, stop)()

	wire := p.rec.Wire(capture.WireInfo{Target: spec.Name, Carrier: "http", Title: "login to " + spec.Name, Peer: spec.show()})
	defer wire.Close(nil)
	w := &loginWatch{ctx: ctx, page: page}
	bare := spec
	bare.Token, bare.Header = "", nil
	base, idle := p.recordedClient(&bare, wire, w.seen)
	defer idle()
	login := &oauth.Client{
		Resource: where.URL(),
		Grant:    &oauth.Code{Begin: (&oauth.Loopback{Open: w.visit}).Begin},
		About:    oauth.ClientMetadata{ClientName: "parley"},
		Scopes:   in.Scopes,
		Base:     base.Transport,
		Timeout:  visitTime,
	}
	if in.Client != nil {
		login.Registrations = []oauth.Registration{{Issuer: in.Client.Issuer, ClientID: in.Client.ID, Secret: in.Client.Secret}}
	}
	defer login.Close()

	// A request of no consequence makes the server say what it wants.
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, where.URL(), bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)))
	if err != nil {
		return oauthResult{}, badParam("/target", "%v", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := (&http.Client{Transport: login}).Do(r)
	if err != nil {
		if e, ok := errors.AsType[*oauth.Error](err); ok {
			w.tell(stepOfLogin{Title: "There is no token", State: "bad", Text: e.Error()})
			return oauthResult{}, unavailable("%s: %v", spec.Name, e)
		}
		return oauthResult{}, unavailable("%s: %s", spec.Name, reason(err))
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // its status is what counts
	_ = answer.Body.Close()                                        // likewise
	token, err := login.Token(ctx)
	if err != nil || token == nil || token.Access == "" {
		return oauthResult{}, unavailable("%s answers %d without a token: there is nothing to log in to", spec.Name, answer.StatusCode)
	}
	p.mu.Lock()
	t.Token = token.Access
	if t.link != nil {
		t.link.mu.Lock()
		t.link.spec.Token = token.Access
		t.link.mu.Unlock()
	}
	p.tellLocked()
	p.mu.Unlock()
	out := oauthResult{Target: spec.Name, Token: tokenView{Masked: mask(token.Access), Scope: strings.Join(token.Scopes, " ")}}
	if !token.Expires.IsZero() {
		out.Token.Expires = token.Expires.UTC().Format("2006-01-02T15:04:05Z")
	}
	return out, nil
}

// mask is what may be seen of a token.
func mask(token string) string {
	if len(token) < 16 {
		return fmt.Sprintf("•••(%d)", len(token))
	}
	return fmt.Sprintf("%s…(%d)", token[:4], len(token))
}

// A loginWatch tells the page the steps of a login, in order.
type loginWatch struct {
	ctx  context.Context
	page jsonrpc.Peer

	mu sync.Mutex // guards what is below
	n  int
}

func (w *loginWatch) tell(s stepOfLogin) {
	w.mu.Lock()
	w.n++
	s.N = w.n
	w.mu.Unlock()
	_ = w.page.Notify(w.ctx, "step", raw(s)) // a page that is gone ends the login
}

// visit shows the page where the person has to go.
func (w *loginWatch) visit(_ context.Context, address string) error {
	w.tell(stepOfLogin{Title: "You say yes, at the authorization server", State: "waiting"})
	return w.page.Notify(w.ctx, "visit", raw(map[string]string{"url": address}))
}

// seen tells an exchange on the way.
func (w *loginWatch) seen(r *http.Request, answer *http.Response, err error) {
	s := stepOfLogin{Title: titleOf(r, answer), State: "done", Request: &exchangeHead{Method: r.Method, URL: r.URL.Redacted(), Header: maskedFields(r.Header)}}
	switch {
	case err != nil:
		s.State, s.Text = "bad", reason(err)
	default:
		s.Response = &exchangeHead{Status: answer.StatusCode, Header: maskedFields(answer.Header)}
	}
	w.tell(s)
}

func maskedFields(h http.Header) [][2]string {
	list := fields(h)
	for i := range list {
		if isSecretHeader(list[i][0]) {
			list[i][1] = "•••"
		}
	}
	return list
}

// titleOf says what an exchange of a login is for.
func titleOf(r *http.Request, answer *http.Response) string {
	path := r.URL.Path
	has := func(part string) bool { return bytes.Contains([]byte(path), []byte(part)) }
	status := 0
	if answer != nil {
		status = answer.StatusCode
	}
	switch {
	case has("/.well-known/oauth-protected-resource"):
		return "The server's metadata names its authorization server"
	case has("/.well-known/"):
		return "The authorization server says where everything is"
	case r.Method == http.MethodPost && has("register"):
		return "This program registers itself"
	case r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/x-www-form-urlencoded":
		return "A code becomes a token"
	case status == http.StatusUnauthorized:
		return "The server says 401, and where its metadata is"
	case r.Header.Get("Authorization") != "":
		return "The same request again, with the token"
	}
	return "A request"
}
