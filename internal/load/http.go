package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// An HTTP calls one method over plain HTTP/1.1. Each caller has a connection, on which it writes
// its request and reads the response itself. The client of net/http passes both to goroutines of
// the connection, which takes as much processor time as many a server needs, and that is a false
// result if both are on the same machine. An HTTP sends nothing twice, and follows no redirects.
type HTTP struct {
	head    []byte // of every request, up to the value of Content-Length
	address string
	o       HTTPOptions
	callers []httpCaller
}

// HTTPOptions configure an HTTP.
type HTTPOptions struct {
	Header  http.Header // of every request
	Version jsonrpc.Version
	Method  string
	Params  any           // as for [jsonrpc.AppendRequest]
	Callers int           // their number
	Timeout time.Duration // bounds one call; zero means no bound
}

// An httpCaller has the connection of one caller.
type httpCaller struct {
	id   int64
	in   []byte
	body []byte
	out  []byte
	r    *bufio.Reader
	used time.Time // when the last call ended

	mu     sync.Mutex // guards the fields below
	conn   net.Conn   // nil without a connection
	closed bool
}

// Bounds of an HTTP.
const (
	// how long a connection may be unused before it is replaced: servers close theirs after some
	// seconds, and a request that is sent then is lost
	maxIdle = time.Second

	maxInterim  = 5        // responses with a status below 200 before the one that counts
	maxResponse = 16 << 20 // bytes of a response
	dialTime    = 5 * time.Second
)

// NewHTTP returns an HTTP for a server at an http address. It connects to nothing.
func NewHTTP(at *url.URL, o HTTPOptions) *HTTP {
	h := &HTTP{address: at.Host, o: o, callers: make([]httpCaller, o.Callers)}
	if at.Port() == "" {
		h.address = net.JoinHostPort(at.Hostname(), "80")
	}
	var b strings.Builder
	b.WriteString("POST " + at.RequestURI() + " HTTP/1.1\r\nHost: " + at.Host + "\r\n")
	_ = o.Header.Write(&b) // a Builder has no errors
	b.WriteString("Content-Length: ")
	h.head = []byte(b.String())
	return h
}

// Close ends all calls, and lets no new ones begin.
func (h *HTTP) Close() {
	for i := range h.callers {
		c := &h.callers[i]
		c.mu.Lock()
		c.closed = true
		c.drop()
		c.mu.Unlock()
	}
}

// drop closes the connection. It is called with c.mu held.
func (c *httpCaller) drop() {
	if c.conn != nil {
		_ = c.conn.Close() // it is not used again
		c.conn = nil
	}
}

// Call makes one call for a caller, which has one call at a time. An error response is returned as
// a *[jsonrpc.Error].
func (h *HTTP) Call(ctx context.Context, caller int) error {
	c := &h.callers[caller]
	conn, err := h.connect(ctx, c)
	if err != nil {
		return err
	}
	c.id++
	id := jsonrpc.IntID(c.id)
	if c.body, err = jsonrpc.AppendRequest(c.body[:0], h.o.Version, id, h.o.Method, h.o.Params); err != nil {
		return err
	}
	c.out = strconv.AppendInt(append(c.out[:0], h.head...), int64(len(c.body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), c.body...)
	keep := false
	if h.o.Timeout > 0 {
		err = conn.SetDeadline(time.Now().Add(h.o.Timeout))
	}
	if err == nil {
		_, err = conn.Write(c.out)
	}
	if err == nil {
		keep, err = h.receive(c, id)
	}
	c.used = time.Now()
	if !keep {
		c.mu.Lock()
		c.drop()
		c.mu.Unlock()
	}
	switch {
	case err == nil, is[*jsonrpc.Error](err):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return jsonrpc.ErrTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), is[*net.OpError](err):
		return fmt.Errorf("%w: %w", jsonrpc.ErrClosed, err)
	}
	return err
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// connect returns the connection of a caller, a new one if necessary.
func (h *HTTP) connect(ctx context.Context, c *httpCaller) (net.Conn, error) {
	c.mu.Lock()
	if c.conn != nil && time.Since(c.used) > maxIdle {
		c.drop()
	}
	conn, closed := c.conn, c.closed
	c.mu.Unlock()
	if closed {
		return nil, jsonrpc.ErrClosed
	}
	if conn != nil {
		return conn, nil
	}
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close() // it is not needed
		return nil, jsonrpc.ErrClosed
	}
	c.conn = conn
	if c.r == nil {
		c.r = bufio.NewReader(conn)
	} else {
		c.r.Reset(conn)
	}
	return conn, nil
}

// usual reads the head of the usual response, with status 200 and the Content-Length of a JSON
// text. Of any other response, it reads nothing.
func (c *httpCaller) usual() (length int, ok bool) {
	if _, err := c.r.Peek(1); err != nil {
		return 0, false
	}
	text, err := c.r.Peek(c.r.Buffered())
	end := bytes.Index(text, []byte("\r\n\r\n"))
	if err != nil || end < 0 || !bytes.HasPrefix(text, []byte("HTTP/1.1 200 ")) {
		return 0, false
	}
	length, media := -1, false
	_, fields, _ := bytes.Cut(text[:end], []byte("\r\n"))
	for len(fields) > 0 {
		var line []byte
		line, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, colon := bytes.Cut(line, []byte(":"))
		value = bytes.TrimLeft(value, " ")
		switch {
		case !colon, isAny(name, "Connection", "Transfer-Encoding", "Content-Encoding", "Trailer"):
			return 0, false
		case isAny(name, "Content-Length"):
			n, err := strconv.ParseUint(string(value), 10, 31)
			if err != nil || length >= 0 || n > maxResponse {
				return 0, false
			}
			length = int(n)
		case isAny(name, "Content-Type"):
			if media || string(value) != "application/json" {
				return 0, false
			}
			media = true
		}
	}
	if length < 0 || !media {
		return 0, false
	}
	_, err = c.r.Discard(end + 4)
	return length, err == nil
}

// isAny reports whether the name of a header is one of names.
func isAny(name []byte, names ...string) bool {
	for _, other := range names {
		if len(name) == len(other) && strings.EqualFold(string(name), other) {
			return true
		}
	}
	return false
}

// receive reads the response to a call. keep reports whether the connection can be used again.
func (h *HTTP) receive(c *httpCaller, id jsonrpc.ID) (keep bool, err error) {
	if n, ok := c.usual(); ok {
		c.in = slices.Grow(c.in[:0], n)[:n]
		if _, err := io.ReadFull(c.r, c.in); err != nil {
			return false, err
		}
		if done, err := h.take(c.in, id); done {
			return c.r.Buffered() == 0, err
		}
		return false, fmt.Errorf("%w: the HTTP response has no response to the call", jsonrpc.ErrBadResponse)
	}
	var resp *http.Response
	for range maxInterim {
		if resp, err = http.ReadResponse(c.r, nil); err != nil {
			return false, err
		}
		if resp.StatusCode/100 != 1 {
			break
		}
	}
	defer resp.Body.Close()
	media := resp.Header.Get("Content-Type")
	if media != "application/json" {
		if media, _, err = mime.ParseMediaType(media); err != nil {
			media = ""
		}
	}
	switch {
	case media == eventstream.ContentType && resp.StatusCode == http.StatusOK:
		events := eventstream.NewReader(resp.Body, maxResponse)
		for {
			e, err := events.Next()
			if err != nil {
				return false, err
			}
			if done, err := h.take(e.Data, id); done {
				return false, err // the end of the stream may follow late
			}
		}
	case media == "application/json", strings.HasSuffix(media, "+json"), strings.HasPrefix(media, "application/json-rpc"):
		if c.in, err = readAll(c.in[:0], resp); err != nil {
			return false, err
		}
		keep = !resp.Close && c.r.Buffered() == 0
		if done, err := h.take(c.in, id); done {
			return keep, err
		}
	}
	return false, fmt.Errorf("%w: HTTP %d, %.64q", jsonrpc.ErrBadResponse, resp.StatusCode, media)
}

// readAll appends the body to dst.
func readAll(dst []byte, resp *http.Response) ([]byte, error) {
	switch n := resp.ContentLength; {
	case n > maxResponse:
		return nil, jsonrpc.ErrTooLarge
	case n >= 0:
		dst = slices.Grow(dst, int(n))[:n]
		_, err := io.ReadFull(resp.Body, dst)
		return dst, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err == nil && len(body) > maxResponse {
		err = jsonrpc.ErrTooLarge
	}
	return body, err
}

// take returns the outcome of a payload that has the response with the ID.
func (h *HTTP) take(payload []byte, id jsonrpc.ID) (done bool, err error) {
	fault := jsonrpc.ScanVersion(h.o.Version, payload, func(m *jsonrpc.Message) {
		switch {
		case m.Bad != nil:
			done, err = true, fmt.Errorf("%w: %s", jsonrpc.ErrBadResponse, m.Bad.Message)
		case m.Request, done:
		case m.ID != id && !(m.ID.IsNull() && m.Error != nil):
			done, err = true, fmt.Errorf("%w: it has id %.64s, not %s", jsonrpc.ErrBadResponse, m.ID, id)
		default:
			done, err = true, m.Decode(nil)
		}
	})
	if fault != nil {
		return true, fmt.Errorf("%w: %s", jsonrpc.ErrBadResponse, fault.Message)
	}
	return done, err
}
