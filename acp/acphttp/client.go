package acphttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// DialOptions configures [Dial]. The zero value is ready to use.
type DialOptions struct {
	acp.ClientOptions

	// HTTP is the client that makes the requests. If nil, Dial creates one. It is copied: redirects
	// are followed only to the same scheme, host and port. Its Timeout would end streams, and is
	// not used.
	HTTP *http.Client

	// TLS configures the client that Dial creates. It is ignored if HTTP is set.
	TLS *tls.Config

	// Header is sent with each request.
	Header http.Header

	// Token is sent as a bearer token with each request (RFC 6750).
	Token string

	// MaxMessage bounds one response, and one event, in bytes. If zero, it is 16 MiB; if negative,
	// there is no bound. A larger one is jsonrpc.ErrTooLarge.
	MaxMessage int64

	// CallTime is the timeout of a request that does not wait for a run and whose context has no
	// deadline. If zero, it is 60 s; if negative, there is no timeout.
	CallTime time.Duration

	// Poll is the interval for polling a run whose server has no stream to subscribe to. If zero,
	// it is 500 ms.
	Poll time.Duration
}

// Dial returns a client of the REST binding at base, such as "http://127.0.0.1:8000". It starts
// nothing and does not connect before the first call. The client works with any conforming server,
// and uses our extensions if the server has them.
func Dial(base string, o *DialOptions) (*acp.Client, error) {
	if o == nil {
		o = &DialOptions{}
	}
	at, err := origin.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("acphttp: %w", err)
	}
	at.RawQuery, at.Fragment = "", ""
	at.Path = strings.TrimSuffix(at.Path, "/")
	l := &link{base: at, opts: *o}
	if l.opts.MaxMessage == 0 {
		l.opts.MaxMessage = 16 << 20
	}
	if l.opts.CallTime == 0 {
		l.opts.CallTime = time.Minute
	}
	if l.opts.Poll <= 0 {
		l.opts.Poll = 500 * time.Millisecond
	}
	l.http, l.idle = origin.Client(o.HTTP, o.TLS)
	l.http.Timeout = 0
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return acp.NewClient(l, &o.ClientOptions), nil
}

// A link translates calls of the JSON-RPC binding to requests of the REST binding.
type link struct {
	base   *url.URL
	opts   DialOptions
	http   *http.Client
	idle   func()
	ctx    context.Context // canceled by Close
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards the fields below
	closed  bool
	running sync.WaitGroup // Add only with mu held and closed false
}

// enter begins a call. It reports false if the link is closed.
func (l *link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.running.Add(1)
	return true
}

// Do makes one call.
func (l *link) Do(ctx context.Context, item *jsonrpc.Item) error {
	item.Err = l.do(ctx, item)
	return item.Err
}

func (l *link) do(ctx context.Context, item *jsonrpc.Item) error {
	if !l.enter() {
		return jsonrpc.ErrClosed
	}
	defer l.running.Done()
	c := &call{link: l, item: item}
	if err := c.read(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(jsonrpc.ErrClosed) })()
	c.cancel = cancel
	if _, ok := ctx.Deadline(); !ok && !acp.Open(item.Method) && l.opts.CallTime > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, l.opts.CallTime, jsonrpc.ErrTimeout)
		defer end()
	}
	err := c.do(ctx)
	if err != nil && ctx.Err() != nil && c.refused == nil {
		return context.Cause(ctx)
	}
	return err
}

// Batch makes all calls, up to 16 at once: REST has no batches.
func (l *link) Batch(ctx context.Context, items []jsonrpc.Item) error {
	var all sync.WaitGroup
	turn := make(chan struct{}, 16)
	for i := range items {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			// Params and results of the user may panic; the item holds the result.
			defer rescue.Catch(nil, func(err error) { items[i].Err = err })
			_ = l.Do(ctx, &items[i])
		})
	}
	all.Wait()
	return nil
}

// Close ends all calls and waits for them.
func (l *link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel(jsonrpc.ErrClosed)
	grace.Wait(&l.running, grace.Time) // the caller's callbacks may not return
	l.idle()
	return nil
}

// A call is one call of the JSON-RPC binding in progress.
type call struct {
	link    *link
	item    *jsonrpc.Item
	cancel  context.CancelCauseFunc
	refused error // error from On

	in struct { // the params that determine the request
		Name      string      `json:"name"`
		RunID     string      `json:"run_id"`
		SessionID string      `json:"session_id"`
		After     int64       `json:"after"`
		Limit     int         `json:"limit"`
		Offset    int         `json:"offset"`
		Mode      acp.RunMode `json:"mode"`
	}
	body jsonrpc.Raw
}

// read decodes the params.
func (c *call) read() error {
	raw, ok := c.item.Params.(jsonrpc.Raw)
	if !ok {
		return fmt.Errorf("acphttp: %s: params are %T, not a jsonrpc.Raw", c.item.Method, c.item.Params)
	}
	c.body = raw
	return raw.Decode(&c.in)
}

func (c *call) do(ctx context.Context) error {
	run := "/runs/" + url.PathEscape(c.in.RunID)
	switch c.item.Method {
	case acp.MethodPing:
		return c.get(ctx, "/ping")
	case acp.MethodAgentsList:
		return c.get(ctx, "/agents"+c.page())
	case acp.MethodAgentsGet:
		return c.get(ctx, "/agents/"+url.PathEscape(c.in.Name))
	case acp.MethodRunsGet:
		return c.get(ctx, run)
	case acp.MethodRunsCancel:
		return c.post(ctx, run+"/cancel", nil)
	case acp.MethodSessionsGet:
		return c.get(ctx, "/sessions/"+url.PathEscape(c.in.SessionID))
	case acp.MethodRunsEvents:
		return c.events(ctx, run+"/events")
	case acp.MethodRunsSubscribe:
		return c.subscribe(ctx, run)
	case acp.MethodRunsCreate:
		run = "/runs"
	case acp.MethodRunsResume:
	default:
		return jsonrpc.ErrMethodNotFound
	}
	if c.in.Mode == acp.ModeStream {
		return c.stream(ctx, run)
	}
	return c.post(ctx, run, c.body)
}

// page returns the query of agents/list.
func (c *call) page() string {
	q := url.Values{}
	if c.in.Limit != 0 {
		q.Set("limit", strconv.Itoa(c.in.Limit))
	}
	if c.in.Offset != 0 {
		q.Set("offset", strconv.Itoa(c.in.Offset))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// send makes a request. The caller closes the body of the response.
func (c *call) send(ctx context.Context, method, path, accept string, body jsonrpc.Raw, header http.Header) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.link.base.String()+path, reader)
	if err != nil {
		return nil, err
	}
	for _, more := range []http.Header{c.link.opts.Header, header} {
		for name, values := range more {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if c.link.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.link.opts.Token)
	}
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.link.http.Do(req)
	if err != nil {
		err = fmt.Errorf("acphttp: %w", err)
		if origin.Unreached(err) {
			err = jsonrpc.AsNotSent(err)
		}
		return nil, err
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		return nil, c.refusal(answer)
	}
	return answer, nil
}

func (c *call) get(ctx context.Context, path string) error {
	return c.plain(ctx, http.MethodGet, path, nil)
}

func (c *call) post(ctx context.Context, path string, body jsonrpc.Raw) error {
	return c.plain(ctx, http.MethodPost, path, body)
}

// plain makes a request whose response is one JSON text.
func (c *call) plain(ctx context.Context, method, path string, body jsonrpc.Raw) error {
	answer, err := c.send(ctx, method, path, "application/json", body, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return c.decode(answer, c.item.Result)
}

// decode decodes the body of a response.
func (c *call) decode(answer *http.Response, result any) error {
	text, err := c.text(answer.Body)
	if err != nil {
		return err
	}
	raw, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return fmt.Errorf("acphttp: %w: it begins with %.64q", jsonrpc.ErrBadResponse, text)
	}
	if result == nil {
		return nil
	}
	if err := raw.Decode(result); err != nil {
		return fmt.Errorf("acphttp: %w: %w", jsonrpc.ErrBadResponse, err)
	}
	return nil
}

// text reads a body of at most MaxMessage bytes.
func (c *call) text(body io.Reader) ([]byte, error) {
	limit := c.link.opts.MaxMessage
	if limit > 0 {
		body = io.LimitReader(body, limit+1)
	}
	text, err := io.ReadAll(body)
	if err == nil && limit > 0 && int64(len(text)) > limit {
		err = fmt.Errorf("an answer over %d bytes: %w", limit, jsonrpc.ErrTooLarge)
	}
	if err != nil {
		return nil, fmt.Errorf("acphttp: %w", err)
	}
	return text, nil
}

// refusal reads an error response. If it is not an error of this protocol, the result is a
// [*httprpc.StatusError].
func (c *call) refusal(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("acphttp: HTTP %d: %w", answer.StatusCode, err)
	}
	var e acp.Error
	if raw, err := jsonrpc.ParseRaw(text); err != nil || raw.Decode(&e) != nil || e.Code == "" {
		return &httprpc.StatusError{Status: answer.StatusCode, Header: answer.Header, Body: text[:min(len(text), 1<<10)]}
	}
	return &jsonrpc.Error{Code: c.code(answer.StatusCode, e.Code), Message: e.Message, Data: text}
}

const maxRefusal = 64 << 10

// code returns the code of the JSON-RPC binding for an error response, whose status is more
// specific than its own code.
func (c *call) code(status int, code acp.ErrorCode) int64 {
	switch {
	case status == http.StatusNotFound || code == acp.CodeNotFound:
		return acp.RPCNotFound
	case code == acp.CodeInvalidInput:
		return jsonrpc.CodeInvalidParams
	case status == http.StatusForbidden && c.item.Method == acp.MethodRunsCancel:
		return acp.RPCOver
	case status == http.StatusForbidden && c.item.Method == acp.MethodRunsResume:
		return acp.RPCNotAwaiting
	case status == http.StatusGone:
		return acp.RPCNotKept
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests:
		return jsonrpc.CodeBusy
	}
	return jsonrpc.CodeInternalError
}
