package acp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Link carries the calls of a [Client]. A [*jsonrpc.Conn], the clients of package httprpc and of the module's root are such links, and
// the REST binding of package acphttp is one. It is safe for concurrent use.
type Link interface {
	// Do sends one item and waits, if it is a call, as [jsonrpc.Conn.Do] does. On gets the events of a stream.
	Do(ctx context.Context, item *jsonrpc.Item) error

	// Batch makes all calls, in one round trip where the carrier has that, and leaves what became of each in its item.
	Batch(ctx context.Context, items []jsonrpc.Item) error

	// Close ends the link and all calls on it.
	Close() error
}

// ClientOptions tune a [Client]. The zero value is ready for use.
type ClientOptions struct {
	// Rejoin is how often a stream that broke is taken up again without an event in between, where it broke. Zero means 5, negative
	// means never. The wait before is 250 ms, and twice that each time, up to 30 s. A link that is closed is the end.
	Rejoin int

	// Patience is how long a run may take, in calls that wait for it and whose context has no deadline. Zero means 24 h.
	Patience time.Duration

	// Limits of the conversation that [Connect] opens. Events is 65,536 when zero.
	Limits jsonrpc.Limits

	// Report gets what nobody else hears, in a conversation that [Connect] opens. Nil drops it.
	Report func(what string, err error)
}

// A Client uses the agents of one server, over either binding. What the server refuses is an [*Error]; a run that failed is none, its
// Status says so. A Client is safe for concurrent use.
type Client struct {
	link    Link
	opts    ClientOptions
	serving sync.WaitGroup // what Connect started
}

// NewClient makes a client on a link, which it owns from then on. It starts nothing.
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

// Connect opens a conversation on t, which the client owns from then on. [Client.Close] ends it; ctx does not.
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
	c.serving.Go(func() { _ = conn.Serve(context.WithoutCancel(ctx)) }) // its cause shows in every call
	return c
}

// maxEvents is how many events of one stream may wait for its caller. More would end the stream, which is then taken up again.
const maxEvents = 65_536

// ignoreEvents is for the events of streams that were given up.
func ignoreEvents(_ context.Context, req *jsonrpc.Request) (any, error) {
	if req.Method == NotifyRunEvent {
		return nil, nil
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// Close ends the link. Runs go on.
func (c *Client) Close() error {
	err := c.link.Close()
	c.serving.Wait()
	return err
}

// call makes one call.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	return c.do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result})
}

func (c *Client) do(ctx context.Context, item *jsonrpc.Item) error {
	raw, err := encode(item.Params)
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

// answered makes what the server said an error of this protocol, and leaves our own errors as they are.
func answered(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return ErrorOf(e)
	}
	return err
}

// Ping asks whether the server is there.
func (c *Client) Ping(ctx context.Context) error { return c.call(ctx, MethodPing, emptyObject, nil) }

// Agents returns the manifests of all agents.
func (c *Client) Agents(ctx context.Context) ([]AgentManifest, error) {
	return c.ListAgents(ctx, 0, 0)
}

// ListAgents returns the manifests of up to limit agents, of all for 0, without the first offset. Some servers return all nevertheless.
func (c *Client) ListAgents(ctx context.Context, limit, offset int) ([]AgentManifest, error) {
	var out AgentsListResponse
	err := c.call(ctx, MethodAgentsList, ListParams{limit, offset}, &out)
	return out.Agents, err
}

// Agent returns the manifest of one agent.
func (c *Client) Agent(ctx context.Context, name string) (*AgentManifest, error) {
	var out AgentManifest
	if err := c.call(ctx, MethodAgentsGet, NameParams{name}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// A Capable is what became of one name in [Client.AgentsNamed].
type Capable struct {
	Manifest AgentManifest
	Err      error
}

// AgentsNamed asks about many agents in one round trip: a batch. The answers are in the order of the names.
func (c *Client) AgentsNamed(ctx context.Context, names ...string) ([]Capable, error) {
	out := make([]Capable, len(names))
	items := make([]jsonrpc.Item, len(names))
	for i, name := range names {
		params, err := encode(NameParams{name})
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

// Run starts a run and waits until it has ended or awaits an answer. When ctx ends, the run goes on.
func (c *Client) Run(ctx context.Context, q RunCreateRequest) (*Run, error) {
	q.Mode = ModeSync
	return c.run(ctx, MethodRunsCreate, q)
}

// Start starts a run and returns it as it began.
func (c *Client) Start(ctx context.Context, q RunCreateRequest) (*Run, error) {
	q.Mode = ModeAsync
	return c.run(ctx, MethodRunsCreate, q)
}

// Resume answers a run that is awaiting, and waits until it has ended or awaits another answer.
func (c *Client) Resume(ctx context.Context, id string, a AwaitResume) (*Run, error) {
	return c.run(ctx, MethodRunsResume, RunResumeRequest{RunID: id, AwaitResume: a, Mode: ModeSync})
}

// ResumeLater answers a run that is awaiting, and returns it as it goes on.
func (c *Client) ResumeLater(ctx context.Context, id string, a AwaitResume) (*Run, error) {
	return c.run(ctx, MethodRunsResume, RunResumeRequest{RunID: id, AwaitResume: a, Mode: ModeAsync})
}

// Status returns a run as it is now.
func (c *Client) Status(ctx context.Context, id string) (*Run, error) {
	return c.run(ctx, MethodRunsGet, RunParams{id})
}

// Cancel begins to cancel a run, and returns it as cancelling.
func (c *Client) Cancel(ctx context.Context, id string) (*Run, error) {
	return c.run(ctx, MethodRunsCancel, RunParams{id})
}

func (c *Client) run(ctx context.Context, method string, params any) (*Run, error) {
	var out Run
	if err := c.call(ctx, method, params, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Events returns what has happened in a run so far, behind the event with the number after, which is 0 for the beginning.
func (c *Client) Events(ctx context.Context, id string, after int64) ([]Event, error) {
	var out struct {
		Events []Event `json:"events"`
	}
	if err := c.call(ctx, MethodRunsEvents, EventsParams{id, after}, &out); err != nil {
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
	if err := c.call(ctx, MethodSessionsGet, SessionParams{id}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
