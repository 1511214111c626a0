package eventstream

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestMain(m *testing.M) {
	// net/http sleeps half a second before it closes a connection whose body it did not read.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// seen is an Event that can be retained.
type seen struct{ Type, Data, ID string }

// readAll parses a stream; events over the limit become one of type "too large".
func readAll(r *Reader) ([]seen, error) {
	var all []seen
	for {
		e, err := r.Next()
		switch {
		case errors.Is(err, jsonrpc.ErrTooLarge):
			all = append(all, seen{Type: "too large"})
		case err != nil:
			return all, err
		default:
			all = append(all, seen{e.Type, string(e.Data), e.ID})
		}
	}
}

func TestReader(t *testing.T) {
	msg := func(data ...string) (all []seen) {
		for _, d := range data {
			all = append(all, seen{"message", d, ""})
		}
		return all
	}
	tests := []struct {
		name, stream string
		want         []seen
	}{
		{"one", "data: a\n\n", msg("a")},
		{"carriage return", "data: a\r\rdata: b\r\r", msg("a", "b")},
		{"both", "data: a\r\n\r\ndata: b\r\n\r\n", msg("a", "b")},
		{"mixed line ends", "data: a\r\ndata: b\rdata: c\n\r\n", msg("a\nb\nc")},
		{"two blank lines", "data: a\n\n\n\ndata: b\n\n", msg("a", "b")},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", msg("a")},
		{"only one byte order mark", "\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", nil},
		{"byte order mark later", "data: a\n\n\xef\xbb\xbfdata: b\n\n", msg("a")},
		{"comment", ": hello\n:\ndata: a\n:data: b\n\n", msg("a")},
		{"no space", "data:a\n\n", msg("a")},
		{"two spaces", "data:  a\n\n", msg(" a")},
		{"tab", "data:\ta\n\n", msg("\ta")},
		{"colons in the value", "data: a:b: c\n\n", msg("a:b: c")},
		{"no colon", "data\n\n", msg("")},
		{"empty data", "data:\n\n", msg("")},
		{"two empty lines of data", "data\ndata\n\n", msg("\n")},
		{"no data is no event", "event: x\n\ndata: a\n\n", msg("a")},
		{"the type goes with its event", "event: x\ndata: a\n\ndata: b\n\n", []seen{{"x", "a", ""}, {"message", "b", ""}}},
		{"the last type counts", "event: x\nevent: y\ndata: a\n\n", []seen{{"y", "a", ""}}},
		{"empty type", "event: x\nevent:\ndata: a\n\n", msg("a")},
		{"the id stays", "id: 1\ndata: a\n\ndata: b\n\n", []seen{{"message", "a", "1"}, {"message", "b", "1"}}},
		{"the id without data stays too", "id: 1\n\ndata: a\n\n", []seen{{"message", "a", "1"}}},
		{"empty id", "id: 1\ndata: a\n\nid\ndata: b\n\n", []seen{{"message", "a", "1"}, {"message", "b", ""}}},
		{"NUL in an id", "id: 1\nid: 2\x003\ndata: a\n\n", []seen{{"message", "a", "1"}}},
		{"field names are exact", "Data: a\n data: b\ndata : c\ndata: d\n\n", msg("d")},
		{"unknown field", "foo: bar\ndata: a\n\n", msg("a")},
		{"cut in a line", "data: a\n\ndata: b", msg("a")},
		{"cut before the blank line", "data: a\n\ndata: b\n", msg("a")},
		{"cut between the two", "data: a\n\ndata: b\n\r", msg("a", "b")},
		{"invalid UTF-8 is not our business", "data: \xff\n\n", msg("\xff")},
		{"NUL in data", "data: a\x00b\n\n", msg("a\x00b")},
		{"nothing", "", nil},
		{"blank", "\n\r\n\r", nil},
	}
	for _, tt := range tests {
		for how, r := range map[string]io.Reader{
			"whole":     strings.NewReader(tt.stream),
			"by bytes":  iotest.OneByteReader(strings.NewReader(tt.stream)),
			"by halves": iotest.HalfReader(strings.NewReader(tt.stream)),
			"with EOF":  iotest.DataErrReader(strings.NewReader(tt.stream)),
		} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				got, err := readAll(NewReader(r, 0))
				if err != io.EOF {
					t.Errorf("the end is %v, want io.EOF", err)
				}
				if !reflect.DeepEqual(got, tt.want) {
					t.Errorf("%q:\ngot  %q\nwant %q", tt.stream, got, tt.want)
				}
			})
		}
	}
}

func TestRetry(t *testing.T) {
	tests := []struct {
		line string
		want time.Duration
		ok   bool
	}{
		{"retry: 2500", 2500 * time.Millisecond, true},
		{"retry: 0", 0, true},
		{"retry", 0, false},
		{"retry: -1", 0, false},
		{"retry: 1.5", 0, false},
		{"retry: 1s", 0, false},
		{"retry: 007", 7 * time.Millisecond, true},
	}
	for _, tt := range tests {
		r := NewReader(strings.NewReader(tt.line+"\n\n"), 0)
		if _, err := r.Next(); err != io.EOF {
			t.Fatal(err)
		}
		if got, ok := r.Retry(); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %v, %t; want %v, %t", tt.line, got, ok, tt.want, tt.ok)
		}
	}
	r := NewReader(strings.NewReader("retry: "+strings.Repeat("9", 100)+"\n\n"), 0)
	_, _ = r.Next() // io.EOF
	if got, ok := r.Retry(); got < 24*time.Hour || !ok {
		t.Errorf("a huge one: got %v, %t", got, ok)
	}
}

func TestLastID(t *testing.T) {
	r := NewReader(strings.NewReader("id: 7\ndata: a\n\nid: 8\n\nid: 9\ndata: cut"), 0)
	for range 2 {
		_, _ = r.Next() // the second is io.EOF
	}
	if r.LastID() != "8" {
		t.Errorf("got %q, want 8: the ninth was never complete", r.LastID())
	}
}

func TestEventOverTheLimit(t *testing.T) {
	long := strings.Repeat("x", 200)
	stream := "data: " + long[:100] + "\n\n" + // the limit itself
		"data: " + long[:60] + "\ndata: " + long[:60] + "\ndata: more\n\n" + // over it in two lines
		"data: a\n\n" +
		"data: " + long + "\nevent: x\n\n" + // over it in one line
		": " + long + long + "\ndata: b\n\n" + // a comment is only skipped
		long + long + ": x\n\n" + // a field with a long name
		"data: c\n\n" +
		"data: " + long // never ends
	want := []seen{{"message", long[:100], ""}, {"too large", "", ""}, {"message", "a", ""}, {"too large", "", ""},
		{"message", "b", ""}, {"too large", "", ""}, {"message", "c", ""}, {"too large", "", ""}}
	for size := 1; size < len(stream); size += 13 {
		got, err := readAll(NewReader(chunked(stream, size), 100))
		if err != io.EOF || !reflect.DeepEqual(got, want) {
			t.Fatalf("chunks of %d: %v\ngot  %q\nwant %q", size, err, got, want)
		}
	}
}

func TestAnEndlessLineTakesNoMemory(t *testing.T) {
	r := NewReader(&endless{n: 64 << 20}, 1000)
	got, err := readAll(r)
	if err != io.EOF || len(got) != 1 || got[0].Type != "too large" {
		t.Errorf("got %q, %v; want one event that is too large", got, err)
	}
	if len(r.buf) > 64<<10 {
		t.Errorf("%d bytes are held for a line over 1000", len(r.buf))
	}
}

// endless reads as n bytes of one line.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	p = p[:min(len(p), e.n)]
	for i := range p {
		p[i] = 'x'
	}
	e.n -= len(p)
	return len(p), nil
}

// chunked returns text in pieces of size bytes.
func chunked(text string, size int) io.Reader {
	var parts []io.Reader
	for len(text) > 0 {
		n := min(size, len(text))
		parts = append(parts, strings.NewReader(text[:n]))
		text = text[n:]
	}
	return io.MultiReader(parts...)
}

// TestTryWaitsForNothing feeds the bytes one by one: an event is available exactly with its blank
// line.
func TestTryWaitsForNothing(t *testing.T) {
	const stream = "data: a\n\ndata: b\r\rdata: c\r\n\r\n"
	pr, pw := io.Pipe()
	defer pw.Close()
	r := NewReader(pr, 0)
	// after which byte; the last "\n" is not awaited
	want := map[int]string{9: "a", 18: "b", 28: "c"}
	got := map[int]string{}
	for i := range len(stream) {
		go func() { _, _ = pw.Write([]byte{stream[i]}) }()
		r.fill()
		if e, ok, err := r.Try(); err != nil {
			t.Fatal(err)
		} else if ok {
			got[i+1] = string(e.Data)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDataStaysForOneMoreCall(t *testing.T) {
	r := NewReader(strings.NewReader("data: first\n\ndata: second\n\ndata: third\n\n"), 0)
	first, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	second, ok, err := r.Try()
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if string(first.Data) != "first" || string(second.Data) != "second" {
		t.Errorf("got %q and %q", first.Data, second.Data)
	}
}

// TestOnSilence checks that only silence after comments is reported.
func TestOnSilence(t *testing.T) {
	for comments, dead := range map[string]bool{"": false, ": hello\n": false, ":\n\n:\n\n": true} {
		synctest.Test(t, func(t *testing.T) {
			pr, pw := io.Pipe()
			go func() {
				for _, c := range strings.SplitAfter(comments, ":\n\n") {
					time.Sleep(15 * time.Second)
					_, _ = io.WriteString(pw, c) // the reader may be gone
				}
				time.Sleep(time.Hour)
				pw.Close()
			}()
			r := NewReader(pr, 0)
			silent := errors.New("silent")
			r.OnSilence(45*time.Second, func() { pr.CloseWithError(silent); pw.CloseWithError(silent) })
			start := time.Now()
			_, err := r.Next()
			if took := time.Since(start); dead && (!errors.Is(err, silent) && !errors.Is(err, io.ErrClosedPipe) || took != 30*time.Second+45*time.Second) || !dead && err != io.EOF {
				t.Errorf("%q: got %v after %v", comments, err, took)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 0)
	if e, err := r.Next(); err != nil || string(e.Data) != "a" {
		t.Errorf("got %q, %v", e.Data, err)
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
	}
	if _, err := NewReader(idle{}, 0).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader without progress: %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// reference is a literal implementation of WHATWG HTML, section 9.2.6, for a whole stream.
func reference(stream string) []seen {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	lines := strings.Split(stream, "\n")
	var all []seen
	var kind, data, id, lastID string
	for _, line := range lines[:len(lines)-1] { // a line without an end is discarded
		if line == "" {
			lastID = id
			if data == "" {
				kind = ""
				continue
			}
			if kind == "" {
				kind = "message"
			}
			all = append(all, seen{kind, strings.TrimSuffix(data, "\n"), lastID})
			kind, data = "", ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			kind = value
		case "data":
			data += value + "\n"
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	return all
}

func seeds(f *testing.F) [][]byte {
	files, err := filepath.Glob("testdata/*.stream")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	var all [][]byte
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// FuzzReader compares the Reader with reference, for any split of the stream, and checks that what
// is written again reads the same.
func FuzzReader(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, uint8(1))
		f.Add(seed, uint8(7))
	}
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		want := reference(string(stream))
		got, err := readAll(NewReader(chunked(string(stream), int(size)+1), 0))
		if err != io.EOF || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q in chunks of %d: %v\ngot  %q\nwant %q", stream, int(size)+1, err, got, want)
		}
		var again []byte
		for i, e := range got {
			if again, err = AppendEvent(again, Event{Type: e.Type, Data: []byte(e.Data), ID: e.ID}); err != nil {
				t.Fatal(err)
			}
			if e.ID == "" && i > 0 && got[i-1].ID != "" {
				return // an ID that was reset is not written
			}
		}
		if got, _ := readAll(NewReader(bytes.NewReader(again), 0)); !reflect.DeepEqual(got, want) {
			t.Fatalf("written again:\ngot  %q\nwant %q", got, want)
		}
	})
}
