package websocket

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// handshakeWrite bounds the write of the server's answer.
const handshakeWrite = 5 * time.Second

// IsUpgrade reports whether r asks for WebSocket, rightly or not: what decides between Upgrade and other handlers of the
// same path.
func IsUpgrade(r *http.Request) bool {
	return has(tokens(r.Header, "Upgrade"), "websocket")
}

// Upgrade makes a WebSocket of a request (RFC 6455, section 4.2). If the request is none, or not allowed, it answers
// with a status and a short text, and returns a *[HandshakeError]:
//
//   - 405 for another method than GET
//   - 400 for HTTP/1.0 and HTTP/2, a body, a Connection without "upgrade", a key that is not 16 bytes in base64, and
//     headers that stand twice
//   - 426 for an Upgrade without "websocket", and for another version than 13, which is then named
//   - 403 for an origin that [Options.CheckOrigin] refuses
//
// After Upgrade nothing may be done with w and r. The handler should hand the Transport to another goroutine and
// return: while it has not, net/http keeps the request and its buffers, more than the connection itself needs. The
// request's context ends when the handler returns.
func Upgrade(w http.ResponseWriter, r *http.Request, o *Options) (*Transport, error) {
	if o == nil {
		o = &Options{}
	}
	key, no := check(r, o)
	if no != nil {
		return nil, refuse(w, no)
	}
	protocol, no := negotiate(r, o.Subprotocols)
	if no != nil {
		return nil, refuse(w, no)
	}

	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = refuse(w, &refusal{status: http.StatusInternalServerError, text: "this server cannot upgrade"}) // err says why
		return nil, fmt.Errorf("websocket: upgrade: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(handshakeWrite)) // a connection without deadlines has no bound
	if _, err := conn.Write(switching(key, protocol)); err != nil {
		_ = conn.Close() // already failing with err
		return nil, fmt.Errorf("websocket: upgrade: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})

	// The buffers of net/http are dropped with what is in them copied: usually nothing.
	rest, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // exactly what is there
	return newTransport(conn, false, o, protocol, rest), nil
}

// switching is the server's yes. It is written by hand since net/http has let go of the connection.
func switching(key, protocol string) []byte {
	b := []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ")
	b = append(b, acceptKey(key)...)
	if protocol != "" {
		b = append(append(b, "\r\nSec-WebSocket-Protocol: "...), protocol...)
	}
	return append(b, "\r\n\r\n"...)
}

// A refusal is the server's no.
type refusal struct {
	status int
	text   string
	header [][2]string
}

func refuse(w http.ResponseWriter, no *refusal) error {
	for _, h := range no.header {
		w.Header().Set(h[0], h[1])
	}
	http.Error(w, no.text, no.status)
	return &HandshakeError{Status: no.status, Reason: no.text}
}

func badRequest(text string) *refusal { return &refusal{status: http.StatusBadRequest, text: text} }

// check holds r against the rules and returns the client's key.
func check(r *http.Request, o *Options) (key string, no *refusal) {
	versions, keys := r.Header.Values("Sec-WebSocket-Version"), r.Header.Values("Sec-WebSocket-Key")
	switch {
	case r.Method != http.MethodGet:
		return "", &refusal{http.StatusMethodNotAllowed, "WebSocket needs GET", [][2]string{{"Allow", "GET"}}}
	case r.ProtoMajor != 1 || r.ProtoMinor < 1:
		return "", badRequest("WebSocket needs HTTP/1.1")
	case !IsUpgrade(r):
		return "", &refusal{http.StatusUpgradeRequired, "this is a WebSocket", upgradeHeader}
	case !has(tokens(r.Header, "Connection"), "upgrade"):
		return "", badRequest(`the Connection header has no "upgrade"`)
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return "", badRequest("a handshake has no body")
	case len(versions) > 1 || len(keys) > 1:
		return "", badRequest("a Sec-WebSocket header stands twice")
	case len(versions) == 0 || versions[0] != "13":
		return "", &refusal{http.StatusUpgradeRequired, "the WebSocket version is 13",
			append([][2]string{{"Sec-WebSocket-Version", "13"}}, upgradeHeader...)}
	case len(keys) == 0 || !isKey(keys[0]):
		return "", badRequest("the Sec-WebSocket-Key is not 16 bytes in base64")
	}
	allowed := sameOrigin
	if o.CheckOrigin != nil {
		allowed = o.CheckOrigin
	}
	if !allowed(r) {
		return "", &refusal{status: http.StatusForbidden, text: "this origin is not allowed"}
	}
	return keys[0], nil
}

// upgradeHeader is what a 426 must say (RFC 9110, section 15.5.22).
var upgradeHeader = [][2]string{{"Upgrade", "websocket"}, {"Connection", "Upgrade"}}

func isKey(s string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && len(raw) == 16
}

// negotiate picks the first of the client's subprotocols that is among ours; the order is the client's wish
// (RFC 6455, section 4.1).
func negotiate(r *http.Request, ours []string) (string, *refusal) {
	wanted := tokens(r.Header, "Sec-WebSocket-Protocol")
	for i, p := range wanted {
		if !isToken(p) || slices.Contains(wanted[:i], p) {
			return "", badRequest("the Sec-WebSocket-Protocol is no list of different names")
		}
	}
	for _, p := range wanted {
		if slices.Contains(ours, p) {
			return p, nil
		}
	}
	return "", nil
}

// sameOrigin lets a request pass that does not come from a page, or from one of this very host and port.
func sameOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	if err != nil || len(origins) > 1 || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	var port string
	switch u.Scheme {
	case "http":
		port = "80"
	case "https":
		port = "443"
	default:
		return false
	}
	return strings.EqualFold(withPort(u.Host, port), withPort(r.Host, port))
}

// withPort adds the port to a host that has none.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}
