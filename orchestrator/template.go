package orchestrator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A template is text with expressions between {{ and }}.
type template struct {
	parts []templatePart
}

type templatePart struct {
	text string
	expr *expr // nil: text as it is
}

func parseTemplate(s string) (*template, error) {
	t := &template{}
	for at := 0; at < len(s); {
		open := strings.Index(s[at:], "{{")
		if open < 0 {
			t.parts = append(t.parts, templatePart{text: s[at:]})
			break
		}
		if open > 0 {
			t.parts = append(t.parts, templatePart{text: s[at : at+open]})
		}
		from := at + open + 2
		n := endOfExpr(s[from:])
		if n < 0 {
			return nil, &syntaxError{at + open, "a }} is missing"}
		}
		e, err := parseExpr(s[from : from+n])
		if err != nil {
			if wrong, ok := errors.AsType[*syntaxError](err); ok {
				return nil, &syntaxError{from + wrong.offset, wrong.text}
			}
			return nil, err
		}
		e.walk(func(part *expr) { part.offset += from })
		t.parts = append(t.parts, templatePart{expr: e})
		at = from + n + 2
	}
	return t, nil
}

// endOfExpr finds the }} that is not in a quoted text.
func endOfExpr(s string) int {
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '}' && strings.HasPrefix(s[i:], "}}"):
			return i
		}
	}
	return -1
}

// eval returns the value of a template that is one expression, and text for all others.
func (t *template) eval(s scope) (jsonrpc.Raw, error) {
	if len(t.parts) == 1 && t.parts[0].expr != nil {
		return t.parts[0].expr.eval(s)
	}
	text, err := t.text(s)
	return textValue(text), err
}

// text returns the text of a template.
func (t *template) text(s scope) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.expr == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := p.expr.eval(s)
		if err != nil {
			return "", err
		}
		b.WriteString(textOf(v))
		if b.Len() > maxText {
			return "", fmt.Errorf("the text has more than %d bytes", maxText)
		}
	}
	return b.String(), nil
}

// maxText bounds what a template becomes, in bytes.
const maxText = 1 << 20

// walk calls f for every expression.
func (t *template) walk(f func(*expr)) {
	for _, p := range t.parts {
		if p.expr != nil {
			p.expr.walk(f)
		}
	}
}
