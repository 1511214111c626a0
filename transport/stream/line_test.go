package stream_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// read collects the results of Read until the stream ends, as text: payloads unchanged, faults in
// brackets.
func read(t *stream.Transport) (events []string) {
	for range 10_000 {
		p, _, err := t.Read()
		if err == nil {
			events = append(events, string(p))
			continue
		}
		f, ok := errors.AsType[*jsonrpc.FrameError](err)
		if !ok {
			return append(events, "<"+err.Error()+">")
		}
		word := "[nothing"
		if f.Answer != nil {
			word = "[" + f.Answer.Error()
		}
		if f.Final {
			return append(events, word+" final]")
		}
		events = append(events, word+"]")
	}
	return append(events, "no end")
}

const (
	tooLarge = "[Invalid Request (-32600)]"
	badFrame = "[Parse error (-32700) final]"
	badBody  = "[Parse error (-32700)]"
	cutOff   = "[nothing final]"
	eof      = "<EOF>"
)

type wireCase struct {
	name, wire string
	want       []string
}

// checkWire reads each case in one piece and byte by byte: both must give the same result.
func checkWire(t *testing.T, f stream.Framer, o *stream.Options, cases []wireCase) {
	t.Helper()
	for _, c := range cases {
		for _, n := range []int{1, 2, 3, 17, 1 << 20} {
			tape := transporttest.Play(io.EOF, transporttest.Split([]byte(c.wire), n)...)
			if got := read(stream.New(tape, f, o)); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%s, read by %d:\nwire %.200q\ngot  %.200q\nwant %.200q", c.name, n, c.wire, got, c.want)
			}
		}
	}
}

func TestLine(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	checkWire(t, stream.Line, &stream.Options{MaxMessage: 10, MaxSkip: 50}, []wireCase{
		{"nothing", "", []string{eof}},
		{"one", "{}\n", []string{"{}", eof}},
		{"carriage returns", "{}\r\n[]\r\n", []string{"{}", "[]", eof}},
		{"only the last carriage return is framing", "{}\r\r\n", []string{"{}\r", eof}},
		{"blank lines", "\n\r\n \t \n\n{}\n\n", []string{"{}", eof}},
		{"no newline at the end", "1\n2", []string{"1", "2", eof}},
		{"a carriage return at the end", "1\r", []string{"1", eof}},
		{"blanks at the end", "1\n  ", []string{"1", eof}},
		{"white space is kept", "  {} \n", []string{"  {} ", eof}},
		{"a byte order mark is kept", "\ufeff{}\n", []string{"\ufeff{}", eof}},
		{"junk is a payload", "hello\n\x00\xff\n", []string{"hello", "\x00\xff", eof}},
		{"the longest", long(10) + "\n" + long(10) + "\r\n", []string{long(10), long(10), eof}},
		{"one byte more", long(11) + "\n{}\n", []string{tooLarge, "{}", eof}},
		{"one byte more, carriage return", long(11) + "\r\n{}\n", []string{tooLarge, "{}", eof}},
		{"two bytes more", long(12) + "\n{}\n", []string{tooLarge, "{}", eof}},
		{"blanks over the limit", strings.Repeat(" ", 11) + "\n{}\n", []string{tooLarge, "{}", eof}},
		{"too large twice", long(20) + "\n" + long(30) + "\n{}\n", []string{tooLarge, tooLarge, "{}", eof}},
		{"too large, no newline", long(30), []string{tooLarge, eof}},
		{"too large by one, no newline", long(11), []string{tooLarge, eof}},
		{"HTTP is junk to a client", "GET / HTTP/1.1\n", []string{tooLarge, eof}},
	})
	checkWire(t, stream.Line, &stream.Options{MaxMessage: -1}, []wireCase{
		{"no bound", long(100_000) + "\n", []string{long(100_000), eof}},
	})
}

// TestSkip checks how much of a line over the limit is skipped.
func TestSkip(t *testing.T) {
	chunk := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name  string
		bound int64
		lines int // of 1,000 bytes, without a newline
		want  string
	}{
		{"below the bound", 50_000, 49, eof},
		{"past the bound", 50_000, 60, cutOff},
		{"no bound", -1, 3000, eof},
	} {
		tape := transporttest.Play(io.EOF, transporttest.Split([]byte(strings.Repeat(chunk, c.lines)), 1000)...)
		got := read(stream.New(tape, stream.Line, &stream.Options{MaxMessage: 10, MaxSkip: c.bound}))
		if len(got) != 2 || got[0] != tooLarge || got[1] != c.want {
			t.Errorf("%s: got %q, want %q, once, then %q", c.name, got, tooLarge, c.want)
		}
	}
}

// TestEndlessGarbage checks that a line that is not a message and does not end is given up early,
// whatever the other bounds are. A line that begins as a message has only those.
func TestEndlessGarbage(t *testing.T) {
	for _, c := range []struct {
		name, begin string
		message     int64
		size        int // of the line, without a newline
		want        error
	}{
		{"garbage", "loading ", 1 << 20, 20_000, jsonrpc.ErrGarbage},
		{"garbage behind blanks", " \t  ...", 1 << 20, 20_000, jsonrpc.ErrGarbage},
		{"garbage over the limit of a message", "x", 100, 20_000, jsonrpc.ErrGarbage},
		{"garbage below its bound", "x", 1 << 20, 9_000, io.EOF},
		{"a long message", "{", 1 << 20, 20_000, io.EOF},
		{"a batch over the limit", " [", 100, 20_000, io.EOF},
	} {
		line := c.begin + strings.Repeat("x", c.size)
		tape := transporttest.Play(io.EOF, transporttest.Split([]byte(line), 1000)...)
		s := stream.New(tape, stream.Line, &stream.Options{MaxMessage: c.message, MaxGarbage: 10_000})
		var err error
		for range 3 {
			var frame *jsonrpc.FrameError
			if _, _, err = s.Read(); err != nil && (!errors.As(err, &frame) || frame.Final) {
				break
			}
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRefuseHTTP(t *testing.T) {
	const call = "\n" + `{"jsonrpc":"2.0","method":"harm"}` + "\n"
	refused := []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n" + call,
		"GET /path?a=b HTTP/1.0\r\n\r\n" + call,
		"OPTIONS * HTTP/1.1\n" + call,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + call,
		"my-own!method http://x/ HTTP/1.1\r\n" + call,
		"\r\n\r\nPOST / HTTP/1.1\r\n" + call,
		"POST /" + strings.Repeat("a", 1000) + " HTTP/1.1\r\n" + call,
	}
	for _, wire := range refused {
		for _, f := range framers {
			for _, n := range []int{1, 1 << 20} {
				tape := transporttest.Play(io.EOF, transporttest.Split([]byte(wire), n)...)
				if f == stream.Header && strings.HasPrefix(wire, "\r") {
					continue // not a header block
				}
				r := stream.New(tape, f, &stream.Options{MaxMessage: 100, RefuseHTTP: true})
				p, _, err := r.Read()
				if !errors.Is(err, stream.ErrHTTP) || !tape.Closed() || len(tape.Written()) > 0 {
					t.Errorf("%.40q, framing %d: Read = %q, %v (closed: %v), want it closed", wire, f, p, err, tape.Closed())
				}
				if _, _, err := r.Read(); err == nil {
					t.Errorf("%.40q, framing %d: something was read behind it", wire, f)
				}
			}
		}
	}
	// What only resembles a request, and what arrives later, is an ordinary line.
	checkWire(t, stream.Line, &stream.Options{RefuseHTTP: true}, []wireCase{
		{"second line", "1\nGET / HTTP/1.1\n2\n", []string{"1", "GET / HTTP/1.1", "2", eof}},
		{"words", "hello big world\n", []string{"hello big world", eof}},
		{"no target", "GET HTTP/1.1\n", []string{"GET HTTP/1.1", eof}},
		{"a string", `"GET / HTTP/1.1"` + "\n", []string{`"GET / HTTP/1.1"`, eof}},
		{"an array", `["/ HTTP/1.1"]` + "\n", []string{`["/ HTTP/1.1"]`, eof}},
	})
	checkWire(t, stream.Line, &stream.Options{RefuseHTTP: true, MaxMessage: 10}, []wireCase{
		{"large JSON", `null           ` + "\n1\n", []string{tooLarge, "1", eof}},
	})
}

// TestLineWrite checks that the burst itself is sent, with newlines inside payloads replaced by
// blanks.
func TestLineWrite(t *testing.T) {
	tape := transporttest.Play(io.EOF)
	w := stream.New(tape, stream.Line, nil)
	var b jsonrpc.Burst
	b.Add([]byte("{\n\"a\":\n\n1}"))
	b.Add([]byte("[]"))
	b.Add([]byte("\n1\n"))
	if err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	const want = "{ \"a\":  1}\n[]\n 1 \n"
	if got := tape.Writes(); len(got) != 1 || string(got[0]) != want {
		t.Errorf("wrote %q, want %q in one call", got, want)
	}
}
