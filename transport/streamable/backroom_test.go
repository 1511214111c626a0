package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// A flood answers the first POST with a stream of requests, and accepts all others.
type flood struct {
	posts atomic.Int64
	n     int
	bytes int
}

func (f *flood) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	out := &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Header: http.Header{}, Request: req, ProtoMajor: 1, ProtoMinor: 1}
	if f.posts.Add(1) > 1 {
		return out, nil
	}
	id := ""
	_ = jsonrpc.Scan(body, func(m *jsonrpc.Message) { id = m.ID.String() })
	var b strings.Builder
	for i := range f.n {
		fmt.Fprintf(&b, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"m\",\"params\":[%q]}\n\n", i, strings.Repeat("x", f.bytes))
	}
	fmt.Fprintf(&b, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":\"done\"}\n\n", id)
	out.StatusCode, out.Body = http.StatusOK, io.NopCloser(strings.NewReader(b.String()))
	out.Header.Set("Content-Type", "text/event-stream")
	return out, nil
}

// A backClient is a client of HTTP that handles requests of its server.
type backClient interface {
	Call(ctx context.Context, method string, params, result any) error
	Close() error
}

// backClients make a client of each transport over HTTP.
var backClients = map[string]func(h *http.Client, back *jsonrpc.Answerer) backClient{
	"httprpc": func(h *http.Client, back *jsonrpc.Answerer) backClient {
		return httprpc.NewClient("http://server.example/", &httprpc.Options{HTTP: h, MaxMessage: 64 << 20, Back: back})
	},
	"streamable": func(h *http.Client, back *jsonrpc.Answerer) backClient {
		within := func(*jsonrpc.Request) streamable.Manner { return streamable.Manner{Bond: streamable.Within} }
		return streamable.NewClient("http://server.example/", &streamable.ClientOptions{HTTP: h, MaxMessage: 64 << 20, Manner: within, Back: back})
	},
}

// TestRequestsOfTheServerWeigh checks that the requests of a server that are handled at the same
// time are bounded by their bytes, and that all of them run in the end.
func TestRequestsOfTheServerWeigh(t *testing.T) {
	for _, c := range []struct{ n, bytes, want int }{
		{40, 1 << 20, 15}, // 32 MiB, at twice the text and 1 KiB
		{100, 10, 64},
		{3, 15 << 20, 1},
	} {
		for name, open := range backClients {
			t.Run(fmt.Sprintf("%s/%d of %d", name, c.n, c.bytes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { requestsWeigh(t, open, c.n, c.bytes, c.want) })
			})
		}
	}
}

func requestsWeigh(t *testing.T, open func(*http.Client, *jsonrpc.Answerer) backClient, n, bytes, want int) {
	t.Helper()
	var running, ran atomic.Int64
	release := make(chan struct{})
	handler := jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		running.Add(1)
		defer running.Add(-1)
		<-release
		ran.Add(1)
		return nil, nil
	})
	client := open(&http.Client{Transport: &flood{n: n, bytes: bytes}}, &jsonrpc.Answerer{Handler: handler})
	done := make(chan error, 1)
	go func() { done <- client.Call(t.Context(), "start", nil, nil) }()
	synctest.Wait()
	if got := running.Load(); got != int64(want) {
		t.Errorf("%d requests are handled at the same time, want %d", got, want)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	synctest.Wait()
	if ran.Load() != int64(n) {
		t.Errorf("%d requests were handled, want %d", ran.Load(), n)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}
