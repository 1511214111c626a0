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

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

// handshakeWrite bounds the write of the server's response.
const handshakeWrite = 5 * time.Second

// IsUpgrade reports whether r requests a WebSocket, validly or not. Use it to choose between
// Upgrade and other handlers of the same path.
func IsUpgrade(r *http.Request) bool {
	return has(tokens(r.Header, "Upgrade"), "websocket")
}

// Upgrade upgrades a request to a WebSocket (RFC 6455, section 4.2). If the request is not a valid
// handshake, or not allowed, Upgrade responds with a status and a short text, and returns a
// *[HandshakeError]:
//
//   - 405 for a method other than GET
//   - 400 for HTTP/1.0 and HTTP/2, a body, a Connection without "upgrade", a key that is not 16
//     bytes in base64, and repeated headers
//   - 426 for an Upgrade without "websocket", and for a version other than 13; the response then
//     names the supported version
//   - 403 for an origin that [Options.CheckOrigin] refuses
//
// After Upgrade, w and r must not be used. The handler should pass the Transport to another
// goroutine and return: until it does, net/http retains the request and its buffers, which is more
// than the connection itself needs. The request's context ends when the handler returns.
func Upgrade(w http.ResponseWriter, r *http.Request, o *Options) (*Transport, error) {
	guard.EndAfterChunked(w, r)
	if o == nil {
		o = &Options{}
	}
	key, no := checkUpgrade(r, o)
	if no != nil {
		return nil, refuseUpgrade(w, no)
	}
	protocol, no := negotiate(r, o.Subprotocols)
	if no != nil {
		return nil, refuseUpgrade(w, no)
	}

	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// err has the reason
		_ = refuseUpgrade(w, &refusal{status: http.StatusInternalServerError, text: "this server cannot upgrade"})
		return nil, fmt.Errorf("websocket: upgrade: %w", err)
	}
	// a connection without deadlines has no bound
	_ = conn.SetDeadline(time.Now().Add(handshakeWrite))
	if _, err := conn.Write(switching(key, protocol)); err != nil {
		_ = conn.Close() // already failing with err
		return nil, fmt.Errorf("websocket: upgrade: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})

	// The buffers of net/http are dropped after copying their content: usually nothing.
	rest, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // exactly what is buffered
	return newTransport(conn, false, o, protocol, rest), nil
}

// switching returns the 101 response. It is assembled here since net/http has released the
// connection.
func switching(key, protocol string) []byte {
	b := []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ")
	b = append(b, acceptKey(key)...)
	if protocol != "" {
		b = append(append(b, "\r\nSec-WebSocket-Protocol: "...), protocol...)
	}
	return append(b, "\r\n\r\n"...)
}

// A refusal is the response to a handshake that is refused.
type refusal struct {
	status int
	text   string
	header [][2]string
}

func refuseUpgrade(w http.ResponseWriter, no *refusal) error {
	for _, h := range no.header {
		w.Header().Add(h[0], h[1]) // in addition to an existing "Connection: close"
	}
	http.Error(w, no.text, no.status)
	return &HandshakeError{Status: no.status, Reason: no.text}
}

func badRequest(text string) *refusal { return &refusal{status: http.StatusBadRequest, text: text} }

// checkUpgrade validates r and returns the client's key.
func checkUpgrade(r *http.Request, o *Options) (key string, no *refusal) {
	versions, keys := r.Header.Values("Sec-WebSocket-Version"), r.Header.Values("Sec-WebSocket-Key")
	switch {
	case r.Method != http.MethodGet:
		return "", &refusal{http.StatusMethodNotAllowed, "WebSocket needs GET", [][2]string{{"Allow", "GET"}}}
	case r.ProtoMajor != 1 || r.ProtoMinor < 1:
		return "", badRequest("WebSocket needs HTTP/1.1")
	case !IsUpgrade(r):
		return "", &refusal{http.StatusUpgradeRequired, "WebSocket upgrade required", upgradeHeader}
	case !has(tokens(r.Header, "Connection"), "upgrade"):
		return "", badRequest(`the Connection header has no "upgrade"`)
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return "", badRequest("a handshake must not have a body")
	case len(versions) > 1 || len(keys) > 1:
		return "", badRequest("duplicate Sec-WebSocket header")
	case len(versions) == 0 || versions[0] != "13":
		return "", &refusal{http.StatusUpgradeRequired, "the WebSocket version must be 13",
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

// upgradeHeader is what a 426 must contain (RFC 9110, section 15.5.22).
var upgradeHeader = [][2]string{{"Upgrade", "websocket"}, {"Connection", "Upgrade"}}

func isKey(s string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && len(raw) == 16
}

// negotiate returns the first of the client's subprotocols that is among ours; the client's order
// is its preference (RFC 6455, section 4.1).
func negotiate(r *http.Request, ours []string) (string, *refusal) {
	wanted := tokens(r.Header, "Sec-WebSocket-Protocol")
	for i, p := range wanted {
		if !httptoken.Valid(p) || slices.Contains(wanted[:i], p) {
			return "", badRequest("Sec-WebSocket-Protocol must be a list of different names")
		}
	}
	for _, p := range wanted {
		if slices.Contains(ours, p) {
			return p, nil
		}
	}
	return "", nil
}

// sameOrigin accepts a request that does not come from a web page, or from a page of the same host
// and port.
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
