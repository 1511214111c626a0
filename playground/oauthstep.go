package playground

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// A stepOfLogin is one step on the way to a token: the request, the response, its meaning and the
// rule that applies.
type stepOfLogin struct {
	N     int    `json:"n"`
	Title string `json:"title"`
	// State is done, waiting, none (not found, the next location is tried) or bad.
	State    string        `json:"state"`
	Text     string        `json:"text,omitzero"`
	Rule     string        `json:"rule,omitzero"`
	Facts    []fact        `json:"facts,omitempty"`
	HTTP     int64         `json:"http,omitzero"` // number of the recorded exchange
	Request  *exchangeSeen `json:"request,omitzero"`
	Response *exchangeSeen `json:"response,omitzero"`

	state string // of an authorization request
	token string // the received token
}

// A fact is a relevant value of a step.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	About string `json:"about,omitzero"`
}

// An exchangeSeen is one half of an exchange, without its secrets.
type exchangeSeen struct {
	Line   string      `json:"line"` // "POST https://…", "200 OK"
	Header [][2]string `json:"header"`
	Body   string      `json:"body,omitzero"`
}

// States of a step.
const (
	stepDone    = "done"
	stepWaiting = "waiting"
	stepNone    = "none"
	stepBad     = "bad"
)

func requestSeen(r *http.Request, body []byte) *exchangeSeen {
	return &exchangeSeen{Line: r.Method + " " + hiddenQuery(r.URL.Redacted()), Header: hiddenFields(r.Header), Body: clip(string(body), maxSeen)}
}

func responseSeen(answer *http.Response, body []byte) *exchangeSeen {
	return &exchangeSeen{Line: strings.TrimSpace(fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))), Header: hiddenFields(answer.Header), Body: clip(string(body), maxSeen)}
}

// resourceStep describes an exchange with the MCP server.
func resourceStep(r *http.Request, answer *http.Response, err error) *stepOfLogin {
	s := &stepOfLogin{Title: "Request without a token", State: stepDone, Request: requestSeen(r, nil)}
	if err != nil {
		s.State, s.Text = stepBad, "The server could not be reached: "+reason(err)+"."
		return s
	}
	s.Response = responseSeen(answer, nil)
	shown := r.Header.Get("Authorization") != ""
	params := challengeOf(answer)
	add := func(name, about string) {
		if v := params[name]; v != "" {
			s.Facts = append(s.Facts, fact{name, v, about})
		}
	}
	add("resource_metadata", "metadata that names the authorization servers")
	add("scope", "scopes that the token needs")
	add("error", "")
	add("error_description", "")
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized && !shown:
		s.Title, s.Rule = "The server requires authentication", "MCP, Authorization; RFC 9728, section 5.1; RFC 6750, section 3"
		s.Text = "A request without a token gets HTTP 401. Its WWW-Authenticate header points to the metadata."
		if params["resource_metadata"] == "" {
			s.Text = "A request without a token gets HTTP 401 without a link to the metadata, so the well-known addresses are tried."
		}
	case status == http.StatusUnauthorized:
		s.Title, s.Rule, s.State = "The server rejects this token", "RFC 6750, section 3.1", stepBad
		s.Text = "A request with the current token gets HTTP 401: the token is expired, revoked, or for another server."
	case status == http.StatusForbidden && params["error"] == "insufficient_scope":
		s.Title, s.Rule = "The server requires more scopes", "RFC 6750, section 3.1; MCP, Authorization, Scope Challenge Handling"
		s.Text = "The token is valid, but its scopes do not cover this request."
	case status == http.StatusForbidden:
		s.Title, s.Rule, s.State = "The server denies access", "RFC 9110, section 15.5.4", stepBad
		s.Text = "HTTP 403 names no missing scope, so a token with more scopes would not help."
	case shown:
		s.Title, s.Rule = "The same request again, with the token", "MCP, Authorization, Access Token Usage; RFC 6750, section 2.1"
		s.Text = "The server accepts the token. Every request to this target sends it in the Authorization header, never in a URL."
		if answer.StatusCode >= http.StatusBadRequest {
			s.Text += " Other errors in the response to this ping do not matter: there is no session yet."
		}
	default:
		s.Text = "The server does not require a token."
	}
	return s
}

// challengeOf returns the parameters of a response's challenge.
func challengeOf(answer *http.Response) map[string]string {
	all, _ := oauth.ParseChallenges(answer.Header.Values("WWW-Authenticate")) // the readable part
	for _, c := range all {
		if strings.EqualFold(c.Scheme, oauth.SchemeBearer) || strings.EqualFold(c.Scheme, oauth.SchemeDPoP) {
			return c.Params
		}
	}
	return nil
}

// serverStep describes an exchange with an authorization server, or a request for metadata.
func serverStep(r *http.Request, sent []byte, form bool, answer *http.Response, came []byte, err error) *stepOfLogin {
	s := &stepOfLogin{State: stepDone, Request: requestSeen(r, hiddenBody(sent, form))}
	status := 0
	if answer != nil {
		status = answer.StatusCode
		s.Response = responseSeen(answer, hiddenBody(came, false))
	}
	doc := documentOf(came)
	switch {
	case strings.Contains(r.URL.Path, "/.well-known/oauth-protected-resource"):
		s.Title, s.Rule = "Protected resource metadata", "RFC 9728, sections 2 and 3; MCP, Authorization, Authorization Server Location"
		s.Text = "The server's resource identifier and the authorization servers that it trusts."
		s.Facts = doc.facts("resource", "must be the address that was called", "authorization_servers", "issue tokens for it", "scopes_supported", "")
	case strings.Contains(r.URL.Path, "/.well-known/"):
		s.Title, s.Rule = "Authorization server metadata", "RFC 8414, section 3; MCP, Authorization, Authorization Server Metadata Discovery"
		if strings.Contains(r.URL.Path, "openid-configuration") {
			s.Rule = "OpenID Connect Discovery 1.0, section 4; " + s.Rule
		}
		s.Text = "The endpoints and capabilities of the authorization server."
		s.Facts = doc.facts("issuer", "must match the expected issuer", "authorization_endpoint", "where you approve access", "token_endpoint", "where a code is exchanged for a token",
			"registration_endpoint", "where clients register", "code_challenge_methods_supported", "must include S256", "scopes_supported", "")
	case form:
		return tokenStep(s, formOf(sent), status, doc, err)
	default:
		s.Title, s.Rule = "Client registration", "RFC 7591, section 3; MCP, Authorization, Client Registration Approaches"
		s.Text = "parley is not registered with this server yet, so it registers itself. It requests no secret: a program on a user's machine cannot protect one."
		s.Facts = append(documentOf(sent).facts("client_name", "", "redirect_uris", "where the browser returns to: this machine", "application_type", ""),
			doc.facts("client_id", "parley's identifier at this server", "token_endpoint_auth_method", "", "error", "", "error_description", "")...)
	}
	switch {
	case err != nil:
		s.State, s.Text = stepBad, "No response: "+reason(err)+"."
	case status/100 == 4 && r.Method == http.MethodGet:
		s.State, s.Text = stepNone, "Not found. This is not an error: there are several possible addresses, and the next one is tried."
	case status/100 != 2:
		s.State, s.Text = stepBad, orDefault(doc.text("error_description"), fmt.Sprintf("The server responds with HTTP %d.", status))
	}
	return s
}

// tokenStep describes a request to a token endpoint.
func tokenStep(s *stepOfLogin, form url.Values, status int, doc document, err error) *stepOfLogin {
	s.Title, s.Rule = "Token request", "OAuth 2.1, section 4.1.3; RFC 7636, section 4.5; RFC 8707, section 2"
	s.Text = "The code is exchanged for a token. The verifier proves that the client that requested the code also uses it (PKCE)."
	if form.Get("grant_type") == "refresh_token" {
		s.Title, s.Rule = "Refresh", "OAuth 2.1, section 4.3; RFC 8707, section 2"
		s.Text = "The token has expired or expires soon. Its refresh token is exchanged for a new one, without a new approval."
	}
	for _, name := range []string{"grant_type", "resource", "scope", "client_id"} {
		if v := form.Get(name); v != "" {
			s.Facts = append(s.Facts, fact{name, v, map[string]string{"resource": "the only server that the token is for"}[name]})
		}
	}
	for _, name := range []string{"code", "code_verifier", "refresh_token", "client_secret", "client_assertion"} {
		if v := form.Get(name); v != "" {
			s.Facts = append(s.Facts, fact{name, mask(v), map[string]string{"code_verifier": "its hash was the code_challenge"}[name]})
		}
	}
	s.Facts = append(s.Facts, doc.facts("token_type", "", "expires_in", "seconds", "scope", "what the token allows", "error", "", "error_description", "")...)
	switch {
	case err != nil:
		s.State, s.Text = stepBad, "No response: "+reason(err)+"."
		return s
	case status/100 != 2 || doc.text("error") != "":
		s.State = stepBad
		s.Text = "The authorization server did not issue a token. " + meaningOf(doc.text("error"))
		return s
	}
	s.token = doc.text("access_token")
	s.Facts = append(s.Facts, fact{"access_token", mask(s.token), "sent to this server only"})
	if t := doc.text("refresh_token"); t != "" {
		s.Facts = append(s.Facts, fact{"refresh_token", mask(t), "to get the next token"})
	}
	c := claimsOf(s.token)
	for _, name := range []string{"iss", "aud", "exp"} {
		if v := c.text(name); v != "" {
			if at := c.time(name); name == "exp" && !at.IsZero() {
				v = at.Format("2006-01-02 15:04:05 UTC")
			}
			s.Facts = append(s.Facts, fact{name, v, map[string]string{"iss": "in the token: its issuer", "aud": "in the token: its audience", "exp": "in the token: when it expires"}[name]})
		}
	}
	return s
}

// authorizationRequest describes the step that a person performs.
func authorizationRequest(address string) *stepOfLogin {
	s := &stepOfLogin{
		Title: "Authorization request", State: stepWaiting, Rule: "OAuth 2.1, section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2; RFC 8252, section 7.3",
		Text: "Approve or deny access at the authorization server, in a separate tab. parley does not see what you type there.",
	}
	u, err := url.Parse(address)
	if err != nil {
		return s
	}
	q := u.Query()
	s.state = q.Get("state")
	s.Facts = []fact{{"at", u.Scheme + "://" + u.Host + u.Path, "check this address before you type a password"}}
	for _, f := range [][2]string{
		{"client_id", "the client that requests the token"}, {"scope", "the requested scopes"}, {"resource", "the server that the token is for"}, {"redirect_uri", "where the browser returns to: this machine, on a port that is open until the sign-in ends"},
		{"state", "the response must contain the same value"}, {"code_challenge", "the hash of a secret that only parley has (PKCE)"}, {"code_challenge_method", ""},
	} {
		if v := q.Get(f[0]); v != "" {
			s.Facts = append(s.Facts, fact{f[0], v, f[1]})
		}
	}
	return s
}

// authorizationResponse describes the parameters with which the person returned.
func authorizationResponse(query url.Values, state string) *stepOfLogin {
	s := &stepOfLogin{Title: "Authorization response", State: stepDone, Rule: "OAuth 2.1, section 4.1.2; RFC 9207, section 2", Text: "The browser returned to this machine with a code. It can be used once and expires after about a minute."}
	if v := query.Get("state"); v != "" {
		about := "matches the request"
		if v != state {
			about = "does not match the request"
		}
		s.Facts = append(s.Facts, fact{"state", v, about})
	}
	if v := query.Get("iss"); v != "" {
		s.Facts = append(s.Facts, fact{"iss", v, "must be the issuer that was asked"})
	}
	if v := query.Get("code"); v != "" {
		s.Facts = append(s.Facts, fact{"code", mask(v), ""})
	}
	if code := query.Get("error"); code != "" {
		s.State, s.Rule = stepBad, "OAuth 2.1, section 4.1.2.1"
		s.Text = meaningOf(code)
		s.Facts = append(s.Facts, fact{"error", code, ""})
		if v := query.Get("error_description"); v != "" {
			s.Facts = append(s.Facts, fact{"error_description", v, ""})
		}
	}
	return s
}

// meaningOf explains an OAuth error code.
func meaningOf(code string) string {
	switch code {
	case "access_denied":
		return "Access was denied, by you or by the authorization server. No token was issued and nothing is stored."
	case "invalid_grant":
		return "The code or refresh token is no longer valid: already used, expired, revoked, or issued to another client."
	case "invalid_client":
		return "The client is unknown, or its secret is wrong."
	case "invalid_target":
		return "It does not issue tokens for this resource."
	case "invalid_scope":
		return "One of the scopes is unknown or not granted."
	case "invalid_redirect_uri":
		return "It does not accept a redirect address on this machine."
	case "unauthorized_client":
		return "This client is not allowed to use this grant type."
	case "":
		return ""
	}
	return "Error code: " + code + "."
}

// explain returns the reason why there is no token, and the rule that applies.
func (w *loginWatch) explain(e *oauth.Error) (text, rule string) {
	w.mu.Lock()
	token, refusal := w.token, w.refusal
	w.mu.Unlock()
	switch {
	case errors.Is(e, oauth.ErrRejected):
		return rejected(claimsOf(token), w.resource, refusal)
	case errors.Is(e, oauth.ErrResource):
		return "The metadata describes a different resource than the server that was called. The operator of this server could use such a token at the other one, so none was requested.", "RFC 9728, section 3.3"
	case errors.Is(e, oauth.ErrIssuer):
		return "The response has a different issuer than the one that was asked, as in a mix-up attack. The code was not used.", "RFC 8414, section 3.3; RFC 9207, section 2.4"
	case errors.Is(e, oauth.ErrState):
		return "The state does not match: the response belongs to another request. Its code was not used.", "RFC 6749, section 10.12"
	case errors.Is(e, oauth.ErrPKCE):
		return "The authorization server's metadata does not list S256 code challenges. An MCP client must stop here.", "MCP, Authorization, Authorization Code Protection"
	case errors.Is(e, oauth.ErrClient):
		return "parley is not registered with this authorization server, and clients cannot register themselves. Register a client there and enter its client ID.", "MCP, Authorization, Client Registration Approaches"
	case errors.Is(e, oauth.ErrScope):
		return "The server still requests a scope that the token already has, or that was not granted.", "MCP, Authorization, Scope Challenge Handling"
	case errors.Is(e, oauth.ErrDPoP):
		return "The server accepts only tokens that are bound to a key (DPoP). The page does not support DPoP, because its messages are written by hand.", "RFC 9449"
	case errors.Is(e, context.DeadlineExceeded):
		return fmt.Sprintf("The browser did not return within %v.", visitTime), "RFC 8252, section 8.5"
	case errors.Is(e, context.Canceled), errors.Is(e, oauth.ErrClosed):
		return "Cancelled.", ""
	case e.Code != "":
		text = orDefault(meaningOf(e.Code), e.Code)
		if e.Description != "" {
			text += " Details: " + e.Description + "."
		}
		return text, "OAuth 2.1, sections 3.2.4 and 4.1.2.1"
	}
	return strings.TrimPrefix(e.Error(), "oauth: ") + ".", ""
}

// rejected explains why a server may reject a token from its own authorization server, as far as
// the token shows.
func rejected(c document, resource, refusal string) (text, rule string) {
	const head = "The server rejects a token that its own authorization server has just issued. "
	audience, end := c.texts("aud"), c.time("exp")
	switch {
	case len(audience) > 0 && !slices.Contains(audience, resource):
		return head + "Wrong audience: the token is for " + strings.Join(audience, ", ") + ", and this server is " + resource + ".", "RFC 8707, section 2; MCP, Authorization, Access Token Privilege Restriction"
	case !end.IsZero() && !end.After(time.Now()):
		return head + "Expired at " + end.Format("2006-01-02 15:04:05 UTC") + ". Check the clocks of both servers.", "RFC 6750, section 3.1; RFC 7519, section 4.1.4"
	}
	if refusal != "" {
		return head + "The server reports: " + refusal + ".", "RFC 6750, section 3.1"
	}
	return head + "The server gives no reason.", "RFC 6750, section 3.1"
}

// A document is a JSON object from the network.
type document map[string]jsontext.Value

// documentOf decodes an object. Any other text gives no members.
func documentOf(text []byte) document {
	var d document
	if json.Unmarshal(text, &d) != nil {
		return nil
	}
	return d
}

// claimsOf decodes the claims of a token that is a JWT. The signature is not verified.
func claimsOf(token string) document {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > 32<<10 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	return documentOf(text)
}

// text returns a member as display text: a string, the items of a list, or a number.
func (d document) text(name string) string { return strings.Join(d.texts(name), ", ") }

func (d document) texts(name string) []string {
	v := d[name]
	var one string
	var list []string
	switch {
	case len(v) == 0 || v.Kind() == 'n':
		return nil
	case json.Unmarshal(v, &one) == nil:
		return []string{one}
	case json.Unmarshal(v, &list) == nil:
		return list
	}
	return []string{string(v)}
}

func (d document) time(name string) time.Time {
	var seconds float64
	if v := d[name]; len(v) == 0 || json.Unmarshal(v, &seconds) != nil || seconds <= 0 || seconds > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}

// facts returns members by name. Each name is followed by its meaning.
func (d document) facts(namesAndMeanings ...string) []fact {
	var list []fact
	for i := 0; i+1 < len(namesAndMeanings); i += 2 {
		if v := d.text(namesAndMeanings[i]); v != "" {
			list = append(list, fact{namesAndMeanings[i], v, namesAndMeanings[i+1]})
		}
	}
	return list
}

// mask returns a placeholder for a secret that shows only its length.
func mask(secret string) string { return fmt.Sprintf("••• (%d characters)", len(secret)) }

// Limits of what a step shows.
const (
	maxFact = 400      // bytes of a value
	maxSeen = 16 << 10 // bytes of a body
)

// clip truncates a text to at most most bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return string(cutText([]byte(text), most)) + "…"
}

// secretOfOAuth reports whether a parameter or a member of that name is secret.
func secretOfOAuth(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "code", "code_verifier", "assertion", "client_assertion", "password", "device_code", "user_code", "authorization_code", "token":
		return true
	}
	return strings.HasSuffix(name, "_token") || strings.HasSuffix(name, "_secret")
}

// hiddenBody returns a body without its secrets.
func hiddenBody(body []byte, form bool) []byte {
	if form {
		var out bytes.Buffer
		for i, field := range bytes.Split(body, []byte("&")) {
			if i > 0 {
				out.WriteByte('&')
			}
			out.Write(hiddenField(field))
		}
		return out.Bytes()
	}
	if len(body) == 0 {
		return nil
	}
	d := documentOf(body)
	if d == nil {
		// It may contain anything.
		return []byte("(" + fmt.Sprint(len(body)) + " bytes that are not a JSON object)")
	}
	out := []byte{'{'}
	for member, value := range jsonrpc.Raw(body).Members() {
		name := strings.ToValidUTF8(string(member), "\uFFFD")
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, raw(name)...), ':')
		if secretOfOAuth(name) {
			value = raw(capture.Hidden)
		}
		out = append(out, value...)
	}
	return append(out, '}')
}

// hiddenField returns name=value without a secret value.
func hiddenField(field []byte) []byte {
	name, _, found := bytes.Cut(field, []byte("="))
	if plain, err := url.QueryUnescape(string(name)); found && (err != nil || secretOfOAuth(plain)) {
		return append(append(bytes.Clone(name), '='), capture.Hidden...)
	}
	return field
}

// hiddenQuery returns an address without the secrets of its query.
func hiddenQuery(address string) string {
	head, query, found := strings.Cut(address, "?")
	if !found {
		return address
	}
	return head + "?" + string(hiddenBody([]byte(query), true))
}

func hiddenFields(h http.Header) [][2]string {
	list := fields(h)
	for i := range list {
		if isSecretHeader(list[i][0]) {
			list[i][1] = "•••"
		}
	}
	return list
}

// formOf parses a form. Unreadable parts are omitted.
func formOf(body []byte) url.Values {
	form, _ := url.ParseQuery(string(body)) // the readable part
	return form
}

// documentName returns the name for a response body in the recording.
func documentName(r *http.Request, form bool) string {
	switch {
	case form:
		return "the response of the token endpoint"
	case strings.Contains(r.URL.Path, "/.well-known/oauth-protected-resource"):
		return "protected resource metadata"
	case strings.Contains(r.URL.Path, "/.well-known/"):
		return "authorization server metadata"
	}
	return "the response to the registration"
}
