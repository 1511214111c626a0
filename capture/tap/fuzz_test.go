package tap

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/capture"
)

// A notes is a sink that stores what it receives.
type notes struct{ lines []string }

func (n *notes) payload(p []byte, size int) {
	n.lines = append(n.lines, fmt.Sprintf("payload %q %d", p, size))
}

func (n *notes) junk(p []byte, what string) {
	n.lines = append(n.lines, fmt.Sprintf("junk %q %s", p, what))
}

// inPieces passes data to a reader in pieces of n bytes; 0 means all at once.
func inPieces(r reader, data []byte, n int) {
	for len(data) > 0 {
		k := len(data)
		if n > 0 {
			k = min(k, n)
		}
		r.feed(bytes.Clone(data[:k]))
		data = data[k:]
	}
	r.endInput()
}

// FuzzReaders checks that any input gives the same result for any division into pieces.
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

// FuzzHTTP checks that any input is forwarded unchanged for any division into pieces, and parsing
// it does not fail.
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
			way.h.endInput()
		}
		talk.cut()

		// If requests are rewritten, delayed bytes are sent in the end.
		again := &half{t: talk, rewrite: func(head []byte) []byte { return withHost(head, "x", nil) }}
		var passed []byte
		for rest := out; len(rest) > 0; {
			k := min(n, len(rest))
			passed = again.filter(rest[:k], passed)
			rest = rest[k:]
		}
		if passed = append(passed, again.takeHead()...); !bytes.Equal(passed, out) {
			t.Errorf("%q is rewritten as %q", out, passed)
		}
		again.endInput()
		talk.cut()
		if n := collected.Load(); n != 0 {
			t.Errorf("%d bytes count as collected at the end", n)
		}
	})
}

// FuzzHead checks that a head accepted by the fast parser gives the same result in net/http.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{
		"POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n", "GET / HTTP/1.1\r\nhost:h\r\nAccept:  text/html \r\nUpgrade: websocket\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 204\r\nX: a\r\n b\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", "HTTP/1.1 000 \n 0\r\n\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, response := range []bool{false, true} {
			if !strings.HasSuffix(text, "\r\n\r\n") || strings.Index(text, "\r\n\r\n") != len(text)-4 {
				continue // the end of a head is found before it is parsed
			}
			h := plainHead(text, response)
			if h == nil {
				continue
			}
			var fields http.Header
			var length int64
			var coding []string
			var what string
			if response {
				resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), &http.Request{Method: "POST"})
				if err != nil {
					t.Fatalf("%q is read as %+v; net/http says %v", text, h, err)
				}
				_ = resp.Body.Close() // it has no content
				fields, length, coding, what = resp.Header, resp.ContentLength, resp.TransferEncoding, fmt.Sprint(resp.StatusCode)
				if resp.StatusCode < 200 || resp.StatusCode == 204 || resp.StatusCode == 304 {
					// Such a response has no body, regardless of its head.
					length, coding = h.length, nil
					h.chunked = false
				}
			} else {
				req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
				if err != nil {
					continue // such as a wrong Host: recording it is harmless
				}
				fields, length, coding, what = req.Header, req.ContentLength, req.TransferEncoding, req.Method+" "+req.RequestURI
				if req.Host != "" {
					fields.Set("Host", req.Host)
				}
			}
			own := strings.TrimSpace(h.method + " " + h.uri)
			if response {
				own = fmt.Sprint(h.status)
			}
			if own != what || h.length != length || h.chunked != slices.Contains(coding, "chunked") || h.kind != mediaType(fields.Get("Content-Type")) {
				t.Errorf("%q is read as %q %d %t %q, by net/http as %q %d %q %q", text, own, h.length, h.chunked, h.kind, what, length, coding, fields.Get("Content-Type"))
			}
		}
	})
}
