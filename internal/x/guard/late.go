package guard

import (
	"fmt"
	"net/http"
	"time"
)

// lateWrite is the write timeout of a response that Late sends.
const lateWrite = 10 * time.Second

// Late responds to an HTTP request whose handler still runs, from another goroutine, and closes its
// connection: later writes of the handler cannot reach the client. The handler must not have
// written anything before. HTTP/2 cannot end a response on behalf of its handler, so there the
// stream is reset. If body is nil, Late flushes buffered output and closes the connection without a
// response.
func Late(w http.ResponseWriter, status int, contentType string, body []byte) {
	control := http.NewResponseController(w)
	if body == nil {
		_ = control.SetWriteDeadline(time.Now().Add(lateWrite))
		_ = control.Flush() // a stream has begun; its last bytes may still be buffered
	}
	conn, _, err := control.Hijack()
	if err != nil {
		// HTTP/2 resets the stream; it offers nothing else.
		_ = control.SetWriteDeadline(time.Unix(1, 0))
		return
	}
	defer conn.Close()
	if body == nil {
		return
	}
	// A connection without deadlines is closed by its peer.
	_ = conn.SetWriteDeadline(time.Now().Add(lateWrite))
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
		status, http.StatusText(status), contentType, len(body))
	_, _ = conn.Write(append([]byte(head), body...)) // the client may be gone
}
