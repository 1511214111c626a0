package sse

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/internal/x/progress"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options configure Dial. The zero value is ready for use.
type Options struct {
	// HTTP makes the requests. If nil, a new client is used. It is copied: redirects are followed
	// only to the same scheme, host and port. Its Timeout would end the stream, and is not used.
	HTTP *http.Client

	// TLS configures the client that is used if HTTP is nil; otherwise it has no effect.
	TLS *tls.Config

	// Header is sent with each request.
	Header http.Header

	// Token is sent as a bearer token with each request (RFC 6750).
	Token string

	// MaxMessage bounds one incoming message, in bytes. Zero means 16 MiB, negative means no bound.
	// A longer one is a *jsonrpc.FrameError, after which reading continues.
	MaxMessage int64

	// DialTimeout bounds the time until the server has sent the address for POSTs. Zero means 30 s.
	DialTimeout time.Duration

	// WriteTimeout bounds the time in which a server takes none of 16 KiB of a POST, and after the
	// last of them does not accept it. Zero means 10 s. After it the connection ends.
	WriteTimeout time.Duration
}

// missed is the time of three comments of a server that sends one every 15 s.
const missed = 45 * time.Second

// clientSide is the Transport that Dial returns.
type clientSide struct {
	http    *http.Client
	idle    func() // closes idle connections
	header  http.Header
	timeout time.Duration
	post    *url.URL

	ctx    context.Context // of the stream and of all POSTs
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	events *eventstream.Reader

	next   eventstream.Event // an event that was buffered after the last one
	queued bool
	fault  error // an error that followed the last event

	over  chan struct{} // closed when nothing can be read any more
	ended sync.Once     // guards the closing of over
	close sync.Once

	posts atomic.Uint64 // that the server has accepted
}

// Dial opens a stream at address and waits until the server has sent the address for POSTs, which
// must have the same scheme, host and port. ctx bounds only Dial. A server that sends comments to
// keep the stream alive, and then nothing for 45 s, is treated as dead. If the response is not such
// a stream, the error is a *[StatusError] or names what was received instead.
func Dial(ctx context.Context, address string, o *Options) (jsonrpc.Transport, error) {
	if o == nil {
		o = &Options{}
	}
	at, err := origin.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	t := &clientSide{timeout: o.WriteTimeout, over: make(chan struct{})}
	if t.timeout <= 0 {
		t.timeout = 10 * time.Second
	}
	t.http, t.idle = origin.Client(o.HTTP, o.TLS)
	t.http.Timeout = 0
	t.header = o.Header.Clone()
	if t.header == nil {
		t.header = make(http.Header)
	}
	if o.Token != "" {
		t.header["Authorization"] = []string{"Bearer " + o.Token}
	}
	// the stream outlives Dial
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))

	dialTime := o.DialTimeout
	if dialTime <= 0 {
		dialTime = 30 * time.Second
	}
	late := time.AfterFunc(dialTime, func() { t.cancel(jsonrpc.ErrTimeout) })
	defer late.Stop()
	stop := context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })
	defer stop()
	if err := t.open(at, o.MaxMessage); err != nil {
		if t.ctx.Err() != nil {
			err = context.Cause(t.ctx)
		}
		_ = t.Close() // failing with err
		return nil, fmt.Errorf("sse: dial %s: %w", at.Redacted(), err)
	}
	return t, nil
}

// open makes the GET and reads the first event.
func (t *clientSide) open(at *url.URL, limit int64) error {
	header := maps.Clone(t.header)
	header["Accept"] = []string{eventstream.ContentType}
	header["Cache-Control"] = []string{"no-store"}
	answer, err := t.do(t.ctx, http.MethodGet, at, header, nil, nil) //nolint:bodyclose // Close does it, also when Dial fails
	if err != nil {
		return err
	}
	t.body = answer.Body
	switch {
	case answer.StatusCode != http.StatusOK:
		return NewStatusError(answer)
	case !eventstream.IsStream(answer):
		return fmt.Errorf("%w: it is %.64q, not an event stream", jsonrpc.ErrBadResponse, answer.Header.Get("Content-Type"))
	}
	t.events = eventstream.NewReader(answer.Body, limit)
	t.events.OnSilence(missed, func() { t.cancel(fmt.Errorf("the server sends no data: %w", jsonrpc.ErrTimeout)) })
	for {
		e, err := t.events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: the stream ended before its endpoint event", jsonrpc.ErrBadResponse)
		case err != nil:
			return err
		case e.Type == "message":
			return fmt.Errorf("%w: a message arrived before the endpoint event", jsonrpc.ErrBadResponse)
		case e.Type == "endpoint":
			return t.endpoint(answer.Request.URL, string(e.Data))
		}
	}
}

// endpoint resolves the address for POSTs. Another origin is refused: it would receive the
// credentials and the calls.
func (t *clientSide) endpoint(from *url.URL, text string) error {
	to, err := from.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the endpoint %.64q is not a valid address", jsonrpc.ErrBadResponse, text)
	case !origin.Same(from, to):
		return fmt.Errorf("%w: the endpoint %.64q has another origin", jsonrpc.ErrBadResponse, text)
	}
	to.User, to.Fragment, to.RawFragment = from.User, "", ""
	t.post = to
	return nil
}

// An upload is the body of a POST. It calls taken before each piece, when the connection has taken
// the one before.
type upload struct {
	from  *bytes.Reader
	taken func()
}

func (u *upload) Read(p []byte) (int, error) {
	u.taken()
	return u.from.Read(p[:min(len(p), uploadPiece)])
}

// uploadPiece is how many bytes a server must accept in WriteTimeout.
const uploadPiece = 16 << 10

// do makes a request. taken is called whenever a piece of the payload is taken.
func (t *clientSide) do(ctx context.Context, method string, at *url.URL, header http.Header, payload []byte, taken func()) (*http.Response, error) {
	req := &http.Request{Method: method, URL: at, Host: at.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if payload != nil {
		body := func() (io.ReadCloser, error) { return io.NopCloser(&upload{bytes.NewReader(payload), taken}), nil }
		req.Body, _ = body() // it returns no error
		req.GetBody = body
		req.ContentLength = int64(len(payload))
	}
	return t.http.Do(req.WithContext(ctx))
}

// Read returns the data of the next message event. Other events are ignored.
func (t *clientSide) Read() (payload []byte, more bool, err error) {
	e, queued, fault := t.next, t.queued, t.fault
	t.next, t.queued, t.fault = eventstream.Event{}, false, nil
	for fault == nil && (!queued || e.Type != "message") {
		e, fault = t.events.Next()
		queued = fault == nil
	}
	if fault != nil {
		return nil, false, t.ending(fault)
	}
	for { // more promises a message, so other events are skipped here
		t.next, t.queued, t.fault = t.events.Try()
		if !t.queued || t.next.Type == "message" {
			return e.Data, t.queued || t.fault != nil, nil
		}
	}
}

func (t *clientSide) ending(err error) error {
	switch {
	case errors.Is(err, jsonrpc.ErrTooLarge):
		return &jsonrpc.FrameError{Answer: jsonrpc.ErrInvalidRequest, Err: err}
	}
	t.ended.Do(func() { close(t.over) })
	switch {
	case t.ctx.Err() != nil:
		return fmt.Errorf("sse: read: %w", context.Cause(t.ctx))
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return fmt.Errorf("sse: read: %w", err)
}

// Write posts the payloads one after the other, since otherwise a later one may arrive first. It
// returns when the server has accepted the last.
//
// After a message that cannot be delivered, no other is sent, but the server may still respond on
// the stream to what it accepted before: a server that shuts down accepts no more connections, and
// each POST may need one. So Write waits for the end of the stream before it closes the Transport,
// at most WriteTimeout if the server cannot be reached, and a second after any other failure.
func (t *clientSide) Write(b jsonrpc.Burst) error {
	for payload := range b.All() {
		if err := t.send(payload); err != nil {
			t.awaitEnd(err)
			cause := t.ctx.Err()
			_ = t.Close() // messages are missing now: nothing can follow
			if cause != nil {
				err = context.Cause(t.ctx)
			}
			return fmt.Errorf("sse: write: %w", err)
		}
		t.posts.Add(1)
	}
	return nil
}

// WrittenBytes grows with each message that the server has accepted. It implements
// [jsonrpc.WriteCounter].
func (t *clientSide) WrittenBytes() uint64 { return t.posts.Load() * progress.Piece }

// lastAnswers is how long a server that failed to accept a message may send its pending responses.
const lastAnswers = time.Second

func (t *clientSide) awaitEnd(err error) {
	most := min(lastAnswers, t.timeout)
	if origin.Unreached(err) {
		most = t.timeout
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-t.over:
	case <-t.ctx.Done():
	case <-timer.C:
	}
}

// TryWrite sends nothing: a POST waits for its response.
func (t *clientSide) TryWrite(jsonrpc.Burst) bool { return false }

func (t *clientSide) send(payload []byte) error {
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	late := time.AfterFunc(t.timeout, func() { cancel(jsonrpc.ErrSlowPeer) })
	defer late.Stop()
	header := maps.Clone(t.header)
	header["Content-Type"] = []string{"application/json"}
	// the request may outlive this call, b may not
	answer, err := t.do(ctx, http.MethodPost, t.post, header, bytes.Clone(payload), func() { late.Reset(t.timeout) })
	if err != nil {
		if errors.Is(context.Cause(ctx), jsonrpc.ErrSlowPeer) {
			return jsonrpc.ErrSlowPeer
		}
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return NewStatusError(answer)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 4<<10) // so that the connection can be used again
	return nil
}

// Close ends the stream and all POSTs.
func (t *clientSide) Close() error {
	t.close.Do(func() {
		t.cancel(jsonrpc.ErrClosed)
		if t.body != nil {
			_ = t.body.Close() // the request is cancelled already
		}
		t.idle()
	})
	return nil
}
