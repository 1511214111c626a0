package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A LoneClient asks one thing at a time and reads the answer on the goroutine that waits for it. There is no reader, no table and
// no wake-up between them, which makes a round trip about a quarter shorter than on a [Conn]. It is for programs that make one call after
// the other; callers on several goroutines take turns.
//
// A call whose context or time ends closes the client, since only that ends a read. Make it with [NewLoneClient].
type LoneClient struct {
	// Back answers what the peer asks while a call waits. Nil: its requests are answered with -32601, its notifications dropped.
	Back *Answerer

	Version  Version
	CallTime time.Duration // of a call whose context has no deadline; 60 s. Negative: none

	t    Transport
	turn sync.Mutex // held for the whole of a call, which is what the type is for

	// Guarded by turn.
	last   uint64
	out    Burst
	parser parser
	timer  *time.Timer

	mu    sync.Mutex // guards what follows
	cause error      // why the client ended
}

// NewLoneClient makes a client on t, which it owns from now on.
func NewLoneClient(t Transport) *LoneClient { return &LoneClient{t: t} }

// Call implements [Peer].
func (c *LoneClient) Call(ctx context.Context, method string, params, result any) error {
	return c.Stream(ctx, method, params, result, nil)
}

// Stream implements [Peer]. All notifications that come before the answer are about this call.
func (c *LoneClient) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.last++
	id := ID{n: c.last + 1}
	var err error
	if c.out.Bytes, err = AppendRequest(c.out.Bytes[:0], c.Version, id, method, params); err != nil {
		return err
	}
	defer c.disarm(c.arm(ctx))
	if err := c.write(ctx); err != nil {
		return err
	}
	c.parser.maxBatch, c.parser.version = defaultBatch, c.Version
	for {
		payload, _, err := c.t.Read()
		if err != nil {
			return c.end(err)
		}
		if e := c.parser.parse(payload, defaultDepth, defaultTokens); e != nil {
			return c.end(fmt.Errorf("%w: %w", ErrBadResponse, e))
		}
		if m := &c.parser.msgs[0]; !c.parser.batch && m.kind == kindResponse && m.id.Names(id) {
			return decodeAnswer(m.err.of(payload), m.result.of(payload), m.version, result)
		}
		if err := c.meanwhile(ctx, payload, on); err != nil {
			return c.end(err)
		}
	}
}

// meanwhile takes what is not the answer: notifications, what the peer asks, and answers to calls that nobody made.
func (c *LoneClient) meanwhile(ctx context.Context, payload []byte, on func(*Request) error) error {
	if m := &c.parser.msgs[0]; !c.parser.batch {
		switch {
		case m.kind == kindBadResponse, m.kind == kindBadRequest && m.method.absent():
			return ErrBadResponse
		case m.kind == kindResponse && m.id.IsNull() && !m.err.absent(): // it can only be about this call
			return decodeAnswer(m.err.of(payload), nil, m.version, nil)
		case m.kind == kindNotification && on != nil:
			return on(&Request{Method: textOf(m.method.of(payload)), Params: m.params.of(payload).Clone()})
		}
	}
	back := c.Back
	if back == nil {
		back = &Answerer{Version: c.Version}
	}
	out, _ := back.Answer(ctx, nil, payload, &Exchange{}) // the response says it all
	if len(out) == 0 {
		return nil
	}
	var b Burst
	b.Add(out)
	return c.t.Write(b)
}

// Notify implements [Peer]. It returns when the message is written.
func (c *LoneClient) Notify(ctx context.Context, method string, params any) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	var err error
	if c.out.Bytes, err = AppendNotification(c.out.Bytes[:0], c.Version, method, params); err != nil {
		return err
	}
	defer c.disarm(c.arm(ctx))
	return c.write(ctx)
}

// write sends the message in out.
func (c *LoneClient) write(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.ended(); err != nil {
		return err
	}
	c.out.Bytes = append(c.out.Bytes, '\n')
	c.out.Ends = append(c.out.Ends[:0], len(c.out.Bytes))
	if err := c.t.Write(c.out); err != nil {
		return c.end(err)
	}
	return nil
}

// arm closes the client when ctx or the time of the call ends, until disarm.
func (c *LoneClient) arm(ctx context.Context) (release func() bool) {
	if ctx.Done() != nil {
		release = context.AfterFunc(ctx, func() { c.close(context.Cause(ctx)) })
	}
	if _, has := ctx.Deadline(); has || c.CallTime < 0 {
		return release
	}
	d := c.CallTime
	or(&d, 60*time.Second)
	if c.timer == nil {
		c.timer = time.AfterFunc(d, func() { c.close(ErrTimeout) })
	} else {
		c.timer.Reset(d)
	}
	return release
}

func (c *LoneClient) disarm(release func() bool) {
	if c.timer != nil {
		c.timer.Stop()
	}
	if release != nil {
		release()
	}
}

// end closes the client after err and returns why it ended: an earlier reason if there was one.
func (c *LoneClient) end(err error) error {
	if _, own := errors.AsType[*Error](err); own {
		return err // the peer's answer; the conversation goes on
	}
	c.close(err)
	return c.ended()
}

// ended returns why the client ended, or nil.
func (c *LoneClient) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil || errors.Is(c.cause, ErrClosed) {
		return c.cause
	}
	return fmt.Errorf("%w: %w", ErrClosed, c.cause)
}

func (c *LoneClient) close(cause error) {
	c.mu.Lock()
	first := c.cause == nil
	if first {
		c.cause = cause
	}
	c.mu.Unlock()
	if first {
		_ = c.t.Close() // cause says more
	}
}

// Close ends the client; a call that waits returns ErrClosed. It may be called at any time, and more than once.
func (c *LoneClient) Close() error {
	c.close(ErrClosed)
	return nil
}
