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

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// An inbox takes in the answer to one POST, plain or streamed.
type inbox struct {
	client *Client
	call   *call
	on     func(*jsonrpc.Request) error // gets the notifications of a stream; nil: Back does

	// take gets each response, and whether it came in an array. done: the last one that is waited for is in; err is
	// what the call returns.
	take func(m *jsonrpc.Message, array bool) (done bool, err error)

	raw func(payload []byte) error // gets payloads as they are, instead of all that

	done  bool
	array bool   // the payload at hand is one
	err   error  // what the call returns
	head  []byte // the beginning of a body that came with a status of failure
}

// one waits for the answer to a single call.
type one struct {
	id     jsonrpc.ID
	result any
}

func (o one) take(m *jsonrpc.Message, _ bool) (bool, error) {
	switch {
	case m.ID == o.id, plainID(m.ID) == plainID(o.id):
	case m.ID.IsNull() && m.Error != nil: // our request was not even readable to the server
	default:
		return false, fmt.Errorf("%w: it has id %.64s, not %s", jsonrpc.ErrBadResponse, m.ID, o.id)
	}
	return true, m.Decode(o.result)
}

// plainID is id with the escapes of a string undone where they need not be: some servers read an id and write it anew, in
// other letters than it came in (Python's json.dumps writes "\u00e4" for "ä").
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
		return id // a lone surrogate, which cannot be written in another way
	}
	return jsonrpc.StringID(s)
}

// answered reads until the answer is there.
func (in *inbox) answered(answer *http.Response, err error) error {
	if err != nil {
		return err
	}
	if sse.IsStream(answer) {
		return in.readStream(answer)
	}
	defer answer.Body.Close()
	if !isJSON(answer) {
		return in.strange(answer)
	}
	err = in.readPlain(answer)
	switch {
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		// Our credentials are not the business of whoever made us call, so the JSON-RPC error stays inside.
		refused := in.status(answer)
		refused.Err, _ = errors.AsType[*jsonrpc.Error](err)
		return refused
	case answer.StatusCode/100 != 2 && err != nil && !isPeers(err):
		return in.status(answer)
	case err != nil:
		return err
	case !in.done:
		return fmt.Errorf("%w: there is none in it", jsonrpc.ErrBadResponse)
	}
	return nil
}

// status is the error of a body that was read.
func (in *inbox) status(answer *http.Response) *StatusError {
	return &StatusError{Status: answer.StatusCode, Header: answer.Header, Body: in.head}
}

func isPeers(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}

// strange is an answer in a media type that we do not read.
func (in *inbox) strange(answer *http.Response) error {
	status := sse.NewStatusError(answer)
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
	return fmt.Errorf("%w: it is %.64q and begins with %.64q", jsonrpc.ErrBadResponse, answer.Header.Get("Content-Type"), status.Body)
}

// notified reads what a server says to a notification: nothing, or that it could not read it.
func (in *inbox) notified(answer *http.Response, err error) error {
	switch {
	case err == errLost: //nolint:errorlint // post returns the value itself
		return nil // an empty answer is what a notification gets
	case err != nil:
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 && !isJSON(answer) {
		err := sse.NewStatusError(answer)
		drain(answer.Body)
		return err
	}
	if sse.IsStream(answer) {
		return nil // whatever it says, nobody waits for it
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
	return nil // whatever it says, a notification has no answer
}

// readPlain takes in a body of one JSON text.
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

// payload takes in one JSON text. Its responses are decoded before it returns.
func (in *inbox) payload(text []byte) {
	in.array = bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("["))
	if fault := jsonrpc.ScanVersion(in.client.o.Version, text, in.message); fault != nil && !in.done {
		in.done, in.err = true, fmt.Errorf("%w: %s; it begins with %.64q", jsonrpc.ErrBadResponse, fault.Message, text)
	}
}

func (in *inbox) message(m *jsonrpc.Message) {
	switch {
	case in.done:
		in.client.report("message behind the answer", nil)
	case m.Bad != nil:
		in.done, in.err = true, fmt.Errorf("%w: %s", jsonrpc.ErrBadResponse, m.Bad.Message)
	case !m.Request:
		done, err := in.take(m, in.array)
		if done || err != nil {
			in.done, in.err = true, err
		}
	case m.ID.IsZero():
		if err := in.notification(m); err != nil {
			in.done, in.err = true, err
		}
	default:
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

// readStream takes in events until the answer is there.
func (in *inbox) readStream(answer *http.Response) error {
	events := sse.NewReader(answer.Body, in.client.limit)
	events.OnSilence(missed, func() { in.call.cancel(jsonrpc.ErrTimeout) })
	for !in.done {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			in.done, in.err = true, fmt.Errorf("%w: the stream ended before it", jsonrpc.ErrBadResponse)
		case err != nil:
			in.done, in.err = true, in.call.failed(err)
		case e.Type != "message" || len(e.Data) == 0:
			in.call.renew() // not ours, but a sign of life
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

// leave lets go of a stream whose answer is in. Its end is usually right behind, and then the connection can be used again.
func (in *inbox) leave(body io.ReadCloser) {
	if in.err != nil && !isPeers(in.err) {
		body.Close()
		return
	}
	// The call ends when we return, and with it its request: the end is waited for here, but not for long.
	late := time.AfterFunc(lingering, func() { body.Close() })
	drain(body)
	late.Stop()
	body.Close()
}

// handOver gives payloads on as they are.
func (in *inbox) handOver(answer *http.Response) error {
	defer answer.Body.Close()
	switch {
	case sse.IsStream(answer):
		events := sse.NewReader(answer.Body, in.client.limit)
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
	missed    = 45 * time.Second       // three comments of a server that sends one in 15 s
	lingering = 200 * time.Millisecond // how long the end of a stream may be behind its answer
	maxHead   = 1 << 10                // what is kept of the body of a StatusError
	maxDrain  = 64 << 10               // what is read of a body that nobody wants, so that the connection can be used again
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

// readAll appends all of r to dst. Memory is taken as bytes arrive.
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

// isJSON takes the names under which JSON-RPC has been sent, and any that end in +json. A coded body is none.
func isJSON(answer *http.Response) bool {
	if coding := answer.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return false
	}
	switch kind := sse.MediaType(answer); kind {
	case "application/json", "application/json-rpc", "application/jsonrequest":
		return answer.StatusCode != http.StatusNoContent
	default:
		return strings.HasSuffix(kind, "+json") && answer.StatusCode != http.StatusNoContent
	}
}
