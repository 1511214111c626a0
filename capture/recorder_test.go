package capture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/capture"
)

func record(t *testing.T, o *capture.Options) *capture.Recorder {
	t.Helper()
	rec, err := capture.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() }) // a second Close, for failed tests
	return rec
}

func TestRecorderIsReadWhileItRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := record(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for r := range rec.Follow(ctx, 0) {
				seen = append(seen, r.Kind+" "+r.State)
			}
		}()
		w := rec.Wire(capture.WireInfo{Target: "@demo"})
		w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","id":1,"method":"a"}`))
		time.Sleep(time.Second)
		w.Payload(capture.In, []byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
		time.Sleep(time.Second)
		cancel()
		<-done
		want := []string{"open ", "request waiting", "request done", "result "}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if r, ok := rec.Row(capture.Ref{Seq: 2}); !ok || r.Took != time.Second {
			t.Errorf("the call took %v, want 1s", r.Took)
		}
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
		if err := rec.Wait(t.Context(), rec.Rev()); !errors.Is(err, capture.ErrGone) {
			t.Errorf("Wait after the end = %v, want ErrGone", err)
		}
	})
}

// TestSlowReaderLosesNothing checks that a slow reader receives all missed rows later, each once,
// in its current state.
func TestSlowReaderLosesNothing(t *testing.T) {
	rec := record(t, &capture.Options{MaxMemory: 1 << 20})
	w := rec.Wire(capture.WireInfo{})
	const calls = 2000
	for i := range calls {
		w.Payload(capture.Out, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"a","params":[%q]}`, i, strings.Repeat("x", 200)))
		w.Payload(capture.In, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":1}`, i))
		if i%100 == 99 {
			// Otherwise the memory limit is reached. What was flushed last may still count for a
			// moment, thus one half of the limit at a time.
			rec.Flush()
		}
	}
	seen := map[capture.Ref]capture.Row{}
	times := 0
	for p := rec.Since(0, 100); ; p = rec.Since(p.Next, 100) {
		for _, r := range p.Rows {
			seen[r.Ref] = r
			times++
		}
		if !p.More {
			break
		}
	}
	if len(seen) != 2*calls+1 || times != len(seen) || rec.Lost() != 0 {
		t.Fatalf("saw %d rows %d times, want %d once each; %d lost", len(seen), times, 2*calls+1, rec.Lost())
	}
	if rec.Memory() > 1<<20+64<<10 {
		t.Errorf("%d bytes in memory, want at most 1 MiB", rec.Memory())
	}
	for ref, r := range seen {
		payload, err := rec.Payload(ref)
		if err != nil && r.Kind != capture.RowOpen {
			t.Fatalf("%s: %v", ref, err)
		}
		if r.Kind == capture.RowRequest && (r.State != capture.StateDone || !bytes.Contains(payload, []byte(`"id":`+r.ID+`,`))) {
			t.Fatalf("%s is %s, and holds %.60s", ref, r.State, payload)
		}
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}

func TestWithoutDiskTheOldestIsGone(t *testing.T) {
	rec := record(t, &capture.Options{MaxMemory: 256 << 10, MaxDisk: -1})
	w := rec.Wire(capture.WireInfo{})
	for range 4000 {
		w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","method":"note","params":["`+strings.Repeat("x", 200)+`"]}`))
		rec.Flush()
	}
	if _, err := rec.Payload(capture.Ref{Seq: 2}); !errors.Is(err, capture.ErrGone) {
		t.Errorf("the first payload: %v, want ErrGone", err)
	}
	if _, err := rec.Payload(capture.Ref{Seq: 4001}); err != nil {
		t.Errorf("the last payload: %v", err)
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}

// TestOwnFilesAreBounded checks that temporary files are bounded, and deleted by Close.
func TestOwnFilesAreBounded(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	rec := record(t, &capture.Options{MaxMemory: 128 << 10, MaxDisk: 1 << 20})
	w := rec.Wire(capture.WireInfo{})
	for range 200 {
		for range 50 {
			w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","method":"note","params":["`+strings.Repeat("x", 200)+`"]}`))
		}
		rec.Flush()
	}
	// The files are unnamed, so that nothing of them remains after kill -9. The readable events
	// show how much is stored.
	if names, err := os.ReadDir(os.TempDir()); err != nil || len(names) > 0 && runtime.GOOS != "windows" {
		t.Errorf("files with names: %v, %v", names, err)
	}
	size, readable := 0, 0
	for e, err := range rec.Events(0) {
		if err == nil {
			readable++
			size += len(capture.AppendLine(nil, &e))
		}
	}
	if size > 1<<20+256<<10 || readable < 2000 {
		t.Errorf("%d events of %d bytes on disk, want about 1 MiB", readable, size)
	}
	if _, err := rec.Payload(capture.Ref{Seq: 2}); !errors.Is(err, capture.ErrGone) {
		t.Errorf("the first payload: %v, want ErrGone", err)
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// strange are messages that real peers send, including invalid ones.
var strange = []string{
	`{"jsonrpc":"2.0","id":9007199254740993,"method":"a"}`, `{"a":1,"a":2}`, ` {"a":1}`, "{\n}", "no json", "", "\xff\xfe", "\"\u2028\"",
	`{"b":"\ud800"}`, "{\"a\":\t1}", "[]", `1`, strings.Repeat("[", 20000),
}

func TestSessionFileKeepsBytes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s.jsonl")
	rec := record(t, &capture.Options{File: name})
	w := rec.Wire(capture.WireInfo{Target: "tcp://127.0.0.1:1", Carrier: "tcp", Peer: "127.0.0.1:2"})
	for _, s := range strange {
		w.Payload(capture.Out, []byte(s))
	}
	w.Stderr([]byte("warn: \x1b[31mred\x1b[0m"))
	w.Cut(capture.In, []byte("begin"), 1<<30)
	w.Close(errors.New("reset"))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := capture.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	for i, s := range strange {
		got, err := log.Payload(capture.Ref{Seq: int64(i + 2)})
		if err != nil || string(got) != s {
			t.Errorf("%.40q came back as %.40q, %v", s, got, err)
		}
	}
	// The live Log and the opened one have the same rows.
	live, opened := rec.Rows(capture.Ref{}, 0), log.Rows(capture.Ref{}, 0)
	for i := range live {
		live[i].Time = live[i].Time.UTC().Round(0)
	}
	if diff := cmp.Diff(live, opened); diff != "" {
		t.Errorf("-live +opened:\n%s", diff)
	}
}

func TestOpenTellsWhatItCannotRead(t *testing.T) {
	const file = `{"parley":"session","version":1}
{"seq":1,"kind":"message","dir":"out","frame":{"jsonrpc":"2.0","id":1,"method":"a"}}
half a li

{"seq":9,"kind":"dance"}
{"time":"2026-11-20T12:00:00Z","dir":"in","bytes":35,"frame":{"jsonrpc":"2.0","id":1,"result":1}}
{"seq":1,"kind":"stderr","text":"bye"}`
	log, err := capture.Read(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(log.Err()); !strings.Contains(got, "line 3:") || !strings.Contains(got, `line 5: capture: unknown kind of event "dance"`) {
		t.Errorf("Err = %s", got)
	}
	if rows := log.Rows(capture.Ref{}, 0); len(rows) != 3 || rows[0].State != capture.StateDone || rows[2].Brief != "bye" {
		t.Errorf("rows %+v", rows)
	}
	for ref, want := range map[int64]string{1: `"method"`, 2: `"result"`, 3: "bye"} {
		if got, err := log.Payload(capture.Ref{Seq: ref}); err != nil || !bytes.Contains(got, []byte(want)) {
			t.Errorf("payload %d = %q, %v", ref, got, err)
		}
	}
	for _, bad := range []string{"PK\x03\x04", `{"parley":"session","version":2}`} {
		if _, err := capture.Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	rec, err := capture.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer rec.Close()
	w := rec.Wire(capture.WireInfo{})
	payload := []byte(`{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`)
	b.ReportAllocs()
	for b.Loop() {
		w.Payload(capture.Out, payload)
	}
}

func BenchmarkOpen100000(b *testing.B) {
	name := filepath.Join(b.TempDir(), "s.jsonl")
	var file bytes.Buffer
	file.WriteString("{\"parley\":\"session\",\"version\":1}\n")
	at := time.Now()
	for i := range 50_000 {
		for _, e := range []capture.Event{
			{Dir: capture.Out, Data: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"book-table","arguments":{"guests":4}}}`, i)},
			{Dir: capture.In, Data: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"Zur Linde, 4 guests, 20:15, garden."}]}}`, i)},
		} {
			e.Seq, e.Time, e.Kind, e.Conn, e.Size = int64(2*i+int(e.Dir)), at, capture.KindMessage, 1, len(e.Data)
			file.Write(capture.AppendLine(nil, &e))
		}
	}
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		log, err := capture.Open(name)
		if err != nil || log.Len() != 100_000 {
			b.Fatal(err, log.Len())
		}
	}
}

// TestExchangesAreFound checks that the row of an exchange is found while it is stored, whatever is
// recorded after it, and that finding it does not copy rows.
func TestExchangesAreFound(t *testing.T) {
	rec := record(t, &capture.Options{MaxRows: 800, MaxDisk: -1})
	w := rec.Wire(capture.WireInfo{Target: "@demo"})
	var ids []int64
	for i := range 1000 {
		x := w.Exchange(capture.Out, "POST", fmt.Sprint("/", i), nil)
		x.Request([]byte(`{"jsonrpc":"2.0","method":"a"}`))
		ids = append(ids, x.ID())
		if i%2 == 0 {
			x.Head(202, nil)
			x.End(nil)
		}
	}
	rec.Flush()
	stored := map[int64]capture.Row{}
	for _, row := range rec.Rows(capture.Ref{}, 0) {
		if row.Kind == capture.RowHTTP {
			stored[row.Exchange] = row
		}
	}
	if len(stored) == 0 || len(stored) >= len(ids) {
		t.Fatalf("%d of %d exchanges are stored", len(stored), len(ids))
	}
	for _, id := range ids {
		row, ok := rec.Exchange(id)
		if want, is := stored[id]; ok != is || ok && !cmp.Equal(row, want) {
			t.Errorf("exchange %d: %v, %v", id, ok, row)
		}
	}
	rows := rec.Rows(capture.Ref{}, 0)
	if last, ok := rec.Last(); !ok || last.Ref != rows[len(rows)-1].Ref {
		t.Errorf("the newest row is %v, %v", last.Ref, ok)
	}
	if n := testing.AllocsPerRun(100, func() { rec.Exchange(ids[len(ids)-1]); rec.Last() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
