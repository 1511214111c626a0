package guard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Options configure the access checks. The zero value admits local programs that use a loopback
// name in the Host header, and the listener's own pages.
type Options struct {
	// Hosts lists additional names that the Host header may have: "host" (with the listening port,
	// or without a port behind a proxy on the standard port), "host:port", or "host:*". localhost,
	// 127.0.0.1 and [::1] with the listening port are always accepted.
	Hosts []string

	// Origins lists additional web origins that may send requests, such as
	// "https://app.example:8443". The listener's own origins (http and https with each accepted
	// host) are always accepted, "null" never is.
	Origins []string

	// Tokens are the digests of the accepted bearer tokens. If it is empty and Verify is nil, no
	// token is required.
	Tokens []Digest

	// Verify, if not nil, verifies tokens that are not in Tokens. It returns the context of the
	// request, derived from that of r, or the reason to reject the token. The handler's request has
	// no Authorization header then. Verify runs on the request's goroutine, and must end by itself.
	Verify func(r *http.Request, token string) (context.Context, *Rejection)

	// Challenge is added to "Bearer" in WWW-Authenticate, such as `resource_metadata="https://…"`.
	Challenge string

	// Pages reports whether a GET or HEAD request is for a static page. Such requests need no
	// token, and a link on another site may open the page. Pages must return false for every
	// request that runs a handler. If nil, no request is for a page.
	Pages func(*http.Request) bool

	// MaxHeader is the maximum total length of the names and values of the request's headers, in
	// bytes. Zero means 32 KiB. A longer header gets 431.
	MaxHeader int

	// Port is the port that clients use, if it differs from the connection's own. Zero means the
	// connection's port.
	Port int

	// Refused, if not nil, is called for each rejected request. It runs on the request's goroutine.
	Refused func(*http.Request, *Refusal)
}

// A Door checks whether requests are admitted. It is safe for concurrent use.
type Door struct {
	o       Options
	names   []name
	origins []origin
	strikes Strikes
}

// New creates a Door. It returns an error for entries that can never match. A nil o is the zero
// Options.
func New(o *Options) (*Door, error) {
	d := &Door{}
	if o != nil {
		d.o = *o
	}
	if d.o.MaxHeader == 0 {
		d.o.MaxHeader = 32 << 10
	}
	d.o.Tokens = slices.Clone(d.o.Tokens)
	d.names = slices.Clone(loopback)
	for _, text := range d.o.Hosts {
		n, err := parseName(text)
		if err != nil {
			return nil, err
		}
		if n.port == 0 && slices.ContainsFunc(loopback, func(own name) bool { return own.host == n.host }) {
			continue // already present, and proxies do not use loopback names
		}
		d.names = append(d.names, n)
	}
	for _, text := range d.o.Origins {
		page, ok := parseOrigin(text)
		if !ok {
			return nil, fmt.Errorf("guard: %q is not an origin: use scheme://host or scheme://host:port", text)
		}
		d.origins = append(d.origins, page)
	}
	return d, nil
}

// Wrap returns a handler that runs the access checks before next.
func (d *Door) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		EndAfterChunked(w, r)
		if r = d.enter(w, r); r != nil {
			next.ServeHTTP(w, r)
		}
	})
}

var (
	noHost     = &Refusal{Status: http.StatusBadRequest, Text: "exactly one Host header is required", Close: true}
	badHost    = refuse(http.StatusForbidden, "this Host is not allowed")
	badOrigin  = refuse(http.StatusForbidden, "this Origin is not allowed")
	crossSite  = refuse(http.StatusForbidden, "requests from other web sites are not allowed")
	preflight  = refuse(http.StatusForbidden, "cross-origin requests are not allowed")
	longHeader = &Refusal{Status: http.StatusRequestHeaderFieldsTooLarge, Text: "the request's headers are too long", Close: true}
)

// Check returns the reason to reject r, or nil. The order is part of the contract: the Host header
// is checked first.
func (d *Door) Check(r *http.Request) *Refusal {
	_, f := d.check(r)
	return f
}

// check is Check, and returns the request for the handler: with the context of Verify.
func (d *Door) check(r *http.Request) (*http.Request, *Refusal) {
	where := placeOf(r, d.o.Port)
	if f := d.checkHost(r, where); f != nil {
		return nil, f
	}
	page := d.o.Pages != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) && d.o.Pages(r)
	if f := d.checkOrigin(r, where, page); f != nil {
		return nil, f
	}
	if headerBytes(r.Header) > d.o.MaxHeader {
		return nil, longHeader
	}
	if page || len(d.o.Tokens) == 0 && d.o.Verify == nil {
		return r, nil
	}
	return d.checkToken(r)
}

func (d *Door) checkHost(r *http.Request, where place) *Refusal {
	if r.Host == "" {
		return noHost
	}
	// HTTP/2 may have it beside :authority, and both must agree (RFC 9113, section 8.3.1)
	for _, also := range r.Header["Host"] {
		if also != r.Host {
			return noHost
		}
	}
	host, port, ok := splitHost(r.Host)
	if !ok || !where.known {
		return badHost
	}
	if !d.covers(host, port, where, schemeOf(r)) {
		return badHost
	}
	return nil
}

func (d *Door) covers(host string, port int, where place, scheme string) bool {
	for _, n := range d.names {
		if n.covers(host, port, where, scheme) {
			return true
		}
	}
	return false
}

// checkOrigin rejects requests of web pages of other sites. Browsers send Origin with everything
// except plain GETs, and Sec-Fetch-Site with all requests.
func (d *Door) checkOrigin(r *http.Request, where place, page bool) *Refusal {
	switch origins := r.Header["Origin"]; len(origins) {
	case 0:
	case 1:
		from, ok := parseOrigin(origins[0])
		if !ok {
			return badOrigin
		}
		if slices.Contains(d.origins, from) {
			return d.checkPreflight(r) // requests of other sites to this name are configured
		}
		if from.scheme != "http" && from.scheme != "https" || !d.covers(from.host, from.port, where, from.scheme) {
			return badOrigin
		}
	default:
		return badOrigin
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		switch site {
		case "same-origin", "none":
		default:
			if !page || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" {
				return crossSite
			}
		}
	}
	return d.checkPreflight(r)
}

// checkPreflight rejects CORS preflight requests (Fetch standard, section 3.2.2): the listener's
// own pages never send them.
func (d *Door) checkPreflight(r *http.Request) *Refusal {
	if r.Method == http.MethodOptions && len(r.Header["Access-Control-Request-Method"]) > 0 {
		return preflight
	}
	return nil
}

func headerBytes(h http.Header) int {
	n := 0
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(value) + 4 // ": " and the line end
		}
	}
	return n
}

func seconds(n int) string { return strconv.Itoa(n) }
