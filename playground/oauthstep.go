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

// A stepOfLogin is one thing that happened on the way to a token: what was asked, what came, what it means and by which rule.
type stepOfLogin struct {
	N        int           `json:"n"`
	Title    string        `json:"title"`
	State    string        `json:"state"` // done, waiting, none (not there, the next place is tried), bad
	Text     string        `json:"text,omitzero"`
	Rule     string        `json:"rule,omitzero"`
	Facts    []fact        `json:"facts,omitempty"`
	HTTP     int64         `json:"http,omitzero"` // which exchange of the wire it is
	Request  *exchangeSeen `json:"request,omitzero"`
	Response *exchangeSeen `json:"response,omitzero"`

	state string // of an authorization request
	token string // that came
}

// A fact is a value that counts in a step.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	About string `json:"about,omitzero"`
}

// An exchangeSeen is one side of an exchange, without its secrets.
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

// resourceStep is an exchange with the MCP server.
func resourceStep(r *http.Request, answer *http.Response, err error) *stepOfLogin {
	s := &stepOfLogin{Title: "The server is asked", State: stepDone, Request: requestSeen(r, nil)}
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
	add("resource_metadata", "where the server says whose tokens it takes")
	add("scope", "what a token has to be good for")
	add("error", "")
	add("error_description", "")
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized && !shown:
		s.Title, s.Rule = "The server wants to know who asks", "MCP, Authorization; RFC 9728, section 5.1; RFC 6750, section 3"
		s.Text = "It answers 401 to a request without a token. Its WWW-Authenticate header says where to read on."
		if params["resource_metadata"] == "" {
			s.Text = "It answers 401 to a request without a token, and does not say where to read on: the well-known places are tried."
		}
	case status == http.StatusUnauthorized:
		s.Title, s.Rule, s.State = "The server does not take this token", "RFC 6750, section 3.1", stepBad
		s.Text = "It answers 401 to a request that shows the token we have: it has ended, was withdrawn, or is meant for somebody else."
	case status == http.StatusForbidden && params["error"] == "insufficient_scope":
		s.Title, s.Rule = "The server wants a token for more", "RFC 6750, section 3.1; MCP, Authorization, Scope Challenge Handling"
		s.Text = "The token is good, but not for this."
	case status == http.StatusForbidden:
		s.Title, s.Rule, s.State = "The server knows who asks, and says no", "RFC 9110, section 15.5.4", stepBad
		s.Text = "A token for more would not help: it names no scope that is missing."
	case shown:
		s.Title, s.Rule = "The same request again, with the token", "MCP, Authorization, Access Token Usage; RFC 6750, section 2.1"
		s.Text = "The server takes the token. It goes along in the Authorization header of every request to this target, and never in an address."
		if answer.StatusCode >= http.StatusBadRequest {
			s.Text += " What else it says to a ping before a session has begun does not count."
		}
	default:
		s.Text = "It answers without wanting a token."
	}
	return s
}

// challengeOf are the parameters of an answer's challenge.
func challengeOf(answer *http.Response) map[string]string {
	all, _ := oauth.ParseChallenges(answer.Header.Values("WWW-Authenticate")) // what can be read of it
	for _, c := range all {
		if strings.EqualFold(c.Scheme, oauth.SchemeBearer) || strings.EqualFold(c.Scheme, oauth.SchemeDPoP) {
			return c.Params
		}
	}
	return nil
}

// serverStep is an exchange with an authorization server, or for metadata.
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
		s.Text = "The server says which resource it is, and which authorization servers it believes."
		s.Facts = doc.facts("resource", "has to be the address that was called", "authorization_servers", "who gives tokens for it", "scopes_supported", "")
	case strings.Contains(r.URL.Path, "/.well-known/"):
		s.Title, s.Rule = "Authorization server metadata", "RFC 8414, section 3; MCP, Authorization, Authorization Server Metadata Discovery"
		if strings.Contains(r.URL.Path, "openid-configuration") {
			s.Rule = "OpenID Connect Discovery 1.0, section 4; " + s.Rule
		}
		s.Text = "The authorization server says where its endpoints are and what it can."
		s.Facts = doc.facts("issuer", "has to be the name that it was asked by", "authorization_endpoint", "where you say yes", "token_endpoint", "where a code becomes a token",
			"registration_endpoint", "where programs register themselves", "code_challenge_methods_supported", "S256 has to be among them", "scopes_supported", "")
	case form:
		return tokenStep(s, formOf(sent), status, doc, err)
	default:
		s.Title, s.Rule = "Client registration", "RFC 7591, section 3; MCP, Authorization, Client Registration Approaches"
		s.Text = "Nobody has registered parley at this server, so it does that itself. It asks for no secret: a program on somebody's machine keeps none."
		s.Facts = append(documentOf(sent).facts("client_name", "", "redirect_uris", "where you will come back to: this machine", "application_type", ""),
			doc.facts("client_id", "how this server knows parley from now on", "token_endpoint_auth_method", "", "error", "", "error_description", "")...)
	}
	switch {
	case err != nil:
		s.State, s.Text = stepBad, "No answer: "+reason(err)+"."
	case status/100 == 4 && r.Method == http.MethodGet:
		s.State, s.Text = stepNone, "Nothing is there. That is no fault: there are several places where it may be, and the next one is tried."
	case status/100 != 2:
		s.State, s.Text = stepBad, orDefault(doc.text("error_description"), fmt.Sprintf("The server answers %d.", status))
	}
	return s
}

// tokenStep is a request to a token endpoint.
func tokenStep(s *stepOfLogin, form url.Values, status int, doc document, err error) *stepOfLogin {
	s.Title, s.Rule = "Token request", "OAuth 2.1, section 4.1.3; RFC 7636, section 4.5; RFC 8707, section 2"
	s.Text = "The code becomes a token. The code alone would not do: the verifier shows that the one who asked for it is the one who uses it (PKCE)."
	if form.Get("grant_type") == "refresh_token" {
		s.Title, s.Rule = "Refresh", "OAuth 2.1, section 4.3; RFC 8707, section 2"
		s.Text = "The token ends, or has ended. The refresh token that came with it is traded for a new one, and nobody has to say yes again."
	}
	for _, name := range []string{"grant_type", "resource", "scope", "client_id"} {
		if v := form.Get(name); v != "" {
			s.Facts = append(s.Facts, fact{name, v, map[string]string{"resource": "the server that the token is to be for, and no other"}[name]})
		}
	}
	for _, name := range []string{"code", "code_verifier", "refresh_token", "client_secret", "client_assertion"} {
		if v := form.Get(name); v != "" {
			s.Facts = append(s.Facts, fact{name, mask(v), map[string]string{"code_verifier": "its hash was the code_challenge"}[name]})
		}
	}
	s.Facts = append(s.Facts, doc.facts("token_type", "", "expires_in", "seconds", "scope", "what it is good for", "error", "", "error_description", "")...)
	switch {
	case err != nil:
		s.State, s.Text = stepBad, "No answer: "+reason(err)+"."
		return s
	case status/100 != 2 || doc.text("error") != "":
		s.State = stepBad
		s.Text = "The authorization server gives no token. " + meaningOf(doc.text("error"))
		return s
	}
	s.token = doc.text("access_token")
	s.Facts = append(s.Facts, fact{"access_token", mask(s.token), "is shown to the server, and to nobody else"})
	if t := doc.text("refresh_token"); t != "" {
		s.Facts = append(s.Facts, fact{"refresh_token", mask(t), "for the next one"})
	}
	c := claimsOf(s.token)
	for _, name := range []string{"iss", "aud", "exp"} {
		if v := c.text(name); v != "" {
			if at := c.time(name); name == "exp" && !at.IsZero() {
				v = at.Format("2006-01-02 15:04:05 UTC")
			}
			s.Facts = append(s.Facts, fact{name, v, map[string]string{"iss": "in the token: who gave it", "aud": "in the token: whom it is for", "exp": "in the token: when it ends"}[name]})
		}
	}
	return s
}

// authorizationRequest is the step that a person makes.
func authorizationRequest(address string) *stepOfLogin {
	s := &stepOfLogin{
		Title: "Authorization request", State: stepWaiting, Rule: "OAuth 2.1, section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2; RFC 8252, section 7.3",
		Text: "You say yes or no at the authorization server, in a tab of its own. parley does not see what you type there.",
	}
	u, err := url.Parse(address)
	if err != nil {
		return s
	}
	q := u.Query()
	s.state = q.Get("state")
	s.Facts = []fact{{"at", u.Scheme + "://" + u.Host + u.Path, "look whether you know it before you type a password"}}
	for _, f := range [][2]string{
		{"client_id", "who wants the token"}, {"scope", "what for"}, {"resource", "for which server"}, {"redirect_uri", "where you come back to: this machine, a port that is open as long as this takes"},
		{"state", "comes back with you, or the answer is not taken"}, {"code_challenge", "the hash of a secret that only parley has (PKCE)"}, {"code_challenge_method", ""},
	} {
		if v := q.Get(f[0]); v != "" {
			s.Facts = append(s.Facts, fact{f[0], v, f[1]})
		}
	}
	return s
}

// authorizationResponse is what a person brought back.
func authorizationResponse(query url.Values, state string) *stepOfLogin {
	s := &stepOfLogin{Title: "Authorization response", State: stepDone, Rule: "OAuth 2.1, section 4.1.2; RFC 9207, section 2", Text: "You are back on this machine, with a code. It is good once, and for a minute or so."}
	if v := query.Get("state"); v != "" {
		about := "the one of our request"
		if v != state {
			about = "not the one of our request"
		}
		s.Facts = append(s.Facts, fact{"state", v, about})
	}
	if v := query.Get("iss"); v != "" {
		s.Facts = append(s.Facts, fact{"iss", v, "who answers: has to be the issuer that was asked"})
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

// meaningOf is an error code of OAuth in words.
func meaningOf(code string) string {
	switch code {
	case "access_denied":
		return "You said no, or the authorization server did for you. Nothing was given, and nothing is kept."
	case "invalid_grant":
		return "The code or the refresh token is not good any more: used before, too old, withdrawn, or given to somebody else."
	case "invalid_client":
		return "It does not know this client, or not with this secret."
	case "invalid_target":
		return "It gives no tokens for this resource."
	case "invalid_scope":
		return "It does not know one of the scopes, or does not give it."
	case "invalid_redirect_uri":
		return "It does not let anybody come back to this machine."
	case "unauthorized_client":
		return "This client may not ask in this way."
	case "":
		return ""
	}
	return "It says " + code + "."
}

// explain says why there is no token, and which rule is behind that.
func (w *loginWatch) explain(e *oauth.Error) (text, rule string) {
	w.mu.Lock()
	token, refusal := w.token, w.refusal
	w.mu.Unlock()
	switch {
	case errors.Is(e, oauth.ErrRejected):
		return rejected(claimsOf(token), w.resource, refusal)
	case errors.Is(e, oauth.ErrResource):
		return "The metadata is about another resource than the server that was called. A token for that one could be used there by whoever runs this one, so none was asked for.", "RFC 9728, section 3.3"
	case errors.Is(e, oauth.ErrIssuer):
		return "Somebody else answers than was asked: the issuer is another one. That is how a code is led astray (mix-up attack), so it was not used.", "RFC 8414, section 3.3; RFC 9207, section 2.4"
	case errors.Is(e, oauth.ErrState):
		return "The answer belongs to another request: its state is not ours. The code in it was not used.", "RFC 6749, section 10.12"
	case errors.Is(e, oauth.ErrPKCE):
		return "The authorization server does not say that it checks S256 code challenges. A client of MCP has to stop there.", "MCP, Authorization, Authorization Code Protection"
	case errors.Is(e, oauth.ErrClient):
		return "This authorization server does not know parley, and lets no program register itself. Register one there by hand, and fill in its client ID.", "MCP, Authorization, Client Registration Approaches"
	case errors.Is(e, oauth.ErrScope):
		return "The server keeps asking for a scope that the token was given in vain, or was not given.", "MCP, Authorization, Scope Challenge Handling"
	case errors.Is(e, oauth.ErrDPoP):
		return "The server takes only tokens that are bound to a key (DPoP). The page has none: what it sends is written by hand.", "RFC 9449"
	case errors.Is(e, context.DeadlineExceeded):
		return fmt.Sprintf("Nobody came back within %v.", visitTime), "RFC 8252, section 8.5"
	case errors.Is(e, context.Canceled), errors.Is(e, oauth.ErrClosed):
		return "It was given up.", ""
	case e.Code != "":
		text = orDefault(meaningOf(e.Code), e.Code)
		if e.Description != "" {
			text += " It adds: " + e.Description + "."
		}
		return text, "OAuth 2.1, sections 3.2.4 and 4.1.2.1"
	}
	return strings.TrimPrefix(e.Error(), "oauth: ") + ".", ""
}

// rejected says why a server may not take a token that its own authorization server has just given, as far as the token tells.
func rejected(c document, resource, refusal string) (text, rule string) {
	const head = "The server does not take the token that its own authorization server has just given. "
	audience, end := c.texts("aud"), c.time("exp")
	switch {
	case len(audience) > 0 && !slices.Contains(audience, resource):
		return head + "Wrong audience: the token is for " + strings.Join(audience, ", ") + ", and this server is " + resource + ".", "RFC 8707, section 2; MCP, Authorization, Access Token Privilege Restriction"
	case !end.IsZero() && !end.After(time.Now()):
		return head + "It has expired: it ended at " + end.Format("2006-01-02 15:04:05 UTC") + ". Do the clocks of both servers agree?", "RFC 6750, section 3.1; RFC 7519, section 4.1.4"
	}
	if refusal != "" {
		return head + "It says: " + refusal + ".", "RFC 6750, section 3.1"
	}
	return head + "It does not say why.", "RFC 6750, section 3.1"
}

// A document is a JSON object from the network.
type document map[string]jsontext.Value

// documentOf reads an object; what is none has no members.
func documentOf(text []byte) document {
	var d document
	if json.Unmarshal(text, &d) != nil {
		return nil
	}
	return d
}

// claimsOf reads what a token says about itself, if it is a JWT. Nobody has checked its signature.
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

// text is a member for people: a string, the items of a list, or a number.
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

// facts are members by name, each name with what it means behind it.
func (d document) facts(namesAndMeanings ...string) []fact {
	var list []fact
	for i := 0; i+1 < len(namesAndMeanings); i += 2 {
		if v := d.text(namesAndMeanings[i]); v != "" {
			list = append(list, fact{namesAndMeanings[i], v, namesAndMeanings[i+1]})
		}
	}
	return list
}

// mask is what may be seen of a secret.
func mask(secret string) string { return fmt.Sprintf("••• (%d characters)", len(secret)) }

// Bounds of what a step shows.
const (
	maxFact = 400      // of a value, in bytes
	maxSeen = 16 << 10 // of a body, in bytes
)

// clip is the beginning of a text.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return string(cutText([]byte(text), most)) + "…"
}

// secretOfOAuth reports whether a parameter or a member of that name is for the other side alone.
func secretOfOAuth(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "code", "code_verifier", "assertion", "client_assertion", "password", "device_code", "user_code", "authorization_code", "token":
		return true
	}
	return strings.HasSuffix(name, "_token") || strings.HasSuffix(name, "_secret")
}

// hiddenBody is a body without its secrets.
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
		return []byte("(" + fmt.Sprint(len(body)) + " bytes that are no JSON object)") // it may hold anything
	}
	out := []byte{'{'}
	members(body, func(name string, value jsonrpc.Raw) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, raw(name)...), ':')
		if secretOfOAuth(name) {
			value = raw(capture.Hidden)
		}
		out = append(out, value...)
	})
	return append(out, '}')
}

// hiddenField is name=value without a value that is secret.
func hiddenField(field []byte) []byte {
	name, _, found := bytes.Cut(field, []byte("="))
	if plain, err := url.QueryUnescape(string(name)); found && (err != nil || secretOfOAuth(plain)) {
		return append(append(bytes.Clone(name), '='), capture.Hidden...)
	}
	return field
}

// hiddenQuery is an address without the secrets of its query.
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

// formOf reads a form; what cannot be read is empty.
func formOf(body []byte) url.Values {
	form, _ := url.ParseQuery(string(body)) // as far as it goes
	return form
}

// documentName is what came in an answer, for the wire.
func documentName(r *http.Request, form bool) string {
	switch {
	case form:
		return "the answer of the token endpoint"
	case strings.Contains(r.URL.Path, "/.well-known/oauth-protected-resource"):
		return "protected resource metadata"
	case strings.Contains(r.URL.Path, "/.well-known/"):
		return "authorization server metadata"
	}
	return "the answer to the registration"
}
