package check

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// webSocket returns a rule about WebSocket frames on a connection of its own.
//
//go:noinline
func webSocket(id string, level Level, section string, hard bool, f func(s *session, w *wsWire) *finding) rule {
	return rule{id: "ws/" + id, level: level, section: "RFC 6455, " + section, on: kindWS, hard: hard, run: func(s *session) *finding {
		w, err := s.dial()
		if err != nil {
			return failed("%s", plainError(err))
		}
		defer w.close()
		return f(s, w.(*wsWire))
	}}
}

// answers checks the response to a probe that was sent as raw bytes.
func (s *session) answers(w wire, expected want) *finding {
	raw, err := s.receive(w, s.lastSent, s.patience())
	s.lastReceived = string(raw)
	return reason(expected(reply{raw: raw, err: err}))
}

func wsRules() []rule {
	// ends wants that the server ends the connection after a broken frame, and goes on for others.
	// What it sends for a broken frame is not judged. If refused is not nil, a message may show that
	// the text of the frame was refused.
	ends := func(id string, level Level, section string, raw []byte, refused want) rule {
		return lenient(webSocket(id, level, section, true, func(s *session, w *wsWire) *finding {
			s.lastSent = fmt.Sprintf("frame %x", raw[:min(len(raw), 40)])
			if err := w.sendRaw(raw); err != nil {
				return nil
			}
			got, err := w.recv(s.patience())
			if f := s.alive(); f != nil {
				return f
			}
			if err == nil && refused != nil && refused(reply{raw: got}) == "" {
				return nil
			}
			if err == nil {
				return failed("a message was sent; the connection must fail")
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return failed("the connection stays open; it must fail with close code 1002 or 1007")
			}
			return nil
		}))
	}
	badText := frameOf(fin|opText, []byte("\"\xff\xfe\""))
	unmasked := append([]byte{fin | opText, 2}, "{}"...)
	return []rule{
		webSocket("ping", Must, "5.5.2", false, func(s *session, w *wsWire) *finding {
			s.lastSent = "ping with the payload parley-check, then a request"
			payload, expected := s.probe()
			if err := w.sendRaw(append(frameOf(fin|opPing, []byte("parley-check")), frameOf(fin|opText, []byte(payload))...)); err != nil {
				return failed("%s", plainError(err))
			}
			if f := s.answers(w, expected); f != nil {
				return f
			}
			for range 2 { // the pong may follow the response
				if len(w.pongs) > 0 {
					break
				}
				if _, err := w.recv(quiet * 5); err == nil {
					return failed("a message arrived that belongs to no request")
				}
			}
			if len(w.pongs) == 0 {
				return failed("no pong was sent for a ping")
			}
			if w.pongs[0] != "parley-check" {
				return failed("the pong has the payload %q instead of that of the ping", w.pongs[0])
			}
			return nil
		}),
		webSocket("pong", Must, "5.5.3", false, func(s *session, w *wsWire) *finding {
			payload, expected := s.probe()
			s.lastSent = "a pong that no ping asked for, then " + payload
			if err := w.sendRaw(append(frameOf(fin|opPong, []byte("unasked")), frameOf(fin|opText, []byte(payload))...)); err != nil {
				return failed("%s", plainError(err))
			}
			return s.answers(w, expected)
		}),
		webSocket("empty-fragments", Should, "5.4", false, func(s *session, w *wsWire) *finding {
			payload, expected := s.probe()
			s.lastSent = payload + " between empty fragments"
			raw := append(frameOf(opText, nil), frameOf(opContinuation, []byte(payload))...)
			if err := w.sendRaw(append(raw, frameOf(fin|opContinuation, nil)...)); err != nil {
				return failed("%s", plainError(err))
			}
			return s.answers(w, expected)
		}),
		webSocket("close", Expect, "5.5.1", false, func(s *session, w *wsWire) *finding {
			s.lastSent = "a close frame with code 1000"
			if err := w.sendRaw(frameOf(fin|opClose, []byte{3, 232})); err != nil {
				return failed("%s", plainError(err))
			}
			for range 10 {
				_, err := w.recv(s.patience())
				switch {
				case err == nil:
				case errors.Is(err, os.ErrDeadlineExceeded):
					return failed("the close frame was not answered and the connection stays open")
				default:
					return nil
				}
			}
			return nil
		}),
		webSocket("close-frame", Must, "5.5.1", false, func(s *session, w *wsWire) *finding {
			if err := w.sendRaw(frameOf(fin|opClose, []byte{3, 232})); err != nil {
				return failed("%s", plainError(err))
			}
			_, err := w.recv(s.patience())
			if _, ok := errors.AsType[*closeError](err); !ok {
				return failed("the connection ended without a close frame")
			}
			return nil
		}),
		webSocket("fragments", Must, "5.4", false, func(s *session, w *wsWire) *finding {
			payload, expected := s.probe()
			s.lastSent = payload + " in three fragments"
			a, b := len(payload)/3, 2*len(payload)/3
			raw := frameOf(opText, []byte(payload[:a]))
			raw = append(raw, frameOf(opContinuation, []byte(payload[a:b]))...)
			if err := w.sendRaw(append(raw, frameOf(fin|opContinuation, []byte(payload[b:]))...)); err != nil {
				return failed("%s", plainError(err))
			}
			return s.answers(w, expected)
		}),
		webSocket("ping-between-fragments", Must, "5.4", false, func(s *session, w *wsWire) *finding {
			payload, expected := s.probe()
			s.lastSent = payload + " in two fragments with a ping between them"
			raw := append(frameOf(opText, []byte(payload[:9])), frameOf(fin|opPing, []byte("p"))...)
			if err := w.sendRaw(append(raw, frameOf(fin|opContinuation, []byte(payload[9:]))...)); err != nil {
				return failed("%s", plainError(err))
			}
			return s.answers(w, expected)
		}),
		webSocket("split-frame", Must, "5.2", false, func(s *session, w *wsWire) *finding {
			payload, expected := s.probe()
			s.lastSent = payload + " a few bytes at a time"
			raw := frameOf(fin|opText, []byte(payload))
			for i := 0; i < len(raw); i += 5 {
				if err := w.sendRaw(raw[i:min(i+5, len(raw))]); err != nil {
					return failed("%s", plainError(err))
				}
			}
			return s.answers(w, expected)
		}),
		webSocket("two-in-one-write", Must, "5.2", false, func(s *session, w *wsWire) *finding {
			var raw []byte
			for i := range 5 {
				payload, _ := s.echoOrUnknown(fmt.Sprint(i), "frames")
				raw = append(raw, frameOf(fin|opText, []byte(payload))...)
			}
			s.lastSent = "five requests in one write"
			if err := w.sendRaw(raw); err != nil {
				return failed("%s", plainError(err))
			}
			for i := range 5 {
				if _, err := s.receive(w, s.lastSent, s.patience()); err != nil {
					return failed("%d of 5 requests were answered: %s", i, plainError(err))
				}
			}
			return nil
		}),
		webSocket("binary", Free, "5.6", false, func(s *session, w *wsWire) *finding {
			payload, _ := s.probe()
			s.lastSent = payload + " in a binary frame"
			if err := w.sendRaw(frameOf(fin|opBinary, []byte(payload))); err == nil {
				_, _ = w.recv(s.patience()) // any reaction is right
			}
			return s.alive()
		}),
		ends("unmasked", Must, "5.1", unmasked, nil),
		ends("reserved-bits", Must, "5.2", frameOf(fin|0x40|opText, []byte("{}")), nil),
		ends("reserved-opcode", Must, "5.2", frameOf(fin|3, []byte("{}")), nil),
		ends("long-ping", Should, "5.5", frameOf(fin|opPing, bytes.Repeat([]byte("p"), 126)), nil),
		ends("continuation-first", Should, "5.4", frameOf(fin|opContinuation, []byte("{}")), nil),
		// Widely used libraries leave this to the application, whose parser of JSON refuses the text.
		ends("invalid-utf8", Must, "8.1", badText, fails("null")),
		ends("invalid-utf8/close", Should, "8.1", badText, nil),
	}
}
