package gateway_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/gateway"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestStop checks the end of a gateway: a call that runs finishes, streams end and delay nothing,
// and the addresses report that they are not ready.
func TestStop(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	slow := serve(t, &parley.Listener{Mode: func(string) jsonrpc.Mode { return jsonrpc.Open }, Handler: jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		close(begun)
		<-finish
		return "finished", nil
	})}, "http://127.0.0.1:0/rpc")
	streams := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(": open\n\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(streams.Close)
	file := config.Parse("parley.yaml", []byte(strings.NewReplacer("{slow}", slow.String(), "{streams}", streams.URL).Replace(`
servers:
  slow: {url: "{slow}", protocol: jsonrpc}
  streams: {url: "{streams}", protocol: mcp}
gateway:
  mcp: {pins: off}
  routes: [{method: "*", to: slow}]
`)), &config.Options{Gateway: &config.GatewayOptions{}})
	if len(file.Problems) > 0 {
		t.Fatal(file.Problems)
	}
	g, err := gateway.New(&gateway.Options{File: file, Report: func(string, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	l := new(parley.Listener)
	g.Listener(l)
	to, err := parley.ParseTarget("http://127.0.0.1:0/rpc")
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Listen(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	at := s.Targets()[0]

	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer, 1)
	go func() {
		status, body := post(t, at, `{"jsonrpc":"2.0","id":1,"method":"x"}`)
		answers <- answer{status, body}
	}()
	<-begun
	stream := at
	stream.Path = "/s/streams"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, stream.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, ": open") {
		t.Fatalf("the stream began with %q, %v", line, err)
	}

	g.Drain()
	ready := at
	ready.Path = "/readyz"
	if resp, _ := send(t, http.MethodGet, ready.URL(), "", nil); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz: HTTP %d, want 503", resp.StatusCode)
	}
	if resp, text := send(t, http.MethodPost, stream.URL(), `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "-31004") {
		t.Errorf("a new call at /s/NAME: HTTP %d %s, want 503 and -31004", resp.StatusCode, text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	for { // the stream ends although the call still runs
		if _, err := lines.ReadByte(); err != nil {
			break
		}
	}
	close(finish)
	if got := <-answers; got.status != http.StatusOK || got.body != `{"jsonrpc":"2.0","result":"finished","id":1}` {
		t.Errorf("the call that ran got HTTP %d %s", got.status, got.body)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown returned %v, want nil", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve returned %v, want nil", err)
	}
}
