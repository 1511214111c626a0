package streamable

import (
	"context"
	"crypto/tls"
	"fmt"
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
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A Bond is the relation of a message to the session.
type Bond uint8

const (
	// Unbound is the Bond of a self-contained message. It has no session ID, and a call is
	// cancelled by ending its request. If its stream breaks off, the call fails.
	Unbound Bond = iota

	// Opening is the Bond of a call that begins a session, whose ID may arrive with the response.
	// It is never cancelled with a message.
	Opening

	// Within is the Bond of a message with the ID of the session, if there is a session. A call is
	// cancelled by Cancellation, since ending its request does not cancel it, and a stream that
	// breaks off is resumed.
	Within
)

// A Manner defines how one message is sent.
type Manner struct {
	Bond   Bond
	Header http.Header   // sent in addition to the headers of all messages
	Time   time.Duration // instead of ClientOptions.CallTime, unless it is zero
}

// ClientOptions configure [NewClient]. The zero value is a client without sessions, for any server
// of JSON-RPC over POST.
type ClientOptions struct {
	// HTTP makes the requests. If nil, a new client is used. It is copied, and its Timeout is not
	// used; redirects are followed only to the same scheme, host and port, and only as the same
	// POST. Its Transport, if it is not an [http.Transport], may handle a refusal itself and send
	// the request again, by GetBody: for that it has at least 15 minutes between the first byte of
	// a response and the next request, in which no CallTime runs.
	HTTP *http.Client

	// TLS configures the client that is used if HTTP is nil; otherwise it has no effect.
	TLS *tls.Config

	// Header is sent with each request.
	Header http.Header

	// Token is sent as a bearer token with each request (RFC 6750).
	Token string

	// Manner returns how a request or notification is sent. If nil, each message is Unbound,
	// without headers.
	Manner func(*jsonrpc.Request) Manner

	// SessionHeader is the name of the header with the session ID. If "", there are no sessions.
	SessionHeader string

	// StreamHeader returns headers for requests that belong to the session but are not messages of
	// the caller: its GET and DELETE, and the responses to the server. It may be nil.
	StreamHeader func() http.Header

	// Cancellation defines the message that cancels a call Within the session. Without a method,
	// the server is not notified.
	Cancellation jsonrpc.Cancellation

	// Related returns the ID of the call that a notification on the stream of the session belongs
	// to. Notifications in the response to a call belong to that call.
	Related func(*jsonrpc.Request) (jsonrpc.ID, bool)

	// Back handles requests of the server. Each response is sent by a separate POST, on a separate
	// goroutine; 64 run at once, then their stream waits. Back also receives the notifications that
	// no call receives, in order. If nil, requests get "Method not found", and notifications are
	// reported.
	Back *jsonrpc.Answerer

	// Lost is called, on a goroutine that Close waits for, when the stream of a session detects
	// that the session is over. If nil, the next message detects it.
	Lost func(session string)

	// MaxMessage bounds one response, and one event of a stream, in bytes after decompression. Zero
	// means 16 MiB, negative means no bound. A call with a longer response fails with
	// jsonrpc.ErrTooLarge.
	MaxMessage int64

	// CallTime bounds a call whose context has no deadline; each event of a streamed response
	// renews it, and it is suspended while Back handles a request of the server. Zero means 60 s,
	// negative means no bound. When it expires, the call fails with jsonrpc.ErrTimeout.
	CallTime time.Duration

	// Open reports which methods have no CallTime. If nil, all methods have it. A server that sends
	// comments in a stream and then nothing for 45 s is treated as dead nevertheless.
	Open func(method string) bool

	// Tap, if not nil, is called with each payload that is sent or received. It must not retain the
	// payload. It is called from many goroutines.
	Tap func(out bool, payload []byte)

	// Report, if not nil, is called with what had to be dropped. It is called from many goroutines.
	Report func(what string, err error)
}

// A SessionError reports that the server does not have the session of a message, or no longer has
// it. The server has not processed the message, which may be sent again in a new session.
type SessionError struct {
	Session string
	Status  *httprpc.StatusError
}

func (e *SessionError) Error() string {
	return "streamable: the session has ended: " + e.Status.Error()
}

// Unwrap returns the server's response.
func (e *SessionError) Unwrap() error { return e.Status }

// A Client sends each message as one POST, whose response is plain or a stream, and manages the
// session and its own stream. It is a [jsonrpc.Peer], safe for concurrent use.
type Client struct {
	o      ClientOptions
	url    *url.URL
	badURL error
	http   *http.Client
	idle   func()      // closes idle connections
	header http.Header // of all requests
	posted http.Header // of POSTs: those of all requests, and the media types
	named  string      // SessionHeader in canonical form
	limit  int64
	ids    atomic.Int64
	// the Transport of ClientOptions.HTTP may handle a refusal itself
	handlesRefusals bool
	back            *bounded.Room // has a place for each server request that is being handled

	made time.Time // creation time of the Client
	// when the last such request was handled, in ns after made; 0 before the first
	backEnded atomic.Int64

	mu      sync.Mutex // guards the fields below
	closed  bool
	session string
	calls   map[*clientCall]struct{}
	// of calls and of what they started; Add only with mu held and closed false, or from within
	wg     sync.WaitGroup
	unhear context.CancelCauseFunc // ends the stream of the session; nil without a stream
}

const (
	clientMax      = 16 << 20
	clientCallTime = 60 * time.Second
	// for requests that no caller waits for: a cancel, a DELETE
	clientDrainTimeout = 2 * time.Second
	clientMissed       = 45 * time.Second // three comments of a server that sends one every 15 s
	// maximum delay between a response and the end of its stream
	clientLinger = 200 * time.Millisecond
	clientMaxID  = 1 << 10 // of a session ID, in bytes
)

// NewClient returns a Client of the server at address. It starts nothing and looks nothing up:
// every call returns an error if the address is invalid. Nil options are the zero ClientOptions.
func NewClient(address string, o *ClientOptions) *Client {
	c := &Client{calls: make(map[*clientCall]struct{}), back: bounded.NewRequestRoom(), made: time.Now()}
	if o != nil {
		c.o = *o
	}
	if c.url, c.badURL = origin.Parse(address); c.badURL != nil {
		c.badURL = fmt.Errorf("streamable: %w", c.badURL)
	}
	c.http, c.idle = origin.Client(c.o.HTTP, c.o.TLS)
	c.http.Timeout = 0
	if c.o.HTTP != nil && c.o.HTTP.Transport != nil {
		_, plain := c.o.HTTP.Transport.(*http.Transport)
		c.handlesRefusals = !plain
	}
	c.header = c.o.Header.Clone()
	if c.header == nil {
		c.header = make(http.Header)
	}
	c.header["Accept-Encoding"] = []string{"identity"}
	if c.o.Token != "" {
		c.header["Authorization"] = []string{"Bearer " + c.o.Token}
	}
	c.posted = maps.Clone(c.header)
	c.posted["Content-Type"] = []string{"application/json"}
	c.posted["Accept"] = []string{"application/json, " + eventstream.ContentType}
	c.named = http.CanonicalHeaderKey(c.o.SessionHeader)
	switch c.limit = c.o.MaxMessage; {
	case c.limit == 0:
		c.limit = clientMax
	case c.limit < 0:
		c.limit = 1<<62 - 1
	}
	if c.o.CallTime == 0 {
		c.o.CallTime = clientCallTime
	}
	return c
}

// Call posts one request and decodes its response. See [jsonrpc.Peer].
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result})
}

// Stream is Call for a method that sends notifications about the call. on is called by one
// goroutine at a time, usually the caller's; only the server waits for it.
func (c *Client) Stream(ctx context.Context, method string, params, result any, on func(*jsonrpc.Request) error) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result, On: on})
}

// Notify posts one notification and returns when the server has accepted it.
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Notify: true})
}

// Do sends one message that needs more than Call offers. Its error is also in item.Err. After a
// *[SessionError] the message may be sent again; an HTTP response that is not a JSON-RPC response
// is a *httprpc.StatusError.
func (c *Client) Do(ctx context.Context, item *jsonrpc.Item) error {
	item.Err = c.do(ctx, item)
	return item.Err
}

func (c *Client) do(ctx context.Context, item *jsonrpc.Item) error {
	req := &jsonrpc.Request{Method: item.Method}
	var body []byte
	var err error
	if item.Notify {
		body, err = jsonrpc.AppendNotification(nil, jsonrpc.Version2, item.Method, item.Params)
	} else {
		if req.ID = item.ID; req.ID.IsZero() {
			req.ID = jsonrpc.IntID(c.ids.Add(1))
		}
		body, err = jsonrpc.AppendRequest(make([]byte, 0, 512), jsonrpc.Version2, req.ID, item.Method, item.Params)
	}
	if err != nil {
		return jsonrpc.AsNotSent(fmt.Errorf("streamable: %s: %w", item.Method, err))
	}
	var m Manner
	if c.o.Manner != nil {
		if raw, ok := item.Params.(jsonrpc.Raw); ok {
			req.Params = raw
		} else if item.Params != nil {
			// body was encoded here, so it is valid
			_ = jsonrpc.Scan(body, func(m *jsonrpc.Message) { req.Params = m.Params })
		}
		m = c.o.Manner(req)
	}
	bound := c.o.CallTime
	switch {
	case m.Time != 0:
		bound = m.Time
	case c.o.Open != nil && c.o.Open(item.Method):
		bound = -1
	}
	k, err := c.begin(ctx, bound)
	if err != nil {
		return err
	}
	defer k.end()
	c.mu.Lock() // messages of other streams look for the call by its ID
	k.use, k.id, k.on, k.result = m.Bond, req.ID, item.On, item.Result
	c.mu.Unlock()
	if item.Notify {
		return k.notified(c.post(k, body, m.Header))
	}
	k.settle(k.receive(c.post(k, body, m.Header))) // unless the stream of the session had the response
	err = k.outcome()
	if m.Bond == Within && k.ctx.Err() != nil && !k.isAnswered() {
		c.cancel(k)
	}
	return err
}

// cancel sends the notification that cancels a call, and does not wait for it. It is begun here,
// before the caller of the call continues, so that a later Close waits for it and ends the session
// only then.
func (c *Client) cancel(k *clientCall) {
	if c.o.Cancellation.Method == "" {
		return
	}
	req := &jsonrpc.Request{Method: c.o.Cancellation.Method, Params: fmt.Appendf(nil, `{%q:%s}`, c.o.Cancellation.Member, k.id)}
	body, err := jsonrpc.AppendNotification(nil, jsonrpc.Version2, req.Method, req.Params)
	if err != nil {
		c.report(ReportCancel, err)
		return
	}
	n, err := c.begin(context.WithoutCancel(k.ctx), clientDrainTimeout)
	if err != nil {
		return // closed: the end of the session cancels the call
	}
	c.mu.Lock()
	delete(c.calls, n) // Close does not end it, but waits for it
	c.mu.Unlock()
	var m Manner
	if c.o.Manner != nil {
		m = c.o.Manner(req)
	}
	n.use = m.Bond
	go func() {
		defer n.end()
		defer rescue.Catch(c.report, nil) // of an http.RoundTripper
		if err := n.notified(c.post(n, body, m.Header)); err != nil {
			c.report(ReportCancel, err)
		}
	}()
}

// Session returns the ID of the session, or "" without a session.
func (c *Client) Session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// opened stores the ID of the session that a response began.
func (c *Client) opened(answer *http.Response) error {
	if c.o.SessionHeader == "" {
		return nil
	}
	id := answer.Header.Get(c.o.SessionHeader)
	if len(id) > clientMaxID || slices.ContainsFunc([]byte(id), func(b byte) bool { return b < 0x21 || b > 0x7e }) {
		return fmt.Errorf("%w: its session id is too long or contains characters that are not visible ASCII", jsonrpc.ErrBadResponse)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = id
	return nil
}

// Close ends all calls with jsonrpc.ErrClosed, deletes the session at the server within 2 s, waits
// for everything that the Client started, and closes idle connections of its own HTTP client.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	session := c.session
	for k := range c.calls {
		k.cancel(jsonrpc.ErrClosed)
	}
	if c.unhear != nil {
		c.unhear(jsonrpc.ErrClosed)
	}
	c.mu.Unlock()
	grace.Wait(&c.wg, grace.Time) // a caller's function may not return
	if first && session != "" {
		c.deleteSession(session)
	}
	c.idle()
	return nil
}

// deleteSession ends a session. A server that does not permit it responds with 405; the result is
// ignored.
func (c *Client) deleteSession(session string) {
	ctx, stop := context.WithTimeout(context.Background(), clientDrainTimeout)
	defer stop()
	answer, err := c.http.Do(c.request(ctx, http.MethodDelete, nil, c.streamHeader(), session))
	if err != nil {
		c.report(ReportSessionEnd, err)
		return
	}
	clientDrain(answer.Body)
	answer.Body.Close()
}

func (c *Client) report(what string, err error) {
	report.Call(c.o.Report, "streamable", what, err)
}
