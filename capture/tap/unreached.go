package tap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

// Limits of a request whose server cannot be reached.
const (
	refuseTime = 10 * time.Second // until the request has arrived and the response is read
	refuseBody = 4 << 20          // bytes of the body that are read before the response
)

// refuse responds with 502 and the reason to the client of a server that cannot be reached, and
// records both. It reads the request first, because a client that still writes may not read. A
// client that starts with HTTP/2 is disconnected.
func (r *Relay) refuse(client net.Conn, info capture.WireInfo, cause error) {
	_ = client.SetDeadline(time.Now().Add(refuseTime)) // a connection without deadlines ends with the context
	t := &talk{wire: r.httpWire, ws: func() *capture.Wire {
		info.Carrier = "ws"
		return r.Record.Wire(info)
	}}
	defer t.cut()
	request, response := &half{t: t}, &half{t: t, response: true}
	in := bufio.NewReader(io.TeeReader(client, feeder{request}))
	head, err := http.ReadRequest(in)
	if err != nil || head.ProtoMajor != 1 {
		return
	}
	if head.Header.Get("Expect") == "" { // otherwise the client waits for us
		_, _ = io.Copy(io.Discard, io.LimitReader(head.Body, refuseBody)) // the response is the same
	}
	text := "parley tap cannot reach the server\n"
	// A web page that reaches us under another name must not learn more.
	if r.Host == "" || slices.Contains(r.Names, strings.ToLower(head.Host)) {
		text = fmt.Sprintf("parley tap cannot reach %s: %s\n", r.Info.Target, reasonOf(cause))
	}
	answer := fmt.Appendf(nil, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", len(text))
	if head.Method != http.MethodHead {
		answer = append(answer, text...)
	}
	response.feed(answer)
	if _, err := client.Write(answer); err != nil {
		return
	}
	closeWrite(client)
	_, _ = io.CopyN(io.Discard, client, refuseBody) // closing with unread bytes would reset the connection
}

// A feeder passes bytes to a half.
type feeder struct{ h *half }

func (f feeder) Write(p []byte) (int, error) {
	f.h.feed(p)
	return len(p), nil
}

// reasonOf returns why a server cannot be reached, on one line.
func reasonOf(err error) string {
	text := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		text = errno.Error()
	} else if dns, ok := errors.AsType[*net.DNSError](err); ok {
		text = dns.Err
	}
	return strings.Join(strings.Fields(text), " ")
}
