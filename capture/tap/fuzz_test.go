package tap

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/capture"
)

// notes is a sink that remembers.
type notes struct{ lines []string }

func (n *notes) payload(p []byte, size int) {
	n.lines = append(n.lines, fmt.Sprintf("payload %q %d", p, size))
}

func (n *notes) junk(p []byte, what string) {
	n.lines = append(n.lines, fmt.Sprintf("junk %q %s", p, what))
}

// inPieces gives data to a reader in pieces of n bytes; 0 is all at once.
func inPieces(r reader, data []byte, n int) {
	for len(data) > 0 {
		k := len(data)
		if n > 0 {
			k = min(k, n)
		}
		r.take(bytes.Clone(data[:k]))
		data = data[k:]
	}
	r.end()
}

// FuzzReaders: whatever comes, in whatever pieces, is read alike.
func FuzzReaders(f *testing.F) {
	for _, seed := range []string{
		"{\"a\":1}\r\n\n[]\nhalf", "Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]", "content-length: 2\n\n{}\r\n\r\nContent-Length: x\r\n\r\n",
		"Content-Length: 0\r\n\r\nContent-Le", "id: 1\nevent: message\ndata: {\ndata: }\n\ndata: x\r\n\r\n: c\r\rdata: y\n\n", "\x81\x02{}\x01\x01{\x80\x01}\x88\x02\x03\xe8\x89\x00",
		"\x81\x82\x01\x02\x03\x04zy\x81\x7e\x00\x03abc\x82\x01\x00\x83\x00", "\xc1\x07\xaa\x56\x2a\x2e\x01\x00\x00", "HTTP/1.1 200 OK\r\n\r\n",
	} {
		f.Add([]byte(seed), 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		for name, open := range map[string]func(*notes) reader{
			"auto":   func(s *notes) reader { return newReader(Auto, s) },
			"line":   func(s *notes) reader { return newReader(Line, s) },
			"header": func(s *notes) reader { return newReader(Header, s) },
			"frames": func(s *notes) reader { return &frames{s: s} },
			"events": func(s *notes) reader {
				return &events{found: func(data []byte, id string, size int) {
					s.lines = append(s.lines, fmt.Sprintf("event %q %q %d", data, id, size))
				}}
			},
		} {
			whole, pieces := new(notes), new(notes)
			inPieces(open(whole), data, 0)
			inPieces(open(pieces), data, max(1, n%17))
			if fmt.Sprint(whole.lines) != fmt.Sprint(pieces.lines) {
				t.Errorf("%s: %q is read as %q at once and as %q in pieces", name, data, whole.lines, pieces.lines)
			}
		}
	})
}

// FuzzHTTP: what passes is what came, in whatever pieces, and reading it does not fail.
func FuzzHTTP(f *testing.F) {
	const post = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
	f.Add([]byte(post+"Content-Length: 2\r\n\r\n{}"+post+"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
		[]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: {}\n\r\n1\r\n\n\r\n0\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), 3)
	f.Add([]byte("GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x02{}"), []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x02[]"), 1)
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x01\x00\x00\x10\x00\x00\x00\x02\x01\x04\x00\x00\x00\x01\x83\x84\x00\x00\x02\x00\x01\x00\x00\x00\x01{}"),
		[]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88\x00\x00\x02\x00\x01\x00\x00\x00\x01[]"), 4)
	f.Add([]byte("no HTTP at all"), []byte("HTTP/1.1 200 OK\r\n\r\nto the end"), 5)
	f.Fuzz(func(t *testing.T, out, in []byte, n int) {
		rec, err := capture.New(&capture.Options{MaxDisk: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Close()
		wire := rec.Wire(capture.WireInfo{})
		talk := &talk{wire: func() *capture.Wire { return wire }, ws: func() *capture.Wire { return rec.Wire(capture.WireInfo{}) }}
		request, response := &half{t: talk}, &half{t: talk, response: true}
		n = max(1, n%23)
		for _, way := range []struct {
			h    *half
			data []byte
		}{{request, out}, {response, in}} {
			var passed []byte
			for rest := way.data; len(rest) > 0; {
				k := min(n, len(rest))
				passed = way.h.filter(rest[:k], passed)
				rest = rest[k:]
			}
			if !bytes.Equal(passed, way.data) {
				t.Errorf("%q passed as %q", way.data, passed)
			}
			way.h.end()
		}
		talk.cut()
	})
}
