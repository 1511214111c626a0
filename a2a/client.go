package a2a

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Link sends the calls of one [Client]. A [*jsonrpc.Conn] is one. It is safe for concurrent use.
type Link interface {
	// Do sends one item and, if it is a call, waits for the response, as [jsonrpc.Conn.Do] does.
	// Params are a [jsonrpc.Raw]. On receives the events of a stream, each as a [MethodStream]. If
	// On receives the last event too, the result is left unset.
	Do(ctx context.Context, item *jsonrpc.Item) error

	// Batch sends all items in one array, as [jsonrpc.Conn.Batch] does. If the peer accepts no
	// arrays, the link remembers that and sends single calls.
	Batch(ctx context.Context, items []jsonrpc.Item) error

	// Close closes the link and ends all its calls.
	Close() error
}

// ClientOptions configures a [Client]. The zero value is ready to use.
type ClientOptions struct {
	// Version is the protocol version to use. If zero, it is detected, newest first.
	Version Version
	// Extensions lists the URIs of extensions to request.
	Extensions []string
	// Tenant is sent with every request; see [AgentInterface].
	Tenant string

	// Beside reports that the transport sends the service parameters, which it reads with
	// [ServiceOf]. If false, they are sent in params._meta. The transport sets it.
	Beside bool

	// NoStream reports that the agent does not support streams: [Client.Stream] then sends the
	// message, waits, and yields the result. Package a2ahttp sets it from the card.
	NoStream bool

	// Resume is how often in a row a stream that broke off is resumed with SubscribeToTask. If zero
	// or negative, a stream is not resumed; no other value is useful on a connection. Package
	// a2ahttp uses 5 for zero.
	Resume int

	// Limits of the conversation that [Connect] opens. If zero, Events is 65,536;
	// EventBytes (8 MiB) bounds them too.
	Limits jsonrpc.Limits

	// Report is called with errors that no call returns. If nil, they are dropped.
	Report func(what string, err error)
}

// A Client uses one agent, in either protocol version. [Connect] returns one; [NewClient] returns
// one on a custom transport. All parameters and results have the shape of v1.0. It is safe for
// concurrent use.
type Client struct {
	link    Link
	opts    ClientOptions
	serving sync.WaitGroup
	version atomic.Uint32 // detected protocol version of the agent; 0 if unknown
}

// NewClient returns a client of the agent that link connects to. The client owns link from then on.
// NewClient starts nothing.
func NewClient(link Link, o *ClientOptions) *Client {
	c := &Client{link: link}
	if o != nil {
		c.opts = *o
	}
	c.version.Store(uint32(c.opts.Version))
	return c
}

// Connect returns a client on a bidirectional transport, using [BindingStream]. [Client.Close]
// closes it.
func Connect(ctx context.Context, t jsonrpc.Transport, o *ClientOptions) *Client {
	conn := jsonrpc.NewConn(t)
	c := NewClient(conn, o)
	if !c.opts.Beside && c.opts.Version == 0 {
		c.version.Store(uint32(V10)) // the binding exists in v1.0 only
	}
	conn.Related, conn.Open, conn.Cancellation = Related, Open, Cancellation
	conn.Limits, conn.Report, conn.Quiet = c.opts.Limits, c.opts.Report, true
	if conn.Limits.Events == 0 {
		conn.Limits.Events = 65536
	}
	c.serving.Go(func() {
		_ = conn.Serve(context.WithoutCancel(ctx)) // every call returns its cause
	})
	return c
}

// Close closes the client and ends all its calls.
func (c *Client) Close() error {
	err := c.link.Close()
	grace.Wait(&c.serving, grace.Time) // the caller's callbacks may not return
	return err
}

// Version returns the detected protocol version of the agent, and zero while it is unknown.
func (c *Client) Version() Version { return Version(c.version.Load()) }

// Send sends a message and waits for the result: a Task that is over or waits for input, or a
// Message. With ReturnImmediately it does not wait.
func (c *Client) Send(ctx context.Context, r *SendRequest) (Event, error) {
	r = c.tenant(r)
	var out Event
	err := c.call(ctx, MethodSend, r, &out, nil)
	if err == nil && (out.Task == nil) == (out.Message == nil) {
		err = fmt.Errorf("%w: the result of sending is neither a task nor a message", jsonrpc.ErrBadResponse)
	}
	return out, err
}

func (c *Client) tenant(r *SendRequest) *SendRequest {
	if c.opts.Tenant == "" || r.Tenant != "" {
		return r
	}
	other := *r
	other.Tenant = c.opts.Tenant
	return &other
}

// Task returns a task.
func (c *Client) Task(ctx context.Context, r *GetTaskRequest) (*Task, error) {
	out := new(Task)
	return out, c.call(ctx, MethodGetTask, &GetTaskRequest{r.ID, r.HistoryLength, c.or(r.Tenant)}, out, nil)
}

func (c *Client) or(tenant string) string {
	if tenant == "" {
		return c.opts.Tenant
	}
	return tenant
}

// ListTasks returns one page of the caller's tasks. Version 0.3 does not support lists.
func (c *Client) ListTasks(ctx context.Context, r *ListTasksRequest) (*TaskPage, error) {
	p := ListTasksRequest{}
	if r != nil {
		p = *r
	}
	p.Tenant = c.or(p.Tenant)
	out := new(TaskPage)
	return out, c.call(ctx, MethodListTasks, &p, out, nil)
}

// Tasks yields the tasks of all pages, one page after the other. If an error occurs, it is the last
// value yielded.
func (c *Client) Tasks(ctx context.Context, r *ListTasksRequest) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		p := ListTasksRequest{}
		if r != nil {
			p = *r
		}
		for {
			page, err := c.ListTasks(ctx, &p)
			if err != nil {
				yield(Task{}, err)
				return
			}
			for _, t := range page.Tasks {
				if !yield(t, nil) {
					return
				}
			}
			if page.NextPageToken == "" || page.NextPageToken == p.PageToken {
				return
			}
			p.PageToken = page.NextPageToken
		}
	}
}

// Cancel requests the cancellation of a task, and returns the task as it is afterwards.
func (c *Client) Cancel(ctx context.Context, taskID string) (*Task, error) {
	out := new(Task)
	return out, c.call(ctx, MethodCancelTask, &TaskRequest{ID: taskID, Tenant: c.opts.Tenant}, out, nil)
}

// CreatePush registers a webhook for a task.
func (c *Client) CreatePush(ctx context.Context, p *PushConfig) (*PushConfig, error) {
	in, out := *p, new(PushConfig)
	in.Tenant = c.or(in.Tenant)
	return out, c.call(ctx, MethodCreatePush, &in, out, nil)
}

// Push returns a webhook of a task.
func (c *Client) Push(ctx context.Context, taskID, id string) (*PushConfig, error) {
	out := new(PushConfig)
	return out, c.call(ctx, MethodGetPush, &PushRequest{TaskID: taskID, ID: id, Tenant: c.opts.Tenant}, out, nil)
}

// ListPush returns one page of the webhooks of a task.
func (c *Client) ListPush(ctx context.Context, r *PushRequest) (*PushPage, error) {
	in, out := *r, new(PushPage)
	in.Tenant = c.or(in.Tenant)
	return out, c.call(ctx, MethodListPush, &in, out, nil)
}

// DeletePush removes a webhook of a task.
func (c *Client) DeletePush(ctx context.Context, taskID, id string) error {
	return c.call(ctx, MethodDeletePush, &PushRequest{TaskID: taskID, ID: id, Tenant: c.opts.Tenant}, nil, nil)
}

// ExtendedCard returns the card for authenticated callers.
func (c *Client) ExtendedCard(ctx context.Context) (*AgentCard, error) {
	out := new(AgentCard)
	return out, c.call(ctx, MethodExtendedCard, nil, out, nil)
}

// Card returns the public card, using [BindingStream]. Over HTTP the card has its own URL.
func (c *Client) Card(ctx context.Context) (*AgentCard, error) {
	out := new(AgentCard)
	return out, c.call(ctx, MethodCard, nil, out, nil)
}

// A BatchCall is one call of a batch. Params and Result have the types of the v1.0 method.
type BatchCall struct {
	Method string // of v1.0; not a streaming method
	Params any
	Result any   // a pointer; nil drops the result
	Err    error // set by the call
}

// Batch sends all calls in one array. It returns an error only for the batch as a whole. If the
// agent accepts no arrays, as is the case with the official SDKs, the client remembers that and
// sends single calls at once.
func (c *Client) Batch(ctx context.Context, calls []BatchCall) error {
	v := c.known()
	ctx, svc := c.service(ctx, v, "")
	items := make([]jsonrpc.Item, len(calls))
	results := make([]jsonrpc.Raw, len(calls))
	for i := range calls {
		if IsStream(calls[i].Method) {
			return fmt.Errorf("a2a: %s is a stream, which cannot be in a batch", calls[i].Method)
		}
		method, params, err := c.encode(v, svc, calls[i].Method, calls[i].Params)
		if err != nil {
			return err
		}
		items[i] = jsonrpc.Item{Method: method, Params: params, Result: &results[i]}
	}
	err := c.link.Batch(ctx, items)
	for i := range calls {
		if calls[i].Err = items[i].Err; calls[i].Err == nil {
			calls[i].Err = decodeResult(v, results[i], calls[i].Result)
		}
	}
	return err
}

// known returns the protocol version to use.
func (c *Client) known() Version {
	if v := c.Version(); v != 0 {
		return v
	}
	return V10
}

// service returns the service parameters of a request.
func (c *Client) service(ctx context.Context, v Version, lastEvent string) (context.Context, Service) {
	svc := Service{Version: v.String(), Extensions: c.opts.Extensions, LastEvent: lastEvent}
	if c.opts.Beside {
		ctx = WithService(ctx, svc)
	}
	return ctx, svc
}

// encode returns the method name and params in a protocol version.
func (c *Client) encode(v Version, svc Service, method string, params any) (string, jsonrpc.Raw, error) {
	if v == V03 {
		old, ok := names03[method]
		if !ok {
			return "", nil, fmt.Errorf("a2a: %s: %w in version 0.3", method, errors.ErrUnsupported)
		}
		method, params = old, paramsTo03(params)
	}
	raw := jsonrpc.Raw("{}")
	if params != nil {
		var err error
		if raw, err = encode(params); err != nil {
			return "", nil, err
		}
	}
	if !c.opts.Beside {
		meta := append(append([]byte(`{"_meta":`), mustEncode(svc.meta())...), ',')
		if len(raw) == 2 { // {}
			meta = meta[:len(meta)-1]
		}
		raw = append(meta, raw[1:]...)
	}
	return method, raw, nil
}

func decodeResult(v Version, raw jsonrpc.Raw, result any) error {
	if result == nil {
		return nil
	}
	var err error
	if v == V03 {
		err = resultOf03(raw, result)
	} else {
		err = raw.Decode(result)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", jsonrpc.ErrBadResponse, err)
	}
	return nil
}

// call makes one call in the agent's protocol version, or detects that version with it.
func (c *Client) call(ctx context.Context, method string, params, result any, p *following) error {
	v := c.known()
	err := c.callIn(ctx, v, method, params, result, p)
	if c.Version() != 0 {
		return err
	}
	if !foreign(err) {
		if err == nil || isAnswer(err) {
			c.version.CompareAndSwap(0, uint32(v))
		}
		return err
	}
	if _, ok := names03[method]; !ok {
		return err
	}
	older := c.callIn(ctx, V03, method, params, result, p)
	if foreign(older) && !errors.Is(older, jsonrpc.ErrInvalidParams) || older != nil && !isAnswer(older) {
		return err // the error is not about the version
	}
	c.version.CompareAndSwap(0, uint32(V03))
	return older
}

// foreign reports whether err is an error that agents of another version return. The list comes
// from tests with real agents.
func foreign(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case CodeVersionNotSupported, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest:
		return true
	}
	return false
}

// isAnswer reports whether the agent returned err.
func isAnswer(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}

func (c *Client) callIn(ctx context.Context, v Version, method string, params, result any, p *following) error {
	lastEvent := ""
	if p != nil {
		p.version, p.failed = v, nil
		lastEvent = p.lastEvent()
	}
	ctx, svc := c.service(ctx, v, lastEvent)
	name, raw, err := c.encode(v, svc, method, params)
	if err != nil {
		return err
	}
	var answer jsonrpc.Raw
	item := &jsonrpc.Item{Method: name, Params: raw, Result: &answer}
	if p != nil {
		item.On = p.on
	}
	if err := c.link.Do(ctx, item); err != nil {
		return err
	}
	if p != nil {
		if p.failed != nil {
			return p.failed
		}
		return p.last(answer)
	}
	return decodeResult(v, answer, result)
}
