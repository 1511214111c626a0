package jsonrpc

import "errors"

// A span is a part of the payload. Unlike a slice, it remains correct when the payload is copied.
// The empty span means an absent member.
type span struct{ start, end int32 }

func (s span) of(payload []byte) Raw {
	if s.end == 0 {
		return nil
	}
	return Raw(payload[s.start:s.end:s.end])
}

func (s span) absent() bool { return s.end == 0 }

// A kind classifies a parsed message.
type kind uint8

const (
	kindRequest      kind = iota // with an id, including null
	kindNotification             // without an id
	kindResponse
	kindBadRequest  // gets the response bad
	kindBadResponse // gets no response; the call with its id fails
)

// A message is one parsed message of a payload.
type message struct {
	kind    kind
	id      ID
	idText  span
	method  span // the string with its quotes
	params  span
	result  span
	err     span
	version Version // the version that it is written in
	bad     *Error  // for the two bad kinds: the error response of a server
}

// A parser finds the messages of a payload in one strict pass. It can be reused by one goroutine.
type parser struct {
	scan     scanner
	maxBatch int
	version  Version // Version1 accepts messages of both versions
	msgs     []message
	batch    bool

	unescaped []byte // scratch for a member name
}

// The default limits of a message.
const (
	defaultDepth  = 1000
	defaultTokens = 500_000
	defaultBatch  = 10_000
)

var errInvalid = ErrInvalidRequest

// parse sets msgs and batch. An error is the response to the payload as a whole, with id null.
func (p *parser) parse(payload []byte, depth, tokens int) *Error {
	p.msgs, p.batch = p.msgs[:0], false
	p.scan.limit(depth, tokens)
	i := skipSpace(payload, 0)
	var err error
	if i < len(payload) && payload[i] == '[' {
		p.batch = true
		i, err = p.array(payload, i+1)
	} else {
		i, err = p.member(payload, i)
	}
	if err == nil {
		if i = skipSpace(payload, i); i < len(payload) {
			err = &SyntaxError{Offset: i, Reason: "text after the message"}
		}
	}
	if err != nil {
		return parseError(err)
	}
	if p.batch && (len(p.msgs) == 0 || len(p.msgs) > p.maxBatch) {
		return errInvalid
	}
	return nil
}

// parseError returns the response to a payload that cannot be parsed.
func parseError(err error) *Error {
	if syntax, ok := errors.AsType[*SyntaxError](err); ok && !syntax.Limit {
		return ErrParseError
	}
	return errInvalid
}

// array parses the members of a batch. The array itself counts as one level of nesting and one
// token.
func (p *parser) array(b []byte, i int) (int, error) {
	p.scan.depth--
	p.scan.tokens--
	if i = skipSpace(b, i); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = p.member(b, skipSpace(b, i)); err != nil {
			return i, err
		}
		i = skipSpace(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i++
		case i < len(b) && b[i] == ']':
			return i + 1, nil
		default:
			return i, p.scan.fail(i, "expected a comma or the end")
		}
	}
}

// member parses one message.
func (p *parser) member(b []byte, i int) (int, error) {
	if i < len(b) && b[i] == '{' {
		return p.envelope(b, i)
	}
	i, err := p.scan.value(b, i)
	*p.next() = message{kind: kindBadRequest, id: NullID, version: p.version, bad: errInvalid}
	return i, err
}

// next returns the entry for the next message. A batch that exceeds its limit does not grow.
func (p *parser) next() *message {
	if n := len(p.msgs); n > p.maxBatch {
		return &p.msgs[n-1]
	}
	p.msgs = append(p.msgs, message{})
	return &p.msgs[len(p.msgs)-1]
}

// usualStart is how nearly every message begins after its brace. It takes one comparison; parsing
// the two strings would take a step for each byte.
const usualStart = `"jsonrpc":"2.0",`

// fields are the members of an envelope.
type fields struct {
	jsonrpc, id, method, params, result, err span
	twice, idTwice                           bool // a repeated member
	// a member name, the id or the method contains an escaped lone surrogate
	loneName, loneID, loneMethod bool
	// names without a meaning in JSON-RPC
	others map[string]struct{}
}

// envelope parses the object at b[i] and classifies it.
func (p *parser) envelope(b []byte, i int) (int, error) {
	var f fields
	s := &p.scan
	s.depth--
	if s.tokens--; s.tokens < 0 || s.depth < 0 {
		return i, s.overLimit(i, "too many values")
	}
	i = skipSpace(b, i+1)
	if n := lengthOf(usualStart, b[min(i, len(b)):]); n > 0 && s.tokens >= 2 {
		f.jsonrpc = span{int32(i + len(`"jsonrpc":`)), int32(i + n - len(`,`))}
		s.tokens -= 2
		i = skipSpace(b, i+n)
	}
	var err error
	for first := f.jsonrpc.absent(); ; first = false {
		if i >= len(b) {
			return i, s.fail(i, "unexpected end")
		}
		if b[i] == '}' && first {
			i++
			break
		}
		field, n := f.plain(b[i:])
		if i += n; n > 0 {
			s.tokens--
		} else if field, i, err = p.name(b, i, &f); err != nil {
			return i, err
		}
		i = skipSpace(b, i)
		s.lone = false
		start := i
		if i, err = s.member(b, i); err != nil {
			return i, err
		}
		if field != nil {
			if !field.absent() {
				f.twice = true
				f.idTwice = f.idTwice || field == &f.id
			}
			*field = span{int32(start), int32(i)}
			if s.lone {
				f.loneID = f.loneID || field == &f.id
				f.loneMethod = f.loneMethod || field == &f.method
			}
		}
		if i = skipSpace(b, i); i >= len(b) {
			return i, s.fail(i, "unexpected end")
		}
		if b[i] == '}' {
			i++
			break
		}
		if b[i] != ',' {
			return i, s.fail(i, "expected a comma or the end")
		}
		i = skipSpace(b, i+1)
	}
	if s.tokens < 0 {
		return i, s.overLimit(i, "too many values")
	}
	s.depth++
	p.judge(b, &f, p.next())
	return i, nil
}

// plain returns the field for a member name in its usual spelling, and the length of name and
// colon; the length is zero for other names. It takes one comparison; parsing and interpreting a
// string takes longer than everything else about a small message.
func (f *fields) plain(b []byte) (*span, int) {
	if len(b) < len(`"id":`) {
		return nil, 0
	}
	switch b[1] {
	case 'j':
		return &f.jsonrpc, lengthOf(`"jsonrpc":`, b)
	case 'i':
		return &f.id, lengthOf(`"id":`, b)
	case 'm':
		return &f.method, lengthOf(`"method":`, b)
	case 'p':
		return &f.params, lengthOf(`"params":`, b)
	case 'r':
		return &f.result, lengthOf(`"result":`, b)
	case 'e':
		return &f.err, lengthOf(`"error":`, b)
	}
	return nil, 0
}

// lengthOf returns the length of text if b begins with it, or zero.
func lengthOf(text string, b []byte) int {
	if len(b) >= len(text) && string(b[:len(text)]) == text {
		return len(text)
	}
	return 0
}

// name parses any member name and the colon after it. The field is nil for an unknown name.
func (p *parser) name(b []byte, i int, f *fields) (*span, int, error) {
	s, start := &p.scan, i
	if b[i] != '"' {
		return nil, i, s.fail(i, "expected a member name")
	}
	s.tokens--
	s.lone, s.escape = false, false
	i, err := s.str(b, i)
	if err != nil {
		return nil, i, err
	}
	name := b[start+1 : i-1]
	if s.escape {
		p.unescaped = unescape(p.unescaped[:0], b[start:i])
		name = p.unescaped
		f.loneName = f.loneName || s.lone
	}
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return nil, i, s.fail(i, "expected a colon")
	}
	field := f.named(name)
	if field == nil {
		f.unknown(string(name))
	}
	return field, i + 1, nil
}

// unknown records a member without a meaning in JSON-RPC. It must not repeat either: another reader
// may use it.
func (f *fields) unknown(name string) {
	if f.others == nil {
		f.others = map[string]struct{}{}
	}
	_, before := f.others[name]
	f.twice = f.twice || before
	f.others[name] = struct{}{}
}

// named returns the field for a member name, or nil if it is unknown. Names are case-sensitive.
func (f *fields) named(name []byte) *span {
	switch string(name) {
	case "jsonrpc":
		return &f.jsonrpc
	case "id":
		return &f.id
	case "method":
		return &f.method
	case "params":
		return &f.params
	case "result":
		return &f.result
	case "error":
		return &f.err
	}
	return nil
}

// judge classifies an envelope (JSON-RPC 2.0, sections 4 and 5; docs/specs.md lists each decision).
func (p *parser) judge(b []byte, f *fields, m *message) {
	m.method, m.params, m.result, m.err = f.method, f.params, f.result, f.err
	idBad := f.idTwice || f.loneID
	if !f.id.absent() && !idBad {
		if text := b[f.id.start:f.id.end]; isScalarID(text) {
			m.id, m.idText = idOf(text), f.id
		} else {
			idBad = true
		}
	}
	if text := f.params.of(b); len(text) == 4 && text[0] == 'n' {
		m.params = span{}
	}
	versionOK := isVersion2(f.jsonrpc.of(b))
	if p.version == Version1 && f.jsonrpc.absent() {
		m.version, versionOK = Version1, true
	}

	if f.method.absent() && (!f.result.absent() || !f.err.absent()) {
		m.kind = kindResponse
		if !versionOK || idBad || f.twice || f.loneName || f.id.absent() || !m.answers(b) {
			m.kind, m.bad = kindBadResponse, errInvalid
		}
		return
	}

	m.kind = kindRequest
	if m.id.IsZero() || (m.version == Version1 && m.id.IsNull()) {
		m.kind = kindNotification
	}
	ok := versionOK && !idBad && !f.twice && !f.loneName && !f.loneMethod &&
		!f.method.absent() && b[f.method.start] == '"' &&
		f.result.absent() && f.err.absent() &&
		(m.params.absent() || b[m.params.start] == '{' || b[m.params.start] == '[')
	if m.version == Version1 {
		ok = ok && !f.id.absent() && !m.params.absent() && b[m.params.start] == '['
	}
	if !ok {
		m.kind, m.bad = kindBadRequest, errInvalid
		if idBad || m.id.IsZero() {
			m.id = NullID
		}
	}
}

// isVersion2 reports whether the value is the string "2.0", with or without escapes.
func isVersion2(text Raw) bool {
	if len(text) == 5 {
		return string(text) == `"2.0"`
	}
	return len(text) > 5 && text[0] == '"' && isEscaped(text) && textOf(text) == "2.0"
}

// answers reports whether a response has the members that its version requires: in 2.0 either a
// result or an error object with an integer code and a message; in 1.0 both, one of them null.
func (m *message) answers(b []byte) bool {
	if m.version == Version1 {
		if m.err.absent() || isNull(m.err.of(b)) {
			m.err = span{}
			return !m.result.absent()
		}
		m.result = span{}
		return true
	}
	if m.err.absent() {
		return true // the result is present, otherwise this would not be a response
	}
	if !m.result.absent() {
		return false
	}
	_, err := decodeError(m.err.of(b), m.version)
	return err == nil
}

func isNull(text Raw) bool { return len(text) == 4 && text[0] == 'n' }
