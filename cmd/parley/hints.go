package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// A placeError reports that what parley looks for is not at an address: the path, the scheme or the
// port is wrong, or the certificate is not trusted. The exit code is exitAway.
type placeError struct {
	text string
	err  error
}

func (e *placeError) Error() string { return e.text }
func (e *placeError) Unwrap() error { return e.err }

// A hintedError adds a hint to the text of an error.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() + e.hint }
func (e *hintedError) Unwrap() error { return e.err }

// probeTime bounds all requests that look for the cause of one error.
const probeTime = 2 * time.Second

// A placeFinder looks for the cause of an error: a usual mistake in the address.
type placeFinder struct {
	target parley.Target
	tls    *tls.Config
	paths  []string // where else a server may be, best first
}

// explain returns err, or an error that names the mistake in the address and its remedy. It sends
// requests to the same host and port, without credentials.
func (f *placeFinder) explain(ctx context.Context, err error) error {
	switch {
	case err == nil, ctx.Err() != nil, isLate(err), is[*jsonrpc.Error](err), is[*usageError](err):
		return err
	case f.target.Scheme == "exec" && isCut(err) && !isProtocol(err) && !is[*stdio.ExitError](err):
		return &placeError{f.target.Argv[0] + " closed its stdout without a response", err}
	case f.target.Scheme == "exec", f.target.Scheme == "unix", f.target.Address == "":
		return err
	}
	if text := f.certificate(err); text != "" {
		return &placeError{text, err}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	host := f.target.Address
	record, isRecord := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch), isRecord && string(record.RecordHeader[:]) == "HTTP/":
		return &placeError{host + " speaks plain HTTP: try " + f.with(withoutTLS(f.target.Scheme, "http")), err}
	case isRecord:
		return &placeError{host + " does not speak TLS: try " + f.with(withoutTLS(f.target.Scheme, "tcp")), err}
	case status(err) == http.StatusBadRequest && wantsTLS.MatchString(err.Error()):
		return &placeError{host + " speaks HTTPS: try " + f.with(withTLS(f.target.Scheme)), err}
	case f.web() && isMissing(status(err)):
		return f.missing(ctx, err)
	case status(err) == 0 && isCut(err):
		return f.cut(ctx, err)
	}
	return err
}

// wantsTLS matches what HTTPS servers send to a client that does not use TLS.
var wantsTLS = regexp.MustCompile(`(?i)HTTP request to an HTTPS server|plain HTTP request was sent to HTTPS|speaking plain HTTP to an SSL|sent to an? (SSL|TLS|HTTPS)`)

// certificate describes a certificate that is not trusted, or returns "".
func (f *placeFinder) certificate(err error) string {
	const remedy = "; trust it with --tls-ca FILE, or accept any certificate with -k"
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		names := e.Certificate.DNSNames
		for _, ip := range e.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Sprintf("the certificate of %s is for %s, not for %s", f.target.Address, orElse(cut(strings.Join(names, ", "), 300), "no host"), e.Host)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if e.Reason == x509.Expired {
			return fmt.Sprintf("the certificate of %s is not valid now: it is valid from %s to %s", f.target.Address,
				e.Cert.NotBefore.Format(time.DateOnly), e.Cert.NotAfter.Format(time.DateOnly))
		}
		return "the certificate of " + f.target.Address + " is not valid: " + strings.TrimPrefix(e.Error(), "x509: ") + remedy
	}
	if is[x509.UnknownAuthorityError](err) {
		return "the certificate of " + f.target.Address + " is not trusted: it is self-signed, or of an unknown authority" + remedy
	}
	return ""
}

func (f *placeFinder) web() bool {
	switch f.target.Scheme {
	case "http", "https", "ws", "wss", "sse+http", "sse+https":
		return true
	}
	return false
}

// with returns the target with another scheme.
func (f *placeFinder) with(scheme string) string {
	t := f.target
	t.Scheme = scheme
	if scheme == "tcp" || scheme == "tls" {
		t.Path = ""
	}
	return t.String()
}

func withoutTLS(scheme, other string) string {
	switch scheme {
	case "https":
		scheme = "http"
	case "wss":
		scheme = "ws"
	case "sse+https":
		scheme = "sse+http"
	}
	if other == "tcp" || scheme == "tls" {
		return other
	}
	return scheme
}

func withTLS(scheme string) string {
	switch scheme {
	case "ws":
		return "wss"
	case "sse+http":
		return "sse+https"
	case "tcp":
		return "tls"
	}
	return "https"
}

// isMissing reports whether the status of an HTTP response means that there is no endpoint at a
// path.
func isMissing(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusMisdirectedRequest, http.StatusUpgradeRequired:
		return true
	}
	return status >= 300 && status < 400
}

// missing explains that there is no endpoint at the path, and looks for one at the usual paths.
func (f *placeFinder) missing(ctx context.Context, err error) error {
	path, _, _ := strings.Cut(f.target.Path, "?")
	text := fmt.Sprintf("nothing to call at %s (HTTP %d)", orElse(path, "/"), status(err))
	if to := location(err); to != "" {
		text += "; it redirects to " + to
	}
	for _, other := range f.paths {
		if other == orElse(path, "/") || !f.answersAt(ctx, other) {
			continue
		}
		t := f.target
		t.Path = other
		if other == "/mcp" && f.paths[0] != "/mcp" {
			return &placeError{text + "; there is an MCP server: use parley mcp tools " + t.String(), err}
		}
		return &placeError{text + "; try " + t.String(), err}
	}
	return &placeError{text + "; check the path of " + f.target.String(), err}
}

// location returns where a response redirects to.
func location(err error) string {
	if e, ok := errors.AsType[*httprpc.StatusError](err); ok {
		return e.Header.Get("Location")
	}
	if e, ok := errors.AsType[*websocket.HandshakeError](err); ok {
		return e.Header.Get("Location")
	}
	return ""
}

// answersAt reports whether a JSON-RPC server, or one that requires credentials, is at a path.
func (f *placeFinder) answersAt(ctx context.Context, path string) bool {
	scheme := "http"
	if strings.HasSuffix(f.target.Scheme, "s") && f.target.Scheme != "ws" {
		scheme = "https"
	}
	place := url.URL{Scheme: scheme, Host: f.target.Address, Path: path}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, place.String(), strings.NewReader(probePing))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	transport := &http.Transport{TLSClientConfig: f.tls, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return true
	}
	// a body that ends early counts as what it is
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return bytes.Contains(body, []byte(`"jsonrpc"`))
}

// probePing is a request without an effect.
const probePing = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// isCut reports whether the peer ended the connection, or did not speak the expected protocol.
func isCut(err error) bool {
	return errors.Is(err, jsonrpc.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, jsonrpc.ErrGarbage) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || strings.Contains(err.Error(), "malformed HTTP")
}

// cut explains that the peer closed the connection without a response: it may speak something else.
func (f *placeFinder) cut(ctx context.Context, err error) error {
	if found := f.other(ctx, err); found != nil {
		return found
	}
	return &placeError{f.target.String() + " closed the connection without a response", err}
}

// other returns an error that names what a server speaks instead of what was expected, or nil.
func (f *placeFinder) other(ctx context.Context, err error) error {
	if f.target.Scheme == "exec" || f.target.Scheme == "unix" || f.target.Address == "" {
		return nil
	}
	host := f.target.Address
	secure := strings.HasSuffix(f.target.Scheme, "https") || f.target.Scheme == "wss" || f.target.Scheme == "tls"
	speaks := f.speaks(ctx, secure)
	t := f.target
	switch {
	case speaks == "https" && !secure:
		text := host + " speaks HTTPS: try "
		if !f.web() {
			t.Path = "/rpc"
			t.Scheme = "http"
		}
		t.Scheme = withTLS(t.Scheme)
		return &placeError{text + t.String(), err}
	case speaks == "tls" && !secure:
		return &placeError{host + " speaks TLS: try " + f.with(withTLS(f.target.Scheme)), err}
	case (speaks == "http" || speaks == "https") && !f.web():
		t.Scheme, t.Path = speaks, "/rpc"
		for _, path := range f.paths {
			if (&placeFinder{target: parley.Target{Scheme: speaks, Address: host}, tls: f.tls}).answersAt(ctx, path) {
				t.Path = path
				break
			}
		}
		return &placeError{host + " speaks HTTP: try " + t.String(), err}
	case speaks == "lines" && f.target.Framing == stream.Header:
		t.Framing = stream.Line
		return &placeError{host + " sends a message per line: try " + t.String(), err}
	case speaks == "frames":
		t.Framing = stream.Header
		return &placeError{host + " sends Content-Length before each message: try " + t.String(), err}
	case speaks == "lines" && f.web():
		return &placeError{host + " does not speak HTTP: try " + f.with(map[bool]string{true: "tls", false: "tcp"}[secure]), err}
	}
	return nil
}

// speaks detects what a server on a port speaks: "http", "https", "tls", "lines" (JSON-RPC, a
// message per line) or "frames" (with Content-Length, and only if the target is a byte stream
// without), or "" if none of these.
func (f *placeFinder) speaks(ctx context.Context, secure bool) string {
	hello := "GET / HTTP/1.1\r\nHost: " + f.target.Address + "\r\nConnection: close\r\n\r\n"
	reply := f.exchange(ctx, secure, hello)
	switch {
	case strings.HasPrefix(reply, "HTTP/") && wantsTLS.MatchString(reply):
		return "https"
	case strings.HasPrefix(reply, "HTTP/") && secure:
		return "https"
	case strings.HasPrefix(reply, "HTTP/"):
		return "http"
	}
	if strings.HasPrefix(f.exchange(ctx, secure, probePing+"\n"), "{") {
		return "lines"
	}
	if !f.web() && f.target.Framing != stream.Header &&
		strings.HasPrefix(f.exchange(ctx, secure, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(probePing), probePing)), "Content-Length:") {
		return "frames"
	}
	if !secure && ctx.Err() == nil {
		switch reply, ok := f.overTLS(ctx, hello); {
		case strings.HasPrefix(reply, "HTTP/"):
			return "https"
		case ok:
			return "tls"
		}
	}
	return ""
}

// exchange sends text on a new connection and returns the beginning of the reply.
func (f *placeFinder) exchange(ctx context.Context, secure bool, text string) string {
	if secure {
		reply, _ := f.overTLS(ctx, text)
		return reply
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", withPort(f.target.Address, "80"))
	if err != nil {
		return ""
	}
	return firstReply(ctx, conn, text)
}

// overTLS is exchange over TLS. ok reports whether the server speaks TLS. Nothing confidential is
// sent, so any certificate is accepted.
func (f *placeFinder) overTLS(ctx context.Context, text string) (reply string, ok bool) {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} //nolint:gosec // see above
	conn, err := d.DialContext(ctx, "tcp", withPort(f.target.Address, "443"))
	if err != nil {
		return "", false
	}
	return firstReply(ctx, conn, text), true
}

// firstReply sends text and returns the beginning of the reply. It waits at most a third of the
// time for all probes.
func firstReply(ctx context.Context, conn net.Conn, text string) string {
	defer conn.Close()
	until := time.Now().Add(probeTime / 3)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	if conn.SetDeadline(until) != nil {
		return ""
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return ""
	}
	reply := make([]byte, 1024)
	n, _ := io.ReadAtLeast(conn, reply, 5) // what arrived before an error counts
	if n > 0 && strings.HasPrefix(string(reply[:n]), "HTTP/") {
		more, _ := io.ReadFull(conn, reply[n:]) // likewise
		n += more
	}
	return string(reply[:n])
}

// isMCPEndpoint reports whether an error response to a plain call comes from an MCP endpoint, which
// requires a handshake or headers.
func isMCPEndpoint(t parley.Target, err error) bool {
	return isWeb(t) && mcpWords.MatchString(err.Error())
}

// mcpWords matches what MCP servers send to a request without the headers of a session.
var mcpWords = regexp.MustCompile(`(?i)mcp-session-id|mcp-protocol-version|missing session id|no valid session|server not initialized|must accept .*text/event-stream|accept must contain`)

// methodHint suggests methods of the server for one that it does not have.
func methodHint(ctx context.Context, client jsonrpc.Peer, method string) string {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	document, err := openrpc.Discover(ctx, client)
	if err != nil {
		return ""
	}
	names := make([]string, len(document.Methods))
	for i, m := range document.Methods {
		names[i] = m.Name
	}
	return didYouMean(method, names)
}

// strayText describes what a program printed to its stdout although it is not JSON-RPC, such as a
// banner.
func strayText(err error) string {
	return "the program printed text to stdout that is not JSON-RPC: " + visible(strings.TrimPrefix(err.Error(), "jsonrpc: not JSON-RPC: "), 300) +
		"; a server must log to stderr"
}

// plainText removes what only developers of parley need from the text of an error: the names of
// packages, and the request of net/http.
func plainText(text string) string {
	text = callOf.ReplaceAllString(text, "$1")
	text = urlOf.ReplaceAllString(text, "$1")
	for {
		shorter := packageOf.ReplaceAllString(text, "$1")
		if shorter == text {
			return text
		}
		text = shorter
	}
}

var (
	callOf    = regexp.MustCompile(`(^|: |; |\()call of [^"]{1,200}?, id [^:"]{1,100}: `)
	urlOf     = regexp.MustCompile(`(^|: |; |\()(?:Get|Post|Delete|Head) "[^"]*": `)
	packageOf = regexp.MustCompile(`(^|: |; |\()(?:jsonrpc|httprpc|streamable|websocket|socket|stdio|stream|sse|mcp|acp|a2a|editor|oauth|agent|capture|replay|mcphttp|acphttp|a2ahttp|config|exec|jsontext|openrpc|sqlite|store|orchestrator|playground): `)
)
