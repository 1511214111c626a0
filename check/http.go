package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An httpConn is one connection to an HTTP/1.1 server.
type httpConn struct {
	s *session
	c net.Conn
	r *bufio.Reader
}

func (s *session) dialHTTP() (*httpConn, error) {
	c, err := s.dialConn()
	if err != nil {
		return nil, err
	}
	return &httpConn{s: s, c: c, r: bufio.NewReader(c)}, nil
}

func (h *httpConn) close() { _ = h.c.Close() } // nothing is left to send

// connectHTTP returns the shared connection and opens one if necessary.
func (s *session) connectHTTP() (*httpConn, error) {
	if s.web != nil {
		return s.web, nil
	}
	var err error
	for attempt := range 3 {
		if s.web, err = s.dialHTTP(); err == nil {
			return s.web, nil
		}
		if s.pause(time.Duration(attempt+1)*150*time.Millisecond) != nil {
			break
		}
	}
	s.died(err)
	return nil, err
}

// header returns the headers of every request.
func (s *session) header() http.Header {
	h := s.o.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "parley-check")
	}
	return h
}

// postHeader returns the headers of a POST.
func (s *session) postHeader() http.Header {
	h := s.header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	if h.Get("Accept") == "" {
		h.Set("Accept", "application/json")
		if s.o.Profile == "mcp" {
			h.Set("Accept", "application/json, text/event-stream")
		}
	}
	return h
}

func (s *session) path() string {
	if s.target.Path == "" {
		return "/"
	}
	if strings.HasPrefix(s.target.Path, "?") {
		return "/" + s.target.Path
	}
	return s.target.Path
}

// head returns a request line and headers.
func (s *session) head(method string, h http.Header) []byte {
	var b bytes.Buffer
	b.WriteString(method + " " + s.path() + " HTTP/1.1\r\nHost: " + s.target.Address + "\r\n")
	_ = h.Write(&b) // a buffer
	b.WriteString("\r\n")
	return b.Bytes()
}

// postBytes returns a whole POST.
func (s *session) postBytes(body string) []byte {
	h := s.postHeader()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	return append(s.head("POST", h), body...)
}

// An httpReply is one HTTP response.
type httpReply struct {
	status int
	header http.Header
	body   []byte
	closes bool // the connection ends after it
}

// do sends a request and reads its response.
func (h *httpConn) do(request []byte, method string, wait time.Duration) (*httpReply, error) {
	_ = h.c.SetDeadline(time.Now().Add(wait)) // the error shows in Write
	if _, err := h.c.Write(request); err != nil {
		return nil, err
	}
	return h.read(method, wait)
}

// read reads the response to a request with the method.
func (h *httpConn) read(method string, wait time.Duration) (*httpReply, error) {
	_ = h.c.SetReadDeadline(time.Now().Add(wait)) // the error shows in Read
	r, err := http.ReadResponse(h.r, &http.Request{Method: method})
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) && h.r.Buffered() == 0 {
			err = errors.New("the connection was closed without a response")
		}
		return nil, err
	}
	defer r.Body.Close() // the connection is not shared
	out := &httpReply{status: r.StatusCode, header: r.Header, closes: r.Close}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReply+1))
	out.body = body
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		return out, fmt.Errorf("the body ended after %d bytes, before the Content-Length of %d: %w", len(body), r.ContentLength, err)
	case err != nil:
		return out, err
	case len(body) > maxReply:
		return out, errTooLong
	}
	if !r.Close && h.r.Buffered() > 0 {
		extra, _ := h.r.Peek(min(h.r.Buffered(), 100)) // it is buffered
		return out, &extraError{string(extra)}
	}
	return out, nil
}

// An extraError is data after the end of a response.
type extraError struct{ text string }

func (e *extraError) Error() string { return "bytes follow the end of the response: " + shown(e.text) }

// post sends one message and judges the HTTP part of the response.
func (s *session) post(payload string) reply {
	fresh := s.web == nil
	h, err := s.connectHTTP()
	if err != nil {
		return reply{err: err}
	}
	got, err := h.do(s.postBytes(payload), "POST", s.patience())
	if err != nil && got == nil && !fresh && !errors.Is(err, os.ErrDeadlineExceeded) {
		// The server closed an idle connection, which it may at any time.
		s.hangUp()
		if h, err = s.connectHTTP(); err != nil {
			return reply{err: err}
		}
		got, err = h.do(s.postBytes(payload), "POST", s.patience())
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.lateCount++
	}
	if got == nil {
		s.hangUp()
		return reply{err: err}
	}
	return s.judgeHTTP(payload, got, err)
}

// jsonTypes are media types of JSON-RPC responses.
var jsonTypes = []string{"application/json", "application/json-rpc", "application/jsonrequest"}

// judgeHTTP checks the rules about all HTTP responses and returns the reply.
func (s *session) judgeHTTP(payload string, got *httpReply, err error) reply {
	r := reply{sent: payload, status: got.status, header: got.header, err: err}
	about := fmt.Sprintf("HTTP %d, Content-Type: %s, Content-Length: %s, body %s", got.status, got.header.Get("Content-Type"), got.header.Get("Content-Length"), got.body)
	s.counted["http"]++
	if id := got.header.Get("Mcp-Session-Id"); id != "" {
		s.mcpSession = id
	}
	if err != nil {
		s.hangUp()
		if _, ok := errors.AsType[*extraError](err); !ok && len(got.body) == 0 {
			s.note("http/length", payload, about, "%v", err)
			return r
		}
		s.note("http/length", payload, about, "%v", err)
		r.err = nil
	} else if got.closes {
		s.hangUp()
		if got.status/100 == 2 {
			s.note("http/keep-alive", payload, about+", Connection: close", "the server closes the connection after a response, so that each call needs a new one")
		}
	}
	if e := got.header.Get("Content-Encoding"); e != "" && e != "identity" {
		s.note("http/encoding", payload, about+", Content-Encoding: "+e, "the request has no Accept-Encoding, and the response is encoded")
	}
	body := bytes.TrimSpace(got.body)
	if len(body) == 0 {
		if len(got.body) > 0 {
			s.note("http/empty", payload, about, "a response without a message has a body of white space")
		}
		return r
	}
	media, _, _ := mime.ParseMediaType(got.header.Get("Content-Type")) // "" if invalid
	if media == "text/event-stream" && s.o.Profile == "mcp" {
		events := eventsOf(body)
		if len(events) > 0 {
			r.others, body = events[:len(events)-1], events[len(events)-1]
		}
	} else if !slices.Contains(jsonTypes, media) && !strings.HasSuffix(media, "+json") {
		s.note("http/content-type", payload, about, "the Content-Type is %q, not application/json", got.header.Get("Content-Type"))
	}
	if got.status == http.StatusNoContent {
		s.note("http/empty", payload, about, "status 204 has no body")
	}
	r.raw = got.body
	if media == "text/event-stream" {
		r.raw = body
	}
	s.judge(payload, r.raw)
	s.judgeStatus(payload, about, got.status, r.raw)
	return r
}

// judgeStatus checks the status of a response with a message.
func (s *session) judgeStatus(payload, about string, status int, raw []byte) {
	if status/100 == 2 && status != http.StatusOK {
		s.note("http/status", payload, about, "a response with a message has status %d instead of 200", status)
		return
	}
	if status == http.StatusOK {
		return
	}
	m, err := parseMessage(raw)
	if err != nil {
		return
	}
	switch code := string(m.sub("error", "code")); {
	case len(m.list) > 0 || m.member("result") != nil:
		s.note("http/status", payload, about, "a result has status %d instead of 200", status)
	case code == "-32700" && (status == 400 || status == 500) || code == "-32600" && status == 400 || code == "-32603" && status == 500:
		// The draft "JSON-RPC over HTTP" has these.
	case s.o.Profile == "mcp" && status/100 == 4:
		// MCP 2026-07-28 has 400 and 404 for errors, and all versions permit them for invalid messages.
	default:
		s.note("http/status", payload, about, "the error %s has status %d; clients treat it as a failure of HTTP and do not read the error", code, status)
	}
}

// eventsOf returns the responses in an event stream: requests and notifications precede them.
func eventsOf(body []byte) (events [][]byte) {
	for line := range bytes.Lines(body) {
		rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		if rest = bytes.TrimSpace(rest); ok && len(rest) > 0 && !isRequest(rest) {
			events = append(events, rest)
		}
	}
	return events
}
