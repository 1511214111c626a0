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

	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// A StatusError is an HTTP answer that is no JSON-RPC answer.
type StatusError = sse.StatusError

// The kinds of a StatusError, for errors.Is.
var (
	ErrUnauthorized = sse.ErrUnauthorized // 401
	ErrForbidden    = sse.ErrForbidden    // 403
)

// Options tune NewClient. The zero value is ready for use.
type Options struct {
	// HTTP makes the requests. Nil means a client of our own. It is copied: redirects are followed only to the same
	// scheme, host and port, and only as the same POST (307, 308); any other is a *StatusError.
	HTTP *http.Client

	// TLS is for the client of our own; it is not used beside HTTP.
	TLS *tls.Config

	// Header is sent with each request.
	Header http.Header

	// Token is sent as a bearer token with each request (RFC 6750).
	Token string

	// Headers, if not nil, makes headers for one request or notification, from what is in it. It is not called for batches.
	Headers func(*jsonrpc.Request) http.Header

	// MaxMessage bounds one answer, and one event of a streamed one, in bytes after decompression. Zero means 16 MiB, negative
	// means no bound. A call with a longer answer fails with jsonrpc.ErrTooLarge.
	MaxMessage int64

	// Compress lets the server compress answers. By default it is asked not to.
	Compress bool

	// Back answers requests of the server that come in a streamed answer, each by a POST of its own, on a goroutine of its
	// own; 64 run at once, then the stream waits. It also gets the notifications that no Stream takes. Nil: they are reported and dropped.
	Back Answering

	// Version is which JSON-RPC is spoken.
	Version jsonrpc.Version

	// CallTime bounds a call whose context has no deadline; each event of a streamed answer renews it. Zero means 60 s,
	// negative means no bound. Then the call fails with jsonrpc.ErrTimeout.
	CallTime time.Duration

	// Open tells which methods have no CallTime. Nil: none. A server that kept its stream alive with comments and then sends
	// nothing for 45 s is taken for dead nevertheless.
	Open func(method string) bool

	// Parallel is how many single calls run at once in place of a batch that the server does not take. Zero means 16;
	// negative means that such a batch fails with jsonrpc.ErrBatchRefused.
	Parallel int

	// Tap, if not nil, sees each payload: what is sent, and what has come. It must not keep it. It is called from many goroutines.
	Tap func(out bool, payload []byte)

	// Report, if not nil, hears of what had to be dropped. It is called from many goroutines.
	Report func(what string, err error)
}

// A Client makes each call, notification or batch one POST. It is a [jsonrpc.Peer], safe for concurrent use.
//
// A call whose context ends is abandoned by ending its HTTP request, which is how an HTTP server hears of it.
type Client struct {
	o       Options
	url     *url.URL
	badURL  error
	http    *http.Client
	idle    func() // closes idle connections
	header  http.Header
	limit   int64
	ids     atomic.Int64
	singles atomic.Bool   // the peer does not take batches
	back    chan struct{} // one place for each request of the server that is being answered

	mu     sync.Mutex // guards what is below
	closed bool
	calls  map[*call]struct{}
	wg     sync.WaitGroup // of calls and of what they started; Add only with mu held and closed false, or from within
}

const (
	defaultMax      = 16 << 20
	defaultCallTime = 60 * time.Second
	defaultParallel = 16
	maxBack         = 64
)

// NewClient makes a Client of the server at address. It starts nothing and looks nothing up: what is wrong with the address is the error
// of every call. Nil options are the zero Options.
func NewClient(address string, o *Options) *Client {
	c := &Client{calls: make(map[*call]struct{}), back: make(chan struct{}, maxBack)}
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

// headers are those that every request has.
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
	standard("Accept", "application/json, "+sse.ContentType)
	if !c.o.Compress {
		standard("Accept-Encoding", "identity")
	}
	if c.o.Token != "" {
		h["Authorization"] = []string{"Bearer " + c.o.Token}
	}
	return h
}

// Call posts one request and decodes its answer. See [jsonrpc.Peer].
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result})
}

// Stream is Call for a method that notifies about itself. The stream is read on the caller's goroutine, so nothing waits for
// on but the server.
func (c *Client) Stream(ctx context.Context, method string, params, result any, on func(*jsonrpc.Request) error) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result, On: on})
}

// Notify posts one notification and returns when the server has taken it.
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Notify: true})
}

// Do sends one message that needs more than Call takes. Its error is also in item.Err.
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
		return fmt.Errorf("httprpc: %s: %w", item.Method, err)
	}
	k, err := c.begin(ctx, c.o.Open != nil && c.o.Open(item.Method))
	if err != nil {
		return err
	}
	defer k.end()
	var more http.Header
	if c.o.Headers != nil {
		req := &jsonrpc.Request{ID: id, Method: item.Method}
		_ = jsonrpc.ScanVersion(c.o.Version, body, func(m *jsonrpc.Message) { req.Params = m.Params }) // we wrote it ourselves
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

// Send posts a payload as it is, and hands over each payload of the answer: the body, or the data of each event. What each is
// given is valid until it returns. An HTTP status from 300 on is a *StatusError, also when there was a payload.
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

// Close ends all calls with jsonrpc.ErrClosed, waits for them and for what they started, and closes idle connections of our own.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	for k := range c.calls {
		k.cancel(jsonrpc.ErrClosed)
	}
	c.mu.Unlock()
	c.wg.Wait()
	c.idle()
	return nil
}

// A call is one POST under way.
type call struct {
	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // nil: the context has a deadline, or nothing bounds the call
}

// begin registers a call, so that Close ends it and waits for it.
func (c *Client) begin(parent context.Context, open bool) (*call, error) {
	if c.badURL != nil {
		return nil, c.badURL
	}
	k := &call{client: c}
	k.ctx, k.cancel = context.WithCancelCause(parent)

	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		k.cancel(nil)
		return nil, jsonrpc.ErrClosed
	}
	c.wg.Add(1)
	c.calls[k] = struct{}{}
	c.mu.Unlock()

	if _, ok := parent.Deadline(); !ok && !open && c.o.CallTime > 0 {
		k.timer = time.AfterFunc(c.o.CallTime, func() { k.cancel(jsonrpc.ErrTimeout) })
	}
	return k, nil
}

// renew gives the call its whole time again.
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

// failed is what an error of the carrier means: when the call's context has ended, that is why.
func (k *call) failed(err error) error {
	if k.ctx.Err() != nil {
		err = context.Cause(k.ctx)
	}
	return fmt.Errorf("httprpc: %w", err)
}

// post makes the request. The answer's body is the caller's to close.
func (c *Client) post(k *call, payload []byte, more http.Header) (*http.Response, error) {
	if c.o.Tap != nil {
		c.o.Tap(true, payload)
	}
	header := maps.Clone(c.header) // whoever stands between us and the wire may add to it
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
	answer, err := c.http.Do(req)
	switch {
	case err == nil:
		return answer, nil
	case k.ctx.Err() == nil && isOthers(err):
		return nil, errLost
	}
	return nil, k.failed(err)
}

// errLost says that a request was answered without a body, and that nobody can say with which status.
var errLost = fmt.Errorf("httprpc: %w: it was empty, and is lost", jsonrpc.ErrBadResponse)

// ends are how the context of a call may end.
var ends = []error{context.Canceled, context.DeadlineExceeded, jsonrpc.ErrTimeout, jsonrpc.ErrClosed}

// isOthers reports whether err is the end of another call's context. net/http (Go 1.26) hands a connection on as soon as it has
// read an answer without a body, and before it hands over the answer. If the call that gets the connection is then given up,
// the one before it may see the connection end with the other's error. No other path leads here.
func isOthers(err error) bool {
	failed, ok := errors.AsType[*url.Error](err)
	return ok && slices.Contains(ends, failed.Err) // the values themselves: a timeout of the network Is a DeadlineExceeded
}

func (c *Client) report(what string, err error) {
	if c.o.Report != nil {
		c.o.Report(what, err)
	}
}
