package guard

import (
	"net/http"
	"strconv"
	"time"
)

// A Refusal is why a request is turned away, as the peer is told. The text never repeats what the peer sent.
type Refusal struct {
	Status int
	Text   string // one sentence
	Name   string // a header of the answer that the status asks for, such as Allow; "" for none
	Value  string // its value
	Close  bool   // the connection cannot be used again
}

// Error returns status and text.
func (f *Refusal) Error() string { return strconv.Itoa(f.Status) + " " + f.Text }

// Lingering is how long the rest of a refused body is thrown away, so that the peer finds the answer and not a reset.
const lingering = time.Second

// Write answers r with the refusal. It does not wait for a body that nobody read: the answer goes out at once and an HTTP/1
// connection is closed behind it.
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
			h.Set("Connection", "close") // net/http then answers before it looks at the body
		}
		_ = control.SetReadDeadline(time.Now().Add(lingering)) // without deadlines the server's own limits hold
	}
	_ = control.SetWriteDeadline(time.Now().Add(writeTime))
	w.WriteHeader(f.Status)
	_, _ = w.Write([]byte(text)) // whoever was refused may be gone
}

func refuse(status int, text string) *Refusal { return &Refusal{Status: status, Text: text} }

// MethodOnly is the refusal of another method than the allowed ones (RFC 9110, section 15.5.6).
func MethodOnly(allow string) *Refusal {
	return &Refusal{Status: http.StatusMethodNotAllowed, Text: "this address takes " + allow + " only", Name: "Allow", Value: allow}
}
