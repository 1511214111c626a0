package check

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A want checks a reply and returns why it is wrong, or "".
//
// The functions that return one, and those that return a rule, are not inlined: they are called in
// hundreds of places, and with a copy of their closures in each, the package takes twice as long to
// compile and is twice as large.
type want func(r reply) string

// parsed returns the one response of a reply.
func parsed(r reply) (*message, string) {
	if r.raw == nil {
		return nil, r.absence()
	}
	m, err := parseMessage(r.raw)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("the response is not valid JSON: %v", err)
	case m.kind == '[':
		return nil, "the response is an array; only a batch is answered with one"
	case m.kind != '{':
		return nil, "the response is not an object"
	}
	return m, ""
}

// sameID compares an ID with the one of a response. It returns why they differ. Numbers are
// compared by value: their spelling has a rule of its own.
func sameID(id string, m *message) string {
	got := m.member("id")
	switch {
	case got == nil:
		return "the response has no id"
	case string(got) == id:
		return ""
	}
	if d := compare(jsonrpc.Raw(id), got, "the id"); d != nil && !d.spelling {
		return d.why
	}
	return ""
}

// responseTo returns the one response of a reply, which must have the ID.
func responseTo(id string, r reply) (*message, string) {
	m, why := parsed(r)
	if why == "" {
		why = sameID(id, m)
	}
	return m, why
}

// answered wants any response to a request.
//
//go:noinline
func answered(id string) want {
	return func(r reply) string {
		m, why := responseTo(id, r)
		if why == "" && m.member("result") == nil && m.member("error") == nil {
			why = "neither result nor error is there"
		}
		return why
	}
}

// usual wants the response that a plain call of $ANY gets: its params if that is the echoing
// method, otherwise "Method not found".
//
//go:noinline
func usual(id string) want {
	return func(r reply) string {
		m, why := responseTo(id, r)
		if why != "" {
			return why
		}
		call, err := parseMessage([]byte(r.sent))
		if err != nil {
			return answered(id)(r)
		}
		return usualResponse(call, m)
	}
}

// usualResponse returns why a response is not the usual one to a call of $ANY.
func usualResponse(call, m *message) string {
	if sameString(call.member("method"), unknownMethod) {
		return errorIs(m, noMethod)
	}
	return resultIs(m, string(call.member("params")))
}

// gives wants a result. If value is empty, any result is right.
//
//go:noinline
func gives(id, value string) want {
	return func(r reply) string {
		m, why := responseTo(id, r)
		if why != "" {
			return why
		}
		return resultIs(m, value)
	}
}

func resultIs(m *message, value string) string {
	result := m.member("result")
	switch {
	case m.member("error") != nil && string(m.member("error")) != "null":
		return fmt.Sprintf("an error was returned: %s", cut(m.member("error")))
	case result == nil:
		return "the response has no result"
	case value == "":
		return ""
	}
	if d := compare(jsonrpc.Raw(value), result, "the result"); d != nil && !d.spelling && !d.order {
		return d.why
	}
	return ""
}

// fails wants an error with one of the codes and one of the ids, of which id may list several,
// separated by " or ".
//
//go:noinline
func fails(ids string, codes ...string) want {
	return func(r reply) string {
		m, why := parsed(r)
		if why != "" {
			return why
		}
		if why := errorIs(m, codes...); why != "" {
			return why
		}
		last := ""
		for id := range strings.SplitSeq(ids, " or ") {
			if last = sameID(id, m); last == "" {
				return ""
			}
		}
		if strings.Contains(ids, " or ") {
			return fmt.Sprintf("the id is %s; it must be %s", cut(m.member("id")), ids)
		}
		return last
	}
}

func errorIs(m *message, codes ...string) string {
	if m.member("error") == nil {
		return fmt.Sprintf("a result was returned (%s) instead of the error %s", cut(m.member("result")), strings.Join(codes, " or "))
	}
	code := string(m.sub("error", "code"))
	if len(codes) > 0 && !slices.Contains(codes, code) {
		return fmt.Sprintf("the error code is %s; it must be %s", cut(jsonrpc.Raw(code)), strings.Join(codes, " or "))
	}
	return ""
}

// either wants one of several outcomes and describes the first if none is there.
//
//go:noinline
func either(wants ...want) want {
	return func(r reply) string {
		why := ""
		for _, w := range wants {
			got := w(r)
			if got == "" {
				return ""
			}
			if why == "" {
				why = got
			}
		}
		return why
	}
}

// hungUp wants that the server ended the connection.
func hungUp(r reply) string {
	if r.raw == nil && r.err != nil && !errors.Is(r.err, os.ErrDeadlineExceeded) {
		return ""
	}
	return "the connection stays open"
}

// nothing wants no message.
func nothing(r reply) string {
	switch {
	case r.raw != nil:
		return "a message was sent, although a notification is never answered"
	case r.err != nil && r.status == 0:
		return plainError(r.err)
	}
	return ""
}

// sends returns a rule that sends one payload, which must be answered. The needs of the rule follow
// from the placeholders of the payload.
//
//go:noinline
func sends(id string, level Level, section, payload string, w want) rule {
	return rule{id: id, level: level, section: section, on: anyKind, needs: payload, run: func(s *session) *finding {
		if why := w(s.ask(s.fill(payload))); why != "" {
			return &finding{why: why}
		}
		return nil
	}}
}

// silent returns a rule that sends one payload, which must not be answered.
//
//go:noinline
func silent(id string, level Level, section, payload string) rule {
	return rule{id: id, level: level, section: section, on: anyKind, needs: payload, run: func(s *session) *finding {
		if why := nothing(s.tell(s.fill(payload))); why != "" {
			return &finding{why: why}
		}
		return nil
	}}
}

// A member is the expected response to one member of a batch.
type member struct {
	id     string // "null" for an invalid member
	result string // expected value; "*" any; "" an error
	codes  []string
	orNull bool     // the id may also be null
	usual  bool     // the usual response to a call of $ANY with this id
	fault  *failure // expected error of the failing method
}

// matches reports whether m is the expected response to one of the calls.
func (e member) matches(m *message, calls []*message) bool {
	if sameID(e.id, m) != "" && !(e.orNull && string(m.member("id")) == "null") {
		return false
	}
	switch {
	case e.usual:
		return slices.ContainsFunc(calls, func(call *message) bool {
			return string(call.member("id")) == e.id && usualResponse(call, m) == ""
		})
	case e.fault != nil:
		return e.fault.same(e.id)(reply{raw: m.raw}) == ""
	case e.result == "":
		return errorIs(m, e.codes...) == ""
	case e.result == "*":
		return m.member("result") != nil || m.member("error") != nil
	}
	return resultIs(m, e.result) == ""
}

func (e member) String() string {
	switch {
	case e.usual:
		return "the usual response with id " + shortID(e.id)
	case e.fault != nil:
		return fmt.Sprintf("the error %s with id %s", e.fault.params(), shortID(e.id))
	case e.result == "":
		return fmt.Sprintf("an error %s with id %s", strings.Join(e.codes, " or "), shortID(e.id))
	case e.result == "*":
		return "a response with id " + shortID(e.id)
	}
	return fmt.Sprintf("the result %s with id %s", cut(jsonrpc.Raw(e.result)), shortID(e.id))
}

func shortID(id string) string { return cut(jsonrpc.Raw(id)) }

// members wants a batch of responses, one for each expected member, in any order.
//
//go:noinline
func members(expected ...member) want {
	return func(r reply) string {
		if r.raw == nil {
			return r.absence()
		}
		m, err := parseMessage(r.raw)
		switch {
		case err != nil:
			return fmt.Sprintf("the response is not valid JSON: %v", err)
		case m.kind != '[':
			return "the response to a batch must be an array"
		}
		var calls []*message
		if sent, err := parseMessage([]byte(r.sent)); err == nil {
			calls = sent.list
		}
		rest := slices.Clone(m.list)
		for _, e := range expected {
			i := slices.IndexFunc(rest, func(m *message) bool { return e.matches(m, calls) })
			if i < 0 {
				return fmt.Sprintf("%s is missing among %d responses", e, len(m.list))
			}
			rest = slices.Delete(rest, i, i+1)
		}
		if len(rest) > 0 {
			return fmt.Sprintf("%d responses instead of %d; one too many is %s", len(m.list), len(expected), cut(rest[0].raw))
		}
		if len(r.others) > 0 {
			return "more than one message was sent for a batch: " + cut(r.others[0])
		}
		return ""
	}
}
