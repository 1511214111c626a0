package capture_test

import (
	"testing"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// aCall is the row that the filters below match, with its payload.
var aCall = capture.Row{
	Time: noon, Kind: capture.RowRequest, Dir: capture.Out, Conn: 1, Target: "@table", Exchange: 9, Session: "8904ef4f", ID: `"s-1"`,
	Method: "tools/call", Name: "book-table", State: capture.StateFailed, Took: 700 * time.Millisecond, Trace: "4bf92f35",
	Findings: []capture.Finding{{Rule: "id-in-use"}},
}

const aCallText = `{"jsonrpc":"2.0","id":"s-1","method":"tools/call","params":{"where":"Zur Linde: 4"}}`

var filters = []struct {
	text string
	want bool
}{
	{"", true}, {"method:tools/call", true}, {"method:tools/*", true}, {"method:*", true}, {"method:tools", false}, {"METHOD:Tools/Call", true},
	{"method:ping,tools/*", true}, {"-method:tools/*", false}, {"-method:ping", true}, {"id:s-1", true}, {`id:"s-1"`, true}, {"id:1", false},
	{"dir:out", true}, {"dir:in", false}, {"dir:client", true}, {"kind:request", true}, {"kind:response", false}, {"kind:notification,request", true},
	{"status:error", true}, {"status:broken", true}, {"status:waiting", false}, {"status:clean", false}, {"-status:ok", true},
	{"tool:book-*", true}, {"target:@table", true}, {"session:8904", true}, {"session:04ef", false}, {"trace:4BF9", true}, {"http:9", true}, {"conn:2", false},
	{"since:5m", true}, {"since:1s", false}, {"since:11:59", true}, {"since:12:01:00", false}, {"since:2026-11-20T12:00:00Z", true},
	{"duration:>500ms", true}, {"duration:>700ms", false}, {"duration:>=700ms", true}, {"duration:<1s", true}, {"duration:<500ms", false}, {"duration:>500ms,<600ms", false},
	{"rule:id-*", true}, {"linde", true}, {`"Zur Linde: 4"`, true}, {`"Zur  Linde"`, false}, {`-"zur linde"`, false}, {"book", true}, {"dir:out linde -ping", true},
}

func TestFilter(t *testing.T) {
	for _, c := range filters {
		f, err := capture.ParseFilter(c.text, noon.Add(2*time.Second))
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if got := f.Match(&aCall, func() []byte { return []byte(aCallText) }); got != c.want {
			t.Errorf("%q matches: %t, want %t", c.text, got, c.want)
		}
		again, err := capture.ParseFilter(f.String(), noon.Add(2*time.Second))
		if err != nil || again.String() != f.String() {
			t.Errorf("%q is written %q, which reads as %v, %v", c.text, f, again, err)
		}
	}
	for _, bad := range []string{"metod:x", "dir:up", "duration:long", "since:then", "method:", "ws://h:1"} {
		if _, err := capture.ParseFilter(bad, noon); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, c := range filters {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := capture.ParseFilter(text, noon)
		if err != nil {
			return
		}
		got := filter.Match(&aCall, func() []byte { return []byte(aCallText) })
		again, err := capture.ParseFilter(filter.String(), noon)
		if err != nil {
			t.Fatalf("%q is written %q: %v", text, filter, err)
		}
		if again.Match(&aCall, func() []byte { return []byte(aCallText) }) != got {
			t.Errorf("%q and %q do not match the same", text, again)
		}
	})
}
