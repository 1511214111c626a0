package httprpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/bounded"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options configure NewClient. The zero value is ready for use.
type Options struct {
	// HTTP makes the requests. If nil, a new client is used. It is copied: redirects are followed
	// only to the same scheme, host and port, and only as the same POST (307, 308); any other is a
	// *StatusError.
	HTTP *http.Client

	// TLS configures the client that is used if HTTP is nil; otherwise it has no effect.
	TLS *tls.Config

	// Header is sent with each request.
	Header http.Header

	// Token is sent as a bearer token with each request (RFC 6750).
	Token string

	// Headers, if not nil, returns additional headers for one request or notification, based on its
	// content. It is not called for batches.
	Headers func(*jsonrpc.Request) http.Header

	// MaxMessage bounds one response, and one event of a streamed one, in bytes after
	// decompression. Zero means 16 MiB, negative means no bound. A call with a longer response
	// fails with jsonrpc.ErrTooLarge.
	MaxMessage int64

	// Compress permits compressed responses. By default the client requests none.
	Compress bool

	// Back handles requests of the server that arrive in a streamed response. Each response is sent
	// by a separate POST, on a separate goroutine; 64 run at once, then the stream waits. Back also
	// receives the notifications that no Stream receives. If nil, they are reported and dropped.
	Back Answering

	// Version is the version of JSON-RPC.
	Version jsonrpc.Version

	// CallTime bounds a call whose context has no deadline; each event of a streamed response
	// renews it. Zero means 60 s, negative means no bound. When it expires, the call fails with
	// jsonrpc.ErrTimeout.
	CallTime time.Duration

	// Open reports which methods have no CallTime. If nil, all methods have it. A server that sends
	// comments in its stream and then nothing for 45 s is treated as dead nevertheless.
	Open func(method string) bool

	// Parallel is how many single calls run at once in place of a batch that the server does not
	// accept. Zero means 16; negative means that such a batch fails with jsonrpc.ErrBatchRefused.
	Parallel int

	// Tap, if not nil, is called with each payload that is sent or received. It must not retain the
	// payload. It is called from many goroutines.
	Tap func(out bool, payload []byte)

	// Report, if not nil, is called with what had to be dropped. It is called from many goroutines.
	Report func(what string, err error)
}

// A Client sends each call, notification or batch as one POST. It is a [jsonrpc.Peer], safe for
// concurrent use.
//
// If the context of a call ends, the Client ends its HTTP request, which is how an HTTP server
// detects the cancellation.
type Client struct {
	o       Options
	url     *url.URL
	badURL  error
	http    *http.Client
	idle    func() // closes idle connections
	header  http.Header
	limit   int64
	ids     atomic.Int64
	singles atomic.Bool   // the peer does not accept batches
	back    *bounded.Room // has a place for each server request that is being handled

	mu     sync.Mutex // guards the fields below
	closed bool
	calls  map[*call]struct{}
	// of calls and of what they started; Add only with mu held and closed false, or from within
	wg sync.WaitGroup
}

const (
	defaultMax      = 16 << 20
	defaultCallTime = 60 * time.Second
	defaultParallel = 16
)

// NewClient returns a Client of the server at address. It starts nothing and looks nothing up:
// every call returns an error if the address is invalid. Nil options are the zero Options.
func NewClient(address string, o *Options) *Client {
	c := &Client{calls: make(map[*call]struct{}), back: bounded.NewRequestRoom()}
	if o != nil {
		c.o = *o
	}
	if c.url, c.badURL = origin.Parse(address); c.badURL != nil {
		c.badURL = fmt.Errorf("httprpc: %w", c.badURL)
	}
	c.http, c.idle = origin.Client(c.o.HTTP, c.o.TLS)
	c.header = c.headers()
	switch c.limit = c.o.MaxMessage; {
	case c.limit == 0:
		c.limit = defaultMax
	case c.limit < 0:
		c.limit = 1<<62 - 1
	}
	if c.o.CallTime == 0 {
		c.o.CallTime = defaultCallTime
	}
	if c.o.Parallel == 0 {
		c.o.Parallel = defaultParallel
	}
	return c
}

// headers returns the headers that every request has.
func (c *Client) headers() http.Header {
	h := c.o.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	standard := func(name, value string) {
		if _, ok := h[name]; !ok {
			h[name] = []string{value}
		}
	}
	standard("Content-Type", "application/json")
	standard("Accept", "application/json, "+eventstream.ContentType)
	if !c.o.Compress {
		standard("Accept-Encoding", "identity")
	}
	if c.o.Token != "" {
		h["Authorization"] = []string{"Bearer " + c.o.Token}
	}
	return h
}

// Call posts one request and decodes its response. See [jsonrpc.Peer].
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result})
}

// Stream is Call for a method that sends notifications about the call. The stream is read on the
// caller's goroutine, so only the server waits for on.
func (c *Client) Stream(ctx context.Context, method string, params, result any, on func(*jsonrpc.Request) error) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result, On: on})
}

// Notify posts one notification and returns when the server has accepted it.
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Notify: true})
}

// Do sends one message that needs more than Call offers. Its error is also in item.Err.
func (c *Client) Do(ctx context.Context, item *jsonrpc.Item) error {
	item.Err = c.do(ctx, item)
	return item.Err
}

func (c *Client) do(ctx context.Context, item *jsonrpc.Item) error {
	var id jsonrpc.ID
	if !item.Notify {
		if id = item.ID; id.IsZero() {
			id = jsonrpc.IntID(c.ids.Add(1))
		}
	}
	body, err := appendItem(make([]byte, 0, 256), c.o.Version, id, item)
	if err != nil {
		return jsonrpc.AsNotSent(fmt.Errorf("httprpc: %s: %w", item.Method, err))
	}
	k, err := c.begin(ctx, c.o.Open != nil && c.o.Open(item.Method))
	if err != nil {
		return err
	}
	defer k.end()
	var more http.Header
	if c.o.Headers != nil {
		req := &jsonrpc.Request{ID: id, Method: item.Method}
		// body was encoded here, so it is valid
		_ = jsonrpc.ScanVersion(c.o.Version, body, func(m *jsonrpc.Message) { req.Params = m.Params })
		more = c.o.Headers(req)
	}
	in := inbox{client: c, call: k, on: item.On}
	if item.Notify {
		return in.notified(c.post(k, body, more))
	}
	in.take = one{id, item.Result}.take
	return in.answered(c.post(k, body, more))
}

func appendItem(dst []byte, v jsonrpc.Version, id jsonrpc.ID, item *jsonrpc.Item) ([]byte, error) {
	if item.Notify {
		return jsonrpc.AppendNotification(dst, v, item.Method, item.Params)
	}
	return jsonrpc.AppendRequest(dst, v, id, item.Method, item.Params)
}

// Send posts a raw payload, and passes each payload of the response to each: the body, or the data
// of each event. The argument of each is valid until it returns. An HTTP status from 300 on is a
// *StatusError, also if there was a payload.
func (c *Client) Send(ctx context.Context, payload []byte, each func(payload []byte) error) error {
	k, err := c.begin(ctx, false)
	if err != nil {
		return err
	}
	defer k.end()
	answer, err := c.post(k, payload, nil)
	if err != nil {
		return err
	}
	in := inbox{client: c, call: k, raw: each}
	return in.handOver(answer)
}

// Close ends all calls with jsonrpc.ErrClosed, waits for them and for what they started, and closes
// idle connections of its own HTTP client.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	for k := range c.calls {
		k.cancel(jsonrpc.ErrClosed)
	}
	c.mu.Unlock()
	grace.Wait(&c.wg, grace.Time) // a caller's function may not return
	c.idle()
	return nil
}

// A call is one POST under way.
type call struct {
	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // nil if the context has a deadline, or the call has no bound
}

// begin registers a call, so that Close ends it and waits for it.
func (c *Client) begin(parent context.Context, open bool) (*call, error) {
	if c.badURL != nil {
		return nil, jsonrpc.AsNotSent(c.badURL)
	}
	k := &call{client: c}
	k.ctx, k.cancel = context.WithCancelCause(parent)

	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		k.cancel(nil)
		return nil, jsonrpc.AsNotSent(jsonrpc.ErrClosed)
	}
	c.wg.Add(1)
	c.calls[k] = struct{}{}
	c.mu.Unlock()

	if _, ok := parent.Deadline(); !ok && !open && c.o.CallTime > 0 {
		k.timer = time.AfterFunc(c.o.CallTime, func() { k.cancel(jsonrpc.ErrTimeout) })
	}
	return k, nil
}

// renew restarts the CallTime of the call.
func (k *call) renew() {
	if k.timer != nil && k.timer.Stop() {
		k.timer.Reset(k.client.o.CallTime)
	}
}

func (k *call) end() {
	if k.timer != nil {
		k.timer.Stop()
	}
	k.cancel(nil)
	k.client.mu.Lock()
	delete(k.client.calls, k)
	k.client.mu.Unlock()
	k.client.wg.Done()
}

// failed maps an error of the transport: if the call's context has ended, the cause is returned
// instead.
func (k *call) failed(err error) error {
	if k.ctx.Err() != nil {
		err = context.Cause(k.ctx)
	}
	return fmt.Errorf("httprpc: %w", err)
}

// post makes the request. The caller closes the body of the response.
func (c *Client) post(k *call, payload []byte, more http.Header) (*http.Response, error) {
	if c.o.Tap != nil {
		c.o.Tap(true, payload)
	}
	header := maps.Clone(c.header) // middleware below may add to it
	maps.Copy(header, more)
	req := (&http.Request{
		Method:        http.MethodPost,
		URL:           c.url,
		Host:          c.url.Host,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(payload)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil },
		ContentLength: int64(len(payload)),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
	}).WithContext(k.ctx)
	if k.ctx.Err() != nil {
		return nil, jsonrpc.AsNotSent(k.failed(nil))
	}
	answer, err := c.http.Do(req)
	switch {
	case err == nil:
		return answer, nil
	case origin.Unreached(err):
		return nil, jsonrpc.AsNotSent(k.failed(err))
	case k.ctx.Err() == nil && isOthers(err):
		return nil, errLost
	}
	return nil, k.failed(err)
}

// errLost means that a request got a response without a body, whose status is lost.
var errLost = fmt.Errorf("httprpc: %w: it was empty", jsonrpc.ErrBadResponse)

// ends are the errors with which the context of a call may end.
var ends = []error{context.Canceled, context.DeadlineExceeded, jsonrpc.ErrTimeout, jsonrpc.ErrClosed}

// isOthers reports whether err is the end of another call's context. net/http (Go 1.26) reuses a
// connection as soon as it has read a response without a body, and before it returns the response.
// If the call that reuses the connection is then cancelled, the call before it may fail with the
// error of the other. No other path leads here.
func isOthers(err error) bool {
	failed, ok := errors.AsType[*url.Error](err)
	// compared by value: a network timeout Is a DeadlineExceeded
	return ok && slices.Contains(ends, failed.Err)
}

func (c *Client) report(what string, err error) {
	report.Call(c.o.Report, "httprpc", what, err)
}
