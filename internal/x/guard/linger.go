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

// Linger wraps the listener of an HTTP server, so that a client whose request cannot even be read finds out why. net/http
// answers that itself and hangs up with the rest of the request unread; TCP then resets the connection, and the answer is often lost
// on the way (RFC 9112, section 9.6). With Linger the rest is thrown away for a moment first.
//
// Connections that are not TCP stay as they are. A handler that takes a connection over gets the plain one, if the
// server was made by [NewServer].
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
	parting      = 300 * time.Millisecond // how long a client has to read a farewell
	partingBytes = 1 << 20                // of the rest of its request
)

// A socket is a connection that knows whether the last thing said on it was a farewell.
type socket struct {
	*net.TCPConn
	refused atomic.Bool
	close   sync.Once
	err     error // of Close; guarded by close
}

func (s *socket) Write(p []byte) (int, error) {
	s.refused.Store(isFarewell(p))
	return s.TCPConn.Write(p)
}

// isFarewell reports whether p is an answer of status 4xx or 5xx behind which the connection ends.
func isFarewell(p []byte) bool {
	if !bytes.HasPrefix(p, []byte("HTTP/1.")) || len(p) < 12 || p[9] != '4' && p[9] != '5' {
		return false
	}
	head, _, _ := bytes.Cut(p, []byte("\r\n\r\n"))
	return bytes.Contains(head, []byte("\r\nConnection: close"))
}

// Close waits for the client's end first, if there is something left for it to read.
func (s *socket) Close() error {
	s.close.Do(func() {
		if s.refused.Load() && s.CloseWrite() == nil && s.SetReadDeadline(time.Now().Add(parting)) == nil {
			_, _ = io.CopyN(io.Discard, s.TCPConn, partingBytes) // whatever it is, nobody wants it
		}
		s.err = s.TCPConn.Close()
	})
	return s.err
}

// unwrapped hands a connection that is taken over to its new owner as it is: who reads a socket by system calls looks at its type.
func unwrapped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
