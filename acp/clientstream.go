package acp

import (
	"context"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Stream starts a run and calls on with each event as it happens, on the caller's goroutine, until
// the run has ended or awaits input. Then it returns the run. A broken stream is resumed without
// missing or repeated events, see ClientOptions.Rejoin. An error from on ends the stream. The run
// continues in that case, and also if ctx is canceled.
func (c *Client) Stream(ctx context.Context, q RunCreateRequest, on func(Event) error) (*Run, error) {
	q.Mode = ModeStream
	return c.streamRun(ctx, &streaming{on: on}, MethodRunsCreate, q)
}

// ResumeStream sends the awaited input to a run, and calls on with each event from then on, as
// [Client.Stream] does.
func (c *Client) ResumeStream(ctx context.Context, id string, a AwaitResume, on func(Event) error) (*Run, error) {
	return c.streamRun(ctx, &streaming{on: on, id: id}, MethodRunsResume, RunResumeRequest{RunID: id, AwaitResume: a, Mode: ModeStream})
}

// Subscribe calls on with the past and future events of a run after the event with the number
// after, as [Client.Stream] does. If after is 0, it begins with the first event; if -1, with the
// next one. Over REST this is our extension; on a server without it, each attempt fails and is
// repeated.
func (c *Client) Subscribe(ctx context.Context, id string, after int64, on func(Event) error) (*Run, error) {
	return c.streamRun(ctx, &streaming{on: on, id: id, last: after}, MethodRunsSubscribe, EventsParams{id, after})
}

// A streaming is one stream, across all calls that it needs.
type streaming struct {
	on      func(Event) error
	id      string
	last    int64 // number of the last event passed to on
	moved   bool  // events have arrived since the last attempt
	refused error // the error that on returned
}

// applyNotification is called with each notification.
func (t *streaming) applyNotification(req *jsonrpc.Request) error {
	if req.Method != NotifyRunEvent || t.refused != nil {
		return t.refused
	}
	var in RunEvent
	if err := req.Params.Decode(&in); err != nil {
		return err
	}
	if in.Seq != 0 && in.Seq <= t.last {
		return nil
	}
	e, err := in.Decode()
	if err != nil {
		return err
	}
	if t.id = in.RunID; e.Seq > 0 {
		t.last = e.Seq
	}
	t.moved = true
	t.refused = t.on(e)
	return t.refused
}

// streamRun makes a call with events, and resumes it if it breaks.
func (c *Client) streamRun(ctx context.Context, t *streaming, method string, params any) (*Run, error) {
	wait := firstWait
	for tries := 0; ; tries++ {
		var out Run
		err := c.doItem(ctx, &jsonrpc.Item{Method: method, Params: params, Result: &out, On: t.applyNotification})
		if t.refused != nil { // also if the response arrived before it
			return nil, t.refused
		}
		if err == nil {
			return &out, nil
		}
		if t.moved {
			tries, wait, t.moved = 0, firstWait, false
		}
		if tries >= c.opts.Rejoin || t.last <= 0 || t.id == "" || !canRejoin(ctx, err) {
			return nil, err
		}
		if err := pause.For(ctx, wait); err != nil {
			return nil, err
		}
		wait = min(2*wait, lastWait)
		method, params = MethodRunsSubscribe, EventsParams{t.id, t.last}
	}
}

const (
	firstWait = 250 * time.Millisecond
	lastWait  = 30 * time.Second
)

// canRejoin reports whether the stream broke because of a transport error, so that it can be
// resumed.
func canRejoin(ctx context.Context, err error) bool {
	_, said := errors.AsType[*Error](err)
	return !said && ctx.Err() == nil && !errors.Is(err, jsonrpc.ErrClosed) && !errors.Is(err, jsonrpc.ErrTooLarge)
}
