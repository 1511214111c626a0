package check

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A message is a parsed response or batch of responses.
type message struct {
	raw     jsonrpc.Raw
	kind    byte // the first byte: {, [, or another
	names   []string
	members map[string]jsonrpc.Raw
	twice   string // a duplicate member
	list    []*message
}

// errTooDeep reports JSON that is nested deeper than the parser accepts.
var errEmptyText = errors.New("no text")

func parseMessage(text []byte) (*message, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, errEmptyText
	}
	raw, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return nil, err
	}
	return messageOf(raw, 0), nil
}

func messageOf(raw jsonrpc.Raw, depth int) *message {
	m := &message{raw: raw, kind: raw[0], members: map[string]jsonrpc.Raw{}}
	switch m.kind {
	case '{':
		for name, value := range raw.Members() {
			key := string(name)
			if _, dup := m.members[key]; dup {
				m.twice = key
			}
			m.names = append(m.names, key)
			m.members[key] = value
		}
	case '[':
		if depth > 0 {
			break
		}
		for element := range raw.Elements() {
			m.list = append(m.list, messageOf(element, depth+1))
		}
	}
	return m
}

func (m *message) member(name string) jsonrpc.Raw { return m.members[name] }

// sub returns a member of a member.
func (m *message) sub(name, of string) jsonrpc.Raw {
	value := m.member(name)
	if len(value) == 0 || value[0] != '{' {
		return nil
	}
	return messageOf(value, 1).member(of)
}

// isRequest reports whether a message is a request or notification of the server.
func isRequest(raw []byte) bool {
	m, err := parseMessage(raw)
	return err == nil && m.kind == '{' && m.member("method") != nil && m.member("result") == nil && m.member("error") == nil
}

var integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// leak matches texts of stack traces and runtimes.
var leak = regexp.MustCompile(`goroutine \d+ \[|\.go:\d+|runtime error:|\.m?[jt]s:\d+:\d+|Traceback \(most recent|File \\?"[^"]*\.py\\?", line \d|\bat [\w.$<>]+ ?\([^)]*:\d+|\.java:\d+\)|\.rs:\d+:\d+|nil pointer dereference|"stack"\s*:|panicked at|panic: `)

// judge checks the rules about all messages.
func (s *session) judge(sent string, raw []byte) {
	s.counted["message"]++
	m, err := parseMessage(raw)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "deep") || strings.Contains(err.Error(), "depth"):
		return // beyond the bound of the parser; the rule compares bytes
	default:
		s.note("response/json", sent, string(raw), "the message is not one JSON text in UTF-8: %v", err)
		return
	}
	if s.kind&(kindStream|kindChild) != 0 {
		s.counted["frame"]++
	}
	if m.kind != '[' {
		s.judgeResponse(sent, m)
		return
	}
	if len(m.list) == 0 {
		s.note("batch/empty-response", sent, string(raw), "an empty array was sent; a batch without responses gets nothing")
	}
	for _, each := range m.list {
		s.judgeResponse(sent, each)
	}
}

func (s *session) judgeResponse(sent string, m *message) {
	note := func(id, format string, args ...any) { s.note(id, sent, string(m.raw), format, args...) }
	if m.kind != '{' {
		note("response/object", "a response must be an object")
		return
	}
	if m.twice != "" {
		note("response/members", "the member %q is there twice", m.twice)
	}
	for _, name := range m.names {
		if !slices.Contains([]string{"jsonrpc", "result", "error", "id"}, name) {
			note("response/members", "the member %q is not one of jsonrpc, result, error and id", name)
		}
	}
	if v := m.member("jsonrpc"); !sameString(v, "2.0") {
		if v == nil {
			note("response/version", "the member jsonrpc is missing")
		} else {
			note("response/version", "the member jsonrpc is %s instead of \"2.0\"", v)
		}
	}
	switch id := m.member("id"); {
	case id == nil && s.o.Profile == "mcp" && m.member("error") != nil:
		// MCP has no id in an error about a message whose id is not known.
	case id == nil:
		note("response/id", "the member id is missing")
	case id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f':
		note("response/id", "the id is %s; it must be a string, a number or null", id)
	}
	result, fault := m.member("result"), m.member("error")
	switch {
	case result == nil && fault == nil:
		note("response/either", "neither result nor error is there")
	case result != nil && fault != nil:
		note("response/either", "both result and error are there")
	}
	if fault != nil && !(result != nil && string(fault) == "null") {
		s.judgeError(sent, m, fault)
	}
}

func (s *session) judgeError(sent string, m *message, fault jsonrpc.Raw) {
	s.counted["error"]++
	note := func(id, format string, args ...any) { s.note(id, sent, string(m.raw), format, args...) }
	if fault[0] != '{' {
		note("error/object", "error is %s; it must be an object", fault)
		return
	}
	e := messageOf(fault, 1)
	code, text := e.member("code"), e.member("message")
	switch {
	case code == nil:
		note("error/code", "the member code is missing")
	case !integer.Match(code):
		note("error/code", "the code is %s; it must be an integer", code)
	default:
		s.judgeCode(code, note)
	}
	switch {
	case text == nil:
		note("error/message", "the member message is missing")
	case text[0] != '"':
		note("error/message", "the message is %s; it must be a string", text)
	case string(text) == `""` && code != nil && predefined(string(code)):
		note("error/message-empty", "the message of the error %s is empty; it is the description that people see", code)
	case len(text) > 400 && !bytes.Contains([]byte(sent), text):
		note("error/sentence", "the message has %d bytes; it should be one concise sentence", len(text))
	}
	if e.twice != "" {
		note("error/members", "the member %q is there twice", e.twice)
	}
	for _, name := range e.names {
		if !slices.Contains([]string{"code", "message", "data"}, name) {
			note("error/members", "the member %q is not one of code, message and data", name)
		}
	}
	if found := leak.Find(fault); found != nil && !leak.MatchString(sent) {
		note("error/leak", "the error shows internals of the server: %s", found)
	}
}

// judgeCode checks that a code of the reserved range is defined.
func (s *session) judgeCode(code jsonrpc.Raw, note func(id, format string, args ...any)) {
	n, err := strconv.ParseInt(string(code), 10, 64)
	if err != nil || n < -32768 || n > -32000 || n >= -32099 {
		return
	}
	if !predefined(string(code)) {
		note("error/reserved", "the code %d is reserved and not defined", n)
	}
}

// predefined reports whether a code is one of section 5.1.
func predefined(code string) bool {
	return slices.Contains([]string{parseError, invalidRequest, noMethod, invalidParams, internalError}, code)
}

// sameString reports whether raw is the JSON string text.
func sameString(raw jsonrpc.Raw, text string) bool {
	got, ok := stringOf(raw)
	return ok && got == text
}

func stringOf(raw jsonrpc.Raw) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var text string
	if err := raw.Decode(&text); err != nil {
		return "", false
	}
	return text, true
}

// A difference of two values.
type difference struct {
	spelling bool // the same number, written differently
	order    bool // the same members in another order
	why      string
}

// compare returns the first difference of two values, or nil. The difference in value is preferred
// over a difference in spelling or order.
func compare(want, got jsonrpc.Raw, at string) *difference {
	if string(want) == string(got) {
		return nil
	}
	if len(want) == 0 || len(got) == 0 {
		return &difference{why: fmt.Sprintf("%s is missing", at)}
	}
	if w, g := kindOf(want), kindOf(got); w != g {
		return &difference{why: fmt.Sprintf("%s is %s instead of %s", at, cut(got), cut(want))}
	}
	switch want[0] {
	case '{':
		return compareObjects(want, got, at)
	case '[':
		return compareArrays(want, got, at)
	case '"':
		w, ok := stringOf(want)
		g, okToo := stringOf(got)
		if ok != okToo || w != g {
			return &difference{why: fmt.Sprintf("%s is %s instead of %s", at, cut(got), cut(want))}
		}
		return nil
	case 't', 'f', 'n':
		return &difference{why: fmt.Sprintf("%s is %s instead of %s", at, cut(got), cut(want))}
	}
	if sameNumber(string(want), string(got)) {
		return &difference{spelling: true, why: fmt.Sprintf("%s is written %s instead of %s", at, cut(got), cut(want))}
	}
	return &difference{why: fmt.Sprintf("%s is %s instead of %s", at, cut(got), cut(want))}
}

func cut(raw jsonrpc.Raw) string {
	if len(raw) > 120 {
		return strings.ToValidUTF8(string(raw[:100]), "\uFFFD") + "…"
	}
	return string(raw)
}

func kindOf(raw jsonrpc.Raw) byte {
	switch c := raw[0]; c {
	case '{', '[', '"', 'n':
		return c
	case 't', 'f':
		return 't'
	}
	return '0'
}

func compareArrays(want, got jsonrpc.Raw, at string) (minor *difference) {
	w, g := slices.Collect(want.Elements()), slices.Collect(got.Elements())
	if len(w) != len(g) {
		return &difference{why: fmt.Sprintf("%s has %d elements instead of %d", at, len(g), len(w))}
	}
	for i := range w {
		d := compare(w[i], g[i], fmt.Sprintf("%s[%d]", at, i))
		if d != nil && !d.spelling && !d.order {
			return d
		}
		if minor == nil {
			minor = d
		}
	}
	return minor
}

func compareObjects(want, got jsonrpc.Raw, at string) (minor *difference) {
	w, g := messageOf(want, 1), messageOf(got, 1)
	for _, name := range w.names {
		where := fmt.Sprintf("%s[%q]", at, name)
		if _, ok := g.members[name]; !ok {
			return &difference{why: fmt.Sprintf("%s is missing", where)}
		}
		d := compare(w.members[name], g.members[name], where)
		if d != nil && !d.spelling && !d.order {
			return d
		}
		if minor == nil {
			minor = d
		}
	}
	for _, name := range g.names {
		if _, ok := w.members[name]; !ok {
			return &difference{why: fmt.Sprintf("%s has the member %q, which was not sent", at, name)}
		}
	}
	if minor == nil && !slices.Equal(w.names, g.names) {
		minor = &difference{order: true, why: at + " has its members in another order"}
	}
	return minor
}

// sameNumber compares the values of two JSON numbers. Zero has a sign.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if len(a) > 400 || len(b) > 400 || hugeExponent(a) || hugeExponent(b) {
		return false
	}
	x, ok := new(big.Rat).SetString(a)
	y, okToo := new(big.Rat).SetString(b)
	if !ok || !okToo {
		return false
	}
	if x.Sign() == 0 && strings.HasPrefix(a, "-") != strings.HasPrefix(b, "-") {
		return false
	}
	return x.Cmp(y) == 0
}

// hugeExponent reports whether the value of a number would need much memory.
func hugeExponent(n string) bool {
	_, exponent, found := strings.Cut(strings.ToLower(n), "e")
	if !found {
		return false
	}
	e, err := strconv.Atoi(exponent)
	return err != nil || e > 2000 || e < -2000
}
