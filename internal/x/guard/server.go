package guard

import (
	"log"
	"net/http"
	"time"
)

// NewServer returns an http.Server for handler with the limits of time and size that every listener has: 5 s for the headers,
// 120 s of idleness, 32 KiB of headers, 250 streams on one HTTP/2 connection. There is no limit for a whole request,
// since an answer may be a stream: [Body] and the writers set their own, for each read and write. errors takes what the server
// complains about; nil is the standard logger.
//
// HTTP/2 is spoken over TLS, and in cleartext to clients that begin with it.
func NewServer(handler http.Handler, errors *log.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           unwrapped(handler),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    32<<10 - 4<<10, // net/http takes 4 KiB more than it is told
		ErrorLog:          errors,
		Protocols:         protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			PingTimeout:          15 * time.Second,
			SendPingTimeout:      30 * time.Second,
			WriteByteTimeout:     10 * time.Second,
		},
	}
}

// PagePolicy is the Content-Security-Policy of our pages: own scripts and styles, own connections, nothing else.
const PagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Secure sets the headers that go with a page: its policy, no sniffing, no referrer, no window or resource shared with other sites.
func Secure(h http.Header) {
	h.Set("Content-Security-Policy", PagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
