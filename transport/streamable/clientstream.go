package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// errClientAnswered ends the request of a call whose answer came on another stream.
var errClientAnswered = errors.New("answered on another stream")

// How a broken stream is asked for again (reliability: reconnect backoff).
const (
	clientBackoff    = 250 * time.Millisecond // twice as long each time, and 20 % more or less
	clientMaxBackoff = 30 * time.Second
	clientTries      = 8 // without a message in between, for a call that nothing else bounds
)

// A clientPlace is where a stream stands: what a GET needs to go on behind it.
type clientPlace struct {
	last  string        // the last event id
	retry time.Duration // what the server said; negative: nothing
	fails int           // in a row
}

// read takes events from one stream until it ends, each as take says. It returns why it ended; nil when take has enough.
func (p *clientPlace) read(events *sse.Reader, take func(sse.Event) (enough bool)) error {
	for {
		e, err := events.Next()
		if id := events.LastID(); id != "" && id != p.last {
			p.last, p.fails = id, 0 // no message, maybe, and still farther than before
		}
		if wait, ok := events.Retry(); ok {
			p.retry = wait
		}
		if err != nil {
			return err
		}
		p.fails = 0
		if take(e) {
			return nil
		}
	}
}

// wait lets as much time pass as the server wants to be left alone.
func (p *clientPlace) wait(ctx context.Context) error {
	d := p.retry
	if d < 0 || p.fails > 0 {
		more := min(clientBackoff<<min(p.fails, 10), clientMaxBackoff)
		d = max(d, more*4/5+rand.N(more*2/5+1)) //nolint:gosec // no secret: it only keeps clients from coming all at once
	}
	p.fails++
	return pause.For(ctx, d)
}

// readStreams takes in events until the answer is there, from the stream that answers the POST, and when that breaks off from those that go on with it.
func (k *clientCall) readStreams(answer *http.Response) error {
	place := clientPlace{retry: -1}
	for {
		err := k.readStream(answer.Body, &place)
		if k.isDone() {
			return k.outcome()
		}
		switch {
		case k.ctx.Err() != nil, errors.Is(err, jsonrpc.ErrTooLarge):
			return k.failed(err)
		case k.bond == Unbound || place.last == "":
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w: the stream ended before it", jsonrpc.ErrBadResponse)
			}
			return k.failed(err)
		}
		if answer, err = k.resume(&place); err != nil { //nolint:bodyclose // readStream does it
			return k.failed(err)
		}
	}
}

func (k *clientCall) readStream(body io.ReadCloser, place *clientPlace) error {
	defer body.Close()
	events := sse.NewReader(body, k.client.limit)
	events.OnSilence(clientMissed, func() {
		if k.bond == Unbound {
			k.cancel(fmt.Errorf("the server has fallen silent: %w", jsonrpc.ErrTimeout))
		}
		body.Close() // the reading ends, and the stream may be asked for again
	})
	err := place.read(events, func(e sse.Event) bool {
		k.renew()
		if e.Type != "message" || len(e.Data) == 0 {
			return false // not ours, but a sign of life
		}
		if k.client.o.Tap != nil {
			k.client.o.Tap(false, e.Data)
		}
		k.payload(e.Data, true)
		return k.isDone()
	})
	if err == nil && k.ctx.Err() == nil {
		// The end is usually right behind, and then the connection can be used again: it is waited for here, but not for long.
		late := time.AfterFunc(clientLinger, func() { body.Close() })
		clientDrain(body)
		late.Stop()
	}
	return err
}

// resume asks for the rest of a stream, until it gets one or there is none.
func (k *clientCall) resume(place *clientPlace) (*http.Response, error) {
	c := k.client
	for {
		if place.fails >= clientTries {
			return nil, fmt.Errorf("%w: the stream broke off and does not go on", jsonrpc.ErrBadResponse)
		}
		if err := place.wait(k.ctx); err != nil {
			return nil, err
		}
		session := k.session
		if k.bond == Opening {
			session = c.Session()
		}
		answer, err := c.get(k.ctx, session, place.last)
		switch {
		case err == nil:
			return answer, nil
		case k.ctx.Err() != nil, clientFinal(err):
			return nil, fmt.Errorf("the stream broke off: %w", err)
		}
		c.report("broken stream", err)
	}
}

// clientFinal reports whether an answer to a GET will not change when it is made again.
func clientFinal(err error) bool {
	status, ok := errors.AsType[*sse.StatusError](err)
	if !ok {
		return errors.Is(err, jsonrpc.ErrBadResponse)
	}
	switch status.Status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusConflict:
		return false
	}
	return status.Status < 500
}

// get opens a stream. The answer is one, and its body the caller's to close.
func (c *Client) get(ctx context.Context, session, last string) (*http.Response, error) {
	header := http.Header{}
	maps.Copy(header, c.streamHeader())
	header["Accept"] = []string{sse.ContentType}
	header["Cache-Control"] = []string{"no-store"}
	if last != "" {
		header["Last-Event-Id"] = []string{last}
	}
	answer, err := c.http.Do(c.request(ctx, http.MethodGet, nil, header, session))
	if err != nil {
		return nil, err
	}
	switch {
	case sse.IsStream(answer):
		return answer, nil
	case answer.StatusCode/100 == 2:
		err = fmt.Errorf("%w: HTTP %d and %.64q, no event stream", jsonrpc.ErrBadResponse, answer.StatusCode, answer.Header.Get("Content-Type"))
	default:
		err = sse.NewStatusError(answer)
	}
	clientDrain(answer.Body)
	answer.Body.Close()
	return nil, err
}

// Listen opens the stream on which the server speaks of its own accord, in place of the one before, and keeps it open, until
// the Client is closed, the session is over, or the server says that it has none. It returns when the server has answered the
// first time, or ctx has ended, which ends nothing else; not every server answers before it has something to say.
func (c *Client) Listen(ctx context.Context) {
	if c.badURL != nil {
		return
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	if c.unhear != nil {
		c.unhear(jsonrpc.ErrClosed)
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // the stream outlives the opening
	c.unhear = cancel
	session := c.session
	asked := make(chan struct{})
	c.wg.Go(func() {
		defer cancel(nil)
		c.listen(own, session, asked)
	})
	c.mu.Unlock()
	select {
	case <-asked:
	case <-ctx.Done():
	}
}

// listen reads the stream of the session, and closes asked when there is a first answer.
func (c *Client) listen(ctx context.Context, session string, asked chan struct{}) {
	first := func() {
		if asked != nil {
			close(asked)
			asked = nil
		}
	}
	defer first()
	place := clientPlace{retry: -1}
	for {
		answer, err := c.get(ctx, session, place.last) //nolint:bodyclose // hear does it
		first()
		if err == nil {
			err = c.hear(ctx, answer.Body, &place)
		}
		status, _ := errors.AsType[*sse.StatusError](err)
		switch {
		case ctx.Err() != nil:
			return
		case status != nil && status.Status == http.StatusNotFound && session != "":
			if c.o.Lost != nil {
				c.o.Lost(session)
			}
			return
		case status != nil && status.Status == http.StatusMethodNotAllowed:
			return // it has none
		case clientFinal(err):
			c.report("stream of the session", err)
			return
		case !errors.Is(err, io.EOF):
			c.report("stream of the session", err)
		}
		if place.wait(ctx) != nil {
			return
		}
	}
}

// hear takes in one stream of the session.
func (c *Client) hear(ctx context.Context, body io.ReadCloser, place *clientPlace) error {
	defer body.Close()
	events := sse.NewReader(body, c.limit)
	events.OnSilence(clientMissed, func() { body.Close() })
	for {
		err := place.read(events, func(e sse.Event) bool {
			if e.Type == "message" && len(e.Data) > 0 {
				if c.o.Tap != nil {
					c.o.Tap(false, e.Data)
				}
				c.heard(ctx, e.Data)
			}
			return false
		})
		if !errors.Is(err, jsonrpc.ErrTooLarge) {
			return err
		}
		c.report("message of the server", err) // behind it, reading goes on
	}
}
