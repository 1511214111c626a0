package page

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/da1ed7bb/parley/interop/authserver"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// A realm is an MCP server that requires authorization, with the authorization server that it
// trusts: a real one, which asks its users on a page.
type realm struct {
	as       *authserver.Server
	resource string

	mu        sync.Mutex // guards the fields below
	shown     []string   // received tokens, each once
	withdrawn map[string]bool
}

func newRealm(t *testing.T, o authserver.Options) *realm {
	t.Helper()
	o.Ask = true
	as, err := authserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(as.Close)
	r := &realm{as: as, withdrawn: map[string]bool{}}
	s := mcp.NewServer(mcp.Implementation{Name: "guarded", Version: "1"}, &mcp.ServerOptions{Principal: oauth.PrincipalOf})
	mcp.AddTool(s, mcp.Tool{Name: "whoami", Description: "Says who you are."}, func(ctx context.Context, _ *mcp.Request, _ struct{}) (string, error) {
		return "You are " + oauth.IdentityOf(ctx).Subject + ".", nil
	})
	handler := mcphttp.NewHandler(s, &mcphttp.Options{Principal: oauth.PrincipalOf})
	server := httptest.NewUnstartedServer(nil)
	r.resource = "http://" + server.Listener.Addr().String() + "/mcp"
	verify := &oauth.JWT{Issuer: as.Issuer, Audience: r.resource}
	guard, err := oauth.Protect(handler, &oauth.ProtectOptions{
		Resource: r.resource, Servers: []string{as.Issuer}, Required: []string{"mcp:use"}, Supported: []string{"mcp:use"},
		Verify: oauth.VerifierFunc(func(ctx context.Context, token string) (*oauth.Identity, error) {
			r.mu.Lock()
			if !slices.Contains(r.shown, token) {
				r.shown = append(r.shown, token)
			}
			gone := r.withdrawn[token]
			r.mu.Unlock()
			if gone {
				return nil, fmt.Errorf("%w: withdrawn", oauth.ErrToken)
			}
			return verify.Verify(ctx, token)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = guard
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = handler.Close() })
	return r
}

// withdraw invalidates all tokens received so far.
func (r *realm) withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, token := range r.shown {
		r.withdrawn[token] = true
	}
}

// secrets returns the values that only the two servers may see.
func (r *realm) secrets() (list []string) {
	for _, s := range r.as.Seen("/token") {
		for _, name := range []string{"code", "code_verifier", "refresh_token"} {
			list = append(list, s.Form.Get(name))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(append(list, r.shown...), func(s string) bool { return s == "" })
}

// signInPane is the region of the steps.
const signInPane = `eyes.first("region", "Sign in")`

// inPane returns the expression for an element in that region.
func inPane(role, name string) string {
	return `eyes.first("` + role + `", ` + pattern(name) + `, ` + signInPane + `)`
}

// consent clicks the page's link to the authorization server and a button there, and waits until
// the tab is back at parley.
func (p *tab) consent(button string) {
	p.t.Helper()
	fresh := chromedp.WaitNewTarget(p.ctx, func(i *target.Info) bool { return i.Type == "page" && i.BrowserContextID == profile(p) })
	p.until("there is no link to the sign-in page", inPane("link", "Open the sign-in page"))
	select {
	case <-fresh:
		p.t.Fatal("a page was opened that nobody asked for")
	default:
	}
	if rel := ask[string](p, inPane("link", "Open the sign-in page")+".rel"); rel != "noopener noreferrer" {
		p.t.Errorf("the link says %q of where it is from", rel)
	}
	p.clickOn(inPane("link", "Open the sign-in page"))
	var id target.ID
	select {
	case id = <-fresh:
	case <-p.ctx.Done():
		p.t.Fatal("no page was opened")
	}
	ctx, cancel := chromedp.NewContext(p.ctx, chromedp.WithTargetID(id))
	p.t.Cleanup(cancel) // closes the tab, whose response is still needed until then
	other := &tab{t: p.t, ctx: ctx, look: p.look}
	// The click may close the page, so everything happens in one evaluation.
	text := ask[string](other, `new Promise((done) => { const look = () => {
		const b = document.querySelector("button[value=`+button+`]");
		if (!b) return setTimeout(look, 20);
		setTimeout(() => b.click(), 0);
		done(document.body.textContent);
	}; look(); })`)
	if !strings.Contains(text, "Allow parley?") {
		p.t.Errorf("the authorization server asks %q", text)
	}
	call(p, cdpage.BringToFront, cdp.Empty{}) // covered tabs are not rendered
}

// openGuarded opens a server that requires authorization by its address, as a person does.
func openGuarded(t *testing.T, u *up, r *realm, l look) *tab {
	t.Helper()
	p := u.page(t, l, "")
	if l.phone {
		// The target is rejected, and listed.
		u.post(t, u.base+"rpc", u.token, nil, "targets/open", map[string]any{"target": r.resource, "protocol": "mcp"})
		p.visit(u.at("target=" + r.resource))
		p.click("button", "Targets")
		p.click("button", "Sign in")
		return p
	}
	p.click("button", "Open a target")
	p.fill("textbox", "Address", r.resource)
	p.click("button", "Open")
	return p
}

// TestSignIn uses a server that requires authorization: the requirement is shown, no request is
// sent to the authorization server before a person starts it, and each step is shown with its rule
// and recorded. The token is used, and renewed when it is rejected. No secret is on the page or in
// the recording.
func TestSignIn(t *testing.T) {
	t.Parallel()
	r := newRealm(t, authserver.Options{})
	u := start(t)
	p := openGuarded(t, u, r, desk)
	p.until("the page does not say that it wants a token", signInPane+` && /requires authentication/.test(eyes.text(`+signInPane+`))`)
	if n := len(r.as.Seen("/register")); n != 0 {
		t.Errorf("the authorization server was asked %d times before anybody wanted that", n)
	}
	p.judgeBoth("oauth-asked")
	p.clickOn(inPane("button", "Sign in"))
	p.until("it does not wait for the person", `/Waiting for you/.test(eyes.text(`+signInPane+`))`)
	for _, title := range []string{"The server requires authentication", "Protected resource metadata", "Authorization server metadata", "Client registration", "Authorization request"} {
		p.says(title)
	}
	p.says("RFC 9728, section 5.1")
	p.says("code_challenge_method")
	p.judgeBoth("oauth-waiting")
	p.consent("yes")
	p.says("Signed in.")
	for _, title := range []string{"Authorization response", "Token request", "The same request again, with the token"} {
		p.says(title)
	}
	p.guideImage("sign-in")
	p.judgeBoth("oauth-done")
	for _, want := range []string{`GET .*oauth-protected-resource.*200`, `GET .*oauth-authorization-server.*200`, `POST .*register.*201`, `GET \/callback`, `POST .*token.*200`} {
		p.row(want)
	}
	p.clickOn(inPane("button", "/step 2 on the wire/"))
	p.until("the exchange of the step is not selected", `eyes.rows().some((r) => r.selected && /oauth-protected-resource/.test(r.text))`)
	p.judge("oauth-exchange")

	p.clickOn(inPane("button", "Open the target"))
	p.see("region", "Composer")
	p.until("there is no call in the composer", `/whoami/.test(eyes.bytes())`)
	p.key("Ctrl+Enter")
	p.row(`tools\/call .*whoami.*result`)
	p.until("the answer is not shown", `eyes.all("region").some((e) => /You are alice/.test(e.textContent))`)

	r.withdraw()
	p.bytes(`{"jsonrpc":"2.0","id":90,"method":"tools/call","params":{"name":"whoami","arguments":{}}}`)
	p.key("Ctrl+Enter")
	p.says("no longer accepts the token")
	p.judge("oauth-ended")
	p.clickOn(`eyes.first("button", "Sign in", eyes.first("region", "Composer"))`)
	p.clickOn(inPane("button", "Sign in"))
	p.says("Signed in.")
	p.says("Refresh")
	p.until("the refresh is not a step", `/Refresh\b.*refresh_token.*without a new approval|without a new approval/.test(eyes.clean(eyes.text(`+signInPane+`)))`)
	p.judgeBoth("oauth-refreshed")
	if n := len(r.as.Seen("/authorize")); n != 2 { // the page, and the response to it
		t.Errorf("the person was sent to the authorization server %d times", n)
	}
	p.clickOn(inPane("button", "Compose a call"))
	p.bytes(`{"jsonrpc":"2.0","id":190,"method":"tools/call","params":{"name":"whoami","arguments":{}}}`)
	p.key("Ctrl+Enter")
	p.row(`tools\/call .*whoami.*You are alice.*190`)

	if found := u.call(t, "wire/rows", map[string]any{"filter": "status:broken"}); !strings.HasPrefix(string(found), `{"rows":[]`) {
		t.Errorf("somebody is blamed: %s", found)
	}
	file := u.session(t)
	seen := ask[string](p, "document.documentElement.outerHTML")
	for _, s := range r.secrets() {
		if strings.Contains(file, s) || strings.Contains(seen, s) {
			t.Errorf("the secret %.12s… is on the page or in the session", s)
		}
	}
	if !strings.Contains(file, "refresh_token=[redacted]") {
		t.Errorf("the session does not have the refresh: %.200s", file)
	}
}

// session returns the session that the page saves.
func (u *up) session(t *testing.T) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.base+"session/save", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+u.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v: %d %.200s", err, resp.StatusCode, text)
	}
	return string(text)
}

// TestSignInDenied simulates a person who denies and then approves, on a phone.
func TestSignInDenied(t *testing.T) {
	t.Parallel()
	r := newRealm(t, authserver.Options{})
	u := start(t)
	p := openGuarded(t, u, r, phone)
	p.clickOn(inPane("button", "Sign in"))
	p.consent("no")
	p.says("Access was denied, by you or by the authorization server.")
	p.says("access_denied")
	p.judgeBoth("oauth-denied")
	p.clickOn(inPane("button", "Try again"))
	p.consent("yes")
	p.says("Signed in.")
	p.judgeBoth("oauth-done")
}

// TestSignInFails checks that errors between the servers are explained in text.
func TestSignInFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    authserver.Options
		says string
	}{
		"audience": {authserver.Options{Audience: "https://elsewhere.example/mcp"}, "Wrong audience: the token is for https://elsewhere.example/mcp"},
		"expired":  {authserver.Options{Expired: true}, "Expired at"},
		"mix-up":   {authserver.Options{Iss: authserver.IssWrong}, "different issuer than the one that was asked"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t, c.o)
			u := start(t)
			p := openGuarded(t, u, r, desk)
			p.clickOn(inPane("button", "Sign in"))
			p.consent("yes")
			p.says(c.says)
			p.judge("oauth-failed")
			p.shot("oauth-failed")
		})
	}
}
