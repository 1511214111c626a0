package stream_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// framed puts a Content-Length before a body.
func framed(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }

func TestHeader(t *testing.T) {
	pad := func(n int) string { return strings.Repeat("p", n) }
	next := framed("{}")
	checkWire(t, stream.Header, &stream.Options{MaxMessage: 100, MaxSkip: 200}, []wireCase{
		{"nothing", "", []string{eof}},
		{"two", framed("1") + framed("[]"), []string{"1", "[]", eof}},
		{"newlines and blanks in the body are kept", framed("\n1\r\n "), []string{"\n1\r\n ", eof}},
		{"an empty body is ignored", framed("") + next, []string{"{}", eof}},
		{"the longest", framed(pad(100)), []string{pad(100), eof}},
		{"names in any case", "cOnTeNt-LeNgTh:1\r\n\r\n1" + next, []string{"1", "{}", eof}},
		{"blanks around the value", "Content-Length: \t 1 \t\r\n\r\n1", []string{"1", eof}},
		{"leading zeros", "Content-Length: 0001\r\n\r\n1", []string{"1", eof}},
		{"newlines alone", "Content-Length: 1\n\n1", []string{"1", eof}},
		{"unknown fields", "X-Note: a: b\r\nContent-Length: 1\r\nDate:\r\n\r\n1", []string{"1", eof}},
		{"type of the base protocol", "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 1\r\n\r\n1", []string{"1", eof}},
		{"type of old clients", "Content-Length: 1\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\n\r\n1", []string{"1", eof}},
		{"charset quoted, in capitals", "Content-Length: 1\r\nContent-Type: application/json; charset=\"UTF-8\"\r\n\r\n1", []string{"1", eof}},
		{"no charset", "Content-Length: 1\r\nContent-Type: application/json\r\n\r\n1", []string{"1", eof}},
		{"the same length twice", "Content-Length: 1\r\nContent-Length: 1\r\n\r\n1" + next, []string{"1", "{}", eof}},

		{"another charset", "Content-Length: 4\r\nContent-Type: application/json; charset=utf-16\r\n\r\n\x001\x002" + next, []string{badBody, "{}", eof}},
		{"no media type", "Content-Length: 1\r\nContent-Type: ;;\r\n\r\n1" + next, []string{badBody, "{}", eof}},
		{"too large", framed(pad(101)) + next, []string{tooLarge, "{}", eof}},
		{"too large, the most that is passed over", framed(pad(200)) + next, []string{tooLarge, "{}", eof}},
		{"too large to pass over", framed(pad(201)) + next, []string{"[Invalid Request (-32600) final]"}},
		{"9999999999", "Content-Length: 9999999999\r\n\r\n", []string{"[Invalid Request (-32600) final]"}},
		{"past 64 bits", "Content-Length: 99999999999999999999999999\r\n\r\n", []string{"[Invalid Request (-32600) final]"}},

		{"no length", "Content-Type: application/json\r\n\r\n1" + next, []string{badFrame}},
		{"no field at all", "\r\n1" + next, []string{badFrame}},
		{"negative", "Content-Length: -1\r\n\r\n1", []string{badFrame}},
		{"signed", "Content-Length: +1\r\n\r\n1", []string{badFrame}},
		{"hexadecimal", "Content-Length: 0x1\r\n\r\n1", []string{badFrame}},
		{"with a fraction", "Content-Length: 1.0\r\n\r\n1", []string{badFrame}},
		{"with a blank", "Content-Length: 1 1\r\n\r\n1", []string{badFrame}},
		{"a list", "Content-Length: 1, 1\r\n\r\n1", []string{badFrame}},
		{"empty", "Content-Length:\r\n\r\n1", []string{badFrame}},
		{"two lengths", "Content-Length: 1\r\nContent-Length: 2\r\n\r\n12", []string{badFrame}},
		{"a blank before the colon", "Content-Length : 1\r\n\r\n1", []string{badFrame}},
		{"a folded line", "Content-Length: 1\r\n folded\r\n\r\n1", []string{badFrame}},
		{"no colon", "hello\r\n\r\n", []string{badFrame}},
		{"a line of JSON", `{"jsonrpc":"2.0"}` + "\n", []string{badFrame}},
		{"a good one before", next + "Content-Length: x\r\n\r\n", []string{"{}", badFrame}},

		{"the longest line", "X: " + pad(4093) + "\r\n" + next, []string{"{}", eof}},
		{"a line too long", "X: " + pad(4094) + "\r\n" + next, []string{badFrame}},
		{"a line without end", pad(50_000), []string{badFrame}},
		// the second line exceeds it
		{"the longest block", "X: " + pad(4000) + "\r\nY: " + pad(4159) + "\r\n" + next, []string{badFrame}},
		{"a block at the bound", blockOf(8192), []string{"{}", eof}},
		{"a block over the bound", blockOf(8193), []string{badFrame}},
		{"16 fields", strings.Repeat("X: 1\r\n", 15) + next, []string{"{}", eof}},
		{"17 fields", strings.Repeat("X: 1\r\n", 16) + next, []string{badFrame}},

		{"cut off in a field", "Content-Len", []string{cutOff}},
		{"cut off before the blank line", "Content-Length: 1\r\n", []string{cutOff}},
		{"cut off before the body", "Content-Length: 1\r\n\r\n", []string{cutOff}},
		{"cut off in the body", next + "Content-Length: 10\r\n\r\n{", []string{"{}", cutOff}},
	})
}

// blockOf returns a message whose header block has n bytes in total.
func blockOf(n int) string {
	const tail = "Content-Length: 2\r\n\r\n"
	half := "X: " + strings.Repeat("p", 4000) + "\r\n"
	rest := n - len(half) - len(tail) - len("Y: \r\n")
	if rest <= 4000 {
		panic("blockOf: two fields are enough only for larger blocks")
	}
	third := rest / 2
	return half + "Y: " + strings.Repeat("q", rest-third-len("Z: \r\n")) + "\r\nZ: " + strings.Repeat("r", third) + "\r\n" + tail + "{}"
}

// TestHeaderWrite checks that the length counts bytes, and that the payload is sent unchanged.
func TestHeaderWrite(t *testing.T) {
	tape := transporttest.Play(io.EOF)
	w := stream.New(tape, stream.Header, nil)
	var b jsonrpc.Burst
	b.Add([]byte("{\n\"ü\":1}"))
	b.Add([]byte("[]"))
	if err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	const want = "Content-Length: 9\r\n\r\n{\n\"ü\":1}" + "Content-Length: 2\r\n\r\n[]"
	if got := tape.Writes(); len(got) != 1 || string(got[0]) != want {
		t.Errorf("wrote %q, want %q in one call", got, want)
	}
}
