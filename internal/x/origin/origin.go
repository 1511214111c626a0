// Package origin restricts the redirects of an HTTP client to its origin.
//
// The requests of a client may be valuable to others: they contain tokens, and calls with effects.
// Therefore a redirect is followed only if it requests exactly the same request (307, 308) at the
// same scheme, host and port.
package origin

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxRedirects is the maximum number of redirects of one request.
const maxRedirects = 3

// Same reports whether two addresses have the same scheme, host and port (RFC 6454, section 5).
func Same(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	switch strings.ToLower(u.Scheme) {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}

// Parse parses an absolute http or https address. Its errors never contain a password.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// The error of url.Parse would contain the whole text.
		return nil, errors.New("address: not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("address %q: neither http nor https", u.Redacted())
	case u.Host == "":
		return nil, fmt.Errorf("address %q: no host", u.Redacted())
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// Client returns a copy of base that follows redirects only within its origin, and a function that
// closes its idle connections. If base is nil, the client has its own transport: 5 s to connect and
// 5 s for the TLS handshake, HTTP/2 if the server supports it, no compression. closeIdle does not
// affect a transport of base.
func Client(base *http.Client, config *tls.Config) (client *http.Client, closeIdle func()) {
	closeIdle = func() {}
	if base == nil {
		own := &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: 5 * time.Second,
			ForceAttemptHTTP2:   true,
			DisableCompression:  true,
			MaxIdleConnsPerHost: 256,
			// Shorter than that of servers, so that no call uses a connection that is closing.
			IdleConnTimeout: 90 * time.Second,
			HTTP2:           &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 20 * time.Second},
		}
		base, closeIdle = &http.Client{Transport: own}, own.CloseIdleConnections
	}
	c := *base
	theirs := base.CheckRedirect
	c.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		first := via[0]
		if next.Method != first.Method || !Same(next.URL, first.URL) || len(via) > maxRedirects {
			return http.ErrUseLastResponse // the redirect itself is the response
		}
		if theirs != nil {
			return theirs(next, via)
		}
		return nil
	}
	return &c, closeIdle
}
