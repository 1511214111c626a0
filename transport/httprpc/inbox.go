package httprpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// An inbox reads the response to one POST, plain or streamed.
type inbox struct {
	client *Client
	call   *call
	on     func(*jsonrpc.Request) error // receives the notifications of a stream; if nil, Back does

	// take receives each response, and whether it arrived in an array. done reports that it was the
	// last expected response; err is the error of the call.
	take func(m *jsonrpc.Message, array bool) (done bool, err error)

	// if not nil, receives raw payloads, and the functions above are unused
	raw func(payload []byte) error

	done  bool
	array bool   // the current payload is an array
	heard bool   // a notification or a request of the server was received
	err   error  // the error of the call
	head  []byte // the first bytes of a body with a failure status
}

// one waits for the response to a single call.
type one struct {
	id     jsonrpc.ID
	result any
}

func (o one) take(m *jsonrpc.Message, _ bool) (bool, error) {
	switch {
	case m.ID == o.id, plainID(m.ID) == plainID(o.id):
	case m.ID.IsNull() && m.Error != nil: // the server could not even parse the request
	default:
		return false, fmt.Errorf("%w: it has id %.64s, not %s", jsonrpc.ErrBadResponse, m.ID, o.id)
	}
	return true, m.Decode(o.result)
}

// plainID returns id without the optional escapes of its string: some servers parse an ID and
// encode it again with other escapes (Python's json.dumps writes "\u00e4" for "ä").
func plainID(id jsonrpc.ID) jsonrpc.ID {
	if _, ok := id.Int(); ok {
		return id
	}
	text := id.String()
	if !strings.Contains(text, `\`) {
		return id
	}
	var s string
	if jsonrpc.Raw(text).Decode(&s) != nil {
		return id // a lone surrogate, which has no other spelling
	}
	return jsonrpc.StringID(s)
}

// answered reads until the response has arrived.
func (in *inbox) answered(answer *http.Response, err error) error {
	if err != nil {
		return err
	}
	if eventstream.IsStream(answer) {
		return in.readStream(answer)
	}
	defer answer.Body.Close()
	if !isJSON(answer) {
		return in.strange(answer)
	}
	err = in.readPlain(answer)
	switch {
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		// The client's credentials do not concern its caller, so the JSON-RPC error is not exposed.
		refused := in.status(answer)
		refused.Err, _ = errors.AsType[*jsonrpc.Error](err)
		return refused
	case answer.StatusCode/100 != 2 && err != nil && !isPeers(err):
		return in.status(answer)
	case err != nil:
		return err
	case !in.done:
		return fmt.Errorf("%w: the HTTP response ended without a response to the call", jsonrpc.ErrBadResponse)
	}
	return nil
}

// status returns the error for a body that was read.
func (in *inbox) status(answer *http.Response) *StatusError {
	return &StatusError{Status: answer.StatusCode, Header: answer.Header, Body: in.head}
}

func isPeers(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}

// strange returns the error for a response in an unsupported media type.
func (in *inbox) strange(answer *http.Response) error {
	status := NewStatusError(answer)
	drain(answer.Body)
	if answer.StatusCode/100 != 2 {
		return status
	}
	if in.call.ctx.Err() != nil {
		return in.call.failed(in.call.ctx.Err())
	}
	if len(status.Body) == 0 {
		return fmt.Errorf("%w: HTTP %d with an empty body", jsonrpc.ErrBadResponse, answer.StatusCode)
	}
	return fmt.Errorf("%w: it is %.64q and starts with %.64q", jsonrpc.ErrBadResponse, answer.Header.Get("Content-Type"), status.Body)
}

// notified reads the response to a notification: an empty body, or an error that it could not be
// parsed.
func (in *inbox) notified(answer *http.Response, err error) error {
	switch {
	case err == errLost: //nolint:errorlint // post returns the value itself
		return nil // an empty response is the normal response to a notification
	case err != nil:
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 && !isJSON(answer) {
		err := NewStatusError(answer)
		drain(answer.Body)
		return err
	}
	if eventstream.IsStream(answer) {
		return nil // the content has no receiver
	}
	if !isJSON(answer) {
		drain(answer.Body)
		return nil
	}
	in.take = func(m *jsonrpc.Message, _ bool) (bool, error) { return true, m.Decode(nil) }
	err = in.readPlain(answer)
	switch {
	case isPeers(err):
		return err
	case answer.StatusCode/100 != 2:
		return in.status(answer)
	case in.call.ctx.Err() != nil:
		return err
	}
	return nil // the content does not matter: a notification has no response
}

// readPlain reads a body of one JSON text.
func (in *inbox) readPlain(answer *http.Response) error {
	b := buffers.Get().(*buffer)
	defer b.free()
	var err error
	if b.in, err = in.readBody(answer, b.in[:0]); err != nil {
		return err
	}
	in.payload(b.in)
	return in.err
}

func (in *inbox) readBody(answer *http.Response, dst []byte) ([]byte, error) {
	dst, err := readAll(answer.Body, dst, in.client.limit)
	if err != nil {
		return dst, in.call.failed(err)
	}
	if answer.StatusCode/100 != 2 {
		in.head = bytes.Clone(dst[:min(len(dst), maxHead)])
	}
	if in.client.o.Tap != nil {
		in.client.o.Tap(false, dst)
	}
	return dst, nil
}

// payload processes one JSON text. Its responses are decoded before it returns.
func (in *inbox) payload(text []byte) {
	in.array = bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("["))
	if fault := jsonrpc.ScanVersion(in.client.o.Version, text, in.message); fault != nil && !in.done {
		in.done, in.err = true, fmt.Errorf("%w: %s; it starts with %.64q", jsonrpc.ErrBadResponse, fault.Message, text)
	}
}

func (in *inbox) message(m *jsonrpc.Message) {
	switch {
	case in.done:
		in.client.report(ReportLateMessage, fmt.Errorf("it has id %.64s and method %.64q", m.ID, m.Method))
	case m.Bad != nil:
		in.done, in.err = true, fmt.Errorf("%w: %s", jsonrpc.ErrBadResponse, m.Bad.Message)
	case !m.Request:
		done, err := in.take(m, in.array)
		if done || err != nil {
			in.done, in.err = true, err
		}
	case m.ID.IsZero():
		in.heard = true
		if err := in.notification(m); err != nil {
			in.done, in.err = true, err
		}
	default:
		in.heard = true
		if err := in.client.answerBack(in.call, m); err != nil {
			in.done, in.err = true, err
		}
	}
}

func (in *inbox) notification(m *jsonrpc.Message) error {
	if in.on == nil {
		in.client.notified(in.call, m)
		return nil
	}
	return in.on(&jsonrpc.Request{Method: m.Method, Params: m.Params})
}

// readStream reads events until the response has arrived.
func (in *inbox) readStream(answer *http.Response) error {
	events := eventstream.NewReader(answer.Body, in.client.limit)
	events.OnSilence(missed, func() { in.call.cancel(jsonrpc.ErrTimeout) })
	for !in.done {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			in.done, in.err = true, fmt.Errorf("%w: the stream ended before it", jsonrpc.ErrBadResponse)
		case err != nil:
			in.done, in.err = true, in.call.failed(err)
		case e.Type != "message" || len(e.Data) == 0:
			in.call.renew() // not a message, but a sign of life
		default:
			in.call.renew()
			if in.client.o.Tap != nil {
				in.client.o.Tap(false, e.Data)
			}
			in.payload(e.Data)
		}
	}
	in.leave(answer.Body)
	return in.err
}

// leave closes a stream whose response has arrived. Its end usually follows at once, and then the
// connection can be used again.
func (in *inbox) leave(body io.ReadCloser) {
	if in.err != nil && !isPeers(in.err) {
		body.Close()
		return
	}
	// The call ends when leave returns, and its request with it: leave waits for the end of the
	// stream, but not for long.
	late := time.AfterFunc(lingering, func() { body.Close() })
	drain(body)
	late.Stop()
	body.Close()
}

// handOver passes on raw payloads.
func (in *inbox) handOver(answer *http.Response) error {
	defer answer.Body.Close()
	switch {
	case eventstream.IsStream(answer):
		events := eventstream.NewReader(answer.Body, in.client.limit)
		for {
			e, err := events.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return in.call.failed(err)
			}
			in.call.renew()
			if in.client.o.Tap != nil {
				in.client.o.Tap(false, e.Data)
			}
			if err := in.raw(e.Data); err != nil {
				return err
			}
		}
	case isJSON(answer):
		text, err := in.readBody(answer, nil)
		if err != nil {
			return err
		}
		if len(text) > 0 {
			if err := in.raw(text); err != nil {
				return err
			}
		}
		if answer.StatusCode >= 300 {
			return in.status(answer)
		}
		return nil
	case answer.StatusCode/100 == 2 && answer.ContentLength == 0, answer.StatusCode == http.StatusNoContent:
		return nil
	}
	return in.strange(answer)
}

const (
	missed    = 45 * time.Second       // three comments of a server that sends one every 15 s
	lingering = 200 * time.Millisecond // maximum delay between a response and the end of its stream
	maxHead   = 1 << 10                // how much of the body a StatusError stores
	// how much of an unused body is read, so that the connection can be used again
	maxDrain = 64 << 10
)

var trash = sync.Pool{New: func() any { return new([4 << 10]byte) }}

func drain(body io.Reader) {
	p := trash.Get().(*[4 << 10]byte)
	defer trash.Put(p)
	for n := 0; n < maxDrain; {
		k, err := body.Read(p[:])
		if n += k; err != nil {
			return
		}
	}
}

// readAll appends all of r to dst. Memory grows as bytes arrive.
func readAll(r io.Reader, dst []byte, limit int64) ([]byte, error) {
	for {
		if cap(dst)-len(dst) < 512 {
			dst = slices.Grow(dst, 512+min(len(dst), keep))
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case int64(len(dst)) > limit:
			return dst, fmt.Errorf("an answer over %d bytes: %w", limit, jsonrpc.ErrTooLarge)
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

// isJSON reports whether the media type is one that has been used for JSON-RPC, or any that ends in
// +json. A body with a Content-Encoding is not JSON.
func isJSON(answer *http.Response) bool {
	if coding := answer.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return false
	}
	switch kind := eventstream.MediaType(answer); kind {
	case "application/json", "application/json-rpc", "application/jsonrequest":
		return answer.StatusCode != http.StatusNoContent
	default:
		return strings.HasSuffix(kind, "+json") && answer.StatusCode != http.StatusNoContent
	}
}
