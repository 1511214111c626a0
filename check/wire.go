package check

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
)

// maxReply bounds one message of a server, in bytes.
const maxReply = 16 << 20

// maxSkippedLines bounds the empty lines before a message.
const maxSkippedLines = 1000

var errTooLong = fmt.Errorf("the message is longer than %d MiB", maxReply>>20)

// A wire is a connection on which both sides send at any time. recv may run beside send.
type wire interface {
	send(message []byte) error
	// recv returns the next message, or os.ErrDeadlineExceeded after wait.
	recv(wait time.Duration) ([]byte, error)
	close()
}

// dialConn opens the connection below a transport, with TLS if the scheme has it.
func (s *session) dialConn() (net.Conn, error) {
	network, address, secure := "tcp", s.target.Address, false
	switch s.target.Scheme {
	case "unix":
		network = "unix"
	case "https", "wss":
		address, secure = withPort(address, "443"), true
	case "http", "ws":
		address = withPort(address, "80")
	case "tls":
		secure = true
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	if !secure {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	c := s.o.TLS.Clone()
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c.NextProtos = []string{"http/1.1"}
	if s.target.Scheme == "tls" {
		c.NextProtos = nil
	}
	return (&tls.Dialer{Config: c}).DialContext(ctx, network, address)
}

func withPort(address, port string) string {
	if u := (&url.URL{Host: address}); u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), port)
	}
	return address
}

// dial opens a new connection.
func (s *session) dial() (wire, error) {
	if s.kind == kindChild {
		return s.startChild()
	}
	c, err := s.dialConn()
	if err != nil {
		return nil, err
	}
	if s.kind == kindStream {
		return s.newStream(c), nil
	}
	w, err := s.upgrade(c)
	if err != nil {
		_ = c.Close() // the handshake failed
		return nil, err
	}
	return w, nil
}

// A streamWire sends messages on a byte stream.
type streamWire struct {
	s       *session
	c       net.Conn
	r       *bufio.Reader
	header  bool
	partial []byte
}

func (s *session) newStream(c net.Conn) *streamWire {
	return &streamWire{s: s, c: c, r: bufio.NewReader(c), header: s.headers()}
}

func (w *streamWire) frame(message []byte) []byte {
	if w.header {
		return append([]byte("Content-Length: "+strconv.Itoa(len(message))+"\r\n\r\n"), message...)
	}
	return append(bytes.Clone(message), '\n')
}

func (w *streamWire) send(message []byte) error { return w.sendRaw(w.frame(message)) }

// sendRaw sends bytes without a frame.
func (w *streamWire) sendRaw(raw []byte) error {
	_ = w.c.SetWriteDeadline(time.Now().Add(w.s.o.Timeout)) // the error shows in Write
	_, err := w.c.Write(raw)
	return err
}

func (w *streamWire) recv(wait time.Duration) ([]byte, error) {
	_ = w.c.SetReadDeadline(time.Now().Add(max(wait, time.Millisecond))) // the error shows in Read
	if w.header {
		return w.recvHeader()
	}
	for range maxSkippedLines {
		for {
			part, err := w.r.ReadSlice('\n')
			w.partial = append(w.partial, part...)
			if err == nil {
				break
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				if len(w.partial) > maxReply {
					return nil, errTooLong
				}
				continue
			}
			return w.unfinished(err)
		}
		line := bytes.TrimRight(w.partial, "\r\n")
		w.partial = nil
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
	return nil, errors.New("the server sends empty lines without an end")
}

// unfinished returns a message that has no newline, and reports that.
func (w *streamWire) unfinished(err error) ([]byte, error) {
	line := bytes.TrimSpace(w.partial)
	if len(line) == 0 {
		return nil, err
	}
	if _, bad := jsonrpc.ParseRaw(line); bad != nil {
		return nil, err
	}
	w.partial = nil
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.s.lateCount++ // it took the whole time to wait
	}
	w.s.note("framing/newline", w.s.lastSent, string(line), "no newline follows the message, so that a client waits for its end")
	return line, nil
}

func (w *streamWire) recvHeader() ([]byte, error) {
	if _, err := w.r.Peek(1); err != nil {
		return nil, err
	}
	_ = w.c.SetReadDeadline(time.Now().Add(w.s.o.Timeout)) // the rest of a message that has begun
	size := -1
	for range 100 {
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			return nil, fmt.Errorf("the header of a message does not end with an empty line: %w", err)
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		name, value, _ := strings.Cut(text, ":")
		if !strings.HasSuffix(string(line), "\r\n") {
			w.s.note("framing/header", w.s.lastSent, text, "a header line must end with CR LF")
		}
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			if size, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || size < 0 || size > maxReply {
				return nil, fmt.Errorf("Content-Length is %q", strings.TrimSpace(value))
			}
		}
	}
	if size < 0 {
		return nil, errors.New("no Content-Length before a message")
	}
	body := make([]byte, size)
	_, err := io.ReadFull(w.r, body)
	return body, err
}

func (w *streamWire) close() { _ = w.c.Close() } // nothing is left to send

// A childWire talks to a child process.
type childWire struct {
	child    *stdio.Child
	messages chan []byte
	ended    chan error
	stop     chan struct{}
}

func (s *session) startChild() (wire, error) {
	child, err := stdio.Start(s.ctx, s.target.Argv, &stdio.Options{
		Framing: s.target.Framing, Stderr: s.o.Stderr,
		Options:  stream.Options{MaxMessage: maxReply},
		Patience: stdio.Patience{Stdin: time.Second, Terminate: time.Second},
	})
	if err != nil {
		return nil, err
	}
	w := &childWire{child: child, messages: make(chan []byte, 4), ended: make(chan error, 1), stop: make(chan struct{})}
	go func() { _ = rescue.Run(nil, w.read) }() // a panic is logged
	return w, nil
}

// read moves messages to the channel until the child ends or the wire is closed.
func (w *childWire) read() {
	for {
		payload, _, err := w.child.Read()
		if err != nil {
			w.ended <- err
			close(w.messages)
			return
		}
		select {
		case w.messages <- bytes.Clone(payload):
		case <-w.stop:
			return
		}
	}
}

func (w *childWire) send(message []byte) error {
	var b jsonrpc.Burst
	b.Add(message)
	return w.child.Write(b)
}

func (w *childWire) recv(wait time.Duration) ([]byte, error) {
	timer := time.NewTimer(max(wait, time.Millisecond))
	defer timer.Stop()
	select {
	case m, ok := <-w.messages:
		if !ok {
			select {
			case err := <-w.ended:
				return nil, err
			default:
				return nil, io.EOF
			}
		}
		return m, nil
	case <-timer.C:
		return nil, os.ErrDeadlineExceeded
	}
}

func (w *childWire) close() {
	close(w.stop)
	_ = w.child.Close() // its end is not checked
}
