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

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// A clientCall is one message of ours under way.
type clientCall struct {
	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // nil: the context has a deadline, or nothing bounds the call
	bound  time.Duration
	bond   Bond
	id     jsonrpc.ID // zero for a notification, and for an answer of ours

	session string // with which it was sent

	mu       sync.Mutex // guards what is below: messages about a call come on two streams
	on       func(*jsonrpc.Request) error
	result   any
	done     bool
	answered bool  // done, by the server's answer
	err      error // what the call returns, when done
}

// begin registers a call, so that Close ends it and waits for it.
func (c *Client) begin(parent context.Context, bound time.Duration) (*clientCall, error) {
	if c.badURL != nil {
		return nil, c.badURL
	}
	k := &clientCall{client: c, bound: bound}
	k.ctx, k.cancel = context.WithCancelCause(parent)

	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		k.cancel(nil)
		return nil, jsonrpc.ErrClosed
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

// late ends a call whose time is over, unless it waits for us.
func (k *clientCall) late() {
	if k.ctx.Err() == nil && len(k.client.back) > 0 {
		k.timer.Reset(k.bound)
		return
	}
	k.cancel(jsonrpc.ErrTimeout)
}

// renew gives the call its whole time again.
func (k *clientCall) renew() {
	if k.timer != nil && k.ctx.Err() == nil {
		k.timer.Reset(k.bound)
	}
}

// hold makes the call's time stand still.
func (k *clientCall) hold() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

func (k *clientCall) end() {
	k.hold()
	k.cancel(nil)
	k.mu.Lock()
	k.done = true // what still comes is for nobody
	k.mu.Unlock()
	k.client.mu.Lock()
	delete(k.client.calls, k)
	k.client.mu.Unlock()
	k.client.wg.Done()
}

// settle makes err the end of the call, if it has none yet.
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

// failed is what an error of the carrier means: when the call is over, that is what counts, and then how its context ended.
func (k *clientCall) failed(err error) error {
	if k.isDone() {
		return k.outcome()
	}
	if k.ctx.Err() != nil {
		err = context.Cause(k.ctx)
	}
	return fmt.Errorf("streamable: %w", err)
}

// request makes an HTTP request of any kind. session may be "".
func (c *Client) request(ctx context.Context, method string, payload []byte, more http.Header, session string) *http.Request {
	own := c.header
	if payload != nil {
		own = c.posted
	}
	header := make(http.Header, len(own)+len(more)+2) // whoever stands between us and the wire may add to it
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

// streamHeader is what all requests of a session have that are no messages of ours.
func (c *Client) streamHeader() http.Header {
	if c.o.StreamHeader == nil {
		return nil
	}
	return c.o.StreamHeader()
}

// post makes the request of a message. The answer's body is the caller's to close.
func (c *Client) post(k *clientCall, payload []byte, more http.Header) (*http.Response, error) {
	if c.o.Tap != nil {
		c.o.Tap(true, payload)
	}
	if k.bond == Within {
		k.session = c.Session()
	}
	ctx := k.ctx
	if c.o.HTTP != nil && k.timer != nil {
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
	case k.ctx.Err() == nil && clientIsOthers(err):
		return nil, errClientLost
	}
	return nil, k.failed(err)
}

// errClientLost says that a request was answered without a body, and that nobody can say with which status.
var errClientLost = fmt.Errorf("streamable: %w: it was empty, and is lost", jsonrpc.ErrBadResponse)

// clientIsOthers reports whether err is the end of another call's context. net/http (Go 1.26) hands a connection on as soon as it has
// read an answer without a body, and before it hands over the answer. If the call that gets the connection is then given up,
// the one before it may see the connection end with the other's error. No other path leads here.
func clientIsOthers(err error) bool {
	failed, ok := errors.AsType[*url.Error](err)
	ends := []error{context.Canceled, context.DeadlineExceeded, jsonrpc.ErrTimeout, jsonrpc.ErrClosed, errClientAnswered}
	return ok && slices.Contains(ends, failed.Err) // the values themselves: a timeout of the network Is a DeadlineExceeded
}

// notified reads what a server says to a message that has no answer: nothing, or why it does not take it.
func (k *clientCall) notified(answer *http.Response, err error) error {
	switch {
	case err == errClientLost: //nolint:errorlint // post returns the value itself
		return nil // an empty answer is what a notification gets
	case answer == nil:
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 == 2 {
		if !sse.IsStream(answer) { // whatever it says, nobody waits for it
			clientDrain(answer.Body)
		}
		return nil
	}
	return k.refused(answer, clientHead(answer))
}

// receive reads until the answer is there.
func (k *clientCall) receive(answer *http.Response, err error) error {
	if answer == nil {
		return err // nil: the answer came on the stream of the session
	}
	if answer.StatusCode/100 == 2 && k.bond == Opening {
		if err := k.client.opened(answer); err != nil {
			answer.Body.Close()
			return err
		}
	}
	if sse.IsStream(answer) {
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
		return fmt.Errorf("%w: it is %.64q and begins with %.64q", jsonrpc.ErrBadResponse, answer.Header.Get("Content-Type"), text)
	}
	k.payload(text, false)
	if !k.isDone() {
		return fmt.Errorf("%w: there is none in it", jsonrpc.ErrBadResponse)
	}
	return k.outcome()
}

// refused is what an answer with a status of failure means: the server's answer to our call if it bears its id, otherwise what
// stands before the server.
func (k *clientCall) refused(answer *http.Response, body []byte) error {
	said := k.errorIn(answer, body)
	status := &sse.StatusError{Status: answer.StatusCode, Header: answer.Header, Body: body[:min(len(body), 1<<10)]}
	ours := said != nil && !said.id.IsNull() && !k.id.IsZero()
	if said != nil {
		status.Err = said.err
	}
	switch {
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return status // our credentials are not the business of whoever made us call, so the JSON-RPC error stays inside
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

// errorIn finds the JSON-RPC error in a body: one about this call, or about a message that the server could not read.
func (k *clientCall) errorIn(answer *http.Response, body []byte) *clientError {
	if !clientIsJSON(answer) {
		return nil
	}
	var found *clientError
	_ = jsonrpc.Scan(body, func(m *jsonrpc.Message) { // what is no JSON-RPC has none
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

// payload takes in one JSON text of the answer to k.
func (k *clientCall) payload(text []byte, streamed bool) {
	fault := jsonrpc.Scan(text, func(m *jsonrpc.Message) { k.message(m, streamed) })
	if fault != nil {
		k.settle(fmt.Errorf("%w: %s; it begins with %.64q", jsonrpc.ErrBadResponse, fault.Message, text))
	}
}

func (k *clientCall) message(m *jsonrpc.Message, streamed bool) {
	c := k.client
	switch {
	case m.Bad != nil:
		k.settle(fmt.Errorf("%w: %s", jsonrpc.ErrBadResponse, m.Bad.Message))
	case m.Request && m.ID.IsZero():
		c.notification(k.ctx, k, m)
	case m.Request:
		if err := c.answerBack(k.ctx, m); err != nil {
			k.settle(k.failed(err))
		}
	case k.takes(m):
	case streamed:
		c.report("answer that nobody waits for", fmt.Errorf("it has id %.64s, not %s", m.ID, k.id))
	default:
		k.settle(fmt.Errorf("%w: it has id %.64s, not %s", jsonrpc.ErrBadResponse, m.ID, k.id))
	}
}

// takes settles the call with its response. An error without an id is about a request that was not even readable to the server.
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

// hears hands a notification to the call. ok is false when the call takes none.
func (k *clientCall) hears(req *jsonrpc.Request) (ok bool) {
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
	head, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // the status says enough
	return head
}

// clientDrain reads the little that may be left of a body, so that its connection can be used again.
func clientDrain(body io.Reader) { _, _ = io.CopyN(io.Discard, body, 64<<10) }

// clientReadAll reads all of r. Memory is taken as bytes arrive.
func clientReadAll(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("an answer over %d bytes: %w", limit, jsonrpc.ErrTooLarge)
	}
	return text, err
}

// clientIsJSON takes any type that ends in json. A coded body is none.
func clientIsJSON(answer *http.Response) bool {
	if coding := answer.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return false
	}
	kind := sse.MediaType(answer)
	return strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json")
}
