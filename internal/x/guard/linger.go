package guard

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Linger wraps the listener of an HTTP server so that a client receives the error response to a
// request that could not be read. net/http sends that response itself and closes the connection
// with the rest of the request unread. TCP then resets the connection, and the response is often
// lost (RFC 9112, section 9.6). With Linger, the rest is read and discarded for a short time first.
//
// Connections other than TCP are unchanged. A handler that hijacks a connection gets the plain
// connection, if the server was created by [NewServer].
func Linger(l net.Listener) net.Listener { return lingerer{l} }

type lingerer struct{ net.Listener }

func (l lingerer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		return &socket{TCPConn: tcp}, nil
	}
	return c, err
}

const (
	parting      = 300 * time.Millisecond // how long a client has to read the final response
	partingBytes = 1 << 20                // maximum discarded bytes of the rest of its request
)

// A socket is a connection that records whether the last write was a final error response.
type socket struct {
	*net.TCPConn
	refused atomic.Bool
	close   sync.Once
	err     error // result of Close; guarded by close
}

func (s *socket) Write(p []byte) (int, error) {
	s.refused.Store(isFarewell(p))
	return s.TCPConn.Write(p)
}

// isFarewell reports whether p is a response of status 4xx or 5xx after which the connection is
// closed.
func isFarewell(p []byte) bool {
	if !bytes.HasPrefix(p, []byte("HTTP/1.")) || len(p) < 12 || p[9] != '4' && p[9] != '5' {
		return false
	}
	head, _, _ := bytes.Cut(p, []byte("\r\n\r\n"))
	return bytes.Contains(head, []byte("\r\nConnection: close"))
}

// Close first waits for the client's end if there is a response left to read.
func (s *socket) Close() error {
	s.close.Do(func() {
		if s.refused.Load() && s.CloseWrite() == nil && s.SetReadDeadline(time.Now().Add(parting)) == nil {
			_, _ = io.CopyN(io.Discard, s.TCPConn, partingBytes) // the content does not matter
		}
		s.err = s.TCPConn.Close()
	})
	return s.err
}

// unwrapped gives a hijacked connection to its new owner without the wrapper, because code that
// reads a socket by system calls checks its type.
func unwrapped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		EndAfterChunked(w, r)
		if len(r.Header["Upgrade"]) > 0 {
			w = hijackable{w}
		}
		next.ServeHTTP(w, r)
	})
}

type hijackable struct{ http.ResponseWriter }

func (h hijackable) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if s, ok := c.(*socket); ok {
		c = s.TCPConn
	}
	return c, buf, err
}
