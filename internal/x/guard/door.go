package guard

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Options say who may come in. The zero value lets in local programs that name the listener by a loopback name, and its own pages.
type Options struct {
	// Hosts are further names that the Host header may have: "host" (with the listening port, or without one behind a
	// proxy on the standard port), "host:port", or "host:*". localhost, 127.0.0.1 and [::1] with the listening port always pass.
	Hosts []string

	// Origins are further web pages that may talk to us, such as "https://app.example:8443". The listener's own origins
	// (http and https with each name of the Host list) always pass, "null" never does.
	Origins []string

	// Tokens are the digests of the bearer tokens that open the door, any one of them. Empty: none is asked for.
	Tokens []Digest

	// Challenge is added to "Bearer" in WWW-Authenticate, such as `resource_metadata="https://…"`.
	Challenge string

	// Pages tells which GETs and HEADs are for static pages: they need no token, and a link on another site may open them.
	// It must say no to whatever runs a handler. Nil: none.
	Pages func(*http.Request) bool

	// MaxHeader bounds names and values of the request's headers, in bytes. Zero means 32 KiB; more is 431.
	MaxHeader int

	// Port is the port that clients name, for when it is not the connection's own. Zero: that one.
	Port int

	// Refused, if not nil, is told what was turned away. It runs on the request's goroutine.
	Refused func(*http.Request, *Refusal)
}

// A Door decides who may come in. It is safe for concurrent use.
type Door struct {
	o       Options
	names   []name
	origins []origin
	strikes strikes
}

// New makes a Door, and complains about entries that would never match. Nil is the zero Options.
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
			continue // is there, and no proxy stands before a loopback name
		}
		d.names = append(d.names, n)
	}
	for _, text := range d.o.Origins {
		page, ok := parseOrigin(text)
		if !ok {
			return nil, fmt.Errorf("guard: %q is no origin: scheme://host or scheme://host:port", text)
		}
		d.origins = append(d.origins, page)
	}
	return d, nil
}

// Wrap puts the door before next.
func (d *Door) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := d.Check(r); f != nil {
			if d.o.Refused != nil {
				d.o.Refused(r, f)
			}
			f.Write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var (
	noHost     = &Refusal{Status: http.StatusBadRequest, Text: "one Host header is needed", Close: true}
	badHost    = refuse(http.StatusForbidden, "this Host is not served here")
	badOrigin  = refuse(http.StatusForbidden, "this Origin may not call here")
	crossSite  = refuse(http.StatusForbidden, "other web sites may not call here")
	preflight  = refuse(http.StatusForbidden, "cross-origin requests are not taken here")
	longHeader = &Refusal{Status: http.StatusRequestHeaderFieldsTooLarge, Text: "the request's headers are too long", Close: true}
)

// Check returns why r may not come in, or nil. The order is part of the contract: Host before all else.
func (d *Door) Check(r *http.Request) *Refusal {
	where := placeOf(r, d.o.Port)
	if f := d.checkHost(r, where); f != nil {
		return f
	}
	page := d.o.Pages != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) && d.o.Pages(r)
	if f := d.checkOrigin(r, where, page); f != nil {
		return f
	}
	if headerBytes(r.Header) > d.o.MaxHeader {
		return longHeader
	}
	if page || len(d.o.Tokens) == 0 {
		return nil
	}
	return d.checkToken(r)
}

func (d *Door) checkHost(r *http.Request, where place) *Refusal {
	if r.Host == "" {
		return noHost
	}
	for _, also := range r.Header["Host"] { // HTTP/2 has it beside :authority, and they must agree (RFC 9113, section 8.3.1)
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

// checkOrigin turns away web pages of other sites. A browser sends Origin with everything but plain GETs, and Sec-Fetch-Site with all.
func (d *Door) checkOrigin(r *http.Request, where place, page bool) *Refusal {
	switch origins := r.Header["Origin"]; len(origins) {
	case 0:
	case 1:
		from, ok := parseOrigin(origins[0])
		if !ok {
			return badOrigin
		}
		if slices.Contains(d.origins, from) {
			return d.checkPreflight(r) // configured: other sites of this name are wanted
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

// checkPreflight says no to CORS (Fetch standard, section 3.2.2): own pages never ask.
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
