package guard

import (
	"errors"
	"log"
	"net/http"
	"strings"
	"time"
)

// NewServer returns an http.Server for handler with the limits of every listener: 5 s for the
// headers, 120 s idle timeout, 32 KiB of headers, 250 streams per HTTP/2 connection. The whole
// request has no time limit, because a response may be a stream: [Body] and the writers set a limit
// for each read and write. logger is the server's error log, as of [ErrorLog]; nil means the
// standard logger.
//
// The server supports HTTP/2 over TLS, and in cleartext for clients with prior knowledge.
func NewServer(handler http.Handler, logger *log.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: unwrapped(handler),
		// "OPTIONS *" is handled like any request: net/http would respond without the Host check
		// and without EndAfterChunked.
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            5 * time.Second,
		IdleTimeout:                  120 * time.Second,
		MaxHeaderBytes:               32<<10 - 4<<10, // net/http adds 4 KiB to the configured value
		ErrorLog:                     logger,
		Protocols:                    protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			PingTimeout:          15 * time.Second,
			SendPingTimeout:      30 * time.Second,
			WriteByteTimeout:     10 * time.Second,
		},
	}
}

// Faults of peers, and failures of the server itself, as reported by [ErrorLog].
const (
	reportBrokenConnection = "broken connection"
	reportHTTP             = "http"
)

// ErrorLog returns an error log for [NewServer] that passes each line to report: as "broken
// connection" if any peer can cause it as often as it connects, such as a failed TLS handshake or a
// violation of HTTP/2, and as "http" otherwise.
func ErrorLog(report func(what string, err error)) *log.Logger {
	return log.New(errorLog(report), "", 0)
}

type errorLog func(what string, err error)

func (report errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	what := reportHTTP
	if isPeerFault(text) {
		what = reportBrokenConnection
	}
	report(what, errors.New(text))
	return len(line), nil
}

// isPeerFault reports whether a line of net/http is about what a peer did. net/http has no other
// sign: these are the prefixes of Go 1.26. All lines about HTTP/2 are, except those about a panic.
func isPeerFault(line string) bool {
	switch {
	case strings.Contains(line, "panic serving"):
		return false
	case strings.HasPrefix(line, "http: TLS handshake error from "), strings.HasPrefix(line, "http2: "),
		strings.HasPrefix(line, "timeout waiting for SETTINGS frames"), strings.HasPrefix(line, "timeout waiting for PING response"):
		return true
	}
	return false
}

// PagePolicy is the Content-Security-Policy of our pages: own scripts, styles and connections,
// nothing else.
const PagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Secure sets the security headers of a page: its policy, no sniffing, no referrer, no window or
// resource shared with other sites.
func Secure(h http.Header) {
	h.Set("Content-Security-Policy", PagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
