package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// A half is how one library works on the ends of a byte stream: a socket, a pipe, or a feed.
type half struct {
	serve func(conn net.Conn) (stop func(), err error) // must not block
	ask   func(conn net.Conn) (*Session, error)        // nil for a server only

	// request is the small call as this server accepts it, up to the ID. "" is the form of most
	// servers.
	request string
}

// on opens sessions of h over these transports.
func (h half) on(transports ...Transport) map[Transport]func() (*Session, error) {
	open := map[Transport]func() (*Session, error){}
	for _, c := range transports {
		if c == Feed {
			open[c] = h.fed
			continue
		}
		open[c] = func() (*Session, error) {
			server, client, err := connect(c)
			if err != nil {
				return nil, err
			}
			return h.join(server, client)
		}
	}
	return open
}

func (h half) join(server, client net.Conn) (*Session, error) {
	stop, err := h.serve(server)
	if err != nil {
		return nil, err
	}
	s, err := h.ask(client)
	if err != nil {
		return nil, err
	}
	hangUp := s.Close
	s.Close = func() {
		client.Close() // before the server: some clients wait for it
		server.Close()
		if hangUp != nil {
			hangUp()
		}
		stop()
	}
	return s, nil
}

// connect returns the two ends of a new connection.
func connect(c Transport) (server, client net.Conn, err error) {
	if c == Pipe {
		server, client = net.Pipe()
		return server, client, nil
	}
	network, address := "tcp", "127.0.0.1:0"
	if c != TCP {
		dir, err := os.MkdirTemp("", "bench")
		if err != nil {
			return nil, nil, err
		}
		defer os.RemoveAll(dir)
		network, address = "unix", filepath.Join(dir, "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if client, err = net.Dial(network, l.Addr().String()); err != nil {
		return nil, nil, err
	}
	server, err = l.Accept()
	return server, client, err
}

// feedCalls is the number of concurrent requests of a feed, which equals the default limit of a
// server.
const feedCalls = 1000

// A feed is the client's end of a stream without a client: its reader provides requests, its writer
// counts responses.
type feed struct {
	requests []byte
	more     chan int // the number of bytes that may be read, once for each Op
	left     []byte
	closed   chan struct{}
	once     sync.Once

	answers, size int // counted since the last Op
	expect        int // size of all responses; 0 until it is known
	all           chan error
	seen          []byte // the responses of the first Op, which are checked one by one
}

func (h half) fed() (*Session, error) {
	request := h.request
	if request == "" {
		request = smallRequest[:bytes.LastIndexByte([]byte(smallRequest), ':')+1]
	}
	f := &feed{more: make(chan int), closed: make(chan struct{}), all: make(chan error, 1)}
	for id := range feedCalls {
		f.requests = fmt.Appendf(f.requests, "%s%d}\n", request, 10_000+id)
	}
	stop, err := h.serve(f)
	if err != nil {
		return nil, err
	}
	return &Session{Call: f.run, Close: func() { f.Close(); stop() }}, nil
}

// run provides all requests to the server and waits for the responses.
func (f *feed) run(context.Context) error {
	f.more <- len(f.requests)
	return <-f.all
}

func (f *feed) Read(p []byte) (int, error) {
	if len(f.left) == 0 {
		select {
		case n := <-f.more:
			f.left = f.requests[:n]
		case <-f.closed:
			return 0, io.EOF
		}
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	return n, nil
}

// Write counts responses by their last byte and compares their size with that of the first time. It
// is not safe for concurrent use.
func (f *feed) Write(p []byte) (int, error) {
	f.answers += bytes.Count(p, []byte{'}'})
	f.size += len(p)
	if f.expect == 0 {
		f.seen = append(f.seen, p...)
	}
	if f.answers >= feedCalls {
		f.all <- f.check()
		f.answers, f.size = 0, 0
	}
	return len(p), nil
}

// check examines each response the first time, and only their size afterwards.
func (f *feed) check() error {
	if f.answers != feedCalls {
		return fmt.Errorf("%d closing braces in the answers to %d calls: there were errors", f.answers, feedCalls)
	}
	if f.expect == 0 {
		if got := bytes.Count(f.seen, []byte(`"result":19`)); got != feedCalls {
			return fmt.Errorf("%d right answers to %d calls", got, feedCalls)
		}
		f.expect, f.seen = f.size, nil
	}
	if lag := f.expect - f.size; lag < -1 || lag > 1 { // a newline may be part of the next write
		return fmt.Errorf("answers of %d bytes, want %d", f.size, f.expect)
	}
	return nil
}

func (f *feed) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// LocalAddr and the methods below make a feed a net.Conn.
func (f *feed) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "feed", Net: "unix"} }
func (f *feed) RemoteAddr() net.Addr             { return f.LocalAddr() }
func (f *feed) SetDeadline(time.Time) error      { return nil }
func (f *feed) SetReadDeadline(time.Time) error  { return nil }
func (f *feed) SetWriteDeadline(time.Time) error { return nil }

// serveHTTP serves h on a free port.
func serveHTTP(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // until stop
	return "http://" + l.Addr().String(), func() { s.Close() }, nil
}

// httpClient returns the client that users of net/http should configure for many callers: it
// retains a connection for each.
func httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}}
}

// rawHTTP measures a handler with a client whose request is prepared and that examines no header
// except the length. Each caller has its own connection, because HTTP/1.1 transports one call at a
// time.
func rawHTTP(h http.Handler, call, batch string) func() (*Session, error) {
	return func() (*Session, error) {
		url, stop, err := serveHTTP(h)
		if err != nil {
			return nil, err
		}
		pool := &rawPosts{address: url[len("http://"):]}
		s := &Session{Call: pool.post(call, 1), Close: func() { pool.close(); stop() }}
		if batch != "" {
			s.Batch = pool.post(batch, batchSize)
		}
		return s, nil
	}
}

// rawPosts holds the idle connections.
type rawPosts struct {
	address string
	mu      sync.Mutex
	idle    []*rawPost
}

type rawPost struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte
}

// post returns an Op that posts body and expects that many correct responses in the body of the
// reply.
func (r *rawPosts) post(body string, answers int) Op {
	request := []byte("POST / HTTP/1.1\r\nHost: " + r.address + "\r\nContent-Type: application/json\r\nAccept: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	return func(ctx context.Context) error {
		c, err := r.get()
		if err != nil {
			return err
		}
		if _, err := c.conn.Write(request); err != nil {
			return err
		}
		if err := c.response(); err != nil {
			return err
		}
		if got := bytes.Count(c.body, []byte(`"result":19`)); got != answers {
			return fmt.Errorf("%d right answers, want %d: %.200s", got, answers, c.body)
		}
		r.put(c)
		return nil
	}
}

func (r *rawPosts) get() (*rawPost, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		return c, nil
	}
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		return nil, err
	}
	return &rawPost{conn: conn, in: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func (r *rawPosts) put(c *rawPost) {
	r.mu.Lock()
	r.idle = append(r.idle, c)
	r.mu.Unlock()
}

func (r *rawPosts) close() {
	for _, c := range r.idle {
		c.conn.Close()
	}
}

// response reads a response with a length or in chunks into c.body.
func (c *rawPost) response() error {
	length := -1
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			return fmt.Errorf("the server says %s", line)
		}
		if len(line) <= 2 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	c.body = c.body[:0]
	if length >= 0 {
		return c.take(length)
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return errors.New("neither a length nor chunks")
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if _, err := c.in.Discard(2); err != nil || n == 0 {
			return err
		}
	}
}

// take appends n bytes to the body.
func (c *rawPost) take(n int) error {
	start := len(c.body)
	if need := start + n; need > cap(c.body) {
		c.body = append(make([]byte, 0, need), c.body...)
	}
	c.body = c.body[:start+n]
	_, err := io.ReadFull(c.in, c.body[start:])
	return err
}
