package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// A LoneClient makes one call at a time and reads the response on the calling goroutine. It has no
// reader goroutine, no table of calls and no wake-up between goroutines, which makes a round trip
// about a quarter shorter than on a [Conn]. It is for programs that make one call after the other;
// callers on several goroutines wait for each other.
//
// A call whose context ends or whose time expires closes the client, because only that interrupts a
// read. Create it with [NewLoneClient].
type LoneClient struct {
	// Back handles what the peer sends while a call waits. If nil, its requests get -32601 and its
	// notifications are dropped.
	Back *Answerer

	Version Version
	// CallTime is the time of a call whose context has no deadline. The default is 60 s; negative
	// means no timeout.
	CallTime time.Duration

	t    Transport
	turn sync.Mutex // held during a whole call, since calls run one at a time

	// Guarded by turn.
	last   uint64
	others uint64 // messages sent that are not calls,
	proved uint64 // and the number of those sent before a call that got its response
	out    Burst
	parser parser
	timer  *time.Timer

	mu    sync.Mutex // guards the fields below
	cause error      // why the client was closed
}

// NewLoneClient creates a client on t and takes ownership of t.
func NewLoneClient(t Transport) *LoneClient { return &LoneClient{t: t} }

// Call implements [Peer].
func (c *LoneClient) Call(ctx context.Context, method string, params, result any) error {
	return c.Stream(ctx, method, params, result, nil)
}

// Stream implements [Peer]. All notifications that arrive before the response are about this call.
func (c *LoneClient) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.last++
	id := ID{n: c.last + 1}
	var err error
	if c.out.Bytes, err = AppendRequest(c.out.Bytes[:0], c.Version, id, method, params); err != nil {
		return AsNotSent(err)
	}
	defer c.disarm(c.arm(ctx))
	before := c.others
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
			c.proved = before
			return decodeAnswer(m.err.of(payload), m.result.of(payload), m.version, result)
		}
		if err := c.meanwhile(ctx, payload, on); err != nil {
			return c.end(err)
		}
	}
}

// meanwhile handles a payload that is not the response: notifications, requests of the peer, and
// responses that no call waits for.
func (c *LoneClient) meanwhile(ctx context.Context, payload []byte, on func(*Request) error) error {
	if m := &c.parser.msgs[0]; !c.parser.batch {
		switch {
		case m.kind == kindBadResponse, m.kind == kindBadRequest && m.method.absent():
			return ErrBadResponse
		case c.others == c.proved && isRefusal(m, payload): // it can only be about this call
			return decodeAnswer(m.err.of(payload), nil, m.version, nil)
		case m.kind == kindNotification && on != nil:
			return on(&Request{Method: textOf(m.method.of(payload)), Params: m.params.of(payload).Clone()})
		}
	}
	back := c.Back
	if back == nil {
		back = &Answerer{Version: c.Version}
	}
	out, _ := back.Answer(ctx, nil, payload, &Exchange{}) // the response contains the error
	if len(out) == 0 {
		return nil
	}
	c.others++
	var b Burst
	b.Add(out)
	return c.t.Write(b)
}

// Notify implements [Peer]. It returns after the message is written.
func (c *LoneClient) Notify(ctx context.Context, method string, params any) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	var err error
	if c.out.Bytes, err = AppendNotification(c.out.Bytes[:0], c.Version, method, params); err != nil {
		return AsNotSent(err)
	}
	defer c.disarm(c.arm(ctx))
	c.others++
	return c.write(ctx)
}

// write writes the message in out.
func (c *LoneClient) write(ctx context.Context) error {
	if ctx.Err() != nil {
		return AsNotSent(context.Cause(ctx))
	}
	if err := c.ended(); err != nil {
		return AsNotSent(err)
	}
	c.out.Bytes = append(c.out.Bytes, '\n')
	c.out.Ends = append(c.out.Ends[:0], len(c.out.Bytes))
	if err := c.t.Write(c.out); err != nil {
		return c.end(err)
	}
	return nil
}

// arm closes the client when ctx ends or the time of the call expires, until disarm is called.
func (c *LoneClient) arm(ctx context.Context) (release func() bool) {
	if ctx.Done() != nil {
		release = context.AfterFunc(ctx, func() {
			defer rescue.Catch(nil, nil) // of a transport
			c.close(context.Cause(ctx))
		})
	}
	if _, has := ctx.Deadline(); has || c.CallTime < 0 {
		return release
	}
	d := c.CallTime
	or(&d, 60*time.Second)
	if c.timer == nil {
		c.timer = time.AfterFunc(d, func() {
			defer rescue.Catch(nil, nil) // of a transport
			c.close(ErrTimeout)
		})
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

// end closes the client after err and returns why it was closed: an earlier reason if there was
// one.
func (c *LoneClient) end(err error) error {
	if _, own := errors.AsType[*Error](err); own {
		return err // the peer's response; the connection remains open
	}
	c.close(err)
	return c.ended()
}

// ended returns why the client was closed, or nil.
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
		_ = c.t.Close() // cause is more precise
	}
}

// Close closes the client; a waiting call returns ErrClosed. It may be called at any time, and more
// than once.
func (c *LoneClient) Close() error {
	c.close(ErrClosed)
	return nil
}
