package streamable_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// An asked is a request as the server receives it.
type asked struct {
	method, body string
	header       http.Header
	ctx          context.Context // ends when the client disconnects
}

// pause waits for d, unless the client disconnects.
func (r *asked) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
	}
}

// A wire is a server without a network, so that its time can be fake: serve implements its
// responses. It records the requests.
type wire struct {
	serve func(w *answer, r *asked)
	deaf  bool // responds to requests that were cancelled, too

	mu  sync.Mutex
	all []*asked
}

// An answer is the response of a wire: it begins with the first write.
type answer struct {
	status int
	header http.Header
	ctx    context.Context
	begun  chan struct{}
	once   sync.Once
	pipe   *io.PipeWriter
}

func (a *answer) begin() { a.once.Do(func() { close(a.begun) }) }

// send writes a part of the body.
func (a *answer) send(text string) {
	a.begin()
	_, _ = io.WriteString(a.pipe, text) // the client may be gone
}

// plain responds with JSON.
func (a *answer) plain(status int, text string) {
	a.status = status
	a.header.Set("Content-Type", "application/json")
	a.send(text)
}

// stream begins an event stream.
func (a *answer) stream(text string) {
	a.header.Set("Content-Type", "text/event-stream")
	a.send(text)
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	r := &asked{method: req.Method, header: req.Header.Clone()}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		r.body = string(body)
	}
	w.mu.Lock()
	w.all = append(w.all, r)
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(req.Context())
	r.ctx = ctx
	body, pipe := io.Pipe()
	a := &answer{status: http.StatusOK, header: http.Header{}, ctx: ctx, begun: make(chan struct{}), pipe: pipe}
	go func() {
		w.serve(a, r)
		a.begin()
		_ = pipe.Close() // never fails
	}()
	lost := ctx
	if w.deaf {
		lost = context.WithoutCancel(ctx)
	}
	stop := context.AfterFunc(lost, func() { _ = pipe.CloseWithError(context.Cause(ctx)) })
	select {
	case <-a.begun:
	case <-lost.Done():
		cancel()
		return nil, context.Cause(req.Context())
	}
	return &http.Response{StatusCode: a.status, Header: a.header, Request: req, Body: &wireBody{body, func() { stop(); cancel() }}}, nil
}

type wireBody struct {
	*io.PipeReader
	gone func()
}

func (b *wireBody) Close() error {
	b.gone()
	return b.PipeReader.Close()
}

// asked returns the requests so far, as METHOD BODY.
func (w *wire) asked() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.all {
		all = append(all, strings.TrimSpace(r.method+" "+r.body))
	}
	return all
}

func (w *wire) request(i int) *asked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[i]
}

func wantAsked(t *testing.T, w *wire, want ...string) {
	t.Helper()
	if got := w.asked(); !slices.Equal(got, want) {
		t.Errorf("the server was asked\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// client returns a Client of w, in which every method is Within the session except "open", which
// begins it, and "alone".
func client(w *wire, o streamable.ClientOptions) *streamable.Client {
	o.HTTP = &http.Client{Transport: w}
	o.SessionHeader = "Session-Id"
	o.Cancellation = jsonrpc.Cancellation{Method: "cancel", Member: "id"}
	o.Manner = func(req *jsonrpc.Request) streamable.Manner {
		switch req.Method {
		case "open":
			return streamable.Manner{Bond: streamable.Opening}
		case "alone":
			return streamable.Manner{Bond: streamable.Unbound, Header: http.Header{"X-Params": {string(req.Params)}}}
		}
		return streamable.Manner{Bond: streamable.Within}
	}
	return streamable.NewClient("http://server.example/rpc", &o)
}

// call calls a method whose result is a string.
func call(ctx context.Context, c *streamable.Client, method string) (string, error) {
	return jsonrpc.Call[string](ctx, c, method, nil)
}

// answering is a server that responds to each request plainly with its own method, and begins
// session S1.
func answering(a *answer, r *asked) {
	var method string
	var id jsonrpc.ID
	_ = jsonrpc.Scan([]byte(r.body), func(m *jsonrpc.Message) { method, id = m.Method, m.ID })
	switch {
	case r.method == http.MethodGet:
		a.status = http.StatusMethodNotAllowed
	case id.IsZero():
		a.status = http.StatusAccepted
	default:
		if method == "open" {
			a.header.Set("Session-Id", "S1")
		}
		a.plain(200, result(id.String(), fmt.Sprintf("%q", method)))
	}
}

func result(id, value string) string {
	return `{"jsonrpc":"2.0","result":` + value + `,"id":` + id + `}`
}

func event(data string) string { return "data: " + data + "\n\n" }

// A backer responds to requests of the server and records its notifications.
type backer struct {
	mu   sync.Mutex
	said []string
	ask  func(ctx context.Context, req *jsonrpc.Request) (any, error)
}

func (b *backer) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if req.IsNotification() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.said = append(b.said, req.Method+string(bytes.TrimSpace(req.Params)))
		return nil, nil
	}
	if b.ask != nil {
		return b.ask(ctx, req)
	}
	return "answer to " + req.Method, nil
}

func (b *backer) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.said)
}
