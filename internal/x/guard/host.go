package guard

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// A name is one entry of the Host list.
type name struct {
	host string // in lower case; an IPv6 address is in brackets
	port int    // 0 means the listening port; anyPort means every port
	// Configured by the user; the listener may be behind a proxy on the scheme's default port.
	own bool
}

const anyPort = -1

var loopback = []name{{host: "localhost"}, {host: "127.0.0.1"}, {host: "[::1]"}}

// parseName parses an entry of the Host list: a host, a host and a port, or a host and :*.
func parseName(text string) (name, error) {
	bad := fmt.Errorf("guard: %q is not host, host:port or host:*", text)
	if strings.Count(text, ":") > 1 && text[0] != '[' { // an IPv6 address without brackets
		text = "[" + text + "]"
	}
	if rest, ok := strings.CutSuffix(text, ":*"); ok {
		host, port, ok := splitHost(rest)
		if !ok || port != 0 {
			return name{}, bad
		}
		return name{host: strings.ToLower(host), port: anyPort, own: true}, nil
	}
	host, port, ok := splitHost(text)
	if !ok {
		return name{}, bad
	}
	return name{host: strings.ToLower(host), port: port, own: true}, nil
}

// splitHost splits a Host header. The port is 0 if there is no port.
func splitHost(text string) (host string, port int, ok bool) {
	host = text
	colon := strings.LastIndexByte(text, ':')
	if colon > strings.LastIndexByte(text, ']') {
		host = text[:colon]
		digits := text[colon+1:]
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 || digits[0] == '0' || digits[0] == '+' {
			return "", 0, false
		}
		port = int(n)
	}
	if host == "" {
		return "", 0, false
	}
	if host[0] == '[' {
		inside, closed := strings.CutSuffix(host[1:], "]")
		return host, port, closed && net.ParseIP(inside) != nil
	}
	return host, port, !strings.ContainsAny(host, ":[]/\\@ \t%?#,;\"<>")
}

// covers reports whether the entry matches host and port as written by a client of scheme.
func (n name) covers(host string, port int, where place, scheme string) bool {
	if !strings.EqualFold(n.host, host) {
		return false
	}
	standard := defaultPort(scheme)
	if port == 0 {
		port = standard
	}
	switch n.port {
	case anyPort:
		return true
	case 0:
		return where.portless || port == where.port || n.own && port == standard
	default:
		return port == n.port
	}
}

// A place describes the listener that received a request.
type place struct {
	port     int
	portless bool // a Unix socket: web pages cannot reach it, and ports have no meaning
	known    bool
}

// placeOf returns the listening port of r's connection.
func placeOf(r *http.Request, port int) place {
	if port != 0 {
		return place{port: port, known: true}
	}
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return place{port: addr.Port, known: true}
	case *net.UnixAddr:
		return place{portless: true, known: true}
	}
	return place{}
}

func schemeOf(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func defaultPort(scheme string) int {
	switch scheme {
	case "http", "ws":
		return 80
	case "https", "wss":
		return 443
	}
	return 0
}

// An origin is the scheme, host and port of a web page (RFC 6454, section 4). The port is always
// set.
type origin struct {
	scheme string
	host   string
	port   int
}

// parseOrigin parses an origin as browsers send it: without a path or a user, and not "null".
func parseOrigin(text string) (origin, bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme == "" || rest == "" {
		return origin{}, false
	}
	host, port, ok := splitHost(rest)
	if !ok {
		return origin{}, false
	}
	scheme = strings.ToLower(scheme)
	if port == 0 {
		port = defaultPort(scheme)
	}
	return origin{scheme: scheme, host: strings.ToLower(host), port: port}, true
}
