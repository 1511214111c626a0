package acp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Link sends the calls of a [Client]. A [*jsonrpc.Conn], the clients of package httprpc and of
// the module's root package, and the REST binding of package acphttp are links. It is safe for
// concurrent use.
type Link interface {
	// Do sends one item and, if it is a call, waits for the response, as [jsonrpc.Conn.Do] does. On
	// receives the events of a stream.
	Do(ctx context.Context, item *jsonrpc.Item) error

	// Batch makes all calls, in one round trip if the transport supports that, and sets the result
	// or error of each item.
	Batch(ctx context.Context, items []jsonrpc.Item) error

	// Close closes the link and ends all its calls.
	Close() error
}

// ClientOptions configures a [Client]. The zero value is ready to use.
type ClientOptions struct {
	// Rejoin is how often in a row a broken stream is resumed where it broke without receiving an
	// event. If zero, it is 5; if negative, streams are not resumed. The delay before the first
	// attempt is 250 ms and doubles with each attempt, up to 30 s. A closed link is not retried.
	Rejoin int

	// Patience is the timeout of calls that wait for a run, if their context has no deadline. If
	// zero, it is 24 h.
	Patience time.Duration

	// Limits of the conversation that [Connect] opens. If zero, Events is 65,536;
	// EventBytes (8 MiB) bounds them too.
	Limits jsonrpc.Limits

	// Report is called with errors that no call returns, in a conversation that [Connect] opens. If
	// nil, they are dropped.
	Report func(what string, err error)
}

// A Client uses the agents of one server, over either binding. If the server rejects a request, the
// error is an [*Error]. A failed run is not an error: its Status reports it. A Client is safe for
// concurrent use.
type Client struct {
	link    Link
	opts    ClientOptions
	serving sync.WaitGroup // started by Connect
}

// NewClient returns a client on a link. The client owns link from then on. NewClient starts
// nothing.
func NewClient(link Link, o *ClientOptions) *Client {
	if o == nil {
		o = &ClientOptions{}
	}
	c := &Client{link: link, opts: *o}
	if c.opts.Rejoin == 0 {
		c.opts.Rejoin = 5
	}
	if c.opts.Patience <= 0 {
		c.opts.Patience = 24 * time.Hour
	}
	return c
}

// Connect opens a conversation on t, which the client owns from then on. [Client.Close] closes it;
// canceling ctx does not.
func Connect(ctx context.Context, t jsonrpc.Transport, o *ClientOptions) *Client {
	conn := jsonrpc.NewConn(t)
	c := NewClient(conn, o)
	conn.Related, conn.Open, conn.Cancellation = Related, Open, jsonrpc.CancelRequest
	conn.Limits, conn.Report = c.opts.Limits, c.opts.Report
	conn.Handler = jsonrpc.HandlerFunc(ignoreEvents)
	if conn.Limits.Events == 0 {
		conn.Limits.Events = maxEvents
	}
	conn.Quiet = true
	// every call returns its cause
	c.serving.Go(func() { _ = conn.Serve(context.WithoutCancel(ctx)) })
	return c
}

// maxEvents bounds the events of one stream that wait for the caller. If more arrive, the stream
// ends and is then resumed.
const maxEvents = 65_536

// ignoreEvents handles the events of abandoned streams.
func ignoreEvents(_ context.Context, req *jsonrpc.Request) (any, error) {
	if req.Method == NotifyRunEvent {
		return nil, nil
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// Close closes the link. Runs continue.
func (c *Client) Close() error {
	err := c.link.Close()
	grace.Wait(&c.serving, grace.Time) // the caller's callbacks may not return
	return err
}

// callMethod makes one call.
func (c *Client) callMethod(ctx context.Context, method string, params, result any) error {
	return c.doItem(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result})
}

func (c *Client) doItem(ctx context.Context, item *jsonrpc.Item) error {
	raw, err := encodeValue(item.Params)
	if err != nil {
		return fmt.Errorf("acp: %s: %w", item.Method, err)
	}
	item.Params = raw
	if _, ok := ctx.Deadline(); !ok && Open(item.Method) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.opts.Patience, jsonrpc.ErrTimeout)
		defer cancel()
	}
	return answered(c.link.Do(ctx, item))
}

// answered converts an error from the server to an error of this protocol, and returns our own
// errors unchanged.
func answered(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return ErrorOf(e)
	}
	return err
}

// Ping checks that the server responds.
func (c *Client) Ping(ctx context.Context) error {
	return c.callMethod(ctx, MethodPing, emptyObject, nil)
}

// Agents returns the manifests of all agents.
func (c *Client) Agents(ctx context.Context) ([]AgentManifest, error) {
	return c.ListAgents(ctx, 0, 0)
}

// ListAgents returns the manifests of up to limit agents, or of all if limit is 0, and skips the
// first offset. Some servers return all regardless.
func (c *Client) ListAgents(ctx context.Context, limit, offset int) ([]AgentManifest, error) {
	var out AgentsListResponse
	err := c.callMethod(ctx, MethodAgentsList, ListParams{limit, offset}, &out)
	return out.Agents, err
}

// Agent returns the manifest of one agent.
func (c *Client) Agent(ctx context.Context, name string) (*AgentManifest, error) {
	var out AgentManifest
	if err := c.callMethod(ctx, MethodAgentsGet, NameParams{name}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// A Capable is the result for one name in [Client.AgentsNamed].
type Capable struct {
	Manifest AgentManifest
	Err      error
}

// AgentsNamed requests the manifests of several agents in one round trip, as a batch. The results
// are in the order of the names.
func (c *Client) AgentsNamed(ctx context.Context, names ...string) ([]Capable, error) {
	out := make([]Capable, len(names))
	items := make([]jsonrpc.Item, len(names))
	for i, name := range names {
		params, err := encodeValue(NameParams{name})
		if err != nil {
			return nil, fmt.Errorf("acp: %s: %w", MethodAgentsGet, err)
		}
		items[i] = jsonrpc.Item{Method: MethodAgentsGet, Params: params, Result: &out[i].Manifest}
	}
	if err := c.link.Batch(ctx, items); err != nil {
		return nil, answered(err)
	}
	for i := range items {
		out[i].Err = answered(items[i].Err)
	}
	return out, nil
}

// Run starts a run and waits until it has ended or awaits input. If ctx is canceled, the run
// continues.
func (c *Client) Run(ctx context.Context, q RunCreateRequest) (*Run, error) {
	q.Mode = ModeSync
	return c.callForRun(ctx, MethodRunsCreate, q)
}

// Start starts a run and returns its initial state.
func (c *Client) Start(ctx context.Context, q RunCreateRequest) (*Run, error) {
	q.Mode = ModeAsync
	return c.callForRun(ctx, MethodRunsCreate, q)
}

// Resume sends the awaited input to a run, and waits until it has ended or awaits input again.
func (c *Client) Resume(ctx context.Context, id string, a AwaitResume) (*Run, error) {
	return c.callForRun(ctx, MethodRunsResume, RunResumeRequest{RunID: id, AwaitResume: a, Mode: ModeSync})
}

// ResumeLater sends the awaited input to a run, and returns the run as it continues.
func (c *Client) ResumeLater(ctx context.Context, id string, a AwaitResume) (*Run, error) {
	return c.callForRun(ctx, MethodRunsResume, RunResumeRequest{RunID: id, AwaitResume: a, Mode: ModeAsync})
}

// Status returns the current state of a run.
func (c *Client) Status(ctx context.Context, id string) (*Run, error) {
	return c.callForRun(ctx, MethodRunsGet, RunParams{id})
}

// Cancel starts to cancel a run, and returns it as cancelling.
func (c *Client) Cancel(ctx context.Context, id string) (*Run, error) {
	return c.callForRun(ctx, MethodRunsCancel, RunParams{id})
}

func (c *Client) callForRun(ctx context.Context, method string, params any) (*Run, error) {
	var out Run
	if err := c.callMethod(ctx, method, params, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Events returns the events of a run so far, after the event with the number after, or from the
// beginning if after is 0.
func (c *Client) Events(ctx context.Context, id string, after int64) ([]Event, error) {
	var out struct {
		Events []Event `json:"events"`
	}
	if err := c.callMethod(ctx, MethodRunsEvents, EventsParams{id, after}, &out); err != nil {
		return nil, err
	}
	for i := range out.Events {
		out.Events[i].Seq = after + int64(i) + 1
	}
	return out.Events, nil
}

// Session returns a session.
func (c *Client) Session(ctx context.Context, id string) (*Session, error) {
	var out Session
	if err := c.callMethod(ctx, MethodSessionsGet, SessionParams{id}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
