package jsonrpc

import (
	"bytes"
	"context"
)

// AnswerRequest is [Answerer.Answer] for a request whose parts come from elsewhere, such as an HTTP
// path and body. id must not be zero. params is the text of one JSON value; it is parsed under the
// Limits, and text that is not valid gets the error that Answer has for it, with id null. Any value
// is accepted, so x.Check must reject what params cannot be; null means no params. x.Check may
// replace the params. The text is copied.
func (a *Answerer) AnswerRequest(ctx context.Context, dst []byte, id ID, method string, params []byte, x *Exchange) ([]byte, *Error) {
	a.init()
	a.active.Add(1)
	defer a.done() // also if Mode panics
	j := jobs.Get().(*job)
	defer j.free()
	params = bytes.Trim(params, " \t\r\n")
	// As in a message with these params: it is one level deeper, and has four names, three other
	// values and itself.
	if e := j.parser.parseValue(params, a.Limits.Depth-1, a.Limits.Tokens-8); e != nil {
		return a.appendError(dst, a.Version, NullID, e)
	}
	m := message{kind: kindRequest, id: id}
	text := AppendString(make([]byte, 0, len(params)+len(method)+48), method)
	m.method = span{0, int32(len(text))}
	text = id.Append(text)
	m.idText = span{m.method.end, int32(len(text))}
	if text = append(text, params...); !isNull(Raw(params)) {
		m.params = span{m.idText.end, int32(len(text))}
	}
	return a.answerRequest(ctx, j, dst, text, &m, x)
}

// parseValue parses a text that is one value.
func (p *parser) parseValue(text []byte, depth, tokens int) *Error {
	p.scan.limit(depth, tokens)
	i, err := p.scan.value(text, 0)
	if err == nil {
		if i = skipSpace(text, i); i < len(text) {
			err = p.scan.fail(i, "text after the value")
		}
	}
	if err != nil {
		return parseError(err)
	}
	return nil
}
