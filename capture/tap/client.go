package tap

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/capture"
)

// RoundTripper returns a RoundTripper that records the traffic of an HTTP client on w and uses
// base, or http.DefaultTransport if base is nil. A response's body is recorded while the client
// reads it.
func RoundTripper(w *capture.Wire, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &roundTripper{w, base}
}

type roundTripper struct {
	w    *capture.Wire
	base http.RoundTripper
}

func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	x := t.w.Exchange(capture.Out, req.Method, req.URL.RequestURI(), req.Header)
	asks := false
	if req.Body != nil && req.Body != http.NoBody {
		kind := mediaType(req.Header.Get("Content-Type"))
		asks = isJSONKind(kind)
		sent := &watched{ReadCloser: req.Body}
		sent.watch(kind, req.Header.Get("Content-Encoding"), bodySink{x: x, dir: capture.Out, json: asks})
		if !readAhead(&sent.b, req) {
			copied := *req
			copied.Body = sent
			req = &copied
		}
	}
	res, err := t.base.RoundTrip(req)
	if err != nil {
		x.End(err)
		return nil, err
	}
	x.Head(res.StatusCode, res.Header)
	kind := mediaType(res.Header.Get("Content-Type"))
	got := &watched{ReadCloser: res.Body, x: x}
	got.watch(kind, res.Header.Get("Content-Encoding"), bodySink{x: x, dir: capture.In, json: asks && isJSONKind(kind), refused: res.StatusCode >= 400})
	if res.Body == http.NoBody || res.StatusCode == http.StatusNoContent {
		got.over(nil)
	}
	res.Body = got
	return res, nil
}

// aheads are temporary buffers for reading bodies.
var aheads = sync.Pool{New: func() any {
	p := make([]byte, 16<<10)
	return &p
}}

// readAhead records a body that can be read twice, and leaves the request unchanged: net/http sends
// a body known to be in memory together with the head, and any other body after it.
func readAhead(b *body, req *http.Request) bool {
	if req.GetBody == nil {
		return false
	}
	again, err := req.GetBody()
	if err != nil {
		return false
	}
	defer again.Close()
	p := aheads.Get().(*[]byte)
	defer aheads.Put(p)
	buf := *p
	for {
		n, err := again.Read(buf)
		if n > 0 {
			b.feedBody(buf[:n])
		}
		if err != nil {
			b.sink.endBody(b)
			return true
		}
	}
}

// A watched records a body while it is read.
type watched struct {
	io.ReadCloser
	b    body
	sink bodySink
	once sync.Once
	x    *capture.Exchange // the exchange that ends with it, or nil
}

func (w *watched) watch(kind, coding string, s bodySink) {
	w.sink = s
	w.b = body{sink: &w.sink, kind: kind, stream: kind == "text/event-stream", coding: strings.ToLower(coding), toEnd: true}
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.b.feedBody(p[:n])
	}
	switch err {
	case nil:
	case io.EOF:
		w.over(nil)
	default:
		w.over(err)
	}
	return n, err
}

func (w *watched) Close() error {
	err := w.ReadCloser.Close()
	w.over(nil)
	return err
}

func (w *watched) over(err error) {
	w.once.Do(func() {
		w.sink.endBody(&w.b)
		if w.x != nil {
			w.x.End(err)
		}
	})
}
