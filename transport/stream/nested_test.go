package stream_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/race"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A pipe is one direction of a byte stream with the capacity of a pipe of the system.
type pipe struct {
	mu     sync.Mutex // guards the fields below
	moved  sync.Cond  // with mu
	bytes  []byte
	closed bool
}

const pipeCapacity = 64 << 10

func newPipe() *pipe {
	p := new(pipe)
	p.moved.L = &p.mu
	return p
}

func (p *pipe) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(b) > 0 {
		for len(p.bytes) == pipeCapacity && !p.closed {
			p.moved.Wait()
		}
		if p.closed {
			return n, io.ErrClosedPipe
		}
		part := b[:min(len(b), pipeCapacity-len(p.bytes))]
		p.bytes = append(p.bytes, part...)
		n, b = n+len(part), b[len(part):]
		p.moved.Broadcast()
	}
	return n, nil
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.bytes) == 0 {
		if p.closed {
			return 0, io.EOF
		}
		p.moved.Wait()
	}
	n := copy(b, p.bytes)
	p.bytes = append(p.bytes[:0], p.bytes[n:]...)
	p.moved.Broadcast()
	return n, nil
}

func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.moved.Broadcast()
	return nil
}

// TestNestedCallsOverPipesDoNotPause checks that calls finish, three deep and from both sides at
// once, over pipes with the capacity of half a long message. The clock of the bubble moves only
// while everything waits for it, so that it shows each pause: two readers that pause because of the
// responses that the other one does not read.
func TestNestedCallsOverPipesDoNotPause(t *testing.T) {
	for _, row := range []struct{ callers, size int }{{60, 128 << 10}, {600, 16 << 10}, {300, 3 << 10}} {
		if race.Enabled {
			row.callers /= 6
		}
		t.Run(fmt.Sprint(row.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { nestOverPipes(t, row.callers, row.size) })
		})
	}
}

func nestOverPipes(t *testing.T, callers, size int) {
	type nest struct {
		Depth int    `json:"depth"`
		Text  string `json:"text"`
	}
	m := new(jsonrpc.Mux)
	m.Add("nest", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, in nest) (string, error) {
		if in.Depth == 0 {
			return in.Text, nil
		}
		return jsonrpc.Call[string](ctx, p, "nest", nest{in.Depth - 1, in.Text})
	}))
	there, back := newPipe(), newPipe()
	closeBoth := func() error { _ = there.Close(); return back.Close() } // its error is always nil
	start := time.Now()
	text := strings.Repeat("x", size)
	var conns []*jsonrpc.Conn
	for _, rwc := range []io.ReadWriteCloser{stream.Join(there, back, closeBoth), stream.Join(back, there, closeBoth)} {
		c := jsonrpc.NewConn(stream.New(rwc, stream.Line, nil))
		c.Handler, c.Limits.Pending = m, 10_000
		c.Start(t.Context())
		conns = append(conns, c)
	}
	var wait sync.WaitGroup
	for _, c := range conns {
		for i := range callers {
			wait.Go(func() {
				own := fmt.Sprint(i, text)
				if got, err := jsonrpc.Call[string](t.Context(), c, "nest", nest{3, own}); err != nil || got != own {
					t.Errorf("call %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
	}
	wait.Wait()
	if took := time.Since(start); took > 500*time.Millisecond { // in a synctest bubble
		t.Errorf("everything waited for %v", took)
	}
	for _, c := range conns {
		c.Hangup(jsonrpc.ErrClosed)
		_ = c.Close() // the reason is above
	}
}
