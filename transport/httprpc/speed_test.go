package httprpc

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// bare is net/http with a constant response: the lower bound of what a Server can cost.
var bare = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the benchmark sends it whole
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write([]byte(answerText))
})

// rounds posts callText to h b.N times, on one connection.
func rounds(b *testing.B, h http.Handler) {
	web := httptest.NewServer(h)
	defer web.Close()
	b.ReportAllocs()
	for b.Loop() {
		answer, err := web.Client().Post(web.URL, "application/json", bytes.NewReader([]byte(callText)))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body) // the content is tested elsewhere
		answer.Body.Close()
	}
}

func BenchmarkBareServer(b *testing.B) { rounds(b, bare) }

func BenchmarkServer(b *testing.B) { rounds(b, Handler(methods())) }

func BenchmarkClientAndServer(b *testing.B) {
	web := httptest.NewServer(Handler(methods()))
	defer web.Close()
	c := NewClient(web.URL, nil)
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if got, err := jsonrpc.Call[int](b.Context(), c, "subtract", operands{42, 23}); err != nil || got != 19 {
			b.Fatal(got, err)
		}
	}
}

// A discarding is a ResponseWriter that allocates nothing, so that only the allocations of the
// handler are counted.
type discarding struct{ header http.Header }

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarding) WriteHeader(int)             {}

func (d *discarding) FlushError() error                { return nil }
func (d *discarding) SetReadDeadline(time.Time) error  { return nil }
func (d *discarding) SetWriteDeadline(time.Time) error { return nil }

// TestAllocations checks the cost of a call on top of net/http and of the engine: the exchange, and
// little else.
func TestAllocations(t *testing.T) {
	fixed := []byte(answerText)
	s := &Server{Answerer: answering(func(_ context.Context, dst, _ []byte, _ *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
		return append(dst, fixed...), nil
	})}
	body := bytes.NewReader([]byte(callText))
	r := httptest.NewRequest("POST", "/", io.NopCloser(body))
	r.ContentLength = int64(body.Len())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := &discarding{header: make(http.Header)}
	got := testing.AllocsPerRun(1000, func() {
		body.Reset([]byte(callText))
		s.ServeHTTP(w, r)
	})
	if got > 4 {
		t.Errorf("%v allocations for one call, want at most 4", got)
	}
}
