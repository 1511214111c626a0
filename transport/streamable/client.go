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

	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// A Bond is what a message has to do with the session.
type Bond uint8

const (
	// Unbound: the message says all that there is to know. It carries no session id, and a call is given up by ending its request. A
	// stream that breaks off takes the call with it.
	Unbound Bond = iota

	// Opening: the call begins a session, whose id may come with the answer. It is never cancelled with a message.
	Opening

	// Within: the message carries the id of the session, if there is one. A call is given up by Cancellation, since ending its request
	// says nothing, and a stream that breaks off is asked for again.
	Within
)

// A Manner is how one message is carried.
type Manner struct {
	Bond   Bond
	Header http.Header   // sent with it, besides those that all have
	Time   time.Duration // instead of ClientOptions.CallTime, unless it is zero
}

// ClientOptions tune [NewClient]. The zero value is a client without sessions, which can do what any client of JSON-RPC over POST can.
type ClientOptions struct {
	// HTTP makes the requests. Nil means a client of our own. It is copied, and its Timeout is not used; redirects are followed only to the
	// same scheme, host and port, and only as the same POST. Its Transport may answer a refusal itself and send the request again, by GetBody: while it
	// does so, between the first byte of an answer and the next request, no CallTime runs.
	HTTP *http.Client

	// TLS is for the client of our own; it is not used beside HTTP.
	TLS *tls.Config

	// Header is sent with each request.
	Header http.Header

	// Token is sent as a bearer token with each request (RFC 6750).
	Token string

	// Manner tells how a request or notification is carried. Nil: Unbound, without headers.
	Manner func(*jsonrpc.Request) Manner

	// SessionHeader is the name of the header with the id of the session. "" means that there are no sessions.
	SessionHeader string

	// StreamHeader makes headers for what is no message of ours but belongs to the session: its GET and DELETE, and our answers. Nil: none.
	StreamHeader func() http.Header

	// Cancellation is how the server hears that a call Within the session is given up. Without a method it does not.
	Cancellation jsonrpc.Cancellation

	// Related tells which of our calls a notification on the stream of the session is about. What comes in the answer to a call is about that call.
	Related func(*jsonrpc.Request) (jsonrpc.ID, bool)

	// Back answers requests of the server, each by a POST of its own, on a goroutine of its own; 64 run at once, then their stream
	// waits. It also gets the notifications that no call takes, in order. Nil: requests are answered "Method not found", notifications reported.
	Back *jsonrpc.Answerer

	// Lost is called, on a goroutine that Close waits for, when the stream of a session found that the session is over. Nil: nobody is told until the next message.
	Lost func(session string)

	// MaxMessage bounds one answer, and one event of a stream, in bytes after decompression. Zero means 16 MiB, negative means no bound. A
	// call with a longer answer fails with jsonrpc.ErrTooLarge.
	MaxMessage int64

	// CallTime bounds a call whose context has no deadline; each event of a streamed answer renews it, and it stands still while Back
	// answers the server. Zero means 60 s, negative means no bound. Then the call fails with jsonrpc.ErrTimeout.
	CallTime time.Duration

	// Open tells which methods have no CallTime. Nil: none. A server that kept a stream alive with comments and then sends nothing for
	// 45 s is taken for dead nevertheless.
	Open func(method string) bool

	// Tap, if not nil, sees each payload: what is sent, and what has come. It must not keep it. It is called from many goroutines.
	Tap func(out bool, payload []byte)

	// Report, if not nil, hears of what had to be dropped. It is called from many goroutines.
	Report func(what string, err error)
}

// A SessionError says that the server knows the session of a message no more, or never did: it has not looked at the message, which may be
// sent again once there is another session.
type SessionError struct {
	Session string
	Status  *sse.StatusError
}

func (e *SessionError) Error() string { return "streamable: the session is over: " + e.Status.Error() }

// Unwrap returns what the server answered.
func (e *SessionError) Unwrap() error { return e.Status }

// A Client makes each message one POST, whose answer is plain or a stream, and keeps the session and its own stream. It is a
// [jsonrpc.Peer], safe for concurrent use.
type Client struct {
	o      ClientOptions
	url    *url.URL
	badURL error
	http   *http.Client
	idle   func()      // closes idle connections
	header http.Header // of all requests
	posted http.Header // of POSTs: those, and the types
	named  string      // SessionHeader, as net/http keeps it
	limit  int64
	ids    atomic.Int64
	back   chan struct{} // one place for each request of the server that is being answered

	mu      sync.Mutex // guards what is below
	closed  bool
	session string
	calls   map[*clientCall]struct{}
	wg      sync.WaitGroup          // of calls and of what they started; Add only with mu held and closed false, or from within
	unhear  context.CancelCauseFunc // ends the stream of the session; nil: there is none
}

const (
	clientMax      = 16 << 20
	clientCallTime = 60 * time.Second
	clientBack     = 64
	clientFarewell = 2 * time.Second        // for what nobody waits for: a cancel, a DELETE
	clientMissed   = 45 * time.Second       // three comments of a server that sends one in 15 s
	clientLinger   = 200 * time.Millisecond // how long the end of a stream may be behind its answer
	clientMaxID    = 1 << 10                // of a session's id, in bytes
)

// NewClient makes a Client of the server at address. It starts nothing and looks nothing up: what is wrong with the address is the error
// of every call. Nil options are the zero ClientOptions.
func NewClient(address string, o *ClientOptions) *Client {
	c := &Client{calls: make(map[*clientCall]struct{}), back: make(chan struct{}, clientBack)}
	if o != nil {
		c.o = *o
	}
	if c.url, c.badURL = origin.Parse(address); c.badURL != nil {
		c.badURL = fmt.Errorf("streamable: %w", c.badURL)
	}
	c.http, c.idle = origin.Client(c.o.HTTP, c.o.TLS)
	c.http.Timeout = 0
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
	c.posted["Accept"] = []string{"application/json, " + sse.ContentType}
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

// Call posts one request and decodes its answer. See [jsonrpc.Peer].
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result})
}

// Stream is Call for a method that notifies about itself. on is called by one goroutine at a time, usually the caller's; nothing waits for it but the server.
func (c *Client) Stream(ctx context.Context, method string, params, result any, on func(*jsonrpc.Request) error) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result, On: on})
}

// Notify posts one notification and returns when the server has taken it.
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	return c.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Notify: true})
}

// Do sends one message that needs more than Call takes. Its error is also in item.Err. A *[SessionError] says that the message may be sent
// again; an HTTP answer that is no JSON-RPC answer is a *sse.StatusError.
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
		return fmt.Errorf("streamable: %s: %w", item.Method, err)
	}
	var m Manner
	if c.o.Manner != nil {
		if raw, ok := item.Params.(jsonrpc.Raw); ok {
			req.Params = raw
		} else if item.Params != nil {
			_ = jsonrpc.Scan(body, func(m *jsonrpc.Message) { req.Params = m.Params }) // we wrote it ourselves
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
	k.bond, k.id, k.on, k.result = m.Bond, req.ID, item.On, item.Result
	if item.Notify {
		return k.notified(c.post(k, body, m.Header))
	}
	err = k.receive(c.post(k, body, m.Header))
	if m.Bond == Within && k.ctx.Err() != nil && !k.isAnswered() {
		c.cancel(k)
	}
	return err
}

// cancel tells the server that nobody waits for a call any more, and does not wait for that.
func (c *Client) cancel(k *clientCall) {
	if c.o.Cancellation.Method == "" || c.isClosed() {
		return
	}
	params := fmt.Appendf(nil, `{%q:%s}`, c.o.Cancellation.Member, k.id)
	ctx := context.WithoutCancel(k.ctx)
	c.wg.Go(func() { // the call is counted, so Close is still waiting
		ctx, stop := context.WithTimeout(ctx, clientFarewell)
		defer stop()
		if err := c.Notify(ctx, c.o.Cancellation.Method, jsonrpc.Raw(params)); err != nil {
			c.report("cancel", err)
		}
	})
}

// Session returns the id of the session, and "" if there is none.
func (c *Client) Session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// opened keeps the id of the session that an answer began.
func (c *Client) opened(answer *http.Response) error {
	if c.o.SessionHeader == "" {
		return nil
	}
	id := answer.Header.Get(c.o.SessionHeader)
	if len(id) > clientMaxID || slices.ContainsFunc([]byte(id), func(b byte) bool { return b < 0x21 || b > 0x7e }) {
		return fmt.Errorf("%w: its session id is too long or has other characters than visible ASCII", jsonrpc.ErrBadResponse)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = id
	return nil
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close ends all calls with jsonrpc.ErrClosed, tells the server within 2 s that the session is over, waits for all that the Client
// started, and closes idle connections of our own.
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
	c.wg.Wait()
	if first && session != "" {
		c.deleteSession(session)
	}
	c.idle()
	return nil
}

// deleteSession ends a session. A server that does not have its sessions ended says 405, and nothing that it says matters to us.
func (c *Client) deleteSession(session string) {
	ctx, stop := context.WithTimeout(context.Background(), clientFarewell)
	defer stop()
	answer, err := c.http.Do(c.request(ctx, http.MethodDelete, nil, c.streamHeader(), session))
	if err != nil {
		c.report("end of the session", err)
		return
	}
	clientDrain(answer.Body)
	answer.Body.Close()
}

func (c *Client) report(what string, err error) {
	if c.o.Report != nil {
		c.o.Report(what, err)
	}
}
