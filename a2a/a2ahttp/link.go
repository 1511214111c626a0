package a2ahttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A StatusError is an HTTP response that is not a response of the protocol.
type StatusError = httprpc.StatusError

// The kinds of a StatusError, for errors.Is.
var (
	ErrUnauthorized = httprpc.ErrUnauthorized // 401
	ErrForbidden    = httprpc.ErrForbidden    // 403
)

// Options configures Dial and NewClient. The zero value is ready to use.
type Options struct {
	a2a.ClientOptions

	// HTTP is the client that makes the requests. If nil, one is created. It is copied: redirects
	// are followed only to the same scheme, host and port.
	HTTP *http.Client

	// TLS configures the created client. It is ignored if HTTP is set.
	TLS *tls.Config

	// Header is sent with each request, and Token as a bearer token. They are sent to the dialled
	// origin only: an interface that the card has at another origin does not get them, unless
	// Anywhere is set.
	Header   http.Header
	Token    string
	Anywhere bool

	// Bindings lists the bindings to use, best first. If nil, they are JSONRPC, HTTP+JSON.
	Bindings []string

	// MaxMessage bounds one response, and one event of a stream, in bytes. If zero, it is 16 MiB;
	// if negative, there is no bound.
	MaxMessage int64

	// CallTime is the timeout of a call whose context has no deadline, except for sending and
	// streaming. If zero, it is 60 s; if negative, there is no timeout. A stream that its server
	// kept alive and that is silent for 45 s is treated as broken in any case.
	CallTime time.Duration

	// Parallel is how many single calls run at once in place of a batch that the agent does not
	// accept. If zero, it is 16.
	Parallel int
}

const (
	defaultMax      = 16 << 20
	defaultCallTime = 60 * time.Second
	defaultParallel = 16
	defaultResume   = 5
	patience        = 45 * time.Second // three missing comments
)

// A link makes one request for each call.
type link struct {
	o       Options
	url     *url.URL
	bad     error
	http    *http.Client
	idle    func()
	limit   int64
	ids     atomic.Int64
	singles atomic.Bool // the agent accepts no batches

	ctx    context.Context
	cancel context.CancelCauseFunc
	mu     sync.Mutex // guards the fields below
	closed bool
	calls  sync.WaitGroup // Add only with mu held and closed false
}

func newLink(address string, o *Options, client *http.Client) *link {
	l := &link{o: *o}
	l.url, l.bad = origin.Parse(address)
	if client != nil {
		l.http, l.idle = client, client.CloseIdleConnections
	} else {
		l.http, l.idle = origin.Client(o.HTTP, o.TLS)
	}
	switch l.limit = o.MaxMessage; {
	case l.limit == 0:
		l.limit = defaultMax
	case l.limit < 0:
		l.limit = 1<<62 - 1
	}
	if l.o.CallTime == 0 {
		l.o.CallTime = defaultCallTime
	}
	if l.o.Parallel <= 0 {
		l.o.Parallel = defaultParallel
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// Close ends all calls and waits for them.
func (l *link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel(jsonrpc.ErrClosed)
	grace.Wait(&l.calls, grace.Time) // the caller's callbacks may not return
	l.idle()
	return nil
}

// begin returns the context of one call, which is also canceled when the link closes.
func (l *link) begin(parent context.Context, open bool) (ctx context.Context, end context.CancelCauseFunc, err error) {
	if l.bad != nil {
		return nil, nil, fmt.Errorf("a2ahttp: %w", l.bad)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, jsonrpc.ErrClosed
	}
	l.calls.Add(1)
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(l.ctx, func() { cancel(jsonrpc.ErrClosed) })
	var timer *time.Timer
	if _, bounded := parent.Deadline(); !bounded && !open && l.o.CallTime > 0 {
		timer = time.AfterFunc(l.o.CallTime, func() { cancel(jsonrpc.ErrTimeout) })
	}
	var once sync.Once
	return ctx, func(cause error) {
		cancel(cause)
		once.Do(func() {
			stop()
			if timer != nil {
				timer.Stop()
			}
			l.calls.Done()
		})
	}, nil
}

// request returns a request with the headers that all requests have.
func (l *link) request(ctx context.Context, method string, to *url.URL, body []byte, accept string) *http.Request {
	req := (&http.Request{Method: method, URL: to, Host: to.Host, Header: l.o.Header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	if req.Header == nil {
		req.Header = http.Header{}
	}
	h := req.Header
	if body != nil {
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.ContentLength = int64(len(body))
	}
	h.Set("Accept", accept)
	if l.o.Token != "" {
		h.Set("Authorization", "Bearer "+l.o.Token)
	}
	svc := a2a.ServiceOf(ctx)
	// peers of 0.3 do not define this header
	if svc.Version != "" && svc.Version != a2a.V03.String() {
		h.Set(a2a.HeaderVersion, svc.Version)
	}
	if len(svc.Extensions) > 0 {
		name := a2a.HeaderExtensions
		if svc.Version == a2a.V03.String() {
			name = a2a.HeaderExtensions03
		}
		h.Set(name, strings.Join(svc.Extensions, ","))
	}
	if svc.LastEvent != "" {
		h.Set(a2a.HeaderLastEvent, svc.LastEvent)
	}
	return req
}

// accepts returns the Accept header for a call.
func accepts(stream bool, contentType string) string {
	if stream {
		return eventstream.ContentType + ", " + contentType
	}
	return contentType
}

// Do implements [a2a.Link].
func (l *link) Do(ctx context.Context, item *jsonrpc.Item) error {
	item.Err = l.do(ctx, item)
	return item.Err
}

func (l *link) do(ctx context.Context, item *jsonrpc.Item) error {
	ctx, end, err := l.begin(ctx, a2a.Open(item.Method))
	if err != nil {
		return err
	}
	defer end(nil)
	id := jsonrpc.IntID(l.ids.Add(1))
	body, err := jsonrpc.AppendRequest(nil, jsonrpc.Version2, id, item.Method, item.Params)
	if err != nil {
		return err
	}
	req := l.request(ctx, http.MethodPost, l.url, body, accepts(item.On != nil, "application/json"))
	req.Header.Set("Content-Type", "application/json")
	answer, err := l.http.Do(req)
	if err != nil {
		return failed(ctx, err)
	}
	defer answer.Body.Close()
	in := inbox{l: l, ctx: ctx, end: end, item: item, id: id}
	return in.read(answer, in.response)
}

// failed returns the error of a call: the context's cause if it is canceled, and otherwise a
// transport error.
func failed(ctx context.Context, err error) error {
	if origin.Unreached(err) {
		return jsonrpc.AsNotSent(fmt.Errorf("a2ahttp: %w", err))
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("a2ahttp: %w", err)
}

// An inbox receives one response.
type inbox struct {
	l    *link
	ctx  context.Context
	end  context.CancelCauseFunc
	item *jsonrpc.Item
	id   jsonrpc.ID
}

// read passes on the content of a response: its body, or the data of each event with the event's
// number, which is 0 if it has none.
func (in *inbox) read(answer *http.Response, take func(data []byte, seq int64, event bool) error) error {
	if eventstream.IsStream(answer) {
		return in.stream(answer, take)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, in.l.limit+1))
	switch {
	case err != nil:
		return failed(in.ctx, err)
	case int64(len(body)) > in.l.limit:
		return jsonrpc.ErrTooLarge
	}
	isJSON := strings.HasSuffix(eventstream.MediaType(answer), "json") ||
		// a2a-go 2.3.1 sends text/plain with errors of 0.3
		answer.StatusCode == http.StatusOK && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{"))
	if answer.StatusCode >= 300 && !isJSON || !isJSON && len(body) > 0 {
		answer.Body = io.NopCloser(bytes.NewReader(body))
		return httprpc.NewStatusError(answer)
	}
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		e := &StatusError{Status: answer.StatusCode, Header: answer.Header, Body: body[:min(len(body), 1024)]}
		if theirs, ok := errors.AsType[*jsonrpc.Error](take(body, 0, false)); ok {
			e.Err = theirs
		}
		return e
	}
	return take(body, 0, false)
}

func (in *inbox) stream(answer *http.Response, take func(data []byte, seq int64, event bool) error) error {
	events := eventstream.NewReader(answer.Body, in.l.limit)
	events.OnSilence(patience, func() { in.end(jsonrpc.ErrTimeout) })
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case errors.Is(err, jsonrpc.ErrTooLarge):
			return err
		case err != nil:
			return failed(in.ctx, err)
		}
		seq, err := strconv.ParseInt(e.ID, 10, 64) // other servers have other ids
		if err != nil || seq < 0 {
			seq = 0
		}
		if err := take(e.Data, seq, true); err != nil {
			return err
		}
	}
}

// response handles one JSON-RPC response. In a stream it is converted to a notification of package
// a2a.
func (in *inbox) response(data []byte, seq int64, event bool) error {
	err := fmt.Errorf("%w: it does not match this call", jsonrpc.ErrBadResponse)
	if e := jsonrpc.Scan(data, func(m *jsonrpc.Message) {
		switch {
		case m.Request || m.Bad != nil:
		case m.Error != nil && (m.ID == in.id || m.ID.IsNull()):
			err = m.Decode(nil)
		case m.ID == in.id && (in.item.On == nil || !event):
			err = m.Decode(in.item.Result)
		case m.ID == in.id:
			err = in.item.On(notification(in.id, seq, m.Result))
		}
	}); e != nil {
		return fmt.Errorf("%w: %w", jsonrpc.ErrBadResponse, errors.New(e.Message))
	}
	return err
}

// notification returns one event of a stream as a notification of package a2a.
func notification(id jsonrpc.ID, seq int64, response jsonrpc.Raw) *jsonrpc.Request {
	e := a2a.StreamEvent{RequestID: id, Seq: seq, Response: response}
	params, _ := e.AppendJSON(nil) // never fails
	return &jsonrpc.Request{Method: a2a.MethodStream, Params: params}
}
