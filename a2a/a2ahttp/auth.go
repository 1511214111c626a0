package a2ahttp

import (
	"crypto/x509"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Credential is what a caller presented for one security scheme of the card. Either Value or
// Certificates is set.
type Credential struct {
	Scheme string   // name of the scheme in the card
	Scopes []string // from the card's requirement

	// the key, the token, or the text after the scheme in Authorization
	Value        string
	Certificates []*x509.Certificate // from the TLS connection, which has verified them
}

// A denial is the reason why a caller is not authorized.
type denial struct {
	status    int
	challenge string
	err       *jsonrpc.Error
}

func (d *denial) write(w http.ResponseWriter, in func(*jsonrpc.Error) (contentType string, body []byte)) {
	if d.challenge != "" {
		w.Header().Set("WWW-Authenticate", d.challenge)
	}
	contentType, body := in(d.err)
	writeBody(w, d.status, contentType, body)
}

// admit authenticates the caller as the card requires (A2A 1.0.1, section 7): one of its
// requirements must be met, with all schemes in it.
func (s *Server) admit(r *http.Request) (principal string, no *denial) {
	card := s.A2A.Card()
	if len(card.SecurityRequirements) == 0 {
		if s.Authenticate == nil {
			return "", nil
		}
		return s.judge(r, nil, card)
	}
	best := &denial{http.StatusUnauthorized, challenge(card, ""), a2a.Fault(a2a.ErrUnauthenticated, "")}
	if s.Authenticate == nil {
		return "", best
	}
	for _, requirement := range card.SecurityRequirements {
		shown, ok := collect(r, card, requirement)
		if !ok {
			continue
		}
		principal, no := s.judge(r, shown, card)
		if no == nil {
			return principal, nil
		}
		best = no
	}
	return "", best
}

// judge calls Authenticate.
func (s *Server) judge(r *http.Request, shown []Credential, card *a2a.AgentCard) (principal string, no *denial) {
	principal, err := s.Authenticate(r, shown)
	switch {
	case err == nil:
		return principal, nil
	case errors.Is(err, a2a.ErrForbidden):
		return "", &denial{http.StatusForbidden, challenge(card, "insufficient_scope"), a2a.Fault(a2a.ErrForbidden, "")}
	}
	return "", &denial{http.StatusUnauthorized, challenge(card, "invalid_token"), a2a.Fault(a2a.ErrUnauthenticated, "")}
}

// collect returns the credentials for each scheme of a requirement; ok is false if one is missing.
func collect(r *http.Request, card *a2a.AgentCard, requirement a2a.SecurityRequirement) (shown []Credential, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(requirement.Schemes)) {
		scheme, known := card.SecuritySchemes[name]
		if !known {
			return nil, false // an invalid card rejects all callers
		}
		c := Credential{Scheme: name, Scopes: requirement.Schemes[name].List}
		switch {
		case scheme.APIKey != nil:
			c.Value = apiKey(r, scheme.APIKey)
		case scheme.HTTP != nil:
			c.Value = authorization(r, scheme.HTTP.Scheme)
		case scheme.OAuth2 != nil, scheme.OpenID != nil:
			c.Value = authorization(r, "Bearer")
		case scheme.MutualTLS != nil && r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
			c.Certificates = r.TLS.PeerCertificates
		}
		if c.Value == "" && c.Certificates == nil {
			return nil, false
		}
		shown = append(shown, c)
	}
	return shown, true
}

func apiKey(r *http.Request, scheme *a2a.APIKeyScheme) string {
	switch strings.ToLower(scheme.Location) {
	case "header":
		return r.Header.Get(scheme.Name)
	case "query":
		return r.URL.Query().Get(scheme.Name)
	case "cookie":
		if cookie, err := r.Cookie(scheme.Name); err == nil {
			return cookie.Value
		}
	}
	return ""
}

// authorization returns the text after the scheme in the only Authorization header.
func authorization(r *http.Request, scheme string) string {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	named, value, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(named, scheme) {
		return ""
	}
	return strings.TrimSpace(value)
}

// challenge returns the WWW-Authenticate header with the accepted schemes (RFC 9110, section
// 11.6.1). A 401 must have one.
func challenge(card *a2a.AgentCard, problem string) string {
	var out []string
	for _, requirement := range card.SecurityRequirements {
		for _, name := range slices.Sorted(maps.Keys(requirement.Schemes)) {
			one := "Bearer"
			switch scheme := card.SecuritySchemes[name]; {
			case scheme.HTTP != nil:
				one = scheme.HTTP.Scheme
			case scheme.APIKey != nil:
				one = "ApiKey"
			case scheme.MutualTLS != nil:
				one = "Mutual"
			}
			if one == "Bearer" && problem != "" {
				one += ` error="` + problem + `"`
			}
			if !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	if len(out) == 0 {
		out = append(out, "Bearer")
	}
	return strings.Join(out, ", ")
}

// refusal converts a denial to the refusal of a WebSocket handshake.
func (d *denial) refusal() *guard.Refusal {
	f := &guard.Refusal{Status: d.status, Text: "authentication is required"}
	if d.challenge != "" {
		f.Name, f.Value = "WWW-Authenticate", d.challenge
	}
	return f
}
