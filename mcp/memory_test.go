package mcp_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestSessionsLeaveNothing checks that ten thousand sessions use little memory, and none once they
// are closed.
func TestSessionsLeaveNothing(t *testing.T) {
	const many = 10_000
	s := calculator(nil)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	open := func() []*mcp.Session {
		sessions := make([]*mcp.Session, many)
		for i := range sessions {
			sessions[i] = s.NewSession(mcp.SessionOptions{ID: fmt.Sprint(i)})
			_, err := sessions[i].Handle(t.Context(), &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: mcp.MethodInitialize,
				Params: jsonrpc.Raw(`{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}`)})
			must(t, err)
		}
		return sessions
	}
	before := heap()
	sessions := open()
	each := (heap() - before) / many
	t.Logf("%d bytes for each session", each)
	if each > 4096 {
		t.Errorf("a session costs %d bytes", each)
	}
	for _, n := range sessions {
		n.Close()
	}
	clear(sessions)
	if left := heap() - before; left > many*64 {
		t.Errorf("%d bytes are left of %d sessions", left, many)
	}
	runtime.KeepAlive(s)
}
