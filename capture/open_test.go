package capture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/capture"
)

// calls returns a session file of n calls and their responses.
func calls(n int) []byte {
	out := capture.AppendHeader(nil)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i := range n {
		for k, e := range []capture.Event{
			{Dir: capture.Out, Data: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"subtract","params":[%d,23]}`, i, i)},
			{Dir: capture.In, Data: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%d}`, i, i-23)},
		} {
			e.Seq, e.Time, e.Kind, e.Conn, e.Size = int64(2*i+k+1), at.Add(time.Duration(i)*time.Millisecond), capture.KindMessage, 1, len(e.Data)
			out = capture.AppendLine(out, &e)
		}
	}
	return out
}

func write(t testing.TB, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestBegin checks that the first rows of a long file are available before the others, the others
// arrive while a reader follows, and the result is the same as that of Open.
func TestBegin(t *testing.T) {
	const n = 3_000
	name := write(t, calls(n))
	log, rest, err := capture.Begin(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := log.Len(); got == 0 || got >= 2*n {
		t.Errorf("%d rows are there at once, want some of %d", got, 2*n)
	}
	first, _ := log.Row(capture.Ref{Seq: 1})
	if first.State != capture.StateDone {
		t.Errorf("the first call is %q", first.State)
	}
	rows := map[capture.Ref]capture.Row{}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		for r := range log.Follow(context.Background(), 0) {
			rows[r.Ref] = r
		}
	}()
	if err := rest(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-followed // returns because the log has ended
	if len(rows) != 2*n {
		t.Errorf("%d rows were followed, want %d", len(rows), 2*n)
	}
	opened, err := capture.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(opened.Rows(capture.Ref{}, 0), log.Rows(capture.Ref{}, 0)); diff != "" {
		t.Errorf("-Open +Begin:\n%.2000s", diff)
	}
	for _, seq := range []int64{1, 2, 2_000, 2_001, 2 * n} {
		want, err := opened.Payload(capture.Ref{Seq: seq})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := log.Payload(capture.Ref{Seq: seq}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("payload %d = %q, %v, want %q", seq, got, err, want)
		}
	}
}

// TestBeginStopped checks that after reading stops, the rows read so far remain, and waiting
// readers are unblocked.
func TestBeginStopped(t *testing.T) {
	log, rest, err := capture.Begin(write(t, calls(3_000)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rest(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("rest = %v", err)
	}
	if n := log.Len(); n == 0 || n == 6_000 {
		t.Errorf("%d rows were read", n)
	}
	if err := log.Wait(t.Context(), log.Rev()); !errors.Is(err, capture.ErrGone) {
		t.Errorf("Wait = %v", err)
	}
}

// FuzzParseLine checks that both parsers, the fast one and the general one, which a blank forces,
// give the same result.
func FuzzParseLine(f *testing.F) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 1000, time.UTC)
	for i, s := range strange {
		e := capture.Event{Seq: int64(i), Time: at, Kind: capture.KindMessage, Dir: capture.Dir(i % 3), Conn: int64(i % 2), Exchange: int64(i % 4), Data: []byte(s), Size: len(s)}
		if i%2 == 0 {
			e.EventID = fmt.Sprint("e", i)
		}
		f.Add(bytes.TrimSpace(capture.AppendLine(nil, &e)))
	}
	for i, e := range []capture.Event{
		{Kind: capture.KindRequest, Dir: capture.Out, Exchange: 1, Method: "POST", URL: "/mcp?a=\"b\"", Header: http.Header{"A": {"1", "2"}, "\u00e4": {""}}},
		{Kind: capture.KindRequest, Dir: capture.Out, Exchange: 1, Method: "GET", URL: "/"}, {Kind: capture.KindResponse, Dir: capture.In, Exchange: 1, Status: 200, Header: http.Header{"X": nil}},
		{Kind: capture.KindEnd, Exchange: 1, Text: "reset"}, {Kind: capture.KindEnd, Exchange: 1}, {Kind: capture.KindOpen, Wire: &capture.WireInfo{Target: "x"}}, {Kind: capture.KindClose}, {Kind: capture.KindJunk, Data: []byte("x"), Size: 9},
	} {
		e.Seq, e.Time, e.Conn = int64(i), at, 1
		f.Add(bytes.TrimSpace(capture.AppendLine(nil, &e)))
	}
	for _, s := range []string{
		`{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"request","header":null}`, `{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"request","header":{"a":["b"]},"header":{}}`,
		`{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"end","header":{}}`, `{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"end"}x`, `{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"response","header":{"a":"b"}}`,
		`{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"message","dir":"out","bytes":2,"frame":{},"base64":"AA=="}`,
		`{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"message","bytes":2,"frame":{}}}`,
		`{"seq":01,"time":"2026-11-20T12:00:00Z","kind":"message","bytes":2,"frame":{}}`,
		`{"seq":1,"time":"soon","kind":"message","bytes":2,"frame":{}}`,
		`{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"message","event":"a\"b","bytes":9007199254740993,"frame":1}`,
		`{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"message","bytes":4,"frame": null }`,
		`{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"message","dir":"up","bytes":0,"frame":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) == 0 || text[0] != '{' {
			return
		}
		got, err := capture.ParseLine(text)
		want, failed := capture.ParseLine(append([]byte("{ "), text[1:]...))
		if (err == nil) != (failed == nil) {
			t.Fatalf("ParseLine(%s) = %v, with a blank %v", text, err, failed)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(capture.Event{})); err == nil && diff != "" {
			t.Errorf("%s: -long +short:\n%s", text, diff)
		}
	})
}
