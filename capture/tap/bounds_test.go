package tap

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/heap"
)

// newTalk returns one recorded HTTP connection.
func newTalk(t *testing.T) (*talk, *capture.Recorder) {
	t.Helper()
	rec, err := capture.New(&capture.Options{MaxDisk: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() }) // nothing is written
	wire := rec.Wire(capture.WireInfo{})
	return &talk{wire: func() *capture.Wire { return wire }, ws: func() *capture.Wire { return wire }}, rec
}

func junk(rec *capture.Recorder) string {
	rec.Flush()
	var all []string
	for _, r := range rec.Rows(capture.Ref{}, 0) {
		if r.Kind == capture.RowJunk {
			all = append(all, r.Brief)
		}
	}
	return strings.Join(all, "; ")
}

func frame(kind, flags byte, id uint32, payload []byte) []byte {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(head, id), payload...)
}

// TestHeadsWithBareNewlines checks that a head whose lines end with bare newlines is rewritten and
// recorded like any other, for any division into reads.
func TestHeadsWithBareNewlines(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "mixed"} {
		for _, size := range []int{1, 7, 1 << 10} {
			talk, rec := newTalk(t)
			h := &half{t: talk, rewrite: func(head []byte) []byte { return withHost(head, "server:2", []string{"tap:1"}) }}
			lines := []string{"POST /mcp HTTP/1.1", "Host: tap:1", "Content-Type: application/json", "Content-Length: 2", ""}
			var in, want bytes.Buffer
			for range 2 {
				for i, line := range lines {
					e := end
					if end == "mixed" {
						e = []string{"\r\n", "\n"}[i%2]
					}
					in.WriteString(line + e)
					want.WriteString(strings.Replace(line, "tap:1", "server:2", 1) + e)
				}
				in.WriteString("{}")
				want.WriteString("{}")
			}
			var out []byte
			for rest := in.Bytes(); len(rest) > 0; {
				n := min(size, len(rest))
				out = h.filter(rest[:n], out)
				rest = rest[n:]
			}
			if !bytes.Equal(out, want.Bytes()) {
				t.Errorf("%q in pieces of %d passed as %q", in.Bytes(), size, out)
			}
			requests := 0
			rec.Flush()
			for _, r := range rec.Rows(capture.Ref{}, 0) {
				if r.Kind == capture.RowHTTP && r.Method == "POST" && r.Name == "/mcp" {
					requests++
				}
			}
			if requests != 2 {
				t.Errorf("with %q, %d requests are recorded: %s", end, requests, junk(rec))
			}
		}
	}
}

// TestWhatIsNoRequestIsNotHeldBack checks that bytes that are not a request are forwarded at once,
// because the server may respond to them before more arrives.
func TestWhatIsNoRequestIsNotHeldBack(t *testing.T) {
	for _, in := range []string{"hello\r\n", "GET /\r\n", "GET /\n", "\r\n", "\n", "\x16\x03\x01\x02\x00", "GET / HTTP/1.1\r\nno field\r\n", "GET / HTTP/1.1\nA: \x01\n", "{\"jsonrpc\":",
		"GET / HTTP/1.1\r\n: x\r\n", "GET\r / HTTP/1.1"} {
		talk, rec := newTalk(t)
		h := &half{t: talk, rewrite: func(head []byte) []byte { return withHost(head, "x", nil) }}
		if out := h.filter([]byte(in), nil); string(out) != in {
			t.Errorf("of %q, %q passed", in, out)
		}
		if out := h.filter([]byte("more"), nil); string(out) != "more" {
			t.Errorf("behind %q, %q passed", in, out)
		}
		if junk(rec) == "" {
			t.Errorf("of %q nothing is recorded", in)
		}
	}
}

// TestHeadersThatExpand checks that a block of 100 KB that refers to one table entry 100,000 times
// is not expanded.
func TestHeadersThatExpand(t *testing.T) {
	for name, fill := range map[string]func(enc *hpack.Encoder) int{
		"a long value":   func(enc *hpack.Encoder) int { return must(enc, "x", strings.Repeat("y", 3900)) },
		"a pseudo field": func(enc *hpack.Encoder) int { return must(enc, ":path", "/"+strings.Repeat("y", 3900)) },
		"an empty value": func(enc *hpack.Encoder) int { return must(enc, "x", "") },
	} {
		talk, rec := newTalk(t)
		request := &half{t: talk}
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		fill(enc)
		// This is the newest entry of the dynamic table.
		block.Write(bytes.Repeat([]byte{0x80 | 62}, 100_000))
		data := append([]byte(prefaceHead), prefaceRest...)
		rest := block.Bytes()
		data = append(data, frame(frameHeaders, 0, 1, rest[:16<<10])...)
		for rest = rest[16<<10:]; len(rest) > 16<<10; rest = rest[16<<10:] {
			data = append(data, frame(frameContinuation, 0, 1, rest[:16<<10])...)
		}
		data = append(data, frame(frameContinuation, flagEndHeaders, 1, rest)...)
		if n := heap.Allocated(func() { request.feed(data) }); n > 8<<20 {
			t.Errorf("%s: %d KiB are allocated for a block of %d KiB", name, n>>10, len(data)>>10)
		}
		if got := junk(rec); !strings.Contains(got, "headers of more than 256 KiB") {
			t.Errorf("%s: recorded is %q", name, got)
		}
		if out := request.filter([]byte("on"), nil); string(out) != "on" {
			t.Errorf("%s: what follows passed as %q", name, out)
		}
	}
}

func must(enc *hpack.Encoder, name, value string) int {
	if err := enc.WriteField(hpack.HeaderField{Name: name, Value: value}); err != nil {
		panic(err)
	}
	return 0
}

// TestManyHalfBodies checks that streams with partial bodies share the limit of their connection,
// connections share the limit of the process, and all memory is returned to the limits.
func TestManyHalfBodies(t *testing.T) {
	var talks []*talk
	part := bytes.Repeat([]byte("x"), 16<<10)
	for range 12 {
		talk, _ := newTalk(t)
		talks = append(talks, talk)
		request := &half{t: talk}
		request.feed(append([]byte(prefaceHead), prefaceRest...))
		for id := uint32(1); id < 400; id += 2 {
			var block bytes.Buffer
			enc := hpack.NewEncoder(&block)
			enc.SetMaxDynamicTableSize(0)
			must(enc, ":method", "POST")
			must(enc, ":path", "/")
			must(enc, "content-type", "application/json")
			request.feed(frame(frameHeaders, flagEndHeaders, id, block.Bytes()))
			for range 16 {
				request.feed(frame(frameData, 0, id, part))
			}
		}
		if n := talk.collected.Load(); n > maxCollectedConn || n < maxCollectedConn/2 && len(talks) < 4 {
			t.Errorf("a connection has collected %d bytes", n)
		}
	}
	if n := collected.Load(); n > maxCollected || n < maxCollected/2 {
		t.Errorf("the process has collected %d bytes", n)
	}
	for _, talk := range talks {
		talk.cut()
		if n := talk.collected.Load(); n != 0 {
			t.Errorf("%d bytes of a connection that has ended are left", n)
		}
	}
	if n := collected.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// TestEveryReaderGivesBack checks that for any traffic, a connection that closes in the middle
// returns its share of the limits.
func TestEveryReaderGivesBack(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	for name, open := range map[string]func(s sink) (reader, string){
		"line":      func(s sink) (reader, string) { return newReader(Line, s), big + "\n" + big },
		"header":    func(s sink) (reader, string) { return newReader(Header, s), "Content-Length: 300000\r\n\r\n" + big },
		"auto":      func(s sink) (reader, string) { return newReader(Auto, s), big },
		"websocket": func(s sink) (reader, string) { return &frames{s: s}, "\x01\x7f\x00\x00\x00\x00\x00\x0f\x00\x00" + big },
		"control":   func(s sink) (reader, string) { return &frames{s: s}, "\x89\x7f\x00\x00\x00\x00\x00\x0f\x00\x00" + big },
	} {
		_, rec := newTalk(t)
		r, text := open(wireSink{rec.Wire(capture.WireInfo{}), capture.Out})
		for rest := text; len(rest) > 0; {
			n := min(1000, len(rest))
			r.feed([]byte(rest[:n]))
			rest = rest[n:]
		}
		if f, ok := r.(*frames); ok && len(f.control) > 125 {
			t.Errorf("%s: %d bytes of a control frame", name, len(f.control))
		}
		if name != "control" && collected.Load() == 0 {
			t.Errorf("%s: nothing is collected", name)
		}
		if r.endInput(); collected.Load() != 0 {
			t.Errorf("%s: %d bytes are left", name, collected.Load())
		}
	}
}

// TestLongHeadsAreCut checks that the recorded part of a head is limited, the forwarded head is
// not.
func TestLongHeadsAreCut(t *testing.T) {
	talk, rec := newTalk(t)
	h := &half{t: talk}
	in := "GET /" + strings.Repeat("a", 50_000) + " HTTP/1.1\r\n"
	for i := range 100 {
		in += fmt.Sprintf("X-%d: %s\r\n", i, strings.Repeat("b", 1500))
	}
	in += "\r\n"
	if out := h.filter([]byte(in), nil); string(out) != in {
		t.Error("it did not pass as it is")
	}
	rec.Flush()
	for e, err := range rec.Events(0) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(capture.AppendLine(nil, &e)); n > maxFields+2*maxField {
			t.Errorf("%d bytes are recorded of a head", n)
		}
		if e.Kind == capture.KindRequest && (len(e.Header) < 30 || e.Header.Get("Parley-Cut") == "") {
			t.Errorf("%d headers, %q", len(e.Header), e.Header.Get("Parley-Cut"))
		}
	}
}

// TestEmptyLinesAreNotKept checks that empty lines before the first message take no memory, and
// that the framing is detected after them, for any division into reads.
func TestEmptyLinesAreNotKept(t *testing.T) {
	for _, first := range []string{"{}\n", "Content-Length: 2\r\n\r\n{}", "content-type: x\r\nContent-Length: 2\r\n\r\n{}"} {
		for _, size := range []int{1, 3, 64 << 10} {
			got := new(notes)
			r := newReader(Auto, got).(*either)
			for range 1 << 10 {
				r.feed(bytes.Repeat([]byte("\r\n"), 1<<10))
			}
			if n := cap(r.begin); n > 1<<10 {
				t.Errorf("%d bytes are kept of 2 MiB of empty lines", n)
			}
			inPieces(r, []byte(first), size)
			if want := []string{`payload "{}" 2`}; !slices.Equal(got.lines, want) {
				t.Errorf("%q in pieces of %d is read as %q, want %q", first, size, got.lines, want)
			}
		}
	}
}

// TestLongEventIDs checks that the ID of an event, which applies to all later events without one,
// is not recorded with each of them in full.
func TestLongEventIDs(t *testing.T) {
	talk, rec := newTalk(t)
	request, response := &half{t: talk}, &half{t: talk, response: true}
	request.feed([]byte("GET / HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n"))
	const events = 200
	stream := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: " + strings.Repeat("a", 1<<20) + "\n" + strings.Repeat("data:1\n\n", events)
	if n := heap.Allocated(func() { response.feed([]byte(stream)); rec.Flush() }); n > 32<<20 {
		t.Errorf("%d KiB are allocated", n>>10)
	}
	found := 0
	for e, err := range rec.Events(0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != capture.KindMessage {
			continue
		}
		found++
		if len(e.EventID) > 512 || !strings.HasPrefix(e.EventID, "aaaa") {
			t.Fatalf("the ID has %d bytes and begins with %.10q", len(e.EventID), e.EventID)
		}
	}
	response.endInput() // gives what it has collected back
	if found != events || rec.Lost() != 0 {
		t.Errorf("%d events, %d lost; want %d", found, rec.Lost(), events)
	}
}

// TestLongCompressedMessages checks that a message that is longer than what is recorded of it is
// recorded as cut, with the size of the whole, and that the messages after it can still be read.
func TestLongCompressedMessages(t *testing.T) {
	long := `{"jsonrpc":"2.0","method":"` + strings.Repeat("0123456789", 1<<19) + `"}`
	short := `{"jsonrpc":"2.0","method":"6789012345"}`
	got := new(sizes)
	r := &frames{s: got}
	var deflated bytes.Buffer
	z, err := flate.NewWriter(&deflated, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{short, long, short} { // with one window, as with context takeover
		deflated.Reset()
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		data := bytes.TrimSuffix(deflated.Bytes(), []byte("\x00\x00\xff\xff"))
		head := binary.BigEndian.AppendUint64([]byte{0xc1, 127}, uint64(len(data)))
		inPieces(r, append(head, data...), 1000)
	}
	if want := []string{
		fmt.Sprintf("%d of %d bytes", len(short), len(short)), fmt.Sprintf("%d of %d bytes", maxKept, len(long)), fmt.Sprintf("%d of %d bytes", len(short), len(short)),
	}; !slices.Equal(got.lines, want) {
		t.Errorf("WebSocket: %q, want %q", got.lines, want)
	}

	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(w, long); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	talk, rec := newTalk(t)
	request, response := &half{t: talk}, &half{t: talk, response: true}
	request.feed([]byte("POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"))
	response.feed(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", zipped.Len(), zipped.Bytes()))
	if want := fmt.Sprintf("a body of application/json, %d bytes", len(long)); junk(rec) != want {
		t.Errorf("gzip: %q is recorded, want %q", junk(rec), want)
	}
}

// TestBombsAreNotExpanded checks that a message is not decompressed without end.
func TestBombsAreNotExpanded(t *testing.T) {
	var deflated bytes.Buffer
	z, err := flate.NewWriter(&deflated, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 2 * maxExpanded >> 20 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	data := bytes.TrimSuffix(deflated.Bytes(), []byte("\x00\x00\xff\xff"))
	got := new(sizes)
	r := &frames{s: got}
	r.feed(append(binary.BigEndian.AppendUint64([]byte{0xc1, 127}, uint64(len(data))), data...))
	r.endInput()
	if len(got.lines) != 2 || !strings.HasSuffix(got.lines[1], "the rest is not parsed") {
		t.Fatalf("recorded is %q", got.lines)
	}
	var of int
	if _, err := fmt.Sscanf(got.lines[0], "4194304 of %d bytes", &of); err != nil || of < maxExpanded || of > maxExpanded+window {
		t.Errorf("%q: %v", got.lines[0], err)
	}
}

// A sizes is a sink that stores the lengths of payloads.
type sizes struct{ lines []string }

func (n *sizes) payload(p []byte, size int) {
	n.lines = append(n.lines, fmt.Sprintf("%d of %d bytes", len(p), size))
}

func (n *sizes) junk(_ []byte, what string) { n.lines = append(n.lines, what) }
