package playground

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/origin"
)

// A recorded is an http.RoundTripper that records its exchanges, for protocol clients that make
// their own requests.
type recorded struct {
	wire   *capture.Wire
	base   http.RoundTripper
	header http.Header // added to each request to origin
	origin *http.Request
	// seen is called for each exchange. It may be nil.
	seen func(x *capture.Exchange, r *http.Request, answer *http.Response, err error)
}

// recordedClient makes an http.Client for a target.
func (p *Playground) recordedClient(spec *Target, wire *capture.Wire, seen func(*capture.Exchange, *http.Request, *http.Response, error)) (client *http.Client, idle func()) {
	base, idle := origin.Client(nil, p.options.TLS)
	r := &recorded{wire: wire, base: base.Transport, header: spec.Header.Clone(), seen: seen}
	if r.header == nil {
		r.header = make(http.Header)
	}
	if spec.Token != "" {
		r.header.Set("Authorization", "Bearer "+spec.Token)
	}
	// The request is nil if the address is no URL. In that case no header is added.
	r.origin, _ = http.NewRequestWithContext(context.Background(), http.MethodGet, spec.Address, nil)
	return &http.Client{Transport: r}, idle
}

func (t *recorded) RoundTrip(r *http.Request) (*http.Response, error) {
	own := t.origin != nil && origin.Same(r.URL, t.origin.URL)
	if own && len(t.header) > 0 {
		r = r.Clone(r.Context())
		for name, values := range t.header {
			if r.Header.Get(name) == "" {
				r.Header[name] = values
			}
		}
	}
	uri := r.URL.RequestURI()
	if !own {
		uri = r.URL.String()
	}
	x := t.wire.Exchange(capture.Out, r.Method, uri, r.Header)
	if r.Body != nil && r.GetBody != nil {
		if copied, err := r.GetBody(); err == nil {
			if body, err := io.ReadAll(io.LimitReader(copied, maxMessage)); err == nil && len(body) > 0 {
				if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); isJSON(media) {
					x.Request(body)
				} else {
					x.Junk(capture.Out, hiddenBody(body, true), "a form")
				}
			}
			_ = copied.Close() // already read
		}
	}
	answer, err := t.base.RoundTrip(r)
	if t.seen != nil {
		t.seen(x, r, answer, err)
	}
	if err != nil {
		x.End(errors.New(reason(err)))
		return nil, err
	}
	x.Head(answer.StatusCode, answer.Header)
	media := eventstream.MediaType(answer)
	if media == eventstream.ContentType {
		answer.Body = newStreamTap(x, answer.Body)
	} else {
		// The result of a GET is a document, such as an agent's card.
		answer.Body = &bodyTap{body: answer.Body, x: x, json: isJSON(media) && r.Method == http.MethodPost}
	}
	return answer, nil
}

// A bodyTap collects what is read of a body and records it at the end.
type bodyTap struct {
	body io.ReadCloser
	x    *capture.Exchange
	json bool
	kept []byte
	once sync.Once
}

func (b *bodyTap) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if len(b.kept) < maxMessage {
		b.kept = append(b.kept, p[:n]...)
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			b.finish(nil)
		} else {
			b.finish(err)
		}
	}
	return n, err
}

func (b *bodyTap) Close() error {
	err := b.body.Close()
	b.finish(nil)
	return err
}

func (b *bodyTap) finish(err error) {
	b.once.Do(func() {
		switch {
		case len(b.kept) == 0:
		case b.json:
			b.x.Response(b.kept, "")
		default:
			b.x.Junk(capture.In, b.kept, "a document")
		}
		b.x.End(err)
	})
}

// A streamTap records the events of a stream while another reader consumes them.
type streamTap struct {
	body io.ReadCloser
	pipe *io.PipeWriter
	done chan struct{}
	once sync.Once
	x    *capture.Exchange
}

func newStreamTap(x *capture.Exchange, body io.ReadCloser) *streamTap {
	r, w := io.Pipe()
	s := &streamTap{body: body, pipe: w, done: make(chan struct{}), x: x}
	go func() { // returns after Close, which waits for it
		defer close(s.done)
		reader := eventstream.NewReader(r, maxMessage)
		for {
			e, err := reader.Next()
			if err != nil {
				_, _ = io.Copy(io.Discard, r) // drain, so that the writer never blocks
				return
			}
			if len(bytes.TrimSpace(e.Data)) > 0 {
				x.Response(e.Data, e.ID)
			}
		}
	}()
	return s
}

func (s *streamTap) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if n > 0 {
		_, _ = s.pipe.Write(p[:n]) // the reader reads to the end
	}
	if err != nil {
		s.finish(err)
	}
	return n, err
}

func (s *streamTap) Close() error {
	err := s.body.Close()
	s.finish(nil)
	return err
}

func (s *streamTap) finish(err error) {
	s.once.Do(func() {
		_ = s.pipe.Close() // never fails
		<-s.done
		if errors.Is(err, io.EOF) {
			err = nil
		}
		s.x.End(err)
	})
}
