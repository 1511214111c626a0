// Package origin keeps an HTTP client at the place it was sent to.
//
// What a client sends may be worth something to somebody else: tokens, and calls that do things. So a redirect is followed
// only if it asks for the very same request (307, 308) at the same scheme, host and port.
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

// maxRedirects is how often one request is sent on.
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

// Parse reads an absolute http or https address. No error of it shows a password.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("address: not a URL") // the error of url.Parse shows all of it
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("address %q: neither http nor https", u.Redacted())
	case u.Host == "":
		return nil, fmt.Errorf("address %q: no host", u.Redacted())
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// Client returns a copy of base that stays at its origin, and what frees its idle connections. base nil means a client
// with a transport of its own: 5 s to connect and 5 s for the TLS handshake, HTTP/2 where the server has it, no compression. A
// transport that base brings is not ours, and its idle connections stay.
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
			IdleConnTimeout:     90 * time.Second, // less than servers keep theirs, so that no call meets a closing one
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 20 * time.Second},
		}
		base, closeIdle = &http.Client{Transport: own}, own.CloseIdleConnections
	}
	c := *base
	theirs := base.CheckRedirect
	c.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		first := via[0]
		if next.Method != first.Method || !Same(next.URL, first.URL) || len(via) > maxRedirects {
			return http.ErrUseLastResponse // the redirect itself is the answer
		}
		if theirs != nil {
			return theirs(next, via)
		}
		return nil
	}
	return &c, closeIdle
}
