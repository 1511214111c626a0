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

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// errClientAnswered ends the request of a call whose response arrived on another stream.
var errClientAnswered = errors.New("answered on another stream")

// errClientEventsLost means that the server could not send the events after the last one.
var errClientEventsLost = errors.New("streamable: the server has lost events of the stream")

// Timing of the resumption of a broken stream (reliability: reconnect backoff).
const (
	clientBackoff    = 250 * time.Millisecond // doubled each time, and 20 % more or less
	clientMaxBackoff = 30 * time.Second
	clientTries      = 8 // without a message in between, for a call that has no other bound
)

// A clientPlace is the position in a stream: what a GET needs to resume it.
type clientPlace struct {
	last  string        // the last event ID
	retry time.Duration // the retry time of the server; negative if it has sent no value
	fails int           // in a row
	lost  bool          // the stream ended in an event of type error: what follows last is lost
}

// read passes events from one stream to take until the stream ends or take reports that it has
// enough. It returns why the stream ended, or nil if take has enough.
func (p *clientPlace) read(events *eventstream.Reader, take func(eventstream.Event) (enough bool)) error {
	for {
		e, err := events.Next()
		if id := events.LastID(); id != "" && id != p.last {
			p.last, p.fails, p.lost = id, 0, false // maybe not a message, but still progress
		}
		if wait, ok := events.Retry(); ok {
			p.retry = wait
		}
		if err != nil {
			return err
		}
		if p.lost = e.Type == "error"; !p.lost {
			p.fails = 0
		}
		if take(e) {
			return nil
		}
	}
}

// wait waits for the time that the server requested before a reconnect.
func (p *clientPlace) wait(ctx context.Context) error {
	d := p.retry
	if d < 0 || p.fails > 0 {
		more := min(clientBackoff<<min(p.fails, 10), clientMaxBackoff)
		d = max(d, more*4/5+rand.N(more*2/5+1)) //nolint:gosec // no secret: it only keeps clients from coming all at once
	}
	p.fails++
	return pause.For(ctx, d)
}

// readStreams reads events until the response has arrived, from the stream of the POST's response,
// and if that breaks off, from the streams that resume it.
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
		case k.use == Unbound || place.last == "":
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
	events := eventstream.NewReader(body, k.client.limit)
	events.OnSilence(clientMissed, func() {
		if k.use == Unbound {
			k.cancel(fmt.Errorf("the server sends no data: %w", jsonrpc.ErrTimeout))
		}
		body.Close() // the reading ends, and the stream may be resumed
	})
	err := place.read(events, func(e eventstream.Event) bool {
		if e.Type != "error" {
			k.renew()
		}
		if e.Type != "message" || len(e.Data) == 0 {
			return false // not a message, but a sign of life
		}
		if k.client.o.Tap != nil {
			k.client.o.Tap(false, e.Data)
		}
		k.payload(e.Data, true)
		return k.isDone()
	})
	if err == nil && k.ctx.Err() == nil {
		// The end usually follows at once, and then the connection can be used again: this waits
		// for it, but not for long.
		late := time.AfterFunc(clientLinger, func() { body.Close() })
		clientDrain(body)
		late.Stop()
	}
	return err
}

// resume requests the rest of a stream, until it succeeds or the stream is lost.
func (k *clientCall) resume(place *clientPlace) (*http.Response, error) {
	c := k.client
	for {
		if place.fails >= clientTries {
			return nil, fmt.Errorf("%w: the stream was interrupted and cannot be resumed", jsonrpc.ErrBadResponse)
		}
		if err := place.wait(k.ctx); err != nil {
			return nil, err
		}
		session := k.session
		if k.use == Opening {
			session = c.Session()
		}
		answer, err := c.get(k.ctx, session, place.last)
		switch {
		case err == nil:
			return answer, nil
		case k.ctx.Err() != nil, clientFinal(err):
			return nil, fmt.Errorf("the stream was interrupted: %w", err)
		}
		c.report(ReportBrokenStream, err)
	}
}

// clientFinal reports whether a repeated GET would get the same response.
func clientFinal(err error) bool {
	status, ok := errors.AsType[*httprpc.StatusError](err)
	if !ok {
		return errors.Is(err, jsonrpc.ErrBadResponse)
	}
	switch status.Status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusConflict:
		return false
	}
	return status.Status < 500
}

// get opens a stream. On success the response is an event stream, and the caller closes its body.
func (c *Client) get(ctx context.Context, session, last string) (*http.Response, error) {
	header := http.Header{}
	maps.Copy(header, c.streamHeader())
	header["Accept"] = []string{eventstream.ContentType}
	header["Cache-Control"] = []string{"no-store"}
	if last != "" {
		header["Last-Event-Id"] = []string{last}
	}
	answer, err := c.http.Do(c.request(ctx, http.MethodGet, nil, header, session))
	if err != nil {
		return nil, err
	}
	switch {
	case eventstream.IsStream(answer):
		return answer, nil
	case answer.StatusCode/100 == 2:
		err = fmt.Errorf("%w: HTTP %d and %.64q, not an event stream", jsonrpc.ErrBadResponse, answer.StatusCode, answer.Header.Get("Content-Type"))
	default:
		err = httprpc.NewStatusError(answer)
	}
	clientDrain(answer.Body)
	answer.Body.Close()
	return nil, err
}

// Listen opens the stream on which the server sends messages that it initiates, in place of the one
// before, and reopens it until the Client is closed, the session is over, or the server responds
// that it has no such stream. Listen returns after the first response of the server, or when ctx
// has ended, which ends nothing else; not every server responds before it has a message to send.
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
	// the stream outlives the opening
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	c.unhear = cancel
	session := c.session
	asked := make(chan struct{})
	c.wg.Go(func() {
		defer cancel(nil)
		defer rescue.Catch(c.report, nil) // of Options.Lost and of Back
		c.listen(own, session, asked)
	})
	c.mu.Unlock()
	select {
	case <-asked:
	case <-ctx.Done():
	}
}

// listen reads the stream of the session, and closes asked after the first response.
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
		answer, err := c.get(ctx, session, place.last) //nolint:bodyclose // readEvents does it
		first()
		if err == nil {
			err = c.readEvents(ctx, answer.Body, &place)
		}
		status, _ := errors.AsType[*httprpc.StatusError](err)
		if place.lost {
			c.report(ReportSessionStream, errClientEventsLost)
			place = clientPlace{retry: place.retry, fails: place.fails}
		}
		switch {
		case ctx.Err() != nil:
			return
		case status != nil && status.Status == http.StatusNotFound && session != "":
			if c.o.Lost != nil {
				c.o.Lost(session)
			}
			return
		case status != nil && status.Status == http.StatusMethodNotAllowed:
			return // the server has no such stream
		case clientFinal(err) && place.last != "": // the server does not have the events any more
			c.report(ReportSessionStream, err)
			place = clientPlace{retry: -1, fails: place.fails}
		case clientFinal(err):
			c.report(ReportSessionStream, err)
			return
		case !errors.Is(err, io.EOF):
			c.report(ReportSessionStream, err)
		}
		if place.wait(ctx) != nil {
			return
		}
	}
}

// readEvents reads one stream of the session.
func (c *Client) readEvents(ctx context.Context, body io.ReadCloser, place *clientPlace) error {
	defer body.Close()
	events := eventstream.NewReader(body, c.limit)
	events.OnSilence(clientMissed, func() { body.Close() })
	for {
		err := place.read(events, func(e eventstream.Event) bool {
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
		c.report(jsonrpc.ReportServerMessage, err) // after it, reading continues
	}
}
