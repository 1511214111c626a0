package stream_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// seed adds the wire files, and fails if there are no files.
func seed(f *testing.F, glob string) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", glob))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds in testdata/%s: %v", glob, err)
	}
	for i, name := range files {
		wire, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, uint64(i))
	}
}

// pieces cuts wire at random.
func pieces(wire []byte, seed uint64) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	var chunks [][]byte
	for len(wire) > 0 {
		n := min(len(wire), 1+rng.IntN(1<<rng.IntN(12)))
		chunks, wire = append(chunks, wire[:n]), wire[n:]
	}
	return chunks
}

// sameInPieces reads wire whole and in pieces.
func sameInPieces(t *testing.T, f stream.Framer, o *stream.Options, wire []byte, seed uint64) []string {
	whole := read(stream.New(transporttest.Play(io.EOF, wire), f, o))
	for name, chunks := range map[string][][]byte{"pieces": pieces(wire, seed), "bytes": transporttest.Split(wire, 1)} {
		if got := read(stream.New(transporttest.Play(io.EOF, chunks...), f, o)); !slices.Equal(got, whole) {
			t.Fatalf("in %s the stream reads differently:\nwire  %q\nwhole  %q\npieces %q", name, wire, whole, got)
		}
	}
	return whole
}

// reference implements the framing by lines, without any buffer.
func reference(wire []byte, limit int) (events []string) {
	for line := range bytes.SplitSeq(wire, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		switch {
		case len(line) > limit:
			events = append(events, tooLarge)
		case len(bytes.Trim(line, " \t\r")) > 0:
			events = append(events, string(line))
		}
	}
	return append(events, eof)
}

func FuzzLine(f *testing.F) {
	seed(f, "*.lines")
	f.Fuzz(func(t *testing.T, wire []byte, seed uint64) {
		const limit = 100
		got := sameInPieces(t, stream.Line, &stream.Options{MaxMessage: limit}, wire, seed)
		if want := reference(wire, limit); !slices.Equal(got, want) {
			t.Fatalf("wire %q\ngot  %q\nwant %q", wire, got, want)
		}

		// Junk between two valid lines loses neither.
		const before, after = `{"before":1}`, `{"after":2}`
		around := slices.Concat([]byte(before+"\n"), wire, []byte("\n"+after+"\n"))
		got = read(stream.New(transporttest.Play(io.EOF, pieces(around, seed)...), stream.Line, &stream.Options{MaxMessage: limit}))
		if n := len(got); n < 3 || got[0] != before || got[n-2] != after || got[n-1] != eof {
			t.Fatalf("junk %q: got %q", wire, got)
		}
	})
}

func FuzzHeader(f *testing.F) {
	seed(f, "*.headers")
	f.Fuzz(func(t *testing.T, wire []byte, seed uint64) {
		o := &stream.Options{MaxMessage: 100, MaxSkip: 1000}
		sameInPieces(t, stream.Header, o, wire, seed)

		// A valid message before is never lost.
		const before = `{"before":1}`
		around := slices.Concat([]byte(framed(before)), wire)
		if got := sameInPieces(t, stream.Header, o, around, seed); got[0] != before {
			t.Fatalf("junk %q: got %q", wire, got)
		}
	})
}

// FuzzRoundTrip checks that written payloads are read again: byte for byte with headers, and with
// blanks for newlines on lines.
func FuzzRoundTrip(f *testing.F) {
	seed(f, "*.lines")
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		payloads := pieces(text, seed)
		for name, framer := range framers {
			var out jsonrpc.Burst
			var want []string
			for _, p := range payloads {
				out.Add(p)
				if framer == stream.Line {
					p = bytes.ReplaceAll(p, []byte("\n"), []byte(" "))
					p = bytes.TrimSuffix(p, []byte("\r"))
					if len(bytes.Trim(p, " \t\r")) == 0 {
						continue // a blank line, which is not a JSON text
					}
				}
				want = append(want, string(p))
			}
			tape := transporttest.Play(io.EOF)
			if err := stream.New(tape, framer, nil).Write(out); err != nil {
				t.Fatal(err)
			}
			got := read(stream.New(transporttest.Play(io.EOF, pieces(tape.Written(), seed+1)...), framer, nil))
			if !slices.Equal(got, append(want, eof)) {
				t.Fatalf("%s: wrote %q\nread %q", name, payloads, got)
			}
		}
	})
}
