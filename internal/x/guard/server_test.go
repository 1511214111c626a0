package guard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowHeaders has clients that begin and then say nothing more, also one that begins with HTTP/2 in cleartext.
func TestSlowHeaders(t *testing.T) {
	for _, begin := range []string{
		"", "P", "POST / HTTP/1.1\r\nHost: localh", "POST / HTTP/1.1\r\n", "PRI * HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		t.Run(begin, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := newPipeListener()
				server := NewServer(ok200, nil)
				go func() { _ = server.Serve(listener) }() // ends with Close
				defer server.Close()
				conn := listener.dial()
				defer conn.Close()
				start := time.Now()
				go func() { _, _ = io.WriteString(conn, begin) }() // may be hung up on
				_, _ = io.Copy(io.Discard, conn)                   // until it is
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("it was hung up on after %v, want 5s", took)
				}
			})
		})
	}
}

func TestSecure(t *testing.T) {
	w := httptest.NewRecorder()
	Secure(w.Header())
	for name, want := range map[string]string{
		"Content-Security-Policy":      PagePolicy,
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestRefused tells the operator what the peer is not told.
func TestRefused(t *testing.T) {
	var got *Refusal
	d := mustDoor(t, &Options{Refused: func(_ *http.Request, f *Refusal) { got = f }})
	w := httptest.NewRecorder()
	d.Wrap(ok200).ServeHTTP(w, came("POST", "evil.example"))
	if w.Code != 403 || got == nil || got.Error() != "403 this Host is not served here" {
		t.Errorf("got %d, %v", w.Code, got)
	}
}
