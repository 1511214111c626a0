package check

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// anyError allows every error code.
const anyError = "any error"

// A talk is a conversation in a protocol on top of JSON-RPC 2.0. What both sides send is also
// checked by the rules of package lens: schema and lifecycle of the version.
type talk struct {
	s       *session
	wire    *capture.Wire
	results map[string]jsonrpc.Raw
	unseen  bool // package lens does not see the messages: it compares the bytes of IDs
}

// call sends a request and returns its result. An error response is returned as a finding unless
// one of the codes allows it.
func (t *talk) call(method, params string, codes ...string) (jsonrpc.Raw, *finding) {
	return t.callID(t.s.nextID(), method, params, codes...)
}

// callID is call with an ID of the caller.
func (t *talk) callID(id, method, params string, codes ...string) (jsonrpc.Raw, *finding) {
	payload := request(id, method, params)
	if !t.unseen {
		t.wire.Payload(capture.Out, []byte(payload))
	}
	r := t.s.ask(payload)
	if r.raw != nil && !t.unseen {
		t.wire.Payload(capture.In, r.raw)
	}
	m, why := parsed(r)
	if why == "" {
		why = sameID(id, m)
	}
	if why != "" {
		return nil, failed("%s: %s", method, why)
	}
	if m.member("error") != nil {
		code := string(m.sub("error", "code"))
		if slices.Contains(codes, code) || slices.Contains(codes, anyError) {
			return nil, nil
		}
		if len(codes) > 0 && m.member("result") == nil {
			return nil, failed("%s: the error code is %s; it must be %s", method, cut(jsonrpc.Raw(code)), strings.Join(codes, " or "))
		}
		return nil, failed("%s: an error was returned: %s", method, cut(m.member("error")))
	}
	if len(codes) > 0 {
		return nil, failed("%s: a result was returned instead of the error %s", method, strings.Join(codes, " or "))
	}
	return m.member("result"), nil
}

// after sends a payload that is no valid request, then a call that must be answered, and returns
// what was sent for the payload. Over HTTP, it is empty if the response has an error status and no
// message.
func (t *talk) after(payload string, probe call) (replies [][]byte, f *finding) {
	s := t.s
	if s.kind == kindHTTP {
		r := lenientAsk(s, payload)
		switch {
		case r.err != nil && r.status == 0:
			return nil, failed("%s", r.absence())
		case r.raw != nil && (r.status/100 == 2 || r.raw[0] == '{'):
			replies = append(replies, r.raw)
		}
		_, f = t.call(probe.method, probe.params, probe.codes...)
		s.lastSent, s.lastReceived = payload, shown(string(r.raw))
		return replies, f
	}
	before := s.seen
	s.seen = map[string]*finding{} // a response to no valid request may be unusual
	defer func() { s.seen = before }()
	id := s.nextID()
	s.lastSent, s.lastReceived = payload, ""
	w, err := s.transmit(payload, request(id, probe.method, probe.params))
	wait := s.patience()
	var answer []byte
	for i := 0; i < 100 && err == nil; i++ {
		var raw []byte
		if raw, err = s.receive(w, payload, wait); err != nil {
			break
		}
		if m, bad := parseMessage(raw); bad == nil && string(m.member("id")) == id {
			answer, wait = raw, quiet // what follows late
			continue
		}
		replies = append(replies, raw)
		s.lastReceived += string(raw) + "\n"
	}
	switch {
	case answer == nil && err == nil:
		return replies, failed("a call after it was not answered: %d other messages were sent", len(replies))
	case answer == nil:
		return replies, failed("a call after it was not answered: %s", plainError(err))
	}
	expected := gives(id, "")
	if len(probe.codes) > 0 {
		expected = fails(id, probe.codes...)
	}
	if why := expected(reply{raw: answer}); why != "" {
		return replies, failed("a call after it: %s", why)
	}
	return replies, nil
}

// A call is a call of a protocol that every server of it answers: with a result, or with an error
// of the codes if there are any.
type call struct {
	method, params string
	codes          []string
}

// baseRules are rules of JSON-RPC 2.0 that are checked through a call of a protocol, after open.
func baseRules(profile string, judge func() capture.Judge, open func(t *talk) *finding, probe call) (rules []rule) {
	within := func(id string, level Level, section string, f func(t *talk) *finding) {
		r := converse(profile+"/"+id, section, judge, func(t *talk) *finding {
			if found := open(t); found != nil {
				return found
			}
			return f(t)
		})
		r.level = level
		rules = append(rules, r)
	}
	withIDs := func(id string, ids ...string) {
		within("id/"+id, Must, sectReply, func(t *talk) *finding {
			t.unseen = true
			for _, each := range ids {
				if _, f := t.callID(each, probe.method, probe.params, probe.codes...); f != nil {
					return failed("id %s: %s", each, f.why)
				}
			}
			return nil
		})
	}
	withIDs("integers", `1`, `0`, `-7`, `1234567890`, `9007199254740991`)
	withIDs("2^53+1", `9007199254740993`)
	withIDs("strings", `"abc"`, `""`, `"1"`, `"007"`, `"null"`, `"AbC"`, `" a b "`, `"550e8400-e29b-41d4-a716-446655440000"`)
	withIDs("unicode", `"é漢😀"`, `"\"\\\/\b\n\u0001"`, `"\u2028"`, `"e\u0301"`, `"<a&b>"`)
	withIDs("long", `"`+repeated("x", 300)+`"`)
	refuses := func(id string, code string, payloads ...string) {
		within(id, Expect, sectError, func(t *talk) *finding {
			for _, payload := range payloads {
				replies, f := t.after(payload, probe)
				switch {
				case f != nil:
					return f
				case len(replies) == 0 && t.s.kind == kindHTTP:
					continue // an error of HTTP
				case len(replies) == 0:
					return failed("no error %s was sent", code)
				}
				m, why := parsed(reply{raw: replies[0]})
				if why == "" && m.member("id") == nil { // MCP permits that
					why = errorIs(m, code)
				} else if why == "" {
					why = fails("null or 6", code)(reply{raw: replies[0]})
				}
				if why != "" {
					return failed("%s", why)
				}
			}
			return nil
		})
	}
	refuses("parse-error", parseError, badJSON["truncated"], `{"jsonrpc":"2.0","method":"`+probe.method+`","id":6,}`)
	refuses("invalid-request", invalidRequest, `{"jsonrpc":"2.0","method":1,"id":6}`, `{"jsonrpc":"1.0","method":"`+probe.method+`","id":6}`)
	within("survival", Expect, unwritten, func(t *talk) *finding {
		for _, payload := range []string{
			"hello", "{", "[]", "[1]", "null", `"text"`, `{}`, `{"jsonrpc":"2.0"}`, "\x00\x01\x02", "{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", `{"jsonrpc":"2.0","id":{},"method":"x"}`,
			`{"jsonrpc":"2.0","id":"unknown","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`,
		} {
			if t.s.kind == kindWS && !utf8.ValidString(payload) {
				continue // it ends the connection
			}
			if _, f := t.after(payload, probe); f != nil {
				return &finding{sent: payload, received: t.s.lastReceived, why: f.why}
			}
		}
		return nil
	})
	return rules
}

// notify sends a notification.
func (t *talk) notify(method, params string) *finding {
	payload := request("", method, params)
	t.wire.Payload(capture.Out, []byte(payload))
	if t.s.kind == kindHTTP && t.s.o.Profile == "mcp" {
		// MCP, Streamable HTTP: a notification that is not accepted gets an error of HTTP.
		if r := lenientAsk(t.s, payload); r.status/100 != 4 {
			return reason(nothing(r))
		}
		return nil
	}
	return reason(nothing(t.s.tell(payload)))
}

// converse returns a rule that has a conversation on a connection of its own, and then judges it.
//
//go:noinline
func converse(id string, section string, judge func() capture.Judge, f func(t *talk) *finding) rule {
	return rule{id: id, level: Must, section: section, on: anyKind, run: func(s *session) *finding {
		s.hangUp()
		defer s.hangUp()
		header := s.o.Header
		defer func() { s.o.Header = header }()
		s.mcpSession = ""
		if s.o.Header = header.Clone(); s.o.Header == nil {
			s.o.Header = map[string][]string{}
		}
		recorder, err := capture.New(&capture.Options{MaxDisk: -1, Judges: []capture.Judge{judge()}})
		if err != nil {
			return failed("%v", err)
		}
		defer func() { _ = recorder.Close() }() // nothing is on disk
		t := &talk{s: s, wire: recorder.Wire(capture.WireInfo{Target: s.target.String(), Carrier: s.transport()}), results: map[string]jsonrpc.Raw{}}
		found := f(t)
		t.wire.Close(nil)
		recorder.Flush()
		if found != nil {
			return found
		}
		for _, row := range recorder.Rows(capture.Ref{}, 1000) {
			for _, problem := range row.Findings {
				if row.Dir != capture.In || problem.Doubt {
					continue
				}
				payload, _ := recorder.Payload(row.Ref) // it is in memory
				return &finding{sent: s.lastSent, received: string(payload), why: fmt.Sprintf("%s: %s", problem.Rule, problem.Text)}
			}
		}
		return nil
	}}
}

// profileRules returns the rules of a protocol on top of JSON-RPC 2.0, or nil if there is no such
// profile.
func profileRules(profile string) []rule {
	switch profile {
	case "mcp":
		return mcpRules()
	case "a2a":
		return a2aRules()
	case "acp":
		return acpRules()
	}
	return nil
}

// object requires members of an object, with the first byte of their values.
func object(method string, value jsonrpc.Raw, members ...string) *finding {
	if len(value) == 0 || value[0] != '{' {
		return failed("%s: the result is not an object: %s", method, cut(value))
	}
	m := messageOf(value, 1)
	for _, each := range members {
		name, first, _ := strings.Cut(each, ":")
		got := m.member(name)
		if got == nil {
			return failed("%s: the result has no member %q", method, name)
		}
		if !strings.Contains(first, string(got[0])) {
			return failed("%s: the member %q is %s", method, name, cut(got))
		}
	}
	return nil
}
