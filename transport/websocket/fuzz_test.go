package websocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/transport/transporttest"
)

const fuzzLimit = 5000

// FuzzRead compares the reader with an oracle that sees all bytes at once, for any bytes and any
// split: same messages, same close code.
func FuzzRead(f *testing.F) {
	seeds := 0
	for _, group := range [][]behaviour{framing(), pings(), reservedBits(), opcodes(), fragmentation(), utf8Cases(), closeFrames()} {
		for i, b := range group {
			r := roles[i%2]
			var wire []byte
			for _, frame := range b.send {
				wire = append(wire, r.raw(frame.bits, frame.payload)...)
			}
			// long inputs slow down the fuzzer, which tries to shorten them
			if len(wire) < 2*fuzzLimit {
				f.Add(wire, uint64(i), r.client)
				seeds++
			}
		}
	}
	if seeds < 230 {
		f.Fatalf("%d seeds", seeds)
	}
	f.Fuzz(func(t *testing.T, wire []byte, seed uint64, client bool) {
		r := roles[0]
		if client {
			r = roles[1]
		}
		wantMessages, wantCode := oracle(wire, !client, fuzzLimit)
		rng := rand.New(rand.NewPCG(seed, 1))
		var pieces [][]byte
		for rest := wire; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(1<<rng.IntN(13)))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		for name, chunks := range map[string][][]byte{"whole": {wire}, "split": pieces} {
			gotMessages, gotCode := r.replay(t, chunks)
			if !slices.Equal(gotMessages, wantMessages) || gotCode != wantCode {
				t.Fatalf("%s, %s:\n got %q, %d\nwant %q, %d\nwire % x", r.name, name, gotMessages, gotCode, wantMessages, wantCode, wire)
			}
		}
	})
}

// replay reads all messages of the chunks, and the code of the close frame that was sent; 0 if the
// chunks just ended.
func (r role) replay(t *testing.T, chunks [][]byte) (messages []string, code int) {
	tape := transporttest.Play(transporttest.ErrSilence, chunks...)
	tr := newTransport(tape, r.client, &Options{MaxMessage: fuzzLimit, PingInterval: -1}, "", nil)
	promised := false
	for {
		p, more, err := tr.Read()
		if err == nil {
			messages, promised = append(messages, string(p)), more
			continue
		}
		silent := errors.Is(err, transporttest.ErrSilence)
		if silent && promised {
			t.Fatalf("more was true, and then nothing came: %q", messages)
		}
		tr.Close()
		if silent {
			return messages, 0
		}
		break
	}
	for in := bytes.NewReader(tape.Written()); ; {
		f, err := r.readFrame(in)
		if err != nil {
			t.Fatalf("no close frame: %v", err)
		}
		if f.bits == close8 {
			if len(f.payload) < 2 {
				return messages, int(CloseNoStatus)
			}
			return messages, int(binary.BigEndian.Uint16([]byte(f.payload)))
		}
	}
}

// oracle implements RFC 6455, section 5, with this package's limits, without any regard for speed.
func oracle(wire []byte, masked bool, limit int) (messages []string, code int) {
	var message []byte
	open, fragments, pings := false, 0, 0
	for in := wire; len(in) > 0; {
		op := opcode(in[0] & 15)
		fin := in[0]&0x80 != 0
		if in[0]&0x70 != 0 || 3 <= op && op <= 7 || op >= 11 || op >= 8 && !fin {
			return messages, 1002
		}
		if len(in) < 2 {
			return messages, 0
		}
		length, size := uint64(in[1]&0x7F), 2
		if (in[1]&0x80 != 0) != masked || op >= 8 && length > 125 {
			return messages, 1002
		}
		var long [8]byte
		switch length {
		case 126:
			size = 4
			if len(in) < size {
				return messages, 0
			}
			copy(long[6:], in[2:4])
			if length = binary.BigEndian.Uint64(long[:]); length <= 125 {
				return messages, 1002
			}
		case 127:
			size = 10
			if len(in) < size {
				return messages, 0
			}
			copy(long[:], in[2:10])
			if length = binary.BigEndian.Uint64(long[:]); length <= 65535 || length > 1<<63-1 {
				return messages, 1002
			}
		}
		var mask [4]byte
		if masked {
			if len(in) < size+4 {
				return messages, 0
			}
			copy(mask[:], in[size:])
			size += 4
		}
		body := bytes.Clone(in[size:])
		complete := uint64(len(body)) >= length
		if complete {
			body = body[:length]
		}
		for i := range body {
			body[i] ^= mask[i%4]
		}
		if op >= 8 {
			if !complete {
				return messages, 0
			}
			switch op {
			case opPing:
				if pings++; pings == 103 {
					return messages, 1008
				}
			case opClose:
				return messages, oracleClose(body)
			}
			in = in[size+int(length):]
			continue
		}

		fragments++
		switch {
		case (op == opContinuation) != open:
			return messages, 1002
		case op == opBinary:
			return messages, 1003
		case length > uint64(limit-len(message)), fragments > 1024:
			return messages, 1009
		}
		open = true
		message = append(message, body...)
		if !canBecomeUTF8(message) || complete && fin && !utf8.Valid(message) {
			return messages, 1007
		}
		if !complete {
			return messages, 0
		}
		if fin {
			if len(bytes.Trim(message, " \t\r\n")) > 0 {
				messages = append(messages, string(message))
			}
			message, open, fragments = nil, false, 0
		}
		in = in[size+int(length):]
	}
	return messages, 0
}

func oracleClose(body []byte) int {
	if len(body) == 0 {
		return int(CloseNoStatus)
	}
	if len(body) == 1 {
		return 1002
	}
	code := int(binary.BigEndian.Uint16(body))
	switch {
	case code < 1000, code > 4999, code >= 1015 && code < 3000, code == 1004, code == 1005, code == 1006:
		return 1002
	case !utf8.Valid(body[2:]):
		return 1007
	}
	return code
}

// canBecomeUTF8 tries all ends that a cut-off character can have.
func canBecomeUTF8(b []byte) bool {
	for _, first := range []string{"", "\x80", "\x90", "\xA0", "\x8F"} {
		for _, rest := range []string{"", "\x80", "\x80\x80"} {
			if utf8.Valid(slices.Concat(b, []byte(first), []byte(rest))) {
				return true
			}
		}
	}
	return false
}

// FuzzWrite sends payloads from one role to the other and checks that the same payloads are read.
func FuzzWrite(f *testing.F) {
	for _, n := range []int{1, 3, 62, 63, 125, 126, 500} {
		f.Add(bytes.Repeat([]byte("a\n"), n), uint16(n), false)
		f.Add(bytes.Repeat([]byte("é"), n), uint16(2*n), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint16, client bool) {
		data = bytes.ToValidUTF8(data, nil)
		var sent []string
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+int(size))
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n++
			}
			if !blank(rest[:n], 0) {
				sent = append(sent, string(rest[:n]))
			}
			rest = rest[n:]
		}
		out := transporttest.Play(io.EOF)
		w := newTransport(out, client, nil, "", nil)
		if err := w.Write(burst(sent...)); err != nil {
			t.Fatal(err)
		}
		r := newTransport(transporttest.Play(io.EOF, out.Writes()...), !client, &Options{MaxMessage: -1}, "", nil)
		for i, want := range sent {
			p, more, err := r.Read()
			if err != nil || string(p) != want {
				t.Fatalf("message %d is %q, %v, want %q", i, p, err, want)
			}
			if more && i == len(sent)-1 {
				t.Fatal("more is true behind the last message")
			}
		}
		w.Close()
		r.Close()
	})
}
