package sse

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// A held is a server's end whose stream is open until it is closed, as with a Conn.
type held struct {
	jsonrpc.Transport
	once   sync.Once
	closed chan struct{}
}

func (h *held) Close() error {
	err := h.Transport.Close()
	h.once.Do(func() { close(h.closed) })
	return err
}

// pair returns both ends of a conversation over a new server.
func pair(t *testing.T) (client, server jsonrpc.Transport) {
	t.Helper()
	ends := make(chan *held, 1)
	var serving sync.WaitGroup
	p := &Pair{Serve: func(_ context.Context, tr jsonrpc.Transport, _ *http.Request) {
		h := &held{Transport: tr, closed: make(chan struct{})}
		ends <- h
		<-h.closed
	}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Add(1)
		defer serving.Done()
		p.ServeHTTP(w, r)
	}))
	client, err := Dial(t.Context(), web.URL, &Options{MaxMessage: 4 << 20})
	if err != nil {
		web.Close()
		t.Fatal(err)
	}
	server = <-ends
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
		web.CloseClientConnections()
		web.Close()
		serving.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.streams)+len(p.callers) > 0 {
			t.Errorf("%d streams and %d callers are left", len(p.streams), len(p.callers))
		}
	})
	return client, server
}

func TestContract(t *testing.T) {
	t.Run("client to server", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) { return pair(t) }, &transporttest.Options{LargeIsFinal: true})
	})
	t.Run("server to client", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) {
			client, server := pair(t)
			return server, client
		}, nil)
	})
}
