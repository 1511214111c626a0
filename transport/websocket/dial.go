package websocket

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

const (
	maxResponse = 64 << 10 // header of the server's response
	maxBody     = 1 << 10  // of a refusal, stored in the error
	maxInterim  = 5        // responses such as 103 before the final one
)

// Dial opens a WebSocket to a ws or wss address. Name lookup, connection, TLS and handshake
// together take at most [Options.DialTimeout], and end with ctx. After Dial returns, ctx has no
// effect on the Transport.
//
// A response other than 101, and one that breaks the rules, is a *[HandshakeError]. Redirects are
// not followed: a token in [Options.Header] must not reach a host that the caller did not name. An
// extension or a subprotocol that was not requested is refused.
func Dial(ctx context.Context, address string, o *Options) (*Transport, error) {
	if o == nil {
		o = &Options{}
	}
	req, err := newRequest(address, o)
	if err != nil {
		return nil, err
	}
	if timeout := or(o.DialTimeout, 5*time.Second); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}

	conn, err := connect(ctx, req.URL, o)
	if err != nil {
		return nil, fmt.Errorf("websocket: dial %s: %w", req.URL.Host, err)
	}
	// ends a waiting read or write; ctx has the cause
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	protocol, rest, err := shake(conn, req, o)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close() // already failing with err
		if _, said := errors.AsType[*HandshakeError](err); said {
			return nil, err
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("websocket: dial %s: %w", req.URL.Host, err)
	}
	return newTransport(conn, true, o, protocol, rest), nil
}

// newRequest creates the client's half of the handshake (RFC 6455, section 4.1).
func newRequest(address string, o *Options) (*http.Request, error) {
	u, err := url.Parse(address)
	if err != nil {
		// without the text, which may contain a password
		return nil, fmt.Errorf("websocket: address: %w", errors.Unwrap(err))
	}
	switch {
	case u.Scheme != "ws" && u.Scheme != "wss":
		return nil, fmt.Errorf("websocket: address: the scheme is %q, not ws or wss", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("websocket: address: missing host")
	case u.Fragment != "" || strings.HasSuffix(address, "#"):
		return nil, errors.New("websocket: address: a fragment is not allowed") // RFC 6455, section 3
	}
	for i, p := range o.Subprotocols {
		if !httptoken.Valid(p) || slices.Contains(o.Subprotocols[:i], p) {
			return nil, fmt.Errorf("websocket: the subprotocols %q must be different names", o.Subprotocols)
		}
	}

	header := o.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	host := header.Get("Host")
	header.Del("Host")
	header.Del("Sec-WebSocket-Extensions")
	header.Del("Sec-WebSocket-Protocol")
	if u.User != nil && header.Get("Authorization") == "" {
		password, _ := u.User.Password()
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	var key [16]byte
	_, _ = rand.Read(key[:]) // never fails
	header.Set("Upgrade", "websocket")
	header.Set("Connection", "Upgrade")
	header.Set("Sec-WebSocket-Version", "13")
	header.Set("Sec-WebSocket-Key", base64.StdEncoding.EncodeToString(key[:]))
	if len(o.Subprotocols) > 0 {
		header.Set("Sec-WebSocket-Protocol", strings.Join(o.Subprotocols, ", "))
	}
	return &http.Request{
		Method: http.MethodGet, URL: u, Host: host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// connect opens the connection for the handshake.
func connect(ctx context.Context, u *url.URL, o *Options) (net.Conn, error) {
	dial := o.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme == "ws" {
		return conn, err
	}
	config := o.TLS.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	config.NextProtos = []string{"http/1.1"} // HTTP/2 has no Upgrade
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // already failing with err
		return nil, err
	}
	return secure, nil
}

// shake sends the request and checks the response. rest is what the server sent after it.
func shake(conn net.Conn, req *http.Request, o *Options) (protocol string, rest []byte, err error) {
	if err := req.Write(conn); err != nil {
		return "", nil, err
	}
	bound := &io.LimitedReader{R: conn, N: maxResponse}
	in := bufio.NewReader(bound)
	var res *http.Response
	for range maxInterim {
		res, err = http.ReadResponse(in, req)
		if err != nil {
			if bound.N == 0 {
				err = errors.New("the response header exceeds 64 KiB")
			}
			return "", nil, err
		}
		if res.StatusCode == http.StatusSwitchingProtocols || res.StatusCode >= 200 {
			break
		}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxBody)) // as much as was received
		return "", nil, &HandshakeError{Status: res.StatusCode, Header: res.Header, Body: string(body)}
	}
	if wrong := judgeAnswer(res.Header, req.Header.Get("Sec-WebSocket-Key"), o.Subprotocols); wrong != "" {
		return "", nil, &HandshakeError{Status: res.StatusCode, Header: res.Header, Reason: wrong}
	}
	rest, _ = in.Peek(in.Buffered()) // exactly what is buffered
	return res.Header.Get("Sec-WebSocket-Protocol"), rest, nil
}

// judgeAnswer describes what is wrong with the header of a 101 response, or returns "".
func judgeAnswer(h http.Header, key string, offered []string) string {
	accept, protocols := h.Values("Sec-WebSocket-Accept"), h.Values("Sec-WebSocket-Protocol")
	switch upgrade := tokens(h, "Upgrade"); {
	case len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket"):
		return `the Upgrade header is not "websocket"`
	case !has(tokens(h, "Connection"), "upgrade"):
		return `the Connection header has no "upgrade"`
	case len(accept) != 1 || accept[0] != acceptKey(key):
		return "Sec-WebSocket-Accept does not match the key"
	case len(tokens(h, "Sec-WebSocket-Extensions")) > 0:
		return "an extension that was not requested"
	case len(protocols) > 1 || len(protocols) == 1 && !slices.Contains(offered, protocols[0]):
		return "a subprotocol that was not requested"
	}
	return ""
}
