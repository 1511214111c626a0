package check

import (
	"fmt"
)

// rawStream returns a rule about the bytes of a stream, on a connection of its own.
//
//go:noinline
func rawStream(id string, level Level, section string, f func(s *session, w *streamWire) *finding) rule {
	return rule{id: "framing/" + id, level: level, section: section, on: kindStream, run: func(s *session) *finding {
		w, err := s.dial()
		if err != nil {
			return failed("%s", plainError(err))
		}
		defer w.close()
		return f(s, w.(*streamWire))
	}}
}

// lastMessage sends bytes and the end of the stream, and then reads the response.
func (s *session) lastMessage(w *streamWire, raw []byte, about string, expected want) *finding {
	half, ok := w.c.(interface{ CloseWrite() error })
	if !ok {
		return skipped("the transport has no half-close")
	}
	s.lastSent = about
	if err := w.sendRaw(raw); err != nil {
		return failed("%s", plainError(err))
	}
	if err := half.CloseWrite(); err != nil {
		return failed("%s", plainError(err))
	}
	return s.answers(w, expected)
}

func framingRules() []rule {
	lines := func(r rule) rule { r.lines = true; return r }
	headers := func(r rule) rule { r.headers = true; return r }
	const lsp = "LSP 3.17, Base Protocol"
	head := func(id string, head func(n int) string) rule {
		return headers(rawStream(id, Must, lsp, func(s *session, w *streamWire) *finding {
			payload, expected := s.probe()
			raw := head(len(payload)) + payload
			s.lastSent = raw
			if err := w.sendRaw([]byte(raw)); err != nil {
				return failed("%s", plainError(err))
			}
			return s.answers(w, expected)
		}))
	}
	return []rule{
		rawStream("bytes", Must, "RFC 9293, 3.9", func(s *session, w *streamWire) *finding {
			payload, expected := s.echoOrUnknown(s.nextID(), "one byte at a time: é漢😀")
			s.lastSent = payload + " one byte at a time"
			for _, b := range w.frame([]byte(payload)) {
				if err := w.sendRaw([]byte{b}); err != nil {
					return failed("%s", plainError(err))
				}
			}
			return s.answers(w, expected)
		}),
		rawStream("one-write", Must, "RFC 9293, 3.9", func(s *session, w *streamWire) *finding {
			var raw []byte
			open := map[string]want{}
			for i := range 50 {
				payload, expected := s.echoOrUnknown(fmt.Sprint(i), fmt.Sprintf("write %d", i))
				open[fmt.Sprint(i)] = expected
				raw = append(raw, w.frame([]byte(payload))...)
			}
			s.lastSent = "50 requests in one write"
			if err := w.sendRaw(raw); err != nil {
				return failed("%s", plainError(err))
			}
			return s.collect(w, open, false)
		}),
		rawStream("split-message", Must, "RFC 9293, 3.9", func(s *session, w *streamWire) *finding {
			payload, expected := s.probe()
			second, expectedToo := s.probe()
			all := append(w.frame([]byte(payload)), w.frame([]byte(second))...)
			s.lastSent = string(all) + " in two writes, of which the first ends within the second message"
			cut := len(all) - len(second)/2
			if err := w.sendRaw(all[:cut]); err != nil {
				return failed("%s", plainError(err))
			}
			if f := s.answers(w, expected); f != nil {
				return failed("the first message: %s", f.why)
			}
			if err := w.sendRaw(all[cut:]); err != nil {
				return failed("%s", plainError(err))
			}
			return s.answers(w, expectedToo)
		}),
		lines(rawStream("crlf", Must, jsonText+"2", func(s *session, w *streamWire) *finding {
			payload, expected := s.probe()
			s.lastSent = payload + "\r\n"
			if err := w.sendRaw([]byte(payload + "\r\n")); err != nil {
				return failed("%s", plainError(err))
			}
			return s.answers(w, expected)
		})),
		lines(rawStream("empty-lines", Should, unwritten, func(s *session, w *streamWire) *finding {
			payload, expected := s.probe()
			s.lastSent = "\n\r\n" + payload + "\n"
			if err := w.sendRaw([]byte(s.lastSent)); err != nil {
				return failed("%s", plainError(err))
			}
			return s.answers(w, expected)
		})),
		rawStream("half-close", Should, unwritten, func(s *session, w *streamWire) *finding {
			payload, expected := s.probe()
			return s.lastMessage(w, w.frame([]byte(payload)), payload+" and the end of the stream", expected)
		}),
		lines(rawStream("last-line", Should, unwritten, func(s *session, w *streamWire) *finding {
			payload, expected := s.probe()
			return s.lastMessage(w, []byte(payload), payload+" without a newline, and the end of the stream", expected)
		})),
		head("lower-case", func(n int) string { return fmt.Sprintf("content-length: %d\r\n\r\n", n) }),
		head("content-type", func(n int) string {
			return fmt.Sprintf("Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n", n)
		}),
		head("no-space", func(n int) string { return fmt.Sprintf("Content-Length:%d\r\n\r\n", n) }),
		headers(sends("framing/length-in-bytes", Must, lsp, `{"jsonrpc":"2.0","method":"$ECHO","params":["é漢😀"],"id":1}`, gives("1", `["é漢😀"]`))),
	}
}
