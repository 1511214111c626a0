package check_test

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// ServeHTTP answers a POST.
func (s *plainServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		s.serveWebSocket(w, r)
		return
	}
	switch {
	case s.has("http-1.0-refused") && r.ProtoMinor == 0:
		http.Error(w, "HTTP/1.1 only", http.StatusHTTPVersionNotSupported)
		return
	case s.has("http-needs-accept") && r.Header.Get("Accept") == "":
		http.Error(w, "Accept is missing", http.StatusNotAcceptable)
		return
	case s.has("http-unknown-header") && r.Header.Get("X-Parley-Check") != "":
		http.Error(w, "unknown header", http.StatusBadRequest)
		return
	case s.has("http-no-continue") && r.Header.Get("Expect") != "", s.has("http-close-ignored") && r.Close:
		s.keepOpen(w, r)
		return
	case s.has("http-charset-refused") && strings.Contains(r.Header.Get("Content-Type"), "charset"):
		http.Error(w, "no charset", http.StatusUnsupportedMediaType)
		return
	}
	if r.Method != http.MethodPost && !s.has("http-any-method") && !(s.has("http-options-calls") && r.Method == http.MethodOptions) {
		if s.has("http-get-200") && r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "{}") // the client may have gone
			return
		}
		w.Header().Set("Allow", "POST")
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 32<<20))
	if err != nil {
		return
	}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		http.Error(w, "send application/json", http.StatusUnsupportedMediaType)
		return
	}
	out := s.answer(body)
	if s.has("http-close") {
		w.Header().Set("Connection", "close")
	}
	if out == nil {
		switch {
		case s.has("http-200-for-notification"):
			w.WriteHeader(http.StatusOK)
		case s.has("http-body-for-notification"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "null") // the client may have gone
		default:
			w.WriteHeader(http.StatusNoContent)
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if s.has("http-text") {
		w.Header().Set("Content-Type", "text/html")
	}
	if s.has("http-length") {
		w.Header().Set("Content-Length", strconv.Itoa(len(out)+5))
	}
	if s.has("http-gzip") {
		w.Header().Set("Content-Encoding", "gzip")
	}
	if bytes.Contains(out, []byte(`"error":{"code":-32601`)) && s.has("http-404") {
		w.WriteHeader(http.StatusNotFound)
	}
	if s.has("http-500") && bytes.Contains(out, []byte(`"error"`)) {
		w.WriteHeader(http.StatusInternalServerError)
	}
	if s.has("http-parse-error-page") && bytes.Contains(out, []byte(`-32700`)) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadRequest)
		out = []byte("Bad Request")
	}
	_, _ = w.Write(out) // the client may have gone
}

// keepOpen responds to a request, unless it waits for status 100, and leaves the connection open
// until the client closes it.
func (s *plainServer) keepOpen(w http.ResponseWriter, r *http.Request) {
	var out []byte
	if r.Header.Get("Expect") == "" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		out = s.answer(body)
	}
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	if out != nil {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(out), out)
	}
	_, _ = io.Copy(io.Discard, buffered) // until the client closes
}

// A meddler is a listener whose connections change what is read, for defects below HTTP.
type meddler struct {
	net.Listener
	s *plainServer
}

func (m meddler) Accept() (net.Conn, error) {
	c, err := m.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &meddledConn{c, m.s}, nil
}

type meddledConn struct {
	net.Conn
	s *plainServer
}

func (c *meddledConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	got := p[:n]
	switch {
	case c.s.has("http-names-lower") || c.s.has("http-names-upper"):
		name := "content-type:"
		if c.s.has("http-names-upper") {
			name = "CONTENT-TYPE:"
		}
		if i := bytes.Index(got, []byte(name)); i >= 0 {
			got[i+1] = 'x'
		}
	case c.s.has("http-one-request-per-read"):
		if i := bytes.LastIndex(got, []byte("POST / ")); i > 0 {
			n = bytes.Index(got[1:], []byte("POST / ")) + 1
		}
	case c.s.has("dies-of-broken-requests"):
		if bytes.Contains(got, []byte("Content-Length: -5")) {
			c.s.mu.Lock()
			c.s.crashed = true
			c.s.mu.Unlock()
		}
	}
	return n, err
}

// serveLines answers the lines of a connection.
func (s *plainServer) serveLines(c net.Conn) {
	defer c.Close()
	var writing sync.Mutex
	r := bufio.NewReaderSize(c, 64<<10)
	slots := make(chan struct{}, 128)
	var wait sync.WaitGroup
	defer wait.Wait()
	if s.has("thirty-connections") {
		if s.conns.Add(1) > 30 {
			return
		}
		defer s.conns.Add(-1)
	}
	for {
		if s.has("closes-when-idle") {
			_ = c.SetReadDeadline(time.Now().Add(time.Second)) // the error shows in Read
		}
		line, err := r.ReadBytes('\n')
		if s.has("last-line-lost") && err != nil {
			return
		}
		if s.has("tcp-crlf") && bytes.HasSuffix(line, []byte("\r\n")) {
			return
		}
		if len(bytes.TrimSpace(line)) > 0 && len(line) < 32<<20 {
			if s.has("one-message-per-read") {
				_, _ = r.Discard(r.Buffered()) // it is buffered
			}
			slots <- struct{}{}
			handle := func() {
				defer func() { <-slots }()
				out := s.answer(line)
				if out == nil {
					return
				}
				if s.has("one-writer") {
					s.only.Lock()
					defer s.only.Unlock()
				}
				writing.Lock()
				defer writing.Unlock()
				if !s.has("tcp-no-newline") {
					out = append(out, '\n')
				}
				_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second)) // the error shows in Write
				_, _ = c.Write(out)                                     // the client may have gone
				if s.closesAfter(out) {
					_ = c.Close() // the defect
				}
			}
			if s.has("serial") {
				handle()
			} else {
				wait.Go(handle)
			}
		}
		if err != nil {
			return
		}
	}
}

// serveHeaders answers messages with Content-Length, as language servers have them.
func (s *plainServer) serveHeaders(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		size := -1
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line = strings.TrimRight(line, "\r\n"); line == "" {
				break
			}
			name, value, _ := strings.Cut(line, ":")
			switch {
			case strings.EqualFold(name, "Content-Length"):
				if s.has("lsp-case") && name != "Content-Length" || s.has("lsp-needs-space") && !strings.HasPrefix(value, " ") {
					return
				}
				if size, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || size < 0 || size > 32<<20 {
					if s.has("lsp-dies-of-length") {
						s.mu.Lock()
						s.crashed = true
						s.mu.Unlock()
					}
					return
				}
			case s.has("lsp-no-content-type"):
				return
			}
		}
		if size < 0 {
			return
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		out := s.answer(body)
		if out == nil {
			continue
		}
		size, end := len(out), "\r\n"
		if s.has("lsp-length-in-characters") {
			size = utf8.RuneCount(out)
		}
		if s.has("lsp-line-feeds") {
			end = "\n"
		}
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))                // the error shows in Write
		_, _ = fmt.Fprintf(c, "Content-Length: %d%s%s%s", size, end, end, out) // the client may have gone
	}
}

// serveWebSocket answers the messages of a WebSocket.
func (s *plainServer) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	accept := base64.StdEncoding.EncodeToString(sum[:])
	if s.has("ws-accept") {
		accept = "AAAA"
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+accept+"\r\n\r\n") // the client may have gone
	var writing sync.Mutex
	write := func(first byte, payload []byte) {
		writing.Lock()
		defer writing.Unlock()
		head := []byte{first}
		mask := byte(0)
		if s.has("ws-masked") {
			mask = 0x80
		}
		switch n := len(payload); {
		case n < 126:
			head = append(head, mask|byte(n))
		case n < 1<<16:
			head = binary.BigEndian.AppendUint16(append(head, mask|126), uint16(n))
		default:
			head = binary.BigEndian.AppendUint64(append(head, mask|127), uint64(n))
		}
		if mask != 0 {
			head = append(head, 0, 0, 0, 0)
		}
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second)) // the error shows in Write
		_, _ = c.Write(append(head, payload...))                // the client may have gone
	}
	slots := make(chan struct{}, 128)
	var wait sync.WaitGroup
	defer wait.Wait()
	var message []byte
	for {
		if s.has("closes-when-idle") {
			_ = c.SetReadDeadline(time.Now().Add(time.Second)) // the error shows in Read
		}
		first, payload, err := s.readFrame(buffered.Reader)
		if err != nil {
			return
		}
		if message != nil && first&8 != 0 && s.has("ws-control-within-ends") {
			message = nil
		}
		switch first & 0x0f {
		case 8:
			if !s.has("ws-no-close-frame") {
				write(0x88, payload)
			}
			return
		case 10:
			if s.has("ws-pong-ends") {
				return
			}
			continue
		case 3:
			continue // a defect: readFrame refuses it otherwise
		case 9:
			if !s.has("ws-no-pong") {
				if s.has("ws-empty-pong") {
					payload = nil
				}
				write(0x8a, payload)
			}
			continue
		case 0, 1, 2:
			if (first&0x0f == 0) == (message == nil) {
				return
			}
		default:
			continue
		}
		message = append(append([]byte{}, message...), payload...)
		if first&0x80 == 0 {
			if s.has("ws-no-fragments") {
				return
			}
			continue
		}
		if first&0x0f == 1 && !utf8.Valid(message) {
			if s.has("ws-bad-utf8-ignored") {
				message = nil
				continue
			}
			return
		}
		whole := message
		message = nil
		slots <- struct{}{}
		handle := func() {
			defer func() { <-slots }()
			if out := s.answer(whole); out != nil {
				op := byte(0x81)
				if s.has("ws-binary") {
					op = 0x82
				}
				write(op, out)
				if s.closesAfter(out) {
					_ = c.Close() // the defect
				}
			}
		}
		if s.has("serial") {
			handle()
		} else {
			wait.Go(handle)
		}
	}
}

var errFrame = errors.New("broken frame")

func (s *plainServer) readFrame(r *bufio.Reader) (first byte, payload []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return 0, nil, err
	}
	first = head[0]
	size := uint64(head[1] & 0x7f)
	masked := head[1]&0x80 != 0
	if !masked && !s.has("ws-unmasked") || first&0x70 != 0 && !s.has("ws-reserved-bits") || first&0x0f > 10 || first&0x0f > 2 && first&0x0f < 8 && !s.has("ws-reserved-opcode") ||
		first&8 != 0 && size > 125 {
		return 0, nil, errFrame
	}
	first &^= 0x70
	switch size {
	case 126:
		_, err = io.ReadFull(r, head[:2])
		size = uint64(binary.BigEndian.Uint16(head[:]))
	case 127:
		_, err = io.ReadFull(r, head[:8])
		size = binary.BigEndian.Uint64(head[:])
	}
	var mask [4]byte
	if err == nil && size > 32<<20 {
		err = errFrame
	}
	if err == nil && masked {
		_, err = io.ReadFull(r, mask[:])
	}
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(r, payload)
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return first, payload, err
}

// serve serves s and returns its addresses by transport.
func serve(t *testing.T, s *plainServer) map[string]string {
	t.Helper()
	lines, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	headers, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.Map
	var wait sync.WaitGroup
	accept := func(l net.Listener, serve func(c net.Conn)) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, true)
			wait.Go(func() {
				serve(c)
				conns.Delete(c)
			})
		}
	}
	wait.Go(func() { accept(lines, s.serveLines) })
	wait.Go(func() { accept(headers, s.serveHeaders) })
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	wait.Go(func() { _ = server.Serve(meddler{web, s}) }) // ends with Close
	t.Cleanup(func() {
		_ = lines.Close()   // the test is over
		_ = headers.Close() // the test is over
		_ = server.Close()  // the test is over
		conns.Range(func(c, _ any) bool {
			_ = c.(net.Conn).Close() // the test is over
			return true
		})
		wait.Wait()
	})
	at := web.Addr().String()
	return map[string]string{"http": "http://" + at + "/", "tcp": "tcp://" + lines.Addr().String(), "ws": "ws://" + at + "/", "lsp": "tcp://" + headers.Addr().String() + "?framing=header"}
}

// closesAfter reports whether a defect closes the connection after a response.
func (s *plainServer) closesAfter(out []byte) bool {
	return s.has("closes-after-parse-error") && bytes.Contains(out, []byte("-32700")) || s.has("closes-after-panic") && bytes.Contains(out, []byte("-32603")) ||
		s.has("closes-after-unknown-method") && bytes.Contains(out, []byte("-32601"))
}
