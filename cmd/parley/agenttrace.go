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

// A tracedTransport traces each HTTP request and its response: JSON-RPC messages as messages, and
// REST as method, path and status.
type tracedTransport struct {
	next   http.RoundTripper
	tracer *tracer
}

// maxTraced is the maximum number of bytes of one body that are retained for the trace. The rest of
// a longer body is not traced.
const maxTraced = 16 << 20

// RoundTrip implements http.RoundTripper.
func (t *tracedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil && r.GetBody != nil {
		if again, err := r.GetBody(); err == nil {
			body, _ = io.ReadAll(io.LimitReader(again, maxTraced)) // the body is in memory
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

// An exchange is one request and its response.
type exchange struct {
	transport *tracedTransport
	what      string
	begun     time.Time
}

// see traces one payload.
func (x *exchange) see(out bool, note string, payload []byte) {
	f := parley.Frame{Time: time.Now(), Out: out, Payload: payload}
	t := x.transport.tracer
	switch {
	case !t.asLines && len(payload) > 0:
		t.see(f)
		return
	case out:
		t.trips.Add(1)
	}
	if !t.asLines {
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

// eventName returns the name of a stream event: its type in ACP, its only member in A2A.
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
		for name := range result.Members() {
			return visible(string(name), 40)
		}
	}
	return ""
}

// A tracedBody traces what is read from it: each event of a stream, or the whole body at its end.
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

// Close traces what was read if the end of the body was not reached.
func (b *tracedBody) Close() error {
	if !b.stream && !b.done {
		b.done = true
		b.see(b.held)
	}
	return b.ReadCloser.Close()
}
