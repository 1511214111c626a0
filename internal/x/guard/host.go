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
	host string // lower case; an IPv6 address in brackets
	port int    // 0: the listening port; anyPort: each
	own  bool   // was configured, and may stand behind a proxy that listens on the scheme's own port
}

const anyPort = -1

var loopback = []name{{host: "localhost"}, {host: "127.0.0.1"}, {host: "[::1]"}}

// ParseName reads an entry of the Host list: a host, a host and a port, or a host and :*.
func parseName(text string) (name, error) {
	bad := fmt.Errorf("guard: %q is no host, host:port or host:*", text)
	if strings.Count(text, ":") > 1 && text[0] != '[' { // a bare IPv6 address
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

// splitHost splits a Host header. The port is 0 when there is none.
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

// covers reports whether the entry stands for host and port as a client of scheme writes them.
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

// place is where a request came in.
type place struct {
	port     int
	portless bool // a Unix socket: no web page can reach it, and a port means nothing there
	known    bool
}

// placeOf finds the listening port of the connection that r came on.
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

// An origin is scheme, host and port of a web page (RFC 6454, section 4), with the port always there.
type origin struct {
	scheme string
	host   string
	port   int
}

// parseOrigin reads what a browser sends, and nothing else: no path, no user, no "null".
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
