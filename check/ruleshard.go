package check

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// hardRules send what a careless or hostile client sends. The response may be an error or the end
// of the connection, but other clients are still answered.
func hardRules() []rule {
	sends := func(id string, on int, needs string, exact bool, payload func(s *session) string) rule {
		return rule{id: "hard/" + id, level: Expect, section: unwritten, on: on, hard: true, needs: needs, run: func(s *session) *finding {
			text := payload(s)
			r := lenientAsk(s, text)
			if errors.Is(r.err, os.ErrDeadlineExceeded) && len(text) < 4<<20 {
				return failed("the server neither answers nor ends the connection within the time limit")
			}
			if why := changed(s, text, r, exact); why != "" {
				return failed("%s", why)
			}
			return s.alive()
		}}
	}
	survive := func(id string, on int, needs string, payload func(s *session) string) rule {
		return sends(id, on, needs, true, payload)
	}
	numbers := func(id, needs string, payload func(s *session) string) rule {
		return sends(id, anyKind, needs, false, payload)
	}
	nested := func(open, shut string, n int) func(s *session) string {
		return func(s *session) string {
			return request("1", s.anyMethod(), repeated(open, n)+"1"+repeated(shut, n))
		}
	}
	return []rule{
		survive("depth-1000", anyKind, "", nested("[", "]", 1000)),
		survive("depth-10000", anyKind, "", nested("[", "]", 10_000)),
		survive("depth-100000", anyKind, "", nested("[", "]", 100_000)),
		survive("depth-objects", anyKind, "", nested(`{"a":`, "}", 50_000)),
		survive("depth-unclosed", anyKind, "", func(*session) string { return repeated("[", 100_000) }),
		numbers("long-number", "", func(s *session) string { return request("1", s.anyMethod(), "["+repeated("9", 200_000)+"]") }),
		numbers("long-exponent", "", func(s *session) string {
			return request("1", s.anyMethod(), "[1e"+repeated("9", 100)+",1e999999999,1e-999999999]")
		}),
		numbers("numbers-for-named", "$NAMED", func(s *session) string { return request("1", s.o.Named, s.pair("1e999999999", "1", true, false)) }),
		survive("many-members", anyKind, "", func(s *session) string {
			var b strings.Builder
			for i := range 20_000 {
				fmt.Fprintf(&b, `"m%d":%d,`, i, i)
			}
			return request("1", s.anyMethod(), "{"+strings.TrimSuffix(b.String(), ",")+"}")
		}),
		survive("long-id", anyKind, "", func(s *session) string { return request(`"`+repeated("i", 200_000)+`"`, s.anyMethod(), "[]") }),
		survive("long-method", anyKind, "", func(*session) string { return request("1", repeated("m", 200_000), "[]") }),
		survive("two-mebibytes", anyKind, "", func(s *session) string { return request("1", s.anyMethod(), `["`+repeated("x", 2<<20)+`"]`) }),
		survive("eight-mebibytes", anyKind, "", func(s *session) string { return request("1", s.anyMethod(), `["`+repeated("x", 8<<20)+`"]`) }),
		{id: "hard/batch-of-5000", level: Expect, section: unwritten, on: anyKind, hard: true, needs: "$ECHO", run: func(s *session) *finding { return s.bigBatch(5000, true) }},
		survive("batch-of-invalid", anyKind, "", func(*session) string { return "[" + strings.TrimSuffix(repeated("1,", 20_000), ",") + "]" }),
		{id: "hard/parse-errors", level: Expect, section: unwritten, on: anyKind, hard: true, run: func(s *session) *finding {
			for i := range 100 {
				if why := fails("null", parseError)(s.ask(`{"jsonrpc":"2.0","method":`)); why != "" {
					return failed("text %d: %s", i+1, why)
				}
			}
			return s.stillOpen()
		}},
		{id: "hard/flood", level: Expect, section: unwritten, on: duplex, hard: true, run: func(s *session) *finding { return s.pipeline(2000) }},
		{id: "hard/panics", level: Expect, section: unwritten, on: anyKind &^ kindChild, hard: true, needs: "$PANIC", run: func(s *session) *finding {
			f := s.parallel(4, func(_ int, c *client) *finding {
				for i := range 25 {
					payload := request(fmt.Sprint(i), s.o.Panic, "")
					if why := fails(fmt.Sprint(i))(c.call(payload, s.patience())); why != "" {
						return &finding{sent: payload, why: why}
					}
				}
				return nil
			})
			if f != nil {
				return f
			}
			return s.alive()
		}},
		{id: "hard/long-call", level: Expect, section: unwritten, on: anyKind, hard: true, needs: "$SLEEP", run: func(s *session) *finding {
			c, err := s.client() // its time to wait does not shrink
			if err != nil {
				return failed("%s", plainError(err))
			}
			defer c.close()
			const long = 1500 * time.Millisecond
			s.lastSent = request("1", s.o.Sleep, fmt.Sprintf(`{"ms":%d}`, ms(long)))
			r := c.call(s.lastSent, s.o.Timeout+long)
			s.lastReceived = string(r.raw)
			return reason(gives("1", "")(r))
		}},
		{id: "hard/idle-connection", level: Expect, section: unwritten, on: anyKind, hard: true, run: func(s *session) *finding {
			payload, w := s.probe()
			if why := w(s.ask(payload)); why != "" {
				return failed("%s", why)
			}
			if err := s.pause(2 * time.Second); err != nil {
				return failed("%v", err)
			}
			return s.stillOpen()
		}},
		{id: "hard/unread-responses", level: Expect, section: unwritten, on: socket, hard: true, needs: "$ECHO", run: unreadResponses},
		{id: "hard/many-connections", level: Expect, section: unwritten, on: anyKind &^ kindChild, hard: true, run: func(s *session) *finding {
			return s.parallel(40, func(i int, c *client) *finding {
				for k := range 10 {
					payload, w := s.echoOrUnknown(fmt.Sprint(k), fmt.Sprintf("%d-%d", i, k))
					r := c.call(payload, s.patience()*2)
					if why := w(r); why != "" {
						return &finding{sent: payload, received: string(r.raw), why: "40 connections call at a time: " + why}
					}
				}
				return nil
			})
		}},
		{id: "hard/thousand-calls", level: Must, section: sectReply, on: anyKind, hard: true, run: func(s *session) *finding {
			for i := range 1000 {
				payload, w := s.echoOrUnknown(fmt.Sprint(i), fmt.Sprintf("call %d", i))
				if why := w(s.ask(payload)); why != "" {
					return failed("call %d of 1000: %s", i+1, why)
				}
			}
			return nil
		}},
		{id: "hard/broken-length", level: Expect, section: "LSP 3.17, Base Protocol", on: kindStream, headers: true, hard: true, run: func(s *session) *finding {
			for _, head := range []string{"Content-Length: -1\r\n\r\n{}", "Content-Length: x\r\n\r\n{}", "Content-Length: 99999999999\r\n\r\n{}", "\r\n\r\n{}", repeated("X-Long: y\r\n", 20_000)} {
				c, err := s.dial()
				if err != nil {
					return failed("%s", plainError(err))
				}
				s.lastSent = head
				w := c.(*streamWire)
				_ = w.sendRaw([]byte(head)) // the server may close
				awaitReaction(w.c)
				c.close()
			}
			return s.alive()
		}},
		{id: "hard/broken-requests", level: Expect, section: "RFC 9112, 3", on: kindHTTP, hard: true, run: func(s *session) *finding {
			for _, raw := range []string{
				"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n{}", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
				"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "GET\r\n\r\n", "POST / HTTP/9.9\r\n\r\n", "POST / HTTP/1.1\r\n" + repeated("X-Long: y\r\n", 20_000) + "\r\n",
			} {
				c, err := s.dialConn()
				if err != nil {
					return failed("%s", plainError(err))
				}
				_ = c.SetDeadline(time.Now().Add(s.patience())) // the error shows in Write
				s.lastSent = raw
				_, _ = io.WriteString(c, raw) // the server may close
				awaitReaction(c)
				_ = c.Close() // nothing is left to send
			}
			return s.alive()
		}},
	}
}

// reactionTime bounds the wait for what a server does with bytes that are not a message.
const reactionTime = 500 * time.Millisecond

// awaitReaction ends the sending side of c, and reads until the server ends its own, for at most
// reactionTime. Otherwise the server might read the bytes after the next check that it is alive.
func awaitReaction(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite() // the server may have closed
	}
	_ = c.SetReadDeadline(time.Now().Add(reactionTime)) // the error shows in Copy
	_, _ = io.CopyN(io.Discard, c, maxReply)            // what it sends does not matter
}

// changed reports why a response to a large request is wrong: an error is right, but a result has
// the request's id and, if exact is set, from the echoing method its params.
func changed(s *session, sent string, r reply, exact bool) string {
	m, err := parseMessage(r.raw)
	if r.raw == nil || err != nil || m.kind != '{' {
		return "" // no response, or one that the parser does not accept
	}
	if m.member("error") != nil {
		return ""
	}
	if m.member("result") == nil {
		return "neither result nor error is there"
	}
	call, err := parseMessage([]byte(sent))
	if err != nil {
		return "a result was returned for a text that is not JSON"
	}
	if why := sameID(string(call.member("id")), m); why != "" {
		return why
	}
	if exact && sameString(call.member("method"), s.o.Echo) {
		return resultIs(m, string(call.member("params")))
	}
	return ""
}

// lenientAsk sends a payload whose response may be anything, and does not judge it.
func lenientAsk(s *session, payload string) reply {
	before := s.seen
	s.seen = map[string]*finding{}
	late := s.lateCount
	r := s.ask(payload)
	if dead := s.seen["survival/alive"]; dead != nil && before["survival/alive"] == nil {
		before["survival/alive"] = dead
	}
	s.seen, s.lateCount = before, late
	return r
}

// unreadResponses sends calls and reads no response for a while: the server must not run out of
// memory, and others must be answered.
func unreadResponses(s *session) *finding {
	c, err := s.client()
	if err != nil {
		return failed("%s", plainError(err))
	}
	defer c.close()
	c.shrink()
	payload := request("1", s.o.Echo, `["`+repeated("u", 16<<10)+`"]`)
	s.lastSent = "512 calls of 16 KiB, whose responses are not read"
	raw := []byte(payload)
	for range 512 {
		if err := c.sendBriefly(raw); err != nil {
			break // the server stopped reading, as it should
		}
	}
	for range 5 { // the system's buffers fill up
		if err := s.pause(200 * time.Millisecond); err != nil {
			return failed("%v", err)
		}
		if f := s.alive(); f != nil {
			return f
		}
	}
	return nil
}

// shrink gives the connection a small receive buffer, so that the server cannot write much.
func (c *client) shrink() {
	var conn any
	switch w := c.wire.(type) {
	case *streamWire:
		conn = w.c
	case *wsWire:
		conn = w.c
	}
	if t, ok := conn.(interface{ SetReadBuffer(n int) error }); ok {
		_ = t.SetReadBuffer(16 << 10) // the default works, too
	}
}

// sendBriefly sends a payload with a short deadline.
func (c *client) sendBriefly(payload []byte) error {
	switch w := c.wire.(type) {
	case *streamWire:
		_ = w.c.SetWriteDeadline(time.Now().Add(quiet)) // the error shows in Write
		_, err := w.c.Write(w.frame(payload))
		return err
	case *wsWire:
		_ = w.c.SetWriteDeadline(time.Now().Add(quiet)) // the error shows in Write
		_, err := w.c.Write(frameOf(fin|opText, payload))
		return err
	}
	return c.wire.send(payload)
}
