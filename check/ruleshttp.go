package check

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// web returns a rule about HTTP that uses a connection of its own.
//
//go:noinline
func web(id string, level Level, section string, f func(s *session, h *httpConn) *finding) rule {
	return rule{id: "http/" + id, level: level, section: section, on: kindHTTP, run: func(s *session) *finding {
		h, err := s.dialHTTP()
		if err != nil {
			return failed("%s", plainError(err))
		}
		defer h.close()
		return f(s, h)
	}}
}

// exchange sends one HTTP request and records both sides.
func (h *httpConn) exchange(raw []byte, method string) (*httpReply, *finding) {
	h.s.lastSent = string(raw)
	got, err := h.do(raw, method, h.s.patience())
	if got != nil {
		h.s.lastReceived = fmt.Sprintf("HTTP %d %s %s", got.status, got.header.Get("Content-Type"), got.body)
	}
	if err != nil {
		return got, failed("%s", plainError(err))
	}
	return got, nil
}

// probe returns a request that is answered, and the want of its response.
func (s *session) probe() (string, want) {
	id := s.nextID()
	return s.echoOrUnknown(id, "probe")
}

func isResult(got *httpReply) bool {
	m, err := parseMessage(got.body)
	return err == nil && m.kind == '{' && m.member("jsonrpc") != nil && (m.member("result") != nil || m.member("error") != nil && string(m.member("id")) != "null")
}

// onNames applies a function to the names of header fields.
func onNames(fields string, f func(string) string) string {
	lines := strings.Split(fields, "\r\n")
	for i, line := range lines {
		if name, value, found := strings.Cut(line, ":"); found {
			lines[i] = f(name) + ":" + value
		}
	}
	return strings.Join(lines, "\r\n")
}

// expectContinue waits for status 100 before it sends the body.
func expectContinue(s *session, h *httpConn) *finding {
	payload, w := s.probe()
	head, body, _ := strings.Cut(string(s.postBytes(payload)), "\r\n\r\n")
	s.lastSent = head + "\r\nExpect: 100-continue"
	_ = h.c.SetDeadline(time.Now().Add(s.patience())) // the error shows in Write
	if _, err := io.WriteString(h.c, s.lastSent+"\r\n\r\n"); err != nil {
		return failed("%s", plainError(err))
	}
	line, err := h.r.Peek(len("HTTP/1.1 100"))
	if err != nil {
		return failed("neither status 100 nor a final status: %s", plainError(err))
	}
	if string(line[9:]) != "100" {
		return nil // a final status is permitted
	}
	for range 100 { // the fields of the interim response
		line, err := h.r.ReadString('\n')
		if err != nil {
			return failed("%s", plainError(err))
		}
		if strings.TrimSpace(line) == "" {
			break
		}
	}
	got, f := h.exchange([]byte(body), "POST")
	if got == nil {
		return f
	}
	return reason(w(reply{raw: got.body, status: got.status}))
}

func httpRules() []rule {
	refused := func(method string, level Level) rule {
		return web("method-"+strings.ToLower(method), level, unwritten, func(s *session, h *httpConn) *finding {
			payload, _ := s.probe()
			header := s.postHeader()
			header.Set("Content-Length", strconv.Itoa(len(payload)))
			got, f := h.exchange(append(s.head(method, header), payload...), method)
			switch {
			case got == nil:
				return f
			case got.status/100 == 2 || isResult(got):
				return failed("%s with a message was accepted with status %d; only POST calls methods", method, got.status)
			}
			return nil
		})
	}
	// posts sends a POST whose head is changed by a function.
	posts := func(id string, level Level, section string, change func(head string) string) rule {
		return web(id, level, section, func(s *session, h *httpConn) *finding {
			payload, w := s.probe()
			head, body, _ := strings.Cut(string(s.postBytes(payload)), "\r\n\r\n")
			got, f := h.exchange([]byte(change(head)+"\r\n\r\n"+body), "POST")
			if got == nil {
				return f
			}
			return reason(w(reply{raw: got.body, status: got.status}))
		})
	}
	get := func(id string, level Level, section string, f func(got *httpReply) *finding) rule {
		return web(id, level, section, func(s *session, h *httpConn) *finding {
			got, bad := h.exchange(s.head("GET", s.header()), "GET")
			if got == nil {
				return bad
			}
			return f(got)
		})
	}
	return []rule{
		get("get", Expect, unwritten, func(got *httpReply) *finding {
			kind := got.header.Get("Content-Type")
			if got.status/100 == 2 && (isResult(got) || !strings.HasPrefix(kind, "text/html") && !strings.HasPrefix(kind, "text/event-stream")) {
				return failed("GET has status %d; only POST is a call, and the usual status is 405", got.status)
			}
			if got.status >= 500 {
				return failed("GET has status %d", got.status)
			}
			return nil
		}),
		get("get-405", Should, "RFC 9110, 15.5.6", func(got *httpReply) *finding {
			if got.status != http.StatusMethodNotAllowed {
				return failed("the status is %d instead of 405", got.status)
			}
			if !strings.Contains(strings.ToUpper(got.header.Get("Allow")), "POST") {
				return failed("status 405 has no header Allow with POST: %q", got.header.Get("Allow"))
			}
			return nil
		}),
		web("get-query", Expect, unwritten, func(s *session, h *httpConn) *finding {
			path := s.path()
			sep := "?"
			if strings.Contains(path, "?") {
				sep = "&"
			}
			raw := bytes.Replace(s.head("GET", s.header()), []byte(path+" HTTP/1.1"), []byte(path+sep+"jsonrpc=2.0&id=1&params=%5B%5D&method="+s.anyMethod()+" HTTP/1.1"), 1)
			got, bad := h.exchange(raw, "GET")
			switch {
			case got == nil:
				return bad
			case isResult(got):
				return failed("GET called a method; a link on any web page can do that")
			}
			return nil
		}),
		web("method-options", Expect, unwritten, func(s *session, h *httpConn) *finding {
			payload, _ := s.probe()
			header := s.postHeader()
			header.Set("Content-Length", strconv.Itoa(len(payload)))
			got, f := h.exchange(append(s.head("OPTIONS", header), payload...), "OPTIONS")
			switch {
			case got == nil:
				return f
			case isResult(got):
				return failed("OPTIONS called a method; only POST calls methods")
			}
			return nil
		}),
		refused("GET", Expect), refused("PUT", Expect), refused("DELETE", Expect), refused("PATCH", Expect),
		web("chunked", Must, "RFC 9112, 7.1", func(s *session, h *httpConn) *finding {
			payload, w := s.probe()
			header := s.postHeader()
			header.Set("Transfer-Encoding", "chunked")
			half := len(payload) / 2
			raw := s.head("POST", header)
			for _, part := range []string{payload[:half], payload[half:]} {
				raw = fmt.Appendf(raw, "%x\r\n%s\r\n", len(part), part)
			}
			got, f := h.exchange(append(raw, "0\r\n\r\n"...), "POST")
			if got == nil {
				return f
			}
			return reason(w(reply{raw: got.body, status: got.status}))
		}),
		web("split", Must, "RFC 9112, 2", func(s *session, h *httpConn) *finding {
			payload, w := s.probe()
			raw := s.postBytes(payload)
			s.lastSent = string(raw)
			for i := 0; i < len(raw); i += 16 {
				_ = h.c.SetWriteDeadline(time.Now().Add(s.o.Timeout)) // the error shows in Write
				if _, err := h.c.Write(raw[i:min(i+16, len(raw))]); err != nil {
					return failed("%s", plainError(err))
				}
			}
			got, err := h.read("POST", s.patience())
			if got == nil {
				return failed("%s", plainError(err))
			}
			s.lastReceived = string(got.body)
			return reason(w(reply{raw: got.body, status: got.status}))
		}),
		posts("charset", Expect, unwritten, func(head string) string {
			return strings.Replace(head, "Content-Type: application/json", "Content-Type: application/json; charset=utf-8", 1)
		}),
		posts("header-case", Must, "RFC 9110, 5.1", func(head string) string {
			line, fields, _ := strings.Cut(head, "\r\n")
			return line + "\r\n" + onNames(fields, strings.ToLower)
		}),
		posts("header-case/upper", Must, "RFC 9110, 5.1", func(head string) string {
			line, fields, _ := strings.Cut(head, "\r\n")
			return line + "\r\n" + onNames(fields, strings.ToUpper)
		}),
		posts("no-accept", Expect, unwritten, func(head string) string { return strings.Replace(head, "Accept: application/json\r\n", "", 1) }),
		posts("unknown-header", Expect, "RFC 9110, 5.1", func(head string) string { return head + "\r\nX-Parley-Check: a, \"x\"; y=1" }),
		posts("http-1.0", Expect, "RFC 9110, 2.5", func(head string) string { return strings.Replace(head, " HTTP/1.1\r\n", " HTTP/1.0\r\n", 1) }),
		web("close", Expect, "RFC 9112, 9.6", func(s *session, h *httpConn) *finding {
			payload, w := s.probe()
			head, body, _ := strings.Cut(string(s.postBytes(payload)), "\r\n\r\n")
			got, f := h.exchange([]byte(head+"\r\nConnection: close\r\n\r\n"+body), "POST")
			if got == nil {
				return f
			}
			if why := w(reply{raw: got.body, status: got.status}); why != "" {
				return failed("%s", why)
			}
			_ = h.c.SetReadDeadline(time.Now().Add(s.patience())) // the error shows in Read
			if _, err := h.r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				return failed("the connection stays open after the response to a request with Connection: close")
			}
			return nil
		}),
		web("expect-continue", Must, "RFC 9110, 10.1.1", expectContinue),
		web("keep-alive/calls", Expect, "RFC 9112, 9.3", func(s *session, h *httpConn) *finding {
			for i := range 5 {
				payload, w := s.probe()
				got, f := h.exchange(s.postBytes(payload), "POST")
				if got == nil {
					return failed("call %d on one connection: %s", i+1, f.why)
				}
				if why := w(reply{raw: got.body, status: got.status}); why != "" {
					return failed("call %d on one connection: %s", i+1, why)
				}
			}
			return nil
		}),
		web("keep-alive/notification", Expect, "RFC 9112, 9.3", func(s *session, h *httpConn) *finding {
			got, f := h.exchange(s.postBytes(request("", s.anyMethod(), "[]")), "POST")
			if got == nil {
				return f
			}
			payload, w := s.probe()
			if got, f = h.exchange(s.postBytes(payload), "POST"); got == nil {
				return failed("the call after a notification: %s", f.why)
			}
			return reason(w(reply{raw: got.body, status: got.status}))
		}),
		web("pipelined", Expect, "RFC 9112, 9.3.2", func(s *session, h *httpConn) *finding {
			var raw []byte
			var wants []want
			for range 3 {
				payload, w := s.probe()
				raw, wants = append(raw, s.postBytes(payload)...), append(wants, w)
			}
			s.lastSent = string(raw)
			_ = h.c.SetWriteDeadline(time.Now().Add(s.o.Timeout)) // the error shows in Write
			if _, err := h.c.Write(raw); err != nil {
				return failed("%s", plainError(err))
			}
			for i, w := range wants {
				got, err := h.read("POST", s.patience())
				if got == nil {
					return failed("response %d: %s", i+1, plainError(err))
				}
				s.lastReceived = string(got.body)
				if why := w(reply{raw: got.body, status: got.status}); why != "" {
					return failed("response %d: %s", i+1, why)
				}
			}
			return nil
		}),
		web("empty-body", Expect, unwritten, func(s *session, h *httpConn) *finding {
			got, f := h.exchange(s.postBytes(""), "POST")
			if got == nil {
				return f
			}
			if got.status >= 500 || isResult(got) {
				return failed("a POST without a body has status %d", got.status)
			}
			return nil
		}),
		web("media-type", Should, unwritten, func(s *session, h *httpConn) *finding {
			payload, _ := s.probe()
			header := s.postHeader()
			header.Set("Content-Type", "text/plain")
			header.Set("Content-Length", strconv.Itoa(len(payload)))
			got, f := h.exchange(append(s.head("POST", header), payload...), "POST")
			if got == nil {
				return f
			}
			if isResult(got) {
				return failed("text/plain was accepted; web pages of other origins can send it without permission")
			}
			return nil
		}),
		web("head", Should, "RFC 9110, 9.3.2", func(s *session, h *httpConn) *finding {
			got, f := h.exchange(s.head("HEAD", s.header()), "HEAD")
			if got == nil {
				return f
			}
			if got.status >= 500 {
				return failed("HEAD has status %d", got.status)
			}
			return nil
		}),
	}
}
