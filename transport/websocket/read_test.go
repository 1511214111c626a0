package websocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// tape returns a Transport that reads chunks and then nothing.
func (r role) tape(t testing.TB, o *Options, chunks ...[]byte) (*Transport, *transporttest.Tape) {
	tape := transporttest.Play(transporttest.ErrSilence, chunks...)
	return r.over(t, tape, o), tape
}

// TestMore checks that more promises that the next Read does not wait, so blank messages, control
// frames and halves do not count.
func TestMore(t *testing.T) {
	for _, r := range roles {
		first, second, blank := r.raw(fin|text, "[1]"), r.raw(fin|text, "[2]"), r.raw(fin|text, " \r\n\t")
		halves := [][]byte{r.raw(text, "[2"), r.raw(fin, "]")}
		for _, c := range []struct {
			name string
			rest [][]byte
			want bool
		}{
			{"nothing", nil, false},
			{"another", [][]byte{second}, true},
			{"another without its last byte", [][]byte{second[:len(second)-1]}, false},
			{"half a header", [][]byte{second[:1]}, false},
			{"a blank one", [][]byte{blank}, false},
			{"an empty one", [][]byte{r.raw(fin|text, "")}, false},
			{"a blank one, then another", [][]byte{blank, second}, true},
			{"blank fragments, then another", [][]byte{r.raw(text, " "), r.raw(fin, "\n"), second}, true},
			{"a ping", [][]byte{r.raw(pingBits, "x")}, false},
			{"a ping, then another", [][]byte{r.raw(pingBits, "x"), second}, true},
			{"both halves", halves, true},
			{"both halves, a ping between", [][]byte{halves[0], r.raw(pingBits, ""), halves[1]}, true},
			{"the first half", halves[:1], false},
			{"a binary one", [][]byte{r.raw(fin|binary2, "[2]")}, false},
			{"a continuation without a message", [][]byte{r.raw(fin, "[2]")}, false},
			{"one within another", [][]byte{halves[0], second}, false},
			{"reserved bits", [][]byte{r.raw(0xC1, "[2]")}, false},
			{"a close frame, then another", [][]byte{r.raw(close8, ""), second}, false},
		} {
			t.Run(r.name+"/"+c.name, func(t *testing.T) {
				tr, _ := r.tape(t, nil, append(first, bytes.Join(c.rest, nil)...))
				p, more, err := tr.Read()
				if err != nil || string(p) != "[1]" || more != c.want {
					t.Fatalf("Read = %q, %v, %v, want [1], %v", p, more, err, c.want)
				}
				if !c.want {
					return
				}
				if p, more, err := tr.Read(); err != nil || string(p) != "[2]" || more {
					t.Fatalf("second Read = %q, %v, %v, want [2]", p, more, err)
				}
			})
		}
	}
}

func TestBlankMessagesAreSkipped(t *testing.T) {
	for _, r := range roles {
		tr, _ := r.tape(t, nil, bytes.Join([][]byte{
			r.raw(fin|text, ""), r.raw(fin|text, "\n"), r.raw(text, " "), r.raw(fin, "\t"), r.raw(fin|text, " 1"), r.raw(fin|text, "\u00a0"),
		}, nil))
		for _, want := range []string{" 1", "\u00a0"} {
			if p, _, err := tr.Read(); err != nil || string(p) != want {
				t.Fatalf("%s: Read = %q, %v, want %q", r.name, p, err, want)
			}
		}
	}
}

func TestMessageLimit(t *testing.T) {
	const limit = 1000
	full, over := strings.Repeat("x", limit), strings.Repeat("x", limit+1)
	for _, r := range roles {
		for _, c := range []struct {
			name string
			send [][]byte
			ok   bool
		}{
			{"exactly", [][]byte{r.raw(fin|text, full)}, true},
			{"exactly, in fragments", [][]byte{r.raw(text, full[:400]), r.raw(0, full[400:]), r.raw(fin, "")}, true},
			{"one more", [][]byte{r.raw(fin|text, over)}, false},
			{"one more, in fragments", [][]byte{r.raw(text, full[:400]), r.raw(0, full[400:]), r.raw(fin, "x")}, false},
			{"the header alone", [][]byte{r.raw(fin|text, over)[:8]}, false},
			{"63 bits", [][]byte{append([]byte{fin | text, 0x7F | r.raw(fin, "")[1]}, "\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00"...)}, false},
		} {
			t.Run(r.name+"/"+c.name, func(t *testing.T) {
				tr, tape := r.tape(t, &Options{MaxMessage: limit}, bytes.Join(c.send, nil))
				p, _, err := tr.Read()
				if c.ok {
					if err != nil || string(p) != full {
						t.Fatalf("Read = %d bytes, %v, want %d", len(p), err, limit)
					}
					return
				}
				f, ok := errors.AsType[*jsonrpc.FrameError](err)
				if !ok || !f.Final || f.Answer != nil || !errors.Is(err, jsonrpc.ErrTooLarge) {
					t.Fatalf("Read = %v, want a final FrameError without an answer that is ErrTooLarge", err)
				}
				tr.Close()
				if got, err := r.readFrame(bytes.NewReader(tape.Written())); err != nil || got.bits != close8 || got.payload[:2] != closing(1009, "") {
					t.Errorf("the peer was told %s, %v, want 1009", got, err)
				}
			})
		}
	}
}

// TestLengthIsNotTrusted checks that a large length in a header does not allocate memory.
func TestLengthIsNotTrusted(t *testing.T) {
	for _, r := range roles {
		head := append([]byte{fin | text, 0x7F | r.raw(fin, "")[1]}, "\x00\x00\x00\xff\x00\x00\x00\x00\x00\x00\x00\x00some bytes"...)
		tr, _ := r.tape(t, &Options{MaxMessage: -1}, head)
		if _, _, err := tr.Read(); !errors.Is(err, transporttest.ErrSilence) {
			t.Fatalf("Read = %v, want silence", err)
		}
		if len(tr.in.buf) > readSize {
			t.Errorf("%s: a buffer of %d bytes for %d", r.name, len(tr.in.buf), len(head))
		}
	}
}

// TestGrowth checks that messages around the sizes of the buffers, one after the other and split
// anywhere, arrive whole.
func TestGrowth(t *testing.T) {
	for _, r := range roles {
		for _, c := range []struct {
			sizes, around, splits []int
		}{
			{classes[:4], []int{-15, -1, 0, 1, 20}, []int{1000, 4099, 1 << 20}},
			{[]int{4 << 20}, []int{20}, []int{64 << 10, 6 << 20}},
		} {
			var wire []byte
			var want []string
			for _, n := range c.sizes {
				for _, d := range c.around {
					p := strings.Repeat("é23", (n+d)/4)
					want = append(want, p, `"between"`)
					wire = append(wire, r.raw(fin|text, p)...)
					wire = append(wire, r.raw(text, `"bet`)...)
					wire = append(wire, r.raw(fin, `ween"`)...)
				}
			}
			for _, size := range c.splits {
				tr, _ := r.tape(t, &Options{MaxMessage: 8 << 20}, transporttest.Split(wire, size)...)
				for i, want := range want {
					p, _, err := tr.Read()
					if err != nil || string(p) != want {
						t.Fatalf("%s, split by %d: message %d has %d bytes, %v, want %d", r.name, size, i, len(p), err, len(want))
					}
				}
			}
		}
	}
}

// TestPeerCloses checks the error of Read when the peer ends the connection, and that it is
// returned again.
func TestPeerCloses(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes func(r role) []byte
		want  error
	}{
		{"normal", func(r role) []byte { return r.raw(close8, closing(1000, "done")) }, io.EOF},
		{"going away", func(r role) []byte { return r.raw(close8, closing(1001, "")) }, io.EOF},
		{"no code", func(r role) []byte { return r.raw(close8, "") }, io.EOF},
		{"a reason", func(r role) []byte { return r.raw(close8, closing(1013, "later")) }, &CloseError{CloseTryLater, "later"}},
		{"no close frame", func(r role) []byte { return nil }, &CloseError{Code: CloseAbnormal}},
		{"half a message", func(r role) []byte { return r.raw(fin|text, "[1]")[:3] }, &CloseError{Code: CloseAbnormal}},
	} {
		for _, r := range roles {
			tr, conn := r.start(t, nil)
			write(t, conn, r.raw(fin|text, "[0]"), c.bytes(r))
			conn.Close()
			if p, _, err := tr.Read(); err != nil || string(p) != "[0]" {
				t.Fatalf("%s, %s: Read = %q, %v", r.name, c.name, p, err)
			}
			for range 2 {
				_, _, err := tr.Read()
				if said, ok := errors.AsType[*CloseError](err); ok {
					want, _ := errors.AsType[*CloseError](c.want)
					if want == nil || *said != *want || errors.Is(err, io.ErrUnexpectedEOF) != (said.Code == CloseAbnormal) {
						t.Errorf("%s, %s: Read = %#v, want %#v", r.name, c.name, said, c.want)
					}
				} else if err != c.want {
					t.Errorf("%s, %s: Read = %v, want %v", r.name, c.name, err, c.want)
				}
			}
			tr.Close()
			if err := tr.Write(burst("1")); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: Write = %v, want an error that is no end of file", r.name, c.name, err)
			}
		}
	}
}

// TestOneSystemCall checks that a burst of 50 is 50 frames in one write, and that each frame of a
// client has its own mask.
func TestOneSystemCall(t *testing.T) {
	for _, r := range roles {
		tr, tape := r.tape(t, nil)
		var b jsonrpc.Burst
		for range 50 {
			b.Add([]byte(`{"jsonrpc":"2.0"}`))
		}
		if err := tr.Write(b); err != nil {
			t.Fatal(err)
		}
		writes := tape.Writes()
		if len(writes) != 1 {
			t.Fatalf("%s: %d writes, want 1", r.name, len(writes))
		}
		in := bytes.NewReader(writes[0])
		keys := map[uint32]bool{}
		for range 50 {
			if r.client {
				keys[binary.LittleEndian.Uint32(writes[0][len(writes[0])-in.Len()+2:])] = true
			}
			if f, err := r.readFrame(in); err != nil || f != msg(`{"jsonrpc":"2.0"}`) {
				t.Fatalf("%s: %s, %v", r.name, f, err)
			}
		}
		if r.client && len(keys) < 49 { // two equal keys in 50 would be rare, more are a mistake
			t.Errorf("50 frames under %d masks", len(keys))
		}
	}
}

// TestLargeWrites writes bursts over the size of the write buffer, with frame boundaries around its
// end.
func TestLargeWrites(t *testing.T) {
	for _, r := range roles {
		for _, size := range []int{writeSize - 15, writeSize - 1, writeSize, writeSize + 1, 3*writeSize + 5} {
			tr, tape := r.tape(t, nil)
			large := strings.Repeat("0123456789abcde", size/15+1)[:size]
			sent := []string{"[1]", large, "[2]", large, "[3]"}
			if err := tr.Write(burst(sent...)); err != nil {
				t.Fatal(err)
			}
			in := bytes.NewReader(tape.Written())
			for i, want := range sent {
				if f, err := r.readFrame(in); err != nil || f != msg(want) {
					t.Fatalf("%s, %d bytes: frame %d is %s, %v", r.name, size, i, f, err)
				}
			}
			if in.Len() > 0 {
				t.Errorf("%s: %d bytes too many", r.name, in.Len())
			}
		}
	}
}

// brokenConn fails the n-th write.
type brokenConn struct {
	*transporttest.Tape
	left int
}

var errBroken = errors.New("broken on purpose")

func (c *brokenConn) Write(p []byte) (int, error) {
	if c.left--; c.left < 0 {
		return len(p) / 2, errBroken
	}
	return c.Tape.Write(p)
}

// TestBrokenWrite checks that a write that fails ends the connection permanently, and that no frame
// follows the torn one.
func TestBrokenWrite(t *testing.T) {
	for _, r := range roles {
		tape := transporttest.Play(transporttest.ErrSilence)
		tr := r.over(t, &brokenConn{tape, 1}, nil)
		if err := tr.Write(burst("[1]")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := tr.Write(burst("[2]")); !errors.Is(err, errBroken) {
				t.Errorf("%s: Write = %v, want %v", r.name, err, errBroken)
			}
		}
		if _, _, err := tr.Read(); !errors.Is(err, errBroken) {
			t.Errorf("%s: Read = %v, want %v", r.name, err, errBroken)
		}
		tr.Close()
		if n := len(tape.Writes()); n != 1 || !tape.Closed() {
			t.Errorf("%s: %d writes, closed %v, want 1 and true", r.name, n, tape.Closed())
		}
	}
}

// TestPongs checks that each ping gets a pong with its payload, in order, before what is written
// later.
func TestPongs(t *testing.T) {
	for _, r := range roles {
		tr, conn := r.start(t, nil)
		var pings []byte
		for _, p := range []string{"a", "b", ""} {
			pings = append(pings, r.raw(pingBits, p)...)
		}
		write(t, conn, pings, r.raw(fin|text, "[1]"))
		if _, _, err := tr.Read(); err != nil {
			t.Fatal(err)
		}
		if err := tr.Write(burst("[2]")); err != nil {
			t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(soon))
		var got []rawFrame
		for range 4 {
			f, err := r.readFrame(conn)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f)
		}
		if want := frames(pong("a"), pong("b"), pong(""), msg("[2]")); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", r.name, got, want)
		}
	}
}
