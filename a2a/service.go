package a2a

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Service are the parameters that come beside a request, not in it (A2A 1.0.1, section 3.2.6): headers over HTTP.
type Service struct {
	Version    string   // the value of [HeaderVersion] as it came; "" for none
	Extensions []string // URIs of extensions that the caller wants to use
	LastEvent  string   // the value of [HeaderLastEvent]

	// Principal tells who calls, as a text that differs for different callers. Tasks belong to it, and nobody else sees them. Empty is
	// one caller too: whoever did not say.
	Principal string
}

type serviceKey struct{}

// WithService returns a context that carries what a carrier knows about a request.
func WithService(ctx context.Context, s Service) context.Context {
	return context.WithValue(ctx, serviceKey{}, &s)
}

// ServiceOf returns what [WithService] has put there; zero if nothing.
func ServiceOf(ctx context.Context) Service {
	if s, ok := ctx.Value(serviceKey{}).(*Service); ok {
		return *s
	}
	return Service{}
}

type principalKey struct{}

// WithPrincipal returns a context for [Server.Serve] that says who is at the other end; see [Service].
func WithPrincipal(ctx context.Context, principal string) context.Context {
	return context.WithValue(ctx, principalKey{}, principal)
}

func principalOf(ctx context.Context) string {
	principal, _ := ctx.Value(principalKey{}).(string)
	return principal
}

// ParseExtensions reads the values of [HeaderExtensions]: URIs, with commas between them.
func ParseExtensions(values []string) []string {
	var out []string
	for _, value := range values {
		for uri := range strings.SplitSeq(value, ",") {
			if uri = strings.TrimSpace(uri); uri != "" && !slices.Contains(out, uri) {
				out = append(out, uri)
			}
		}
	}
	return out
}

// service finds the parameters beside a request: those of the carrier, or in [BindingStream] those in params._meta.
func (s *Server) service(ctx context.Context, req *jsonrpc.Request) Service {
	if beside, ok := ctx.Value(serviceKey{}).(*Service); ok {
		return *beside
	}
	out := Service{Principal: principalOf(ctx)}
	if s.opts.Principal != nil {
		out.Principal = s.opts.Principal(ctx)
	}
	var meta map[string]jsonrpc.Raw
	if raw := member(req.Params, "_meta"); raw == nil || raw.Decode(&meta) != nil {
		return out
	}
	for name, raw := range meta {
		var value string
		if raw.Decode(&value) != nil {
			continue
		}
		switch { // names are case-insensitive, as in headers
		case strings.EqualFold(name, HeaderVersion):
			out.Version = value
		case strings.EqualFold(name, HeaderExtensions):
			out.Extensions = ParseExtensions([]string{value})
		case strings.EqualFold(name, HeaderLastEvent):
			out.LastEvent = value
		}
	}
	return out
}

// meta is params._meta of a call in [BindingStream].
func (s Service) meta() map[string]string {
	out := map[string]string{HeaderVersion: s.Version}
	if len(s.Extensions) > 0 {
		out[HeaderExtensions] = strings.Join(s.Extensions, ",")
	}
	if s.LastEvent != "" {
		out[HeaderLastEvent] = s.LastEvent
	}
	return out
}

// gate decides whether a method may be called in the version that the caller named. The method tells the version by itself; the name is
// held against it. A caller that named none and uses a name of v1.0 is served: many forget the header.
func (s *Server) gate(method string, named string) error {
	is := VersionOf(method)
	if strings.TrimSpace(named) == "" && is == V10 {
		return nil
	}
	v := ParseVersion(named)
	switch {
	case v == 0 || !slices.Contains(s.opts.Versions, v):
		return Fault(ErrVersionNotSupported, "This protocol version is not supported; supported: "+s.spoken(), "supported", s.spoken())
	case v != is:
		return jsonrpc.ErrMethodNotFound
	}
	return nil
}

// spoken lists the versions of the server.
func (s *Server) spoken() string {
	var names []string
	for _, v := range s.opts.Versions {
		names = append(names, v.String())
	}
	return strings.Join(names, ", ")
}

// Activated returns which of the extensions that a caller asked for are in use: those that the card names.
func (s *Server) Activated(asked []string) []string {
	var out []string
	for _, x := range s.Card().Capabilities.Extensions {
		if slices.Contains(asked, x.URI) {
			out = append(out, x.URI)
		}
	}
	return out
}

// needsExtensions refuses a caller that does not know what the card requires.
func (s *Server) needsExtensions(asked []string) error {
	for _, x := range s.Card().Capabilities.Extensions {
		if x.Required && !slices.Contains(asked, x.URI) {
			return Fault(ErrExtensionRequired, "", "extension", x.URI)
		}
	}
	return nil
}

// newID makes a random UUID (RFC 9562, version 4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
