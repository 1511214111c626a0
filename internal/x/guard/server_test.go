package guard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowHeaders uses clients that start a request and then send nothing, including one that
// starts with cleartext HTTP/2.
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
				// The server may close the connection.
				go func() { _, _ = io.WriteString(conn, begin) }()
				_, _ = io.Copy(io.Discard, conn) // until the server closes the connection
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

// TestRefused checks that the operator gets the details that the peer does not get.
func TestRefused(t *testing.T) {
	var got *Refusal
	d := mustDoor(t, &Options{Refused: func(_ *http.Request, f *Refusal) { got = f }})
	w := httptest.NewRecorder()
	d.Wrap(ok200).ServeHTTP(w, came("POST", "evil.example"))
	if w.Code != 403 || got == nil || got.Error() != "403 this Host is not allowed" {
		t.Errorf("got %d, %v", w.Code, got)
	}
}

func TestEndAfterChunked(t *testing.T) {
	for _, c := range []struct {
		name         string
		major, minor int
		coding       []string
		ends         bool // the connection ends in any case
		want         string
	}{
		{"a length", 1, 1, nil, false, ""},
		{"chunked", 1, 1, []string{"chunked"}, false, "close"},
		{"chunked, and ends anyhow", 1, 1, []string{"chunked"}, true, ""},
		{"HTTP/1.0", 1, 0, nil, true, ""},
		{"HTTP/1.0, keep-alive", 1, 0, nil, false, "close"},
		{"HTTP/2", 2, 0, nil, false, ""},
		{"HTTP/2 of unknown length", 2, 0, []string{"chunked"}, false, ""},
	} {
		w := httptest.NewRecorder()
		EndAfterChunked(w, &http.Request{Close: c.ends, ProtoMajor: c.major, ProtoMinor: c.minor, TransferEncoding: c.coding})
		if got := w.Header().Get("Connection"); got != c.want {
			t.Errorf("%s: Connection is %q, want %q", c.name, got, c.want)
		}
	}
}
