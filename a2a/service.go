package a2a

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Service holds the parameters that are sent beside a request, not in it (A2A 1.0.1, section
// 3.2.6): headers over HTTP.
type Service struct {
	Version    string   // raw value of [HeaderVersion]; "" if missing
	Extensions []string // URIs of extensions that the caller requests
	LastEvent  string   // value of [HeaderLastEvent]

	// Principal identifies the caller. It differs for different callers. Each task belongs to a
	// principal and is invisible to others. All callers without an identity share the empty
	// principal.
	Principal string
}

type serviceKey struct{}

// WithService returns a context with the service parameters that a transport has read from a
// request.
func WithService(ctx context.Context, s Service) context.Context {
	return context.WithValue(ctx, serviceKey{}, &s)
}

// ServiceOf returns the value set by [WithService], or the zero value.
func ServiceOf(ctx context.Context) Service {
	if s, ok := ctx.Value(serviceKey{}).(*Service); ok {
		return *s
	}
	return Service{}
}

type principalKey struct{}

// WithPrincipal returns a context for [Server.Serve] with the identity of the peer; see [Service].
func WithPrincipal(ctx context.Context, principal string) context.Context {
	return context.WithValue(ctx, principalKey{}, principal)
}

func principalOf(ctx context.Context) string {
	principal, _ := ctx.Value(principalKey{}).(string)
	return principal
}

// ParseExtensions parses the values of [HeaderExtensions]: URIs separated by commas.
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

// service returns the service parameters of a request: those of the transport, or in
// [BindingStream] those in params._meta.
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

// meta returns params._meta of a call in [BindingStream].
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

// gate returns an error if a method must not be called in the version that the caller named. The
// method determines its version, which must match the named version. A caller that names no version
// and uses a method of v1.0 is accepted, because many omit the header.
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

// spoken returns the names of the versions that the server supports.
func (s *Server) spoken() string {
	var names []string
	for _, v := range s.opts.Versions {
		names = append(names, v.String())
	}
	return strings.Join(names, ", ")
}

// Activated returns which of the requested extensions are in use: those that the card lists.
func (s *Server) Activated(asked []string) []string {
	var out []string
	for _, x := range s.Card().Capabilities.Extensions {
		if slices.Contains(asked, x.URI) {
			out = append(out, x.URI)
		}
	}
	return out
}

// needsExtensions returns an error if the caller does not request an extension that the card
// requires.
func (s *Server) needsExtensions(asked []string) error {
	for _, x := range s.Card().Capabilities.Extensions {
		if x.Required && !slices.Contains(asked, x.URI) {
			return Fault(ErrExtensionRequired, "", "extension", x.URI)
		}
	}
	return nil
}

// newID returns a random UUID (RFC 9562, version 4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
