package playground

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// visitTime limits the duration of an authorization.
const visitTime = 5 * time.Minute

type oauthParams struct {
	Target  string       `json:"target,omitzero"`
	Address string       `json:"address,omitzero"`
	Scopes  []string     `json:"scopes,omitzero"`
	Client  *oauthClient `json:"client"`
}

// An oauthClient is a client that was registered in advance.
type oauthClient struct {
	Issuer   string `json:"issuer,omitzero"` // if "", that of the first authorization server used
	ID       string `json:"id"`
	Secret   string `json:"secret,omitzero"`
	Redirect string `json:"redirect,omitzero"` // on this machine; if "", a free port
}

type oauthResult struct {
	Token  loginView `json:"token"`
	Target string    `json:"target"`
}

// A loginView is the public part of a token.
type loginView struct {
	Masked  string `json:"masked"`
	Issuer  string `json:"issuer"`
	Client  string `json:"client,omitzero"`
	Scope   string `json:"scope,omitzero"`
	Expires string `json:"expires,omitzero"`
	Refresh bool   `json:"refresh,omitzero"` // it can be renewed without a person
}

// A login is a target's token and the client that renews it. Its exchanges are recorded while it
// exists.
type login struct {
	client *oauth.Client
	wire   *capture.Wire
	idle   func()
	watch  *loginWatch
}

func (g *login) close() {
	_ = g.client.Close() // nothing to flush
	g.idle()
	g.wire.Close(nil)
}

// view returns the public part of a token.
func view(t *oauth.Token) loginView {
	v := loginView{Masked: mask(t.Access), Issuer: t.Issuer, Client: t.ClientID, Scope: strings.Join(t.Scopes, " "), Refresh: t.Refresh != ""}
	if !t.Expires.IsZero() {
		v.Expires = t.Expires.UTC().Format("2006-01-02T15:04:05Z")
	}
	return v
}

// newLogin prepares a login for a target. It sends no request.
func (p *Playground) newLogin(spec Target, where parley.Target, store oauth.Store, in *oauthParams, show func(name string, v any)) *login {
	wire := p.rec.Wire(capture.WireInfo{Target: spec.Name, Carrier: "http", Title: "sign-in at " + spec.Name, Peer: spec.show()})
	w := &loginWatch{wire: wire, resource: where.URL(), show: show}
	spec.Token, spec.Header = "", nil
	base, idle := p.recordedClient(&spec, wire, w.atResource)
	back := &oauth.Loopback{Open: w.visit, Stray: w.stray}
	var known []oauth.Registration
	if c := in.Client; c != nil {
		known = []oauth.Registration{{Issuer: c.Issuer, ClientID: c.ID, Secret: c.Secret}}
		if u, err := url.Parse(c.Redirect); err == nil && c.Redirect != "" {
			back.Path, known[0].RedirectURIs = u.Path, []string{c.Redirect}
		}
	}
	return &login{wire: wire, idle: idle, watch: w, client: &oauth.Client{
		Resource:      where.URL(),
		Grant:         &oauth.Code{Begin: w.begin(back)},
		Registrations: known,
		About:         oauth.ClientMetadata{ClientName: "parley"},
		Scopes:        in.Scopes,
		DPoP:          oauth.DPoPNever, // the request is written by a person and has no proof
		Store:         store,
		Base:          base.Transport,
		Watch:         func(way http.RoundTripper) http.RoundTripper { return &watchedWay{w, way} },
		Timeout:       visitTime,
	}}
}

// oauthStart gets a token for a server and sends each step to the page. The person opens the
// authorization server by a link that the page shows; nothing is opened automatically. An existing
// token is renewed if the server rejects it.
func (p *Playground) oauthStart(ctx context.Context, page jsonrpc.Peer, in oauthParams) (oauthResult, error) {
	t, err := p.find(orDefault(in.Target, in.Address), "")
	if err != nil {
		return oauthResult{}, err
	}
	p.mu.Lock()
	spec := t.Target
	if t.tokens == nil {
		t.tokens = new(oauth.Memory)
	}
	store := t.tokens
	p.mu.Unlock()
	where, err := parley.ParseTarget(spec.Address)
	if err != nil || where.Scheme != "http" && where.Scheme != "https" {
		return oauthResult{}, badParam("/target", "%s does not use HTTP, so it has no sign-in", spec.Name)
	}
	ctx, stop := context.WithTimeout(ctx, visitTime)
	defer stop()
	defer context.AfterFunc(p.ctx, stop)()

	// If the page disconnects, the login ends.
	g := p.newLogin(spec, where, store, &in, func(name string, v any) { _ = page.Notify(ctx, name, raw(v)) })
	token, err := g.run(ctx)
	g.watch.mute()
	if err != nil {
		g.close()
		return oauthResult{}, unavailable("%s: %s", spec.Name, sentence(err))
	}
	if old, ok := p.signIn(t, g, token); ok {
		if old != nil {
			old.close()
		}
	} else {
		g.close()
		return oauthResult{}, unavailable("%s no longer exists", spec.Name)
	}
	return oauthResult{Target: spec.Name, Token: view(token)}, nil
}

// errNothing is returned if a server requires no token.
var errNothing = errors.New("the server does not require a token, so it has no sign-in")

// run sends a harmless request to get the server's challenge, and then gets a token.
func (g *login) run(ctx context.Context) (*oauth.Token, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.client.Resource, bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)))
	if err != nil {
		return nil, errors.New("not a valid address")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := (&http.Client{Transport: g.client}).Do(r)
	if err != nil {
		text := reason(err)
		if u, ok := errors.AsType[*url.Error](err); ok {
			text = reason(u.Err)
		}
		s := &stepOfLogin{Title: "No token", State: "bad", Text: text}
		if e, ok := errors.AsType[*oauth.Error](err); ok {
			s.Text, s.Rule = g.watch.explain(e)
		}
		if !g.watch.saysWhy(err) {
			g.watch.showStep(s)
		}
		return nil, errors.New(s.Text)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // only the status counts
	_ = answer.Body.Close()                                        // likewise
	token, err := g.client.Token(ctx)
	if err != nil {
		return nil, err
	}
	if token == nil {
		return nil, errNothing
	}
	return token, nil
}

// signIn stores the login of a target. It returns the previous one, and whether the target still
// exists.
func (p *Playground) signIn(t *target, g *login, token *oauth.Token) (old *login, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.targets[t.Name] != t {
		return nil, false
	}
	p.rec.Hide(token.Access, token.Refresh)
	v := view(token)
	old, t.login, t.token, t.wants = t.login, g, &v, false
	p.changes.signal()
	return old, true
}

// signOutLocked removes and returns a target's login, which may be nil. The caller closes it after
// releasing mu.
func (t *target) signOutLocked() *login {
	g := t.login
	t.login, t.tokens, t.token, t.wants = nil, nil, nil, false
	return g
}

// oauthForget deletes the token of a target and what is needed to get the next one.
func (p *Playground) oauthForget(_ context.Context, in targetName) (none, error) {
	p.mu.Lock()
	t := p.targets[in.Target]
	if t == nil {
		p.mu.Unlock()
		return none{}, badParam("/target", "unknown target %s", in.Target)
	}
	g := t.signOutLocked()
	p.changes.signal()
	p.mu.Unlock()
	if g != nil {
		g.close()
	}
	return none{}, nil
}

// bearer returns the current token of a target. A token that is about to expire is refreshed first,
// and the refresh is recorded.
func (p *Playground) bearer(ctx context.Context, name string) (token string, signedIn bool) {
	p.mu.Lock()
	t := p.targets[name]
	var g *login
	if t != nil {
		g = t.login
	}
	p.mu.Unlock()
	if g == nil {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	fresh, err := g.client.Token(ctx)
	if err != nil || fresh == nil {
		return "", true // the server's response will show the consequence
	}
	v := view(fresh)
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.login == g && (t.token == nil || *t.token != v) {
		t.token = &v
		p.changes.signal()
	}
	return fresh.Access, true
}

// unauthorized records whether a server requires a token or a different one.
func (p *Playground) unauthorized(name string, wants bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.targets[name]; t != nil && t.wants != wants {
		t.wants = wants
		p.changes.signal()
	}
}

// A loginWatch reports the steps of a login: always to the recording, and to the page until mute is
// called.
type loginWatch struct {
	wire     *capture.Wire
	resource string

	mu       sync.Mutex // guards the fields below
	show     func(name string, v any)
	n        int
	visiting *stepOfLogin // the authorization request that is waiting for the person
	failed   bool         // the last step shows the error
	token    string       // the latest token
	refusal  string       // the server's reason for rejecting the latest token
}

// mute stops reporting to the page.
func (w *loginWatch) mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show = nil
}

// showStep reports a new step, or a change of a reported one.
func (w *loginWatch) showStep(s *stepOfLogin) {
	w.mu.Lock()
	if s.N == 0 {
		w.n++
		s.N = w.n
	}
	w.failed = s.State == stepBad
	show, copied := w.show, *s
	w.mu.Unlock()
	copied.Facts = nil
	for _, f := range s.Facts {
		copied.Facts = append(copied.Facts, fact{f.Name, clip(f.Value, maxFact), f.About})
	}
	if show != nil {
		show("step", copied)
	}
}

// saysWhy reports whether the last step has already shown the cause of err: an error code of the
// authorization server.
func (w *loginWatch) saysWhy(err error) bool {
	e, ok := errors.AsType[*oauth.Error](err)
	w.mu.Lock()
	defer w.mu.Unlock()
	return ok && e.Code != "" && w.failed
}

// begin waits for the person to return to the loopback address, and reports the parameters of that
// request.
func (w *loginWatch) begin(back *oauth.Loopback) func(context.Context, []string) (*oauth.Visit, error) {
	return func(ctx context.Context, wanted []string) (*oauth.Visit, error) {
		visit, err := back.Begin(ctx, wanted)
		if err != nil {
			return nil, err
		}
		visiting := visit.Go
		visit.Go = func(ctx context.Context, address string) (url.Values, error) {
			query, err := visiting(ctx, address)
			w.cameBack(visit.Redirect, query, err)
			return query, err
		}
		return visit, nil
	}
}

// visit sends the authorization link to the page.
func (w *loginWatch) visit(_ context.Context, address string) error {
	s := authorizationRequest(address)
	w.wire.Junk(capture.Out, []byte(address), "URL for your browser: the authorization request")
	w.mu.Lock()
	w.visiting = s
	w.mu.Unlock()
	w.showStep(s)
	w.mu.Lock()
	show := w.show
	w.mu.Unlock()
	if show == nil {
		return errors.New("no page is open to show the sign-in")
	}
	show("visit", map[string]string{"url": address})
	return nil
}

// stray reports a request to the loopback address that belongs to no authorization request.
func (w *loginWatch) stray(r *http.Request) {
	x := w.wire.Exchange(capture.In, r.Method, hiddenQuery(r.URL.RequestURI()), r.Header)
	x.Head(http.StatusBadRequest, nil)
	x.End(nil)
	w.showStep(&stepOfLogin{
		Title: "Response to another request", State: "bad", HTTP: x.ID(), Rule: "RFC 6749, section 10.12; OAuth 2.1, section 7.1",
		Text:  "A request to the redirect address has an unexpected state: it came from an old tab, or from a page that tries to inject its own code. It was rejected and its code was not read. parley is still waiting for the expected response.",
		Facts: []fact{{"state", orDefault(r.URL.Query().Get("state"), "(none)"), "does not match the request"}},
	})
}

// cameBack reports the authorization response.
func (w *loginWatch) cameBack(redirect string, query url.Values, err error) {
	w.mu.Lock()
	s := w.visiting
	w.visiting = nil
	w.mu.Unlock()
	if s == nil {
		return
	}
	if err != nil {
		s.State, s.Text = "bad", "No response came back from the authorization server."
		w.showStep(s)
		return
	}
	s.State = "done"
	w.showStep(s)
	path := redirect
	if u, err := url.Parse(redirect); err == nil {
		path = u.Path
	}
	x := w.wire.Exchange(capture.In, http.MethodGet, hiddenQuery(path+"?"+query.Encode()), nil)
	x.Head(http.StatusOK, nil)
	x.End(nil)
	back := authorizationResponse(query, s.state)
	back.HTTP = x.ID()
	w.showStep(back)
}

// atResource reports an exchange with the server itself.
func (w *loginWatch) atResource(x *capture.Exchange, r *http.Request, answer *http.Response, err error) {
	s := resourceStep(r, answer, err)
	s.HTTP = x.ID()
	if s.State == "bad" && answer != nil {
		w.mu.Lock()
		w.refusal = challengeOf(answer)["error_description"]
		w.mu.Unlock()
	}
	w.showStep(s)
}

// A watchedWay records the exchanges with authorization servers, without their secrets.
type watchedWay struct {
	watch *loginWatch
	next  http.RoundTripper
}

// maxDocument limits the recorded part of a document, in bytes. The client rejects longer ones
// itself.
const maxDocument = 1 << 20

func (t *watchedWay) RoundTrip(r *http.Request) (*http.Response, error) {
	form := r.Header.Get("Content-Type") == "application/x-www-form-urlencoded"
	x := t.watch.wire.Exchange(capture.Out, r.Method, hiddenQuery(r.URL.String()), r.Header)
	var sent, came []byte
	if r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			sent, _ = io.ReadAll(io.LimitReader(body, maxDocument)) // it is in memory
			_ = body.Close()                                        // likewise
		}
	}
	if len(sent) > 0 {
		what := "a registration"
		if form {
			what = "a token request: " + orDefault(formOf(sent).Get("grant_type"), "a form")
		}
		x.Junk(capture.Out, hiddenBody(sent, form), what)
	}
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		x.End(errors.New(reason(err)))
	} else {
		came, err = io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
		_ = answer.Body.Close() // already read
		answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(came), failing{err}))
		x.Head(answer.StatusCode, answer.Header)
		if len(came) > 0 {
			x.Junk(capture.In, hiddenBody(came, false), documentName(r, form))
		}
		x.End(err)
		err = nil
	}
	s := serverStep(r, sent, form, answer, came, err)
	s.HTTP = x.ID()
	if s.token != "" {
		t.watch.mu.Lock()
		t.watch.token = s.token
		t.watch.mu.Unlock()
	}
	t.watch.showStep(s)
	return answer, err
}

// A failing is the end of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}
