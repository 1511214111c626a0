package a2a

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Stream sends a message and yields its events as they arrive: one Message, or the Task and then
// its events, until it is over or waits for input. An error is the last value yielded. If the
// caller stops early, it leaves the stream; the task continues.
//
// A stream that breaks off is resumed where it broke off, see [ClientOptions]. If the server cannot
// resume after an event, it sends another Task, which includes everything that was missed.
func (c *Client) Stream(ctx context.Context, r *SendRequest) iter.Seq2[Event, error] {
	if c.opts.NoStream {
		return func(yield func(Event, error) bool) { yield(c.Send(ctx, r)) }
	}
	return c.follow(ctx, MethodStreamSend, c.tenant(r), "", 0, TaskState.Rests)
}

// Subscribe yields the Task and then its events, until the task is over. If after is not 0, it is
// the Seq of the last event that the caller has: a server that stores events then resumes after it,
// without the Task. A stream that breaks off is resumed.
func (c *Client) Subscribe(ctx context.Context, taskID string, after int64) iter.Seq2[Event, error] {
	return c.follow(ctx, MethodSubscribe, &TaskRequest{ID: taskID, Tenant: c.opts.Tenant}, taskID, after, TaskState.Terminal)
}

// A following is one stream as its reader sees it, across reconnects.
type following struct {
	yield   func(Event, error) bool
	ends    func(TaskState) bool
	version Version
	task    string // "" until an event has named it
	seq     int64
	came    bool // this attempt has received an event
	over    bool // no events follow
	left    bool // the reader has stopped
	failed  error
}

var errLeft = errors.New("a2a: the reader of the stream has stopped")

// errBrokeOff reports that a stream ended without a final event.
var errBrokeOff = errors.New("a2a: the stream was interrupted")

func (p *following) lastEvent() string {
	if p.seq == 0 {
		return ""
	}
	return strconv.FormatInt(p.seq, 10)
}

// on handles one event. After an error it accepts no further events, also if the transport sends
// more because they have already arrived.
func (p *following) on(req *jsonrpc.Request) error {
	if p.failed == nil && req.Method == MethodStream {
		p.failed = p.one(req)
	}
	return p.failed
}

func (p *following) one(req *jsonrpc.Request) error {
	var in struct {
		Seq      int64       `json:"seq"`
		Response jsonrpc.Raw `json:"response"`
	}
	if err := req.Params.Decode(&in); err != nil {
		return fmt.Errorf("%w: %w", jsonrpc.ErrBadResponse, err)
	}
	return p.applyEvent(in.Response, in.Seq)
}

// last handles the response if it is an event.
func (p *following) last(raw jsonrpc.Raw) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	seq := int64(0)
	if p.seq > 0 {
		seq = p.seq + 1
	}
	return p.applyEvent(raw, seq)
}

func (p *following) applyEvent(raw jsonrpc.Raw, seq int64) error {
	var e Event
	if err := decodeResult(p.version, raw, &e); err != nil {
		return err
	}
	if e.count() != 1 {
		return fmt.Errorf("%w: an event must have exactly one of task, message, statusUpdate and artifactUpdate", jsonrpc.ErrBadResponse)
	}
	p.came = true
	if seq > 0 && seq <= p.seq && e.Task == nil {
		return nil // received before the break
	}
	e.Seq = seq
	if seq > 0 {
		p.seq = seq
	}
	if id := e.TaskID(); id != "" {
		p.task = id
	}
	if e.Message != nil || e.State() != "" && (p.ends(e.State()) || e.State().Terminal()) {
		p.over = true
	}
	if !p.yield(e, nil) {
		p.left = true
		return errLeft
	}
	return nil
}

// Pauses before a stream is resumed.
const (
	resumeFirst = 250 * time.Millisecond
	resumeMost  = 30 * time.Second
)

func (c *Client) follow(ctx context.Context, method string, params any, task string, after int64, ends func(TaskState) bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		p := &following{yield: yield, ends: ends, task: task, seq: after}
		err := c.call(ctx, method, params, nil, p)
		between := resumeFirst
		for tries := 0; !p.left && !p.over; tries++ {
			if err == nil {
				err = errBrokeOff
			}
			if p.came {
				tries, between, p.came = 0, resumeFirst, false
			}
			if tries >= c.opts.Resume || p.task == "" || ctx.Err() != nil || !worthResuming(err) {
				yield(Event{}, err)
				return
			}
			if e := pause.For(ctx, between); e != nil {
				yield(Event{}, e)
				return
			}
			between = min(2*between, resumeMost)
			err = c.call(ctx, MethodSubscribe, &TaskRequest{ID: p.task, Tenant: c.opts.Tenant}, nil, p)
			// over, or streams are not supported: fetch the task
			if errors.Is(err, ErrUnsupportedOperation) {
				err = c.fetch(ctx, p)
			}
		}
	}
}

// fetch yields the task in place of the missed events.
func (c *Client) fetch(ctx context.Context, p *following) error {
	t, err := c.Task(ctx, &GetTaskRequest{ID: p.task})
	if err != nil || p.left {
		return err
	}
	p.over = p.over || p.ends(t.Status.State)
	if !p.yield(Event{Task: t}, nil) {
		p.left = true
	}
	return nil
}

// worthResuming reports whether a stream may be resumed after err: a transport error, or the stream
// fell behind.
func worthResuming(err error) bool {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Code == jsonrpc.CodeBusy || e.Code == jsonrpc.CodeShuttingDown || e.Code == jsonrpc.CodeUnavailable
	}
	return !errors.Is(err, jsonrpc.ErrClosed) && !errors.Is(err, jsonrpc.ErrBadResponse) && !errors.Is(err, context.Canceled)
}
