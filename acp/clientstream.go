package acp

import (
	"context"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Stream starts a run and hands over each of its events as it happens, on the caller's goroutine, until it has ended or awaits an answer;
// then it returns the run. A stream that breaks is taken up again, without a gap or a double, see ClientOptions.Rejoin. An error of on
// ends the stream. The run goes on then, as it does when ctx ends.
func (c *Client) Stream(ctx context.Context, q RunCreateRequest, on func(Event) error) (*Run, error) {
	q.Mode = ModeStream
	return c.stream(ctx, &streaming{on: on}, MethodRunsCreate, q)
}

// ResumeStream answers a run that is awaiting, and hands over what happens from there on, as [Client.Stream] does.
func (c *Client) ResumeStream(ctx context.Context, id string, a AwaitResume, on func(Event) error) (*Run, error) {
	return c.stream(ctx, &streaming{on: on, id: id}, MethodRunsResume, RunResumeRequest{RunID: id, AwaitResume: a, Mode: ModeStream})
}

// Subscribe hands over what happens, or has happened, in a run behind the event with the number after, as [Client.Stream] does. 0 is
// from the beginning, -1 from now on. Over REST this is an extension of ours; a server that does not have it is asked again and again.
func (c *Client) Subscribe(ctx context.Context, id string, after int64, on func(Event) error) (*Run, error) {
	return c.stream(ctx, &streaming{on: on, id: id, last: after}, MethodRunsSubscribe, EventsParams{id, after})
}

// A streaming is one stream, over all calls that it takes.
type streaming struct {
	on      func(Event) error
	id      string
	last    int64 // number of the last event that on has had
	moved   bool  // there were events since the last try
	refused error // by on
}

// take is called with each notification.
func (t *streaming) take(req *jsonrpc.Request) error {
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

// stream makes a call with events, and takes it up again when it breaks.
func (c *Client) stream(ctx context.Context, t *streaming, method string, params any) (*Run, error) {
	wait := firstWait
	for tries := 0; ; tries++ {
		var out Run
		err := c.do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: &out, On: t.take})
		if t.refused != nil { // also when the answer was there before it
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

// canRejoin reports whether the stream broke on the way, and the way may be open again.
func canRejoin(ctx context.Context, err error) bool {
	_, said := errors.AsType[*Error](err)
	return !said && ctx.Err() == nil && !errors.Is(err, jsonrpc.ErrClosed) && !errors.Is(err, jsonrpc.ErrTooLarge)
}
