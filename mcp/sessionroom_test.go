package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestSessionsHoldLittle checks that what clients say about themselves, and what they subscribe to,
// takes bounded memory, and that other clients are served meanwhile.
func TestSessionsHoldLittle(t *testing.T) {
	s := calculator(nil)
	must(t, s.AddTemplate(mcp.ResourceTemplate{URITemplate: "note://{id}", Name: "note"},
		func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{}, nil
		}, nil))
	call := func(n *mcp.Session, method, params string) error {
		_, err := n.Handle(t.Context(), &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: method, Params: jsonrpc.Raw(params)})
		return err
	}
	hello := func(capabilities, info string) (*mcp.Session, error) {
		n := s.NewSession(mcp.SessionOptions{})
		return n, call(n, mcp.MethodInitialize, `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":`+info+`}`)
	}
	busy := func(err error) bool {
		e, ok := errors.AsType[*jsonrpc.Error](err)
		return ok && e.Code == jsonrpc.CodeBusy
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const small = `{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}`
	long, members := strings.Repeat("x", 200<<10), strings.Repeat(`"a%d":{},`, 1)
	var many strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&many, members, i)
	}
	wide := `{"experimental":{` + many.String() + `"z":{}}}`

	before := heap()
	var sessions []*mcp.Session
	for i := range 100 {
		n, err := hello(small, `{"name":"`+long+`","version":"1","icons":[`+strings.Repeat(`{},`, 1000)+`{}]}`)
		must(t, err)
		if got := n.Client(); len(got.Name) > 1024 || len(got.Icons) > 0 {
			t.Fatalf("a session holds a name of %d bytes and %d icons", len(got.Name), len(got.Icons))
		}
		if _, err := hello(`{"experimental":{"a":{"b":"`+long+`"}}}`, `{"name":"c","version":"1"}`); err == nil {
			t.Fatal("capabilities of 200 KiB are taken")
		}
		if n, err := hello(wide, `{"name":"c","version":"1"}`); err == nil {
			sessions = append(sessions, n)
		} else if !busy(err) {
			t.Fatal(err)
		}
		uri := strings.Repeat("u", 4000)
		for k := 0; ; k++ {
			err := call(n, mcp.MethodResourcesSubscribe, fmt.Sprintf(`{"uri":"note://%d-%d-%s"}`, i, k, uri))
			if busy(err) || err != nil && strings.Contains(err.Error(), "too many") {
				break
			}
			must(t, err)
		}
		sessions = append(sessions, n)
	}
	if held := heap() - before; held > 48<<20 {
		t.Errorf("the sessions hold %d MiB", held>>20)
	}
	// Another client needs little, and gets it.
	n, err := hello(small, `{"name":"honest","version":"1"}`)
	must(t, err)
	for k := range 10 {
		must(t, call(n, mcp.MethodResourcesSubscribe, fmt.Sprintf(`{"uri":"note://%d"}`, k)))
	}
	if n.Client().Name != "honest" || n.Capabilities().Roots == nil {
		t.Errorf("the session is of %v with %v", n.Client(), n.Capabilities())
	}
	// What is released can be used again: unsubscribed, and closed.
	must(t, call(n, mcp.MethodResourcesUnsubscribe, `{"uri":"note://1"}`))
	must(t, call(n, mcp.MethodResourcesUnsubscribe, `{"uri":"note://1"}`))
	for _, n := range sessions {
		n.Close()
		n.Close()
	}
	full, err := hello(small, `{"name":"c","version":"1"}`)
	must(t, err)
	for k := range 1000 {
		must(t, call(full, mcp.MethodResourcesSubscribe, fmt.Sprintf(`{"uri":"note://%d-%s"}`, k, long[:4000])))
	}
	full.Close()
	if err := call(full, mcp.MethodResourcesSubscribe, `{"uri":"note://1"}`); err == nil {
		t.Error("a closed session takes a subscription")
	}
	runtime.KeepAlive(s)
}
