package streamable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A clientCall is one outgoing message under way.
type clientCall struct {
	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // nil if the context has a deadline, or the call has no bound
	bound  time.Duration
	use    Bond
	id     jsonrpc.ID // zero for a notification, and for a response of this side

	session string // with which it was sent

	mu       sync.Mutex // guards the fields below: messages about a call arrive on two streams
	on       func(*jsonrpc.Request) error
	result   any
	done     bool
	answered bool  // done, by the server's response
	err      error // the error of the call, when done
}

// begin registers a call, so that Close ends it and waits for it.
func (c *Client) begin(parent context.Context, bound time.Duration) (*clientCall, error) {
	if c.badURL != nil {
		return nil, jsonrpc.AsNotSent(c.badURL)
	}
	k := &clientCall{client: c, bound: bound}
	k.ctx, k.cancel = context.WithCancelCause(parent)

	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		k.cancel(nil)
		return nil, jsonrpc.AsNotSent(jsonrpc.ErrClosed)
	}
	c.wg.Add(1)
	c.calls[k] = struct{}{}
	c.mu.Unlock()

	if _, ok := parent.Deadline(); !ok && bound > 0 {
		k.timer = time.AfterFunc(time.Duration(math.MaxInt64), k.late) // which needs the timer
		k.timer.Reset(bound)
	}
	return k, nil
}

// late ends a call whose CallTime has expired. A call has its whole CallTime again while Back
// handles a request of the server, and from the end of that: the server may have waited for the
// response.
func (k *clientCall) late() {
	if k.ctx.Err() == nil {
		if k.client.back.Taken() > 0 {
			k.timer.Reset(k.bound)
			return
		}
		if ended := time.Duration(k.client.backEnded.Load()); ended > 0 {
			if left := k.bound - (time.Since(k.client.made) - ended); left > 0 {
				k.timer.Reset(left)
				return
			}
		}
	}
	k.cancel(jsonrpc.ErrTimeout)
}

// renew restarts the CallTime of the call.
func (k *clientCall) renew() {
	if k.timer != nil && k.ctx.Err() == nil {
		k.timer.Reset(k.bound)
	}
}

// clientRefusalTime is how long a Transport may handle a refusal, in which a person may have to
// sign in.
const clientRefusalTime = 15 * time.Minute

// hold suspends the CallTime of the call while a Transport may handle a refusal.
func (k *clientCall) hold() {
	if k.timer != nil && k.ctx.Err() == nil {
		k.timer.Reset(max(k.bound, clientRefusalTime))
	}
}

func (k *clientCall) end() {
	if k.timer != nil {
		k.timer.Stop()
	}
	k.cancel(nil)
	k.mu.Lock()
	k.done = true // later messages are dropped
	k.mu.Unlock()
	k.client.mu.Lock()
	delete(k.client.calls, k)
	k.client.mu.Unlock()
	k.client.wg.Done()
}

// settle ends the call with err, unless it has ended already.
func (k *clientCall) settle(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.done {
		k.done, k.err = true, err
	}
}

func (k *clientCall) isDone() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.done
}

func (k *clientCall) isAnswered() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.answered
}

func (k *clientCall) outcome() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// failed maps an error of the transport: if the call is over, its result is returned, otherwise the
// cause of its context's end.
func (k *clientCall) failed(err error) error {
	if k.isDone() {
		return k.outcome()
	}
	if k.ctx.Err() != nil {
		err = context.Cause(k.ctx)
	}
	return fmt.Errorf("streamable: %w", err)
}

// request creates an HTTP request of any kind. session may be "".
func (c *Client) request(ctx context.Context, method string, payload []byte, more http.Header, session string) *http.Request {
	own := c.header
	if payload != nil {
		own = c.posted
	}
	header := make(http.Header, len(own)+len(more)+2) // middleware below may add to it
	maps.Copy(header, own)
	maps.Copy(header, more)
	if session != "" {
		header[c.named] = []string{session}
	}
	req := &http.Request{Method: method, URL: c.url, Host: c.url.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if payload != nil {
		req.Body = io.NopCloser(bytes.NewReader(payload))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }
		req.ContentLength = int64(len(payload))
	}
	return req.WithContext(ctx)
}

// streamHeader returns the headers of all requests of a session that are not messages of the
// caller.
func (c *Client) streamHeader() http.Header {
	if c.o.StreamHeader == nil {
		return nil
	}
	return c.o.StreamHeader()
}

// post makes the request of a message. The caller closes the body of the response.
func (c *Client) post(k *clientCall, payload []byte, more http.Header) (*http.Response, error) {
	if c.o.Tap != nil {
		c.o.Tap(true, payload)
	}
	if k.use == Within {
		k.session = c.Session()
	}
	ctx := k.ctx
	if c.handlesRefusals && k.timer != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotFirstResponseByte: k.hold,
			WroteRequest:         func(httptrace.WroteRequestInfo) { k.renew() },
		})
	}
	answer, err := c.http.Do(c.request(ctx, http.MethodPost, payload, more, k.session))
	k.renew()
	switch {
	case err == nil:
		return answer, nil
	case origin.Unreached(err):
		return nil, jsonrpc.AsNotSent(k.failed(err))
	case k.ctx.Err() == nil && clientIsOthers(err):
		return nil, errClientLost
	}
	return nil, k.failed(err)
}

// errClientLost means that a request got a response without a body, whose status is lost.
var errClientLost = fmt.Errorf("streamable: %w: it was empty", jsonrpc.ErrBadResponse)

// clientIsOthers reports whether err is the end of another call's context. net/http (Go 1.26)
// reuses a connection as soon as it has read a response without a body, and before it returns the
// response. If the call that reuses the connection is then cancelled, the call before it may fail
// with the error of the other. No other path leads here.
func clientIsOthers(err error) bool {
	failed, ok := errors.AsType[*url.Error](err)
	ends := []error{context.Canceled, context.DeadlineExceeded, jsonrpc.ErrTimeout, jsonrpc.ErrClosed, errClientAnswered}
	// compared by value: a network timeout Is a DeadlineExceeded
	return ok && slices.Contains(ends, failed.Err)
}

// notified reads the HTTP response to a message that has no JSON-RPC response: an empty body, or
// the reason why the message was refused.
func (k *clientCall) notified(answer *http.Response, err error) error {
	switch {
	case err == errClientLost: //nolint:errorlint // post returns the value itself
		return nil // an empty response is the normal response to a notification
	case answer == nil:
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 == 2 {
		if !eventstream.IsStream(answer) { // the content has no receiver
			clientDrain(answer.Body)
		}
		return nil
	}
	return k.refused(answer, clientHead(answer))
}

// receive reads until the response has arrived. Its error does not count if the call is over: the
// response may have arrived on the stream of the session.
func (k *clientCall) receive(answer *http.Response, err error) error {
	if answer == nil {
		return err // nil: the response arrived on the stream of the session
	}
	if answer.StatusCode/100 == 2 && k.use == Opening {
		if err := k.client.opened(answer); err != nil {
			answer.Body.Close()
			return err
		}
	}
	if eventstream.IsStream(answer) {
		return k.readStreams(answer)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 && !clientIsJSON(answer) {
		return k.refused(answer, clientHead(answer))
	}
	text, err := clientReadAll(answer.Body, k.client.limit)
	if err != nil {
		return k.failed(err)
	}
	if k.client.o.Tap != nil && len(text) > 0 {
		k.client.o.Tap(false, text)
	}
	if answer.StatusCode/100 != 2 {
		return k.refused(answer, text)
	}
	switch {
	case len(text) == 0:
		return fmt.Errorf("%w: HTTP %d with an empty body", jsonrpc.ErrBadResponse, answer.StatusCode)
	case !clientIsJSON(answer):
		return fmt.Errorf("%w: it is %.64q and starts with %.64q", jsonrpc.ErrBadResponse, answer.Header.Get("Content-Type"), text)
	}
	k.payload(text, false)
	if !k.isDone() {
		return fmt.Errorf("%w: the HTTP response ended without a response to the call", jsonrpc.ErrBadResponse)
	}
	return k.outcome()
}

// refused returns the error for a response with a failure status: the server's response to the call
// if it has its ID, otherwise the error of the HTTP layer.
func (k *clientCall) refused(answer *http.Response, body []byte) error {
	said := k.errorIn(answer, body)
	status := &httprpc.StatusError{Status: answer.StatusCode, Header: answer.Header, Body: body[:min(len(body), 1<<10)]}
	ours := said != nil && !said.id.IsNull() && !k.id.IsZero()
	if said != nil {
		status.Err = said.err
	}
	switch {
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		// the client's credentials do not concern its caller, so the JSON-RPC error is not exposed
		return status
	case answer.StatusCode == http.StatusNotFound && k.session != "" && !(ours && said.err.Code == jsonrpc.CodeMethodNotFound):
		return &SessionError{Session: k.session, Status: status}
	case ours:
		return said.err
	}
	return status
}

type clientError struct {
	id  jsonrpc.ID
	err *jsonrpc.Error
}

// errorIn finds the JSON-RPC error in a body: about this call, or about a message that the server
// could not parse.
func (k *clientCall) errorIn(answer *http.Response, body []byte) *clientError {
	if !clientIsJSON(answer) {
		return nil
	}
	var found *clientError
	_ = jsonrpc.Scan(body, func(m *jsonrpc.Message) { // other content has no error
		if m.Request || m.Bad != nil || m.Error == nil || !m.ID.IsZero() && !m.ID.IsNull() && !m.ID.Names(k.id) {
			return
		}
		if e, ok := errors.AsType[*jsonrpc.Error](m.Decode(nil)); ok {
			found = &clientError{id: m.ID, err: e}
			if m.ID.IsZero() {
				found.id = jsonrpc.NullID
			}
		}
	})
	return found
}

// payload processes one JSON text of the response to k.
func (k *clientCall) payload(text []byte, streamed bool) {
	fault := jsonrpc.Scan(text, func(m *jsonrpc.Message) { k.message(m, streamed) })
	if fault != nil {
		k.settle(fmt.Errorf("%w: %s; it starts with %.64q", jsonrpc.ErrBadResponse, fault.Message, text))
	}
}

func (k *clientCall) message(m *jsonrpc.Message, streamed bool) {
	c := k.client
	switch {
	case m.Bad != nil:
		k.settle(fmt.Errorf("%w: %s", jsonrpc.ErrBadResponse, m.Bad.Message))
	case m.Request && m.ID.IsZero():
		c.notification(k.ctx, k, m)
	case m.Request && k.use == Unbound:
		// Without a session there is no POST for a response (MCP 2026-07-28, Transports, Sending
		// Messages).
		c.report(jsonrpc.ReportServerRequest, fmt.Errorf("%s: %w", m.Method, errClientNoHandler))
	case m.Request:
		if err := c.answerBack(k.ctx, m); err != nil {
			k.settle(k.failed(err))
		}
	case k.takes(m):
	case streamed:
		c.report(ReportUnknownResponse, fmt.Errorf("it has id %.64s, not %s", m.ID, k.id))
	default:
		k.settle(fmt.Errorf("%w: it has id %.64s, not %s", jsonrpc.ErrBadResponse, m.ID, k.id))
	}
}

// takes settles the call with its response. An error without an ID is about a request that the
// server could not even parse.
func (k *clientCall) takes(m *jsonrpc.Message) bool {
	if !m.ID.Names(k.id) && (m.Error == nil || !m.ID.IsNull()) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.done {
		k.err = m.Decode(k.result)
		k.done, k.answered = true, true
	}
	return true
}

// passNotification passes a notification to the call. ok is false if the call does not accept
// notifications.
func (k *clientCall) passNotification(req *jsonrpc.Request) (ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done || k.on == nil {
		return false
	}
	if err := k.on(req); err != nil {
		k.done, k.err = true, err
		k.cancel(err)
	}
	return true
}

// clientHead reads the beginning of a body.
func clientHead(answer *http.Response) []byte {
	// without the body, the status is sufficient
	head, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	return head
}

// clientDrain reads a short rest of a body, so that its connection can be used again.
func clientDrain(body io.Reader) { _, _ = io.CopyN(io.Discard, body, 64<<10) }

// clientReadAll reads all of r. Memory grows as bytes arrive.
func clientReadAll(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("an answer over %d bytes: %w", limit, jsonrpc.ErrTooLarge)
	}
	return text, err
}

// clientIsJSON accepts any type that ends in json. A body with a Content-Encoding is not JSON.
func clientIsJSON(answer *http.Response) bool {
	if coding := answer.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return false
	}
	kind := eventstream.MediaType(answer)
	return strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json")
}
