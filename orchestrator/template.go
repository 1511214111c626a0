package orchestrator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A template is text with expressions between {{ and }}.
type template struct {
	parts []templatePart
}

type templatePart struct {
	text string
	expr *expr.Expr // nil: literal text
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
			return nil, &expr.SyntaxError{Offset: at + open, Text: "missing }}"}
		}
		e, err := expr.Parse(s[from : from+n])
		if err != nil {
			if wrong, ok := errors.AsType[*expr.SyntaxError](err); ok {
				return nil, &expr.SyntaxError{Offset: from + wrong.Offset, Text: wrong.Text}
			}
			return nil, err
		}
		e.Walk(func(part *expr.Expr) { part.Offset += from })
		t.parts = append(t.parts, templatePart{expr: e})
		at = from + n + 2
	}
	return t, nil
}

// endOfExpr returns the index of the first }} outside quotes.
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

// eval returns the value of the expression if the template is a single expression, and text
// otherwise.
func (t *template) eval(s expr.Scope) (jsonrpc.Raw, error) {
	if len(t.parts) == 1 && t.parts[0].expr != nil {
		return t.parts[0].expr.Eval(s)
	}
	text, err := t.text(s)
	return expr.Quote(text), err
}

// text returns the evaluated template as text.
func (t *template) text(s expr.Scope) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.expr == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := p.expr.Eval(s)
		if err != nil {
			return "", err
		}
		b.WriteString(expr.TextOf(v))
		if b.Len() > maxText {
			return "", fmt.Errorf("the text has more than %d bytes", maxText)
		}
	}
	return b.String(), nil
}

// maxText bounds an evaluated template, in bytes.
const maxText = 1 << 20

// walk calls f for every expression.
func (t *template) walk(f func(*expr.Expr)) {
	for _, p := range t.parts {
		if p.expr != nil {
			p.expr.Walk(f)
		}
	}
}
