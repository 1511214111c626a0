package guard

import (
	"net/http"
	"strconv"
	"time"
)

// A Refusal is the reason for rejecting a request, as sent to the peer. The text never repeats
// input of the peer.
type Refusal struct {
	Status int
	Text   string // one sentence
	// A response header that the status requires, such as Allow; empty if not required.
	Name  string
	Value string // its value
	Close bool   // the connection cannot be reused
}

// Error returns the status and the text.
func (f *Refusal) Error() string { return strconv.Itoa(f.Status) + " " + f.Text }

// Lingering is how long the rest of a rejected body is discarded, so that the peer receives the
// response and not a reset.
const lingering = time.Second

// Write sends the refusal as the response to r. It does not wait for an unread body: the response
// is sent at once, and an HTTP/1 connection is closed after it.
func (f *Refusal) Write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if f.Name != "" {
		h.Set(f.Name, f.Value)
	}
	text := f.Text + "\n"
	h.Set("Content-Length", strconv.Itoa(len(text)))

	control := http.NewResponseController(w)
	if f.Close || r.ContentLength != 0 {
		if r.ProtoMajor == 1 {
			h.Set("Connection", "close") // net/http then responds before it reads the body
		}
		// Without deadlines the server's own limits apply.
		_ = control.SetReadDeadline(time.Now().Add(lingering))
	}
	_ = control.SetWriteDeadline(time.Now().Add(writeTime))
	w.WriteHeader(f.Status)
	_, _ = w.Write([]byte(text)) // the client may be gone
}

func refuse(status int, text string) *Refusal { return &Refusal{Status: status, Text: text} }

// MethodOnly returns the refusal of a method that is not in allow (RFC 9110, section 15.5.6).
func MethodOnly(allow string) *Refusal {
	return &Refusal{Status: http.StatusMethodNotAllowed, Text: "allowed methods: " + allow, Name: "Allow", Value: allow}
}
