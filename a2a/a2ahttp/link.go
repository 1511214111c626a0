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
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// A StatusError is an HTTP answer that is none of the protocol.
type StatusError = sse.StatusError

// The kinds of a StatusError, for errors.Is.
var (
	ErrUnauthorized = sse.ErrUnauthorized // 401
	ErrForbidden    = sse.ErrForbidden    // 403
)

// Options tune Dial and NewClient. The zero value is ready for use.
type Options struct {
	a2a.ClientOptions

	// HTTP makes the requests. Nil means a client of our own. It is copied: redirects are followed only to the same scheme, host and port.
	HTTP *http.Client

	// TLS is for the client of our own; it is not used beside HTTP.
	TLS *tls.Config

	// Header is sent with each request, and Token as a bearer token. They stay at the origin that was dialled: an interface that the card
	// has elsewhere does not get them, unless Anywhere is set.
	Header   http.Header
	Token    string
	Anywhere bool

	// Bindings are those to use, best first. Nil means JSONRPC, HTTP+JSON.
	Bindings []string

	// MaxMessage bounds one answer, and one event of a stream, in bytes. Zero means 16 MiB, negative means no bound.
	MaxMessage int64

	// CallTime bounds a call whose context has no deadline and that has one: not sending or streaming. Zero means 60 s, negative
	// means no bound. A stream that its server kept alive and that is silent for 45 s is taken for broken nevertheless.
	CallTime time.Duration

	// Parallel is how many single calls run at once in place of a batch that the agent does not take. Zero means 16.
	Parallel int
}

const (
	defaultMax      = 16 << 20
	defaultCallTime = 60 * time.Second
	defaultParallel = 16
	defaultResume   = 5
	patience        = 45 * time.Second // three comments that did not come
)

// A link makes each call one request.
type link struct {
	o       Options
	url     *url.URL
	bad     error
	http    *http.Client
	idle    func()
	limit   int64
	ids     atomic.Int64
	singles atomic.Bool // the agent takes no batches

	ctx    context.Context
	cancel context.CancelCauseFunc
	mu     sync.Mutex // guards what follows
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
	l.calls.Wait()
	l.idle()
	return nil
}

// begin makes the context of one call, which ends with the link too.
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

// request makes a request with the headers that all have.
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
	if svc.Version != "" && svc.Version != a2a.V03.String() { // peers of 0.3 know no such header
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

// accepts is the Accept header for a call.
func accepts(stream bool, contentType string) string {
	if stream {
		return sse.ContentType + ", " + contentType
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

// failed is what an error of the carrier means: when the call's context has ended, that is why.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("a2ahttp: %w", err)
}

// An inbox takes one answer.
type inbox struct {
	l    *link
	ctx  context.Context
	end  context.CancelCauseFunc
	item *jsonrpc.Item
	id   jsonrpc.ID
}

// read hands over what an answer holds: its body, or the data of each event with the event's number, which is 0 if it has none.
func (in *inbox) read(answer *http.Response, take func(data []byte, seq int64, event bool) error) error {
	if sse.IsStream(answer) {
		return in.stream(answer, take)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, in.l.limit+1))
	switch {
	case err != nil:
		return failed(in.ctx, err)
	case int64(len(body)) > in.l.limit:
		return jsonrpc.ErrTooLarge
	}
	isJSON := strings.HasSuffix(sse.MediaType(answer), "json") ||
		answer.StatusCode == http.StatusOK && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) // a2a-go 2.3.1 says text/plain with errors of 0.3
	if answer.StatusCode >= 300 && !isJSON || !isJSON && len(body) > 0 {
		answer.Body = io.NopCloser(bytes.NewReader(body))
		return sse.NewStatusError(answer)
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
	events := sse.NewReader(answer.Body, in.l.limit)
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

// response takes one JSON-RPC response. In a stream it is a notification, as package a2a has them.
func (in *inbox) response(data []byte, seq int64, event bool) error {
	err := fmt.Errorf("%w: it is none to this call", jsonrpc.ErrBadResponse)
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

// notification is one event of a stream as package a2a has it.
func notification(id jsonrpc.ID, seq int64, response jsonrpc.Raw) *jsonrpc.Request {
	params := id.Append([]byte(`{"request_id":`))
	params = strconv.AppendInt(append(params, `,"seq":`...), seq, 10)
	params = append(append(params, `,"response":`...), response...)
	return &jsonrpc.Request{Method: a2a.MethodStream, Params: append(params, '}')}
}
