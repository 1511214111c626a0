package tap

import (
	"io"
	"net/http"
	"sync"

	"github.com/da1ed7bb/parley/capture"
)

// RoundTripper records what an HTTP client says on w, and is base otherwise; nil is http.DefaultTransport. What the body of a response holds is
// recorded as the client reads it.
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
	asks := isJSON(req.Header) && req.Body != nil && req.Body != http.NoBody
	if req.Body != nil && req.Body != http.NoBody {
		b := openBody(req.Header)
		b.sink = &bodySink{x: x, dir: capture.Out, json: asks}
		if !readAhead(b, req) {
			copied := *req
			copied.Body = &watched{ReadCloser: req.Body, b: b, end: func(error) {}}
			req = &copied
		}
	}
	res, err := t.base.RoundTrip(req)
	if err != nil {
		x.End(err)
		return nil, err
	}
	x.Head(res.StatusCode, res.Header)
	got := &watched{ReadCloser: res.Body, b: openBody(res.Header)}
	got.b.sink = &bodySink{x: x, dir: capture.In, json: asks && isJSON(res.Header), refused: res.StatusCode >= 400}
	got.end = x.End
	if res.Body == http.NoBody || res.StatusCode == http.StatusNoContent {
		got.over(nil)
	}
	res.Body = got
	return res, nil
}

// readAhead shows a body that can be had twice, and leaves the request as it is: net/http sends a body that it knows to be in memory together
// with the head, and any other after it.
func readAhead(b *body, req *http.Request) bool {
	if req.GetBody == nil {
		return false
	}
	again, err := req.GetBody()
	if err != nil {
		return false
	}
	defer again.Close()
	buf := make([]byte, min(max(req.ContentLength, 512), 64<<10))
	for {
		n, err := again.Read(buf)
		if n > 0 {
			b.take(buf[:n])
		}
		if err != nil {
			b.sink.end(b)
			return true
		}
	}
}

// watched shows a body to a reader while it is read.
type watched struct {
	io.ReadCloser
	b    *body
	once sync.Once
	end  func(error)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.b.take(p[:n])
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
		w.b.sink.end(w.b)
		w.end(err)
	})
}
