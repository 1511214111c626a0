package orchestrator

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// An expression is what stands between {{ and }}, in when and in until. It reads values by path, such as draft.text or item.name,
// compares them, and knows a few functions; it has no loops and cannot run for long.
//
//	or    = and { "||" and }
//	and   = not { "&&" not }
//	not   = "!" not | cmp
//	cmp   = value [ ("==" | "!=" | "<" | "<=" | ">" | ">=") value ]
//	value = literal | "(" or ")" | function "(" [ or { "," or } ] ")" | name { "." name | "[" or "]" }
type expr struct {
	op     byte // see below
	text   string
	value  jsonrpc.Raw
	args   []*expr
	offset int // in the text it was read from
}

const (
	opLiteral = 'l' // value
	opName    = 'n' // text: a name of the scope
	opMember  = '.' // args[0], text
	opIndex   = '[' // args[0], args[1]
	opCall    = 'f' // text, args
	opNot     = '!'
	opAnd     = '&'
	opOr      = '|'
	opCompare = '=' // text is the operator
)

// A syntaxError is what is wrong at a byte of a text.
type syntaxError struct {
	offset int
	text   string
}

func (e *syntaxError) Error() string { return e.text }

const (
	maxExpr  = 4096 // bytes of an expression
	maxNodes = 64   // of its depth
)

type exprParser struct {
	s     string
	at    int
	depth int
}

func parseExpr(s string) (*expr, error) {
	if len(s) > maxExpr {
		return nil, &syntaxError{0, fmt.Sprintf("an expression has at most %d bytes", maxExpr)}
	}
	p := &exprParser{s: s}
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(s) {
		return nil, p.fail("cannot read %q here", clip(s[p.at:]))
	}
	return e, nil
}

// clip shortens a text for a message.
func clip(s string) string {
	if len(s) <= 24 {
		return s
	}
	cut := 24
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func (p *exprParser) fail(format string, args ...any) error {
	return &syntaxError{p.at, fmt.Sprintf(format, args...)}
}

func (p *exprParser) space() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

// take reads one of some tokens, the longest first.
func (p *exprParser) take(tokens ...string) string {
	p.space()
	for _, t := range tokens {
		if strings.HasPrefix(p.s[p.at:], t) {
			p.at += len(t)
			return t
		}
	}
	return ""
}

func (p *exprParser) or() (*expr, error)  { return p.chain("||", opOr, p.and) }
func (p *exprParser) and() (*expr, error) { return p.chain("&&", opAnd, p.not) }

func (p *exprParser) chain(token string, op byte, next func() (*expr, error)) (*expr, error) {
	if p.depth++; p.depth > maxNodes {
		return nil, p.fail("the expression is nested too deep")
	}
	defer func() { p.depth-- }()
	left, err := next()
	for err == nil && p.take(token) != "" {
		var right *expr
		at := p.at
		if right, err = next(); err == nil {
			left = &expr{op: op, args: []*expr{left, right}, offset: at}
		}
	}
	return left, err
}

func (p *exprParser) not() (*expr, error) {
	p.space()
	at := p.at
	if strings.HasPrefix(p.s[at:], "!") && !strings.HasPrefix(p.s[at:], "!=") {
		if p.depth++; p.depth > maxNodes {
			return nil, p.fail("the expression is nested too deep")
		}
		defer func() { p.depth-- }()
		p.at++
		e, err := p.not()
		return &expr{op: opNot, args: []*expr{e}, offset: at}, err
	}
	left, err := p.value()
	if err != nil {
		return nil, err
	}
	at = p.at
	op := p.take("==", "!=", "<=", ">=", "<", ">")
	if op == "" {
		return left, nil
	}
	right, err := p.value()
	return &expr{op: opCompare, text: op, args: []*expr{left, right}, offset: at}, err
}

func (p *exprParser) value() (*expr, error) {
	p.space()
	at := p.at
	if at == len(p.s) {
		return nil, p.fail("something is missing here")
	}
	var (
		e   *expr
		err error
	)
	switch c := p.s[at]; {
	case c == '(':
		p.at++
		if e, err = p.or(); err != nil {
			return nil, err
		}
		if p.take(")") == "" {
			return nil, p.fail("a ) is missing")
		}
	case c == '"' || c == '\'':
		e, err = p.quoted(c)
	case c == '-' || c >= '0' && c <= '9':
		e, err = p.number()
	case isNameStart(c):
		e, err = p.name()
	default:
		return nil, p.fail("cannot read %q here", clip(p.s[at:]))
	}
	if err != nil {
		return nil, err
	}
	return p.members(e)
}

func isNameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isNamePart(c byte) bool { return isNameStart(c) || c == '-' || c >= '0' && c <= '9' }

func (p *exprParser) word() string {
	from := p.at
	for p.at < len(p.s) && isNamePart(p.s[p.at]) {
		p.at++
	}
	return p.s[from:p.at]
}

func (p *exprParser) name() (*expr, error) {
	at := p.at
	word := p.word()
	switch word {
	case "true", "false", "null":
		return &expr{op: opLiteral, value: jsonrpc.Raw(word), offset: at}, nil
	}
	if p.take("(") == "" {
		return &expr{op: opName, text: word, offset: at}, nil
	}
	f, known := functions[word]
	if !known {
		return nil, &syntaxError{at, fmt.Sprintf("there is no function %q; there are %s", word, functionNames())}
	}
	e := &expr{op: opCall, text: word, offset: at}
	if p.take(")") == "" {
		for {
			arg, err := p.or()
			if err != nil {
				return nil, err
			}
			e.args = append(e.args, arg)
			if p.take(")") != "" {
				break
			}
			if p.take(",") == "" {
				return nil, p.fail("a , or a ) is missing")
			}
		}
	}
	if len(e.args) != f.args {
		return nil, &syntaxError{at, fmt.Sprintf("%s takes %d, not %d", word, f.args, len(e.args))}
	}
	return e, nil
}

func (p *exprParser) members(e *expr) (*expr, error) {
	for n := 0; ; n++ {
		if n > maxNodes {
			return nil, p.fail("the path is too long")
		}
		at := p.at
		switch p.take(".", "[") {
		case ".":
			if p.space(); p.at == len(p.s) || !isNamePart(p.s[p.at]) {
				return nil, p.fail("a name is missing behind the dot")
			}
			nameAt := p.at
			e = &expr{op: opMember, text: p.word(), args: []*expr{e}, offset: nameAt}
		case "[":
			i, err := p.or()
			if err != nil {
				return nil, err
			}
			if p.take("]") == "" {
				return nil, p.fail("a ] is missing")
			}
			e = &expr{op: opIndex, args: []*expr{e, i}, offset: at}
		default:
			return e, nil
		}
	}
}

func (p *exprParser) quoted(quote byte) (*expr, error) {
	at := p.at
	var b strings.Builder
	for p.at++; p.at < len(p.s); p.at++ {
		switch c := p.s[p.at]; c {
		case quote:
			p.at++
			return &expr{op: opLiteral, value: textValue(b.String()), offset: at}, nil
		case '\\':
			if p.at++; p.at == len(p.s) {
				return nil, &syntaxError{at, "the text has no end"}
			}
			switch c := p.s[p.at]; c {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '\\', '"', '\'':
				b.WriteByte(c)
			default:
				return nil, p.fail(`\%c means nothing here; there are \n, \t, \\, \" and \'`, c)
			}
		default:
			b.WriteByte(c)
		}
	}
	return nil, &syntaxError{at, "the text has no end"}
}

func (p *exprParser) number() (*expr, error) {
	at := p.at
	for p.at < len(p.s) && strings.IndexByte("+-.eE0123456789", p.s[p.at]) >= 0 {
		p.at++
	}
	raw, err := jsonrpc.ParseRaw([]byte(p.s[at:p.at]))
	if err != nil {
		return nil, &syntaxError{at, fmt.Sprintf("%q is no number", clip(p.s[at:p.at]))}
	}
	return &expr{op: opLiteral, value: raw, offset: at}, nil
}

// A scope finds the value of a name.
type scope interface {
	lookup(name string) (jsonrpc.Raw, bool)
}

// eval returns the value of an expression. What is not there is null.
func (e *expr) eval(s scope) (jsonrpc.Raw, error) {
	switch e.op {
	case opLiteral:
		return e.value, nil
	case opName:
		v, ok := s.lookup(e.text)
		if !ok {
			return nil, fmt.Errorf("%q is not known here", e.text) // the check sees it before, except in values from Go
		}
		return v, nil
	case opAnd, opOr:
		left, err := e.args[0].eval(s)
		if err != nil || truthy(left) == (e.op == opOr) {
			return boolValue(truthy(left)), err
		}
		right, err := e.args[1].eval(s)
		return boolValue(truthy(right)), err
	}
	args := make([]jsonrpc.Raw, len(e.args))
	for i, a := range e.args {
		var err error
		if args[i], err = a.eval(s); err != nil {
			return nil, err
		}
	}
	switch e.op {
	case opMember:
		return member(args[0], e.text), nil
	case opIndex:
		if name, ok := stringOf(args[1]); ok {
			return member(args[0], name), nil
		}
		i, err := strconv.Atoi(string(args[1]))
		if err != nil {
			return nil, fmt.Errorf("%s is no place in a list", clip(string(args[1])))
		}
		return element(args[0], i), nil
	case opNot:
		return boolValue(!truthy(args[0])), nil
	case opCompare:
		return compare(e.text, args[0], args[1])
	case opCall:
		return functions[e.text].do(args)
	}
	return nil, errors.New("an expression of no kind")
}

// walk calls f for every part of an expression.
func (e *expr) walk(f func(*expr)) {
	f(e)
	for _, a := range e.args {
		a.walk(f)
	}
}
