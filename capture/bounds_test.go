package capture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
)

// TestTextsOfRowsAreBounded checks that rows, which stay in memory when their payloads are on disk,
// have short texts, and that calls with long IDs are still paired with their responses.
func TestTextsOfRowsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	rec := record(t, &capture.Options{MaxMemory: 16 << 20, Judges: lens.Judges()})
	w := rec.Wire(capture.WireInfo{})
	const calls = 20
	for i := range calls {
		id := fmt.Sprintf("%s%d", long, i) // they differ at the end only
		w.Payload(capture.Out, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"_meta":{"progressToken":%q,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, id, id, id))
		w.Payload(capture.In, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":1,"message":%q}}`, id, id))
		w.Payload(capture.In, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, id))
		rec.Flush()
	}
	for i := range calls {
		w.Payload(capture.In, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"%s%d","result":{"content":[{"type":"text","text":%q}]}}`, long, i, long))
		rec.Flush()
	}
	// A cancellation refers to a long ID, too.
	w.Payload(capture.Out, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"a"}}`, long))
	w.Payload(capture.Out, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, long))
	rec.Flush()

	states := map[string]int{}
	names, requests := map[string]bool{}, map[capture.Ref]bool{}
	for _, r := range rec.Rows(capture.Ref{}, 0) {
		if n := len(r.ID) + len(r.Method) + len(r.Name) + len(r.Brief) + len(r.Session) + len(r.Version) + len(r.Trace); n > 7*512 {
			t.Errorf("the texts of %s %s have %d bytes", r.Kind, r.Ref, n)
		}
		switch r.Kind {
		case capture.RowRequest:
			states[r.State]++
			names[r.Name], requests[r.Ref] = true, true
		case capture.RowResult:
			if r.Call.IsZero() || !requests[r.Call] {
				t.Errorf("the response %s has no call: %v", r.Ref, r.Findings)
			}
		case capture.RowNotification:
			if strings.HasPrefix(r.Method, "notifications/progress") && r.Parent.IsZero() {
				t.Errorf("progress %s has no call", r.Ref)
			}
		}
	}
	if states[capture.StateDone] != calls || states[capture.StateCancelled] != 1 || len(names) != calls+1 {
		t.Errorf("states %v, %d names; want %d done, 1 cancelled, and as many names", states, len(names), calls)
	}
}

// TestTextsOfEventsWeigh checks that texts beside the payload count while events wait to be
// written: a peer chooses them, and the same text may belong to many events.
func TestTextsOfEventsWeigh(t *testing.T) {
	blocked, release := make(chan struct{}), make(chan struct{})
	first := true
	rec := record(t, &capture.Options{MaxMemory: 8 << 20, MaxDisk: -1, Judges: []capture.Judge{func(*capture.Look) {
		if first {
			first = false
			close(blocked)
			<-release
		}
	}}})
	defer close(release)
	w := rec.Wire(capture.WireInfo{})
	x := w.Exchange(capture.Out, "GET", "/", nil)
	x.Response([]byte(`{"jsonrpc":"2.0","method":"a"}`), "")
	<-blocked // what follows waits
	text := strings.Repeat("x", 1<<20)
	for name, add := range map[string]func() int64{
		"event ID": func() int64 { return x.Response([]byte(`1`), text) },
		"URL":      func() int64 { return w.Exchange(capture.Out, "GET", text, nil).Request([]byte("1")) },
		"field": func() int64 {
			return w.ExchangeFields(capture.Out, "GET", "/", []string{"A", text}).Request([]byte("1"))
		},
		"text of junk": func() int64 { return w.Junk(capture.Out, nil, text) },
	} {
		n := 0
		for ; n < 100 && add() != 0; n++ {
		}
		if n > 10 {
			t.Errorf("%d events with a long %s wait, with a bound of 4 MiB", n, name)
		}
	}
}
