package authserver

import (
	"context"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// page asks a user for consent. The client sent the values in it; they are escaped as text.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Consent</title>
<body><h1>Allow {{.Client}}?</h1><p>It wants to use {{.Resource}} in your name: {{.Scope}}.</p>
<form action="authorize">{{range $name, $values := .Query}}{{range $values}}<input type="hidden" name="{{$name}}" value="{{.}}">{{end}}{{end}}
<button name="consent" value="yes">Allow</button> <button name="consent" value="no">Deny</button></form></body></html>
`))

// consent writes the page.
func consent(w http.ResponseWriter, c *Client, q url.Values) {
	name := c.Name
	if name == "" {
		name = c.ID
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// An error means that the user has gone.
	_ = page.Execute(w, map[string]any{"Client": name, "Resource": q.Get("resource"), "Scope": q.Get("scope"), "Query": q})
}

// authorize handles the authorization endpoint. The user is always present, and consents or denies
// at once unless Options.Ask is set.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c, why := s.client(r.Context(), q.Get("client_id"))
	redirect, err := url.Parse(q.Get("redirect_uri"))
	if why != "" || err != nil || !slices.ContainsFunc(c.Redirects, func(known string) bool { return sameRedirect(known, q.Get("redirect_uri")) }) {
		http.Error(w, "unknown client or redirect_uri "+why, http.StatusBadRequest)
		return
	}
	if s.opts.Ask && !q.Has("consent") {
		consent(w, c, q)
		return
	}
	back := redirect.Query()
	back.Set("state", q.Get("state"))
	switch s.opts.Iss {
	case IssRight:
		back.Set("iss", s.Issuer)
	case IssSlash:
		back.Set("iss", s.Issuer+"/")
	case IssWrong:
		back.Set("iss", "https://attacker.example")
	case IssAbsent:
	}
	switch {
	case s.opts.Deny, q.Get("consent") == "no":
		back.Set("error", "access_denied")
		back.Set("error_description", "the user denied access")
	case q.Get("response_type") != "code" || q.Get("code_challenge") == "" || q.Get("code_challenge_method") != "S256":
		back.Set("error", "invalid_request")
	default:
		scopes := strings.Fields(q.Get("scope"))
		if s.opts.Scopes != nil {
			scopes = slices.DeleteFunc(scopes, func(name string) bool { return !slices.Contains(s.opts.Scopes, name) })
		}
		k := text()
		s.mu.Lock()
		s.codes[k] = &code{
			grant:     grant{client: c.ID, subject: "alice", resource: q.Get("resource"), scopes: scopes},
			challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), until: time.Now().Add(time.Minute), dpop: q.Get("dpop_jkt"),
		}
		s.mu.Unlock()
		back.Set("code", k)
	}
	redirect.RawQuery = back.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusFound)
}

// sameRedirect compares exactly, except for the port of loopback addresses (RFC 8252, section 7.3).
func sameRedirect(known, asked string) bool {
	a, err1 := url.Parse(known)
	b, err2 := url.Parse(asked)
	if err1 != nil || err2 != nil {
		return false
	}
	if a.Hostname() == "127.0.0.1" && b.Hostname() == "127.0.0.1" && a.Scheme == "http" {
		a.Host, b.Host = "127.0.0.1", "127.0.0.1"
	}
	return a.String() == b.String()
}

// client returns a client by its ID, which may be the URL of its metadata document.
func (s *Server) client(ctx context.Context, id string) (*Client, string) {
	s.mu.Lock()
	c := s.clients[id]
	s.mu.Unlock()
	if c != nil {
		return c, ""
	}
	if !s.opts.Documents || !strings.HasPrefix(id, "http") {
		return nil, "no such client"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return nil, err.Error()
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err.Error()
	}
	defer resp.Body.Close()
	var doc struct {
		ID        string   `json:"client_id"`
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&doc) != nil || doc.ID != id {
		return nil, "the document is not about itself"
	}
	return &Client{ID: id, Method: "none", Redirects: doc.Redirects}, ""
}
