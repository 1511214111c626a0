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
	"time"

	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options tune Dial. The zero value is ready for use.
type Options struct {
	// HTTP makes the requests. Nil means a client of our own. It is copied: redirects are followed only to the same scheme,
	// host and port. Its Timeout would end the stream, and is not used.
	HTTP *http.Client

	// TLS is for the client of our own; it is not used beside HTTP.
	TLS *tls.Config

	// Header is sent with each request.
	Header http.Header

	// Token is sent as a bearer token with each request (RFC 6750).
	Token string

	// MaxMessage bounds one incoming message, in bytes. Zero means 16 MiB, negative means no bound. A longer one is a
	// *jsonrpc.FrameError, behind which reading goes on.
	MaxMessage int64

	// DialTimeout bounds the time until the server has said where to POST. Zero means 30 s.
	DialTimeout time.Duration

	// WriteTimeout bounds the POST of one message. Zero means 10 s. A server that takes longer ends the conversation.
	WriteTimeout time.Duration
}

// missed is three comments of a server that sends one in 15 s.
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
	events *Reader

	next   Event // was here behind the last one
	queued bool
	fault  error // the same, for an error

	close sync.Once
}

// Dial opens a stream at address and waits until the server has said where to POST, which must be at the same scheme, host and
// port. ctx bounds that alone. A server that sends comments to keep the stream alive, and then nothing for 45 s, is taken for dead. The answer of a server that is none is a *[StatusError] or says what came instead.
func Dial(ctx context.Context, address string, o *Options) (jsonrpc.Transport, error) {
	if o == nil {
		o = &Options{}
	}
	at, err := origin.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	t := &clientSide{timeout: o.WriteTimeout}
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
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx)) // the stream outlives the dialling

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
	header["Accept"] = []string{ContentType}
	header["Cache-Control"] = []string{"no-store"}
	answer, err := t.do(t.ctx, http.MethodGet, at, header, nil) //nolint:bodyclose // Close does it, also when Dial fails
	if err != nil {
		return err
	}
	t.body = answer.Body
	switch {
	case answer.StatusCode != http.StatusOK:
		return NewStatusError(answer)
	case !IsStream(answer):
		return fmt.Errorf("%w: it is %.64q, not an event stream", jsonrpc.ErrBadResponse, answer.Header.Get("Content-Type"))
	}
	t.events = NewReader(answer.Body, limit)
	t.events.OnSilence(missed, func() { t.cancel(fmt.Errorf("the server has fallen silent: %w", jsonrpc.ErrTimeout)) })
	for {
		e, err := t.events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: the stream ended before its endpoint event", jsonrpc.ErrBadResponse)
		case err != nil:
			return err
		case e.Type == "message":
			return fmt.Errorf("%w: a message came before the endpoint event", jsonrpc.ErrBadResponse)
		case e.Type == "endpoint":
			return t.endpoint(answer.Request.URL, string(e.Data))
		}
	}
}

// endpoint resolves the address to POST to. Another origin would get our credentials and our calls.
func (t *clientSide) endpoint(from *url.URL, text string) error {
	to, err := from.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the endpoint %.64q is no address", jsonrpc.ErrBadResponse, text)
	case !origin.Same(from, to):
		return fmt.Errorf("%w: the endpoint %.64q is at another origin", jsonrpc.ErrBadResponse, text)
	}
	to.User, to.Fragment, to.RawFragment = from.User, "", ""
	t.post = to
	return nil
}

func (t *clientSide) do(ctx context.Context, method string, at *url.URL, header http.Header, payload []byte) (*http.Response, error) {
	req := &http.Request{Method: method, URL: at, Host: at.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if payload != nil {
		req.Body = io.NopCloser(bytes.NewReader(payload))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }
		req.ContentLength = int64(len(payload))
	}
	return t.http.Do(req.WithContext(ctx))
}

// Read returns the data of the next message event. Others are ignored.
func (t *clientSide) Read() (payload []byte, more bool, err error) {
	e, queued, fault := t.next, t.queued, t.fault
	t.next, t.queued, t.fault = Event{}, false, nil
	for fault == nil && (!queued || e.Type != "message") {
		e, fault = t.events.Next()
		queued = fault == nil
	}
	if fault != nil {
		return nil, false, t.ending(fault)
	}
	for { // more is a promise: only a message keeps it
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
	case t.ctx.Err() != nil:
		return fmt.Errorf("sse: read: %w", context.Cause(t.ctx))
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return fmt.Errorf("sse: read: %w", err)
}

// Write posts the payloads one after the other, since each may overtake the one before it otherwise. It returns when the server
// has taken the last.
func (t *clientSide) Write(b jsonrpc.Burst) error {
	for payload := range b.All() {
		if err := t.send(payload); err != nil {
			cause := t.ctx.Err()
			_ = t.Close() // messages are missing now: nothing can follow
			if cause != nil {
				err = context.Cause(t.ctx)
			}
			return fmt.Errorf("sse: write: %w", err)
		}
	}
	return nil
}

// TryWrite sends nothing: a POST waits for its answer.
func (t *clientSide) TryWrite(jsonrpc.Burst) bool { return false }

func (t *clientSide) send(payload []byte) error {
	ctx, cancel := context.WithTimeoutCause(t.ctx, t.timeout, jsonrpc.ErrSlowPeer)
	defer cancel()
	header := maps.Clone(t.header)
	header["Content-Type"] = []string{"application/json"}
	answer, err := t.do(ctx, http.MethodPost, t.post, header, bytes.Clone(payload)) // the request may outlive us, b may not
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
