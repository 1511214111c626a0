package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// resume sends the request of a client that reconnects.
func (w *site) resume(t testing.TB, id string, session []string) reply {
	t.Helper()
	return replyOf(w.send(t, w.request("GET", "/mcp", "", append(session, "Accept: text/event-stream", "Last-Event-ID: "+id)...)))
}

// counted returns the part of a response after an event.
func counted(after, to int) string {
	var b strings.Builder
	for n := after + 1; n <= to; n++ {
		fmt.Fprintf(&b, "id: 1-%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p\",\"progress\":%d}}\n\n", n, n)
	}
	fmt.Fprintf(&b, "id: 1-%d\ndata: {\"jsonrpc\":\"2.0\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"counted\"}]},\"id\":7}\n\n", to+1)
	return b.String()
}

// TestEvents checks that events that are no longer in memory come from the store, and are deleted
// with the session.
func TestEvents(t *testing.T) {
	for name, open := range map[string]func() store.Store{
		"memory": func() store.Store { return store.NewMemory(store.Limits{}) },
		"sqlite": func() store.Store {
			s, err := sqlite.Open(filepath.Join(t.TempDir(), "state"), nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			const to = 700
			disk := open()
			t.Cleanup(func() { disk.Close() })
			w := newSite(t, &mcphttp.Options{Events: disk, Report: func(what string, err error) { t.Error(what, err) }})
			session := w.open(t, "2025-11-25")
			other := w.open(t, "2025-11-25")
			if got := w.post(t, counting("7", to), session...); got.body != "id: 1-0\ndata: \n\n"+counted(0, to) {
				t.Errorf("at first: got %s", got.body)
			}
			for _, after := range []int{0, 3, to - 1, to} {
				w.resume(t, fmt.Sprintf("1-%d", after), session).want(t, "200", asStream, counted(after, to))
			}
			if got := w.resume(t, "1-3", other); got.status != "400" && !strings.HasPrefix(got.body, "event: error\n") {
				t.Errorf("another session: got %s", got.body)
			}
			heads, err := disk.Heads(t.Context(), "mcp/events/", "", 0)
			if err != nil || len(heads) != 1 || heads[0].Last != to+1 || heads[0].Expires.IsZero() {
				t.Fatalf("kept: %+v, %v", heads, err)
			}
			if id := strings.TrimPrefix(session[0], "Mcp-Session-Id: "); strings.Contains(heads[0].Key, id) {
				t.Errorf("the key %s tells the session", heads[0].Key)
			}
			w.send(t, w.request("DELETE", "/mcp", "", session...))
			if heads, err := disk.Heads(t.Context(), "", "", 0); err != nil || len(heads) != 0 {
				t.Errorf("after the session: %+v, %v", heads, err)
			}
		})
	}
}

// TestEventsAreBounded checks that the older half is deleted by number, by size, and when the log
// is full.
func TestEventsAreBounded(t *testing.T) {
	for name, limits := range map[string]store.Limits{"by ours": {LogEvents: -1}, "by the store's": {LogEvents: 500}} {
		t.Run(name, func(t *testing.T) {
			const to = 5000
			disk := store.NewMemory(limits)
			w := newSite(t, &mcphttp.Options{Events: disk, Report: func(what string, err error) { t.Error(what, err) }})
			session := w.open(t, "2025-11-25")
			w.post(t, counting("7", to), session...)
			heads, err := disk.Heads(t.Context(), "", "", 0)
			if err != nil || len(heads) != 1 {
				t.Fatalf("%+v, %v", heads, err)
			}
			h := heads[0]
			if kept := h.Last - h.First + 1; h.Last != to+1 || kept > 4096+256 || kept < 100 {
				t.Errorf("from %d to %d are kept", h.First, h.Last)
			}
			if got := w.resume(t, "1-3", session); got.status != "400" && !strings.HasPrefix(got.body, "event: error\n") {
				t.Errorf("what is gone: got %.200s", got.body)
			}
			w.resume(t, fmt.Sprintf("1-%d", h.First), session).want(t, "200", asStream, counted(int(h.First), to))
		})
	}
	t.Run("by size", func(t *testing.T) {
		disk := store.NewMemory(store.Limits{LogBytes: -1})
		w := newSite(t, &mcphttp.Options{Events: disk})
		session := w.open(t, "2025-11-25")
		large := call("7", "echo", `{"x":"`+strings.Repeat("x", 900_000)+`"}`)
		for range 12 {
			w.post(t, large, append(session, "Accept: application/json;q=0.5, text/event-stream")...)
		}
		heads, err := disk.Heads(t.Context(), "", "", 0)
		if err != nil || len(heads) != 1 || heads[0].Bytes > 9<<20 || heads[0].Bytes < 2<<20 {
			t.Errorf("%+v, %v", heads, err)
		}
	})
}

// full is a log without room.
type full struct{ store.Log }

func (full) Append(context.Context, string, uint64, ...[]byte) (uint64, error) {
	return 0, &store.Fault{Reason: store.ReasonFull, Err: errors.New("no space left")}
}

// TestEventsOnFullDisk checks that listeners still receive every event.
func TestEventsOnFullDisk(t *testing.T) {
	var told atomic.Int64
	w := newSite(t, &mcphttp.Options{Events: full{store.NewMemory(store.Limits{})}, Report: func(string, error) { told.Add(1) }})
	session := w.open(t, "2025-11-25")
	if got := w.post(t, counting("7", 20), session...); got.body != "id: 1-0\ndata: \n\n"+counted(0, 20) {
		t.Errorf("got %s", got.body)
	}
	w.resume(t, "1-18", session).want(t, "200", asStream, counted(18, 20)) // still in memory
	if told.Load() != 21 {
		t.Errorf("told %d times", told.Load())
	}
}
