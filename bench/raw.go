package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// raw measures the cost of the transports alone: the same bytes in the same frames, without reading
// or writing JSON. It writes many messages at once where that is faster, as a library could.
func raw() []Entry {
	stream := half{serve: rawServe, ask: rawAsk}.on(Pipe, Unix, TCP, Feed)
	stream[UnixAlone] = half{serve: rawServe, ask: rawAskAlone}.on(UnixAlone)[UnixAlone]
	stream[WebSocket] = stream[TCP] // a frame is a few bytes longer than a line
	stream[Memory] = twoChannels
	stream[Dispatch] = oneScan
	stream[HTTPServer] = rawHTTP(constantAnswer(smallAnswer, rawBatchAnswers), smallRequest, rawBatch)
	stream[HTTP] = func() (*Session, error) {
		return rawHTTPClient(constantAnswer(smallAnswer, rawBatchAnswers), smallRequest, nil, len(smallAnswer))
	}
	maps.Copy(stream, rawMCP())
	return []Entry{{Name: "raw", Role: Limit, Open: stream}}
}

// batchSize is the number of calls in a batch.
const batchSize = 100

var (
	rawBatch        = rawBatchOf(smallRequest)
	rawBatchAnswers = rawBatchOf(smallAnswer)
)

// rawBatchOf repeats a message that ends in its ID, with other IDs of the same length.
func rawBatchOf(message string) string {
	message = message[:strings.LastIndexByte(message, ':')+1]
	batch := []byte{'['}
	for i := range batchSize {
		batch = fmt.Appendf(batch, "%s%d},", message, 10_000+i)
	}
	return string(append(batch[:len(batch)-1], ']'))
}

// rawAnswer chooses the response by the form of the request: a batch, the small call, or an echo.
func rawAnswer(dst, line []byte) []byte {
	switch {
	case line[0] == '[':
		return append(append(dst, rawBatchAnswers...), '\n')
	case len(line) <= len(smallRequest)+1:
		return append(append(dst, smallAnswer...), '\n')
	}
	return append(dst, line...)
}

// rawServe responds to all available lines with one write.
func rawServe(conn net.Conn) (func(), error) {
	serveLines(conn, rawAnswer)
	return func() {}, nil
}

// serveLines responds to each line with what answer appends to dst, until conn is closed.
func serveLines(conn io.ReadWriter, answer func(dst, line []byte) []byte) {
	go func() {
		in, out := lineReader{r: conn}, []byte(nil)
		for {
			line, more, err := in.next()
			if err != nil {
				return
			}
			if out = answer(out, line); more && len(out) < 64<<10 {
				continue
			}
			if _, err := conn.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	}()
}

// A lineReader finds lines in a buffer that grows with the longest of them.
type lineReader struct {
	r          io.Reader
	b          []byte
	start, end int
	searched   int // number of bytes from start without a newline
}

// next returns a line with its newline, and whether another one is available.
func (l *lineReader) next() (line []byte, more bool, err error) {
	for {
		if i := bytes.IndexByte(l.b[l.start+l.searched:l.end], '\n'); i >= 0 {
			line = l.b[l.start : l.start+l.searched+i+1]
			l.start += len(line)
			l.searched = 0
			return line, bytes.IndexByte(l.b[l.start:l.end], '\n') >= 0, nil
		}
		l.searched = l.end - l.start
		if l.start > 0 {
			l.end = copy(l.b, l.b[l.start:l.end])
			l.start = 0
		}
		if l.end == len(l.b) {
			l.b = append(l.b, make([]byte, max(64<<10, len(l.b)))...)
		}
		n, err := l.r.Read(l.b[l.end:])
		if l.end += n; n == 0 && err != nil {
			return nil, false, err
		}
	}
}

// A rawClient has a reading goroutine. Responses arrive in the order of the requests.
type rawClient struct {
	conn net.Conn

	mu      sync.Mutex // guards the fields below
	out     []byte     // requests that wait for the writer
	spare   []byte
	writing bool
	waiting []*rawWaiter // one for each active request
	head    int

	spares sync.Pool
}

type rawWaiter struct {
	ready  chan error
	answer []byte
}

func rawAsk(conn net.Conn) (*Session, error) { return rawSession(newRawClient(conn).ask), nil }

func newRawClient(conn net.Conn) *rawClient {
	c := &rawClient{conn: conn, spares: sync.Pool{New: func() any { return &rawWaiter{ready: make(chan error, 1)} }}}
	go c.read()
	return c
}

// rawCall sends a line with ask and checks the length of the response.
func rawCall(ask func(line string, check func([]byte) error) error, request, answer string) Op {
	request += "\n"
	check := func(got []byte) error {
		if len(got) != len(answer)+1 {
			return fmt.Errorf("%d bytes, want %d", len(got), len(answer)+1)
		}
		return nil
	}
	return func(context.Context) error { return ask(request, check) }
}

// rawSession sends requests with ask, which passes the received line to check.
func rawSession(ask func(line string, check func([]byte) error) error) *Session {
	var once sync.Once
	var text string
	return &Session{
		Call:  rawCall(ask, smallRequest, smallAnswer),
		Batch: rawCall(ask, rawBatch, rawBatchAnswers),
		Echo: func(_ context.Context, document []byte) error {
			once.Do(func() { text = string(document) + "\n" })
			return ask(text, func(got []byte) error { return checkEcho(document, got[:len(got)-1]) })
		},
	}
}

func (c *rawClient) ask(line string, check func([]byte) error) error {
	w := c.spares.Get().(*rawWaiter)
	defer c.spares.Put(w)
	c.mu.Lock()
	c.out = append(c.out, line...)
	c.waiting = append(c.waiting, w)
	lead := !c.writing
	c.writing = true
	alone := len(c.waiting)-c.head == 1
	c.mu.Unlock()
	if lead {
		if !alone {
			runtime.Gosched() // let other goroutines add to this write
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
	if err := <-w.ready; err != nil {
		return err
	}
	return check(w.answer)
}

// flush writes until the buffer is empty.
func (c *rawClient) flush() error {
	for {
		c.mu.Lock()
		out := c.out
		if len(out) == 0 {
			c.writing = false
			c.mu.Unlock()
			return nil
		}
		c.out, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		if _, err := c.conn.Write(out); err != nil {
			return err
		}
		c.mu.Lock()
		c.spare = out[:0]
		c.mu.Unlock()
	}
}

func (c *rawClient) read() {
	in := lineReader{r: c.conn}
	for {
		line, _, err := in.next()
		c.mu.Lock()
		if err != nil {
			for _, w := range c.waiting[c.head:] {
				w.ready <- err
			}
			c.mu.Unlock()
			return
		}
		w := c.waiting[c.head]
		if c.head++; c.head == len(c.waiting) {
			c.waiting, c.head = c.waiting[:0], 0
		}
		c.mu.Unlock()
		w.answer = append(w.answer[:0], line...)
		w.ready <- nil
	}
}

// rawAskAlone reads responses on the caller's goroutine.
func rawAskAlone(conn net.Conn) (*Session, error) {
	in := lineReader{r: conn}
	var buf []byte
	return rawSession(func(line string, check func([]byte) error) error {
		buf = append(buf[:0], line...)
		if _, err := conn.Write(buf); err != nil {
			return err
		}
		got, _, err := in.next()
		if err != nil {
			return err
		}
		return check(got)
	}), nil
}

// twoChannels sends a number to another goroutine and receives one.
func twoChannels() (*Session, error) {
	type question struct{ answer chan int }
	questions := make(chan question, 64)
	go func() {
		for q := range questions {
			q.answer <- difference
		}
	}()
	answers := sync.Pool{New: func() any { return make(chan int, 1) }}
	return &Session{
		Call: func(context.Context) error {
			answer := answers.Get().(chan int)
			questions <- question{answer}
			got := <-answer
			answers.Put(answer)
			return checkDifference(got)
		},
		Close: func() { close(questions) },
	}, nil
}

// oneScan checks the grammar of the request once with parley's strict scanner, which is less than
// any dispatch can do.
func oneScan() (*Session, error) {
	request := []byte(smallRequest)
	return &Session{
		Call: func(context.Context) error {
			_, err := jsonrpc.ParseRaw(request)
			return err
		},
		Close: func() {},
	}, nil
}

// constantAnswer reads the body and writes a prepared response.
func constantAnswer(call, batch string) http.Handler {
	bodies := sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 32<<10) }}
	types := []string{"application/json"}
	lengths := map[bool][]string{false: {strconv.Itoa(len(call))}, true: {strconv.Itoa(len(batch))}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bodies.Get().(*bufio.Reader)
		defer bodies.Put(body)
		body.Reset(r.Body)
		first, err := body.Peek(1)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		isBatch := first[0] == '['
		if _, err := body.WriteTo(io.Discard); err != nil {
			return
		}
		h := w.Header()
		h["Content-Type"], h["Content-Length"] = types, lengths[isBatch]
		if isBatch {
			_, _ = io.WriteString(w, batch)
		} else {
			_, _ = io.WriteString(w, call)
		}
	})
}

// rawHTTPClient uses net/http on both sides.
func rawHTTPClient(server http.Handler, request string, header http.Header, answer int) (*Session, error) {
	url, stop, err := serveHTTP(server)
	if err != nil {
		return nil, err
	}
	client := httpClient()
	return &Session{
		Call: func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(request))
			if err != nil {
				return err
			}
			maps.Copy(r.Header, header)
			r.Header.Set("Content-Type", "application/json")
			got, err := client.Do(r)
			if err != nil {
				return err
			}
			defer got.Body.Close()
			var buf [256]byte
			n, err := io.ReadFull(got.Body, buf[:])
			if err != io.ErrUnexpectedEOF || n != answer {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
			return nil
		},
		Close: func() { client.CloseIdleConnections(); stop() },
	}, nil
}
