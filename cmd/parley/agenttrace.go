package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A tracedTransport tells each request over HTTP and what comes back: messages of JSON-RPC as such, and REST as method, path and status.
type tracedTransport struct {
	next   http.RoundTripper
	tracer *tracer
}

// maxTraced bounds what is held of one body for the trace, in bytes. The rest of a longer one passes untold.
const maxTraced = 16 << 20

// RoundTrip implements http.RoundTripper.
func (t *tracedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil && r.GetBody != nil {
		if again, err := r.GetBody(); err == nil {
			body, _ = io.ReadAll(io.LimitReader(again, maxTraced)) // it is in memory
			_ = again.Close()
		}
	}
	x := &exchange{transport: t, what: r.Method + " " + r.URL.Path, begun: time.Now()}
	if method := textOf(memberOf(body, "method")); method != "" {
		x.what = method
	}
	x.see(true, "", body)
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	stream := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream")
	answer.Body = &tracedBody{ReadCloser: answer.Body, stream: stream, see: func(payload []byte) {
		note := answer.Status
		if stream {
			note = eventName(payload)
		}
		x.see(false, note, payload)
	}}
	return answer, nil
}

// An exchange is one request and what comes back.
type exchange struct {
	transport *tracedTransport
	what      string
	begun     time.Time
}

// see tells one payload.
func (x *exchange) see(out bool, note string, payload []byte) {
	f := parley.Frame{Time: time.Now(), Out: out, Payload: payload}
	t := x.transport.tracer
	if !t.asLines {
		if len(payload) > 0 {
			t.see(f)
		}
		return
	}
	d := described{what: visible(x.what, 60), note: note}
	if id := memberOf(payload, "id"); memberOf(payload, "jsonrpc") != nil && id != nil {
		d.id = string(id)
	}
	if !out {
		d.took = milliseconds(f.Time.Sub(x.begun))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line(f, d, bytesOf(len(payload)))
}

// eventName is what an event of a stream is about: its type in ACP, the name of its only member in A2A.
func eventName(payload jsonrpc.Raw) string {
	if kind := textOf(memberOf(payload, "type")); kind != "" {
		return visible(kind, 40)
	}
	if e := memberOf(payload, "error"); e != nil {
		return "error " + visible(string(memberOf(e, "code")), 20)
	}
	result := memberOf(payload, "result")
	if result == nil {
		result = payload
	}
	if kind(result) == '{' {
		for name := range members(result) {
			return visible(textOf(name), 40)
		}
	}
	return ""
}

// A tracedBody tells what is read from it: each event of a stream, or all of it at its end.
type tracedBody struct {
	io.ReadCloser
	stream bool
	see    func(payload []byte)

	held []byte
	done bool
}

func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if len(b.held) < maxTraced {
		b.held = append(b.held, p[:n]...)
	}
	for b.stream {
		line, rest, found := bytes.Cut(b.held, []byte("\n"))
		if !found {
			break
		}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			b.see(bytes.TrimSpace(data))
		}
		b.held = append(b.held[:0], rest...)
	}
	if err != nil && !b.stream && !b.done {
		b.done = true
		b.see(b.held)
	}
	return n, err
}

// Close tells what was read, if its end was not.
func (b *tracedBody) Close() error {
	if !b.stream && !b.done {
		b.done = true
		b.see(b.held)
	}
	return b.ReadCloser.Close()
}
