package check

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// survivalTime is how long a server gets to notice an accident before the next call.
const survivalTime = 50 * time.Millisecond

// survivalRules check that the server goes on after an accident of one client.
func survivalRules() []rule {
	survives := func(id string, on int, hard bool, f func(s *session, c io.ReadWriteCloser) string) rule {
		return rule{id: "survival/" + id, level: Expect, section: unwritten, on: on, hard: hard, run: func(s *session) *finding {
			c, err := s.dialConn()
			if err != nil {
				return failed("%s", plainError(err))
			}
			defer func() { _ = c.Close() }()               // the test is over
			_ = c.SetDeadline(time.Now().Add(s.o.Timeout)) // the error shows in Write
			s.lastSent = f(s, c)
			// The server may read it after the next call, which would not notice a crash. Most servers
			// wait for more, so the time is short.
			_ = c.SetReadDeadline(time.Now().Add(survivalTime)) // the error shows in Read
			_, _ = c.Read(make([]byte, 1))                      // what it sends does not matter
			return s.alive()
		}}
	}
	write := func(c io.Writer, text string) string {
		_, _ = io.WriteString(c, text) // the server may have closed
		return text
	}
	call := `{"jsonrpc":"2.0","method":"x","params":["`
	return []rule{
		survives("half-message", kindStream, false, func(_ *session, c io.ReadWriteCloser) string { return write(c, call) }),
		survives("half-http-body", kindHTTP, false, func(s *session, c io.ReadWriteCloser) string {
			h := s.postHeader()
			h.Set("Content-Length", "1000")
			return write(c, string(s.head("POST", h))+call)
		}),
		survives("half-http-header", kindHTTP, false, func(_ *session, c io.ReadWriteCloser) string { return write(c, "POST / HTTP/1.1\r\nHost: ") }),
		survives("half-handshake", kindWS, false, func(_ *session, c io.ReadWriteCloser) string { return write(c, "GET / HTTP/1.1\r\nHost: ") }),
		survives("no-http", kindHTTP|kindWS, false, func(_ *session, c io.ReadWriteCloser) string {
			return write(c, "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n")
		}),
		survives("silent-connection", socket|kindHTTP, false, func(*session, io.ReadWriteCloser) string { return "(nothing)" }),
		survives("binary-garbage", kindStream, false, func(_ *session, c io.ReadWriteCloser) string { return write(c, "\x00\x01\xff\xfe\x16\x03\x01\n") }),
		{id: "survival/gone-client", level: Expect, section: unwritten, on: anyKind &^ kindChild, needs: "$SLEEP", run: func(s *session) *finding {
			for range 5 {
				c, err := s.client()
				if err != nil {
					return failed("%s", plainError(err))
				}
				payload := fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":{"ms":50},"id":1}`, quote(s.o.Sleep))
				s.lastSent = payload + " and the end of the connection"
				_ = c.start(payload) // the connection ends anyway
				c.close()
			}
			if err := s.pause(150 * time.Millisecond); err != nil {
				return failed("%v", err)
			}
			return s.alive()
		}},
		{id: "survival/reconnects", level: Expect, section: unwritten, on: anyKind &^ kindChild, run: func(s *session) *finding {
			for range 30 {
				c, err := s.client()
				if err != nil {
					return failed("%s", plainError(err))
				}
				c.close()
			}
			return s.alive()
		}},
		{id: "survival/idle-connections", level: Expect, section: unwritten, on: anyKind &^ kindChild, run: func(s *session) *finding {
			var open []*client
			defer func() {
				for _, c := range open {
					c.close()
				}
			}()
			for range 20 {
				c, err := s.client()
				if err != nil {
					return failed("connection %d: %s", len(open)+1, plainError(err))
				}
				open = append(open, c)
			}
			return s.alive()
		}},
		{id: "survival/half-megabyte", level: Expect, section: unwritten, on: anyKind, needs: "$ECHO", run: func(s *session) *finding {
			text := `["` + repeated("0123456789abcdef", 32<<10) + `"]`
			if why := gives("1", text)(s.ask(request("1", s.o.Echo, text))); why != "" {
				return failed("%s", why)
			}
			return s.stillOpen()
		}},
		{id: "survival/batch-of-900", level: Expect, section: unwritten, on: anyKind, needs: "$ECHO", run: func(s *session) *finding { return s.bigBatch(900, false) }},
	}
}

// bigBatch sends n calls in one batch. A server may have a limit, but loses no response.
func (s *session) bigBatch(n int, limited bool) *finding {
	var all []string
	var expected []member
	for i := range n {
		all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":[%d],"id":%d}`, quote(s.o.Echo), i, i))
		expected = append(expected, one(fmt.Sprint(i), fmt.Sprintf("[%d]", i)))
	}
	r := s.ask("[" + strings.Join(all, ",") + "]")
	if limited && r.raw == nil || parsedError(r) != "" {
		return s.alive() // refused as a whole
	}
	if r.raw == nil {
		return failed("%s", r.absence())
	}
	m, err := parseMessage(r.raw)
	if err != nil {
		return failed("the response is not valid JSON: %v", err)
	}
	if limited && m.kind == '[' && len(m.list) == n {
		for _, each := range m.list {
			if each.member("error") != nil {
				return nil // members over a limit are refused one by one
			}
		}
	}
	if m.kind == '[' && len(m.list) != n {
		return failed("%d calls in a batch got %d responses", n, len(m.list))
	}
	for i, each := range m.list { // the usual order is checked at once; members is quadratic
		if !expected[i].matches(each, nil) {
			return reason(members(expected...)(r))
		}
	}
	if m.kind != '[' {
		return failed("the response to a batch of %d is not an array: %s", n, cut(m.raw))
	}
	return nil
}

// parsedError returns the error code of a single error response.
func parsedError(r reply) string {
	m, why := parsed(r)
	if why != "" {
		return ""
	}
	return string(m.sub("error", "code"))
}
