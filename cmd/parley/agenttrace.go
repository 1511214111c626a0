package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
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
	begun := time.Now()
	where := r.Method + " " + r.URL.Path
	t.see(true, where, "", begun, body)
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	stream := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream")
	answer.Body = &tracedBody{ReadCloser: answer.Body, stream: stream, see: func(payload []byte) {
		t.see(false, where, answer.Status, begun, payload)
	}}
	return answer, nil
}

// see tells one payload.
func (t *tracedTransport) see(out bool, where, status string, begun time.Time, payload []byte) {
	f := parley.Frame{Time: time.Now(), Out: out, Payload: payload}
	if bytes.Contains(payload, []byte(`"jsonrpc"`)) || !t.tracer.asLines && len(payload) > 0 {
		t.tracer.see(f)
		return
	}
	d := described{what: visible(where, 60), note: status}
	if !out {
		d.took = milliseconds(f.Time.Sub(begun))
	}
	if t.tracer.asLines {
		t.tracer.mu.Lock()
		defer t.tracer.mu.Unlock()
		t.tracer.line(f, d, bytesOf(len(payload)))
	}
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
