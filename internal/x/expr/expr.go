// Package expr implements the expressions of plans and policies. An expression reads values by
// path, such as draft.text or item.name, compares them and calls a few built-in functions. It has
// no loops, so its run time is bounded by its length and the size of the values.
//
//	or    = and { "||" and }
//	and   = not { "&&" not }
//	not   = "!" not | cmp
//	cmp   = value [ ("==" | "!=" | "<" | "<=" | ">" | ">=") value ]
//	value = literal | "(" or ")" | function "(" [ or { "," or } ] ")" | name { "." name | "[" or "]" }
//
// Plans use [Parse] and [Expr.Eval]: a missing member is null, and texts with numbers are compared
// as numbers, because agents often send them so. Policies use [ParseStrict] and [Expr.Match]: a
// comparison with a missing member is false, and values of different types are an error.
package expr

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Expr is a parsed expression, and one node of its tree. It is safe for concurrent use.
type Expr struct {
	Op     byte // one of the constants below
	Text   string
	Args   []*Expr
	Offset int // in the source text

	value jsonrpc.Raw // of a literal
	f     function    // of a call
	re    *regexp.Regexp
}

// The values of Op.
const (
	Literal = 'l'
	Name    = 'n' // Text: a name of the scope
	Member  = '.' // Args[0], Text
	Index   = '[' // Args[0], Args[1]
	Call    = 'f' // Text, Args
	Not     = '!'
	And     = '&'
	Or      = '|'
	Compare = '=' // Text is the operator
)

// A SyntaxError is an error at a byte offset of a text.
type SyntaxError struct {
	Offset int
	Text   string
}

func (e *SyntaxError) Error() string { return e.Text }

const (
	maxExpr  = 4096 // bytes of an expression
	maxNodes = 64   // nesting depth
)

type parser struct {
	s      string
	at     int
	depth  int
	strict bool
}

// Parse parses an expression for [Expr.Eval].
func Parse(s string) (*Expr, error) { return parse(s, false) }

// ParseStrict parses an expression for [Expr.Match]. It has more functions than [Parse] allows:
// has, glob and matches.
func ParseStrict(s string) (*Expr, error) { return parse(s, true) }

func parse(s string, strict bool) (*Expr, error) {
	if len(s) > maxExpr {
		return nil, &SyntaxError{0, fmt.Sprintf("an expression has at most %d bytes", maxExpr)}
	}
	p := &parser{s: s, strict: strict}
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(s) {
		return nil, p.fail("unexpected %q", Clip(s[p.at:]))
	}
	return e, nil
}

// Clip shortens a text for an error message.
func Clip(s string) string {
	if len(s) <= 24 {
		return s
	}
	cut := 24
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{p.at, fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

// acceptToken consumes one of the given tokens; the longest match comes first.
func (p *parser) acceptToken(tokens ...string) string {
	p.space()
	for _, t := range tokens {
		if strings.HasPrefix(p.s[p.at:], t) {
			p.at += len(t)
			return t
		}
	}
	return ""
}

func (p *parser) or() (*Expr, error)  { return p.chain("||", Or, p.and) }
func (p *parser) and() (*Expr, error) { return p.chain("&&", And, p.not) }

func (p *parser) chain(token string, op byte, next func() (*Expr, error)) (*Expr, error) {
	if p.depth++; p.depth > maxNodes {
		return nil, p.fail("the expression is nested too deeply")
	}
	defer func() { p.depth-- }()
	left, err := next()
	for err == nil && p.acceptToken(token) != "" {
		var right *Expr
		at := p.at
		if right, err = next(); err == nil {
			left = &Expr{Op: op, Args: []*Expr{left, right}, Offset: at}
		}
	}
	return left, err
}

func (p *parser) not() (*Expr, error) {
	p.space()
	at := p.at
	if strings.HasPrefix(p.s[at:], "!") && !strings.HasPrefix(p.s[at:], "!=") {
		if p.depth++; p.depth > maxNodes {
			return nil, p.fail("the expression is nested too deeply")
		}
		defer func() { p.depth-- }()
		p.at++
		e, err := p.not()
		return &Expr{Op: Not, Args: []*Expr{e}, Offset: at}, err
	}
	left, err := p.value()
	if err != nil {
		return nil, err
	}
	at = p.at
	op := p.acceptToken("==", "!=", "<=", ">=", "<", ">")
	if op == "" {
		return left, nil
	}
	right, err := p.value()
	return &Expr{Op: Compare, Text: op, Args: []*Expr{left, right}, Offset: at}, err
}

func (p *parser) value() (*Expr, error) {
	p.space()
	at := p.at
	if at == len(p.s) {
		return nil, p.fail("missing operand")
	}
	var (
		e   *Expr
		err error
	)
	switch c := p.s[at]; {
	case c == '(':
		p.at++
		if e, err = p.or(); err != nil {
			return nil, err
		}
		if p.acceptToken(")") == "" {
			return nil, p.fail("missing )")
		}
	case c == '"' || c == '\'':
		e, err = p.quoted(c)
	case c == '-' || c >= '0' && c <= '9':
		e, err = p.number()
	case IsNameStart(c):
		e, err = p.name()
	default:
		return nil, p.fail("unexpected %q", Clip(p.s[at:]))
	}
	if err != nil {
		return nil, err
	}
	return p.path(e)
}

// IsNameStart reports whether a name may begin with c.
func IsNameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// IsNamePart reports whether a name may contain c.
func IsNamePart(c byte) bool { return IsNameStart(c) || c == '-' || c >= '0' && c <= '9' }

func (p *parser) word() string {
	from := p.at
	for p.at < len(p.s) && IsNamePart(p.s[p.at]) {
		p.at++
	}
	return p.s[from:p.at]
}

func (p *parser) name() (*Expr, error) {
	at := p.at
	word := p.word()
	switch word {
	case "true", "false", "null":
		return &Expr{Op: Literal, value: jsonrpc.Raw(word), Offset: at}, nil
	}
	if p.acceptToken("(") == "" {
		return &Expr{Op: Name, Text: word, Offset: at}, nil
	}
	f, known := functions[word]
	if !known || f.strict && !p.strict {
		return nil, &SyntaxError{at, fmt.Sprintf("unknown function %q; the functions are %s", word, functionNames(p.strict))}
	}
	e := &Expr{Op: Call, Text: word, Offset: at, f: f}
	if p.acceptToken(")") == "" {
		for {
			arg, err := p.or()
			if err != nil {
				return nil, err
			}
			e.Args = append(e.Args, arg)
			if p.acceptToken(")") != "" {
				break
			}
			if p.acceptToken(",") == "" {
				return nil, p.fail("missing , or )")
			}
		}
	}
	if len(e.Args) != f.args {
		return nil, &SyntaxError{at, fmt.Sprintf("%s takes %d, not %d", word, f.args, len(e.Args))}
	}
	if word == "matches" {
		return e, e.compile()
	}
	return e, nil
}

// compile compiles the regular expression of a call of matches.
func (e *Expr) compile() error {
	pattern, ok := StringOf(e.Args[0].value)
	if !ok {
		return &SyntaxError{e.Args[0].Offset, "the first argument of matches must be a text in quotes"}
	}
	var err error
	if e.re, err = regexp.Compile(pattern); err != nil {
		return &SyntaxError{e.Args[0].Offset, fmt.Sprintf("not a regular expression: %v", err)}
	}
	return nil
}

func (p *parser) path(e *Expr) (*Expr, error) {
	for n := 0; ; n++ {
		if n > maxNodes {
			return nil, p.fail("the path is too long")
		}
		at := p.at
		switch p.acceptToken(".", "[") {
		case ".":
			if p.space(); p.at == len(p.s) || !IsNamePart(p.s[p.at]) {
				return nil, p.fail("missing name after the dot")
			}
			nameAt := p.at
			e = &Expr{Op: Member, Text: p.word(), Args: []*Expr{e}, Offset: nameAt}
		case "[":
			i, err := p.or()
			if err != nil {
				return nil, err
			}
			if p.acceptToken("]") == "" {
				return nil, p.fail("missing ]")
			}
			e = &Expr{Op: Index, Args: []*Expr{e, i}, Offset: at}
		default:
			return e, nil
		}
	}
}

func (p *parser) quoted(quote byte) (*Expr, error) {
	at := p.at
	var b strings.Builder
	for p.at++; p.at < len(p.s); p.at++ {
		switch c := p.s[p.at]; c {
		case quote:
			p.at++
			return &Expr{Op: Literal, value: Quote(b.String()), Offset: at}, nil
		case '\\':
			if p.at++; p.at == len(p.s) {
				return nil, &SyntaxError{at, "missing closing quote"}
			}
			switch c := p.s[p.at]; c {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '\\', '"', '\'':
				b.WriteByte(c)
			default:
				return nil, p.fail(`unknown escape \%c; the escapes are \n, \t, \\, \" and \'`, c)
			}
		default:
			b.WriteByte(c)
		}
	}
	return nil, &SyntaxError{at, "missing closing quote"}
}

func (p *parser) number() (*Expr, error) {
	at := p.at
	for p.at < len(p.s) && strings.IndexByte("+-.eE0123456789", p.s[p.at]) >= 0 {
		p.at++
	}
	raw, err := jsonrpc.ParseRaw([]byte(p.s[at:p.at]))
	if err != nil {
		return nil, &SyntaxError{at, fmt.Sprintf("%q is not a number", Clip(p.s[at:p.at]))}
	}
	return &Expr{Op: Literal, value: raw, Offset: at}, nil
}

// A Scope resolves names.
type Scope interface {
	Lookup(name string) (jsonrpc.Raw, bool)
}

// Eval returns the value of an expression. A missing member is null.
func (e *Expr) Eval(s Scope) (jsonrpc.Raw, error) {
	v, err := e.eval(s, false)
	if v == nil && err == nil {
		v = null
	}
	return v, err
}

// Match returns whether an expression is true. A comparison with a missing member is false. An
// error means that the expression has no value.
//
// Match allocates no memory unless a function makes a text. The values of s must be valid JSON.
func (e *Expr) Match(s Scope) (bool, error) {
	v, err := e.eval(s, true)
	return err == nil && Truthy(v), err
}

// eval returns nil for a missing member.
func (e *Expr) eval(s Scope, strict bool) (jsonrpc.Raw, error) {
	switch e.Op {
	case Literal:
		return e.value, nil
	case Name:
		v, ok := s.Lookup(e.Text)
		if !ok {
			// A check of the names reports this earlier.
			return nil, fmt.Errorf("unknown name %q", e.Text)
		}
		return v, nil
	case And, Or:
		left, err := e.Args[0].eval(s, strict)
		if err != nil || Truthy(left) == (e.Op == Or) {
			return Bool(Truthy(left)), err
		}
		right, err := e.Args[1].eval(s, strict)
		return Bool(Truthy(right)), err
	}
	var first, second jsonrpc.Raw // no operation has more
	for i, a := range e.Args {
		v, err := a.eval(s, strict)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = v
		} else {
			second = v
		}
	}
	switch e.Op {
	case Member:
		return onlyMember(first, e.Text), nil
	case Index:
		if name, ok := StringOf(second); ok {
			return onlyMember(first, name), nil
		}
		i, err := strconv.Atoi(string(second))
		if err != nil {
			return nil, fmt.Errorf("%s is not a list index", show(second))
		}
		return element(first, i), nil
	case Not:
		return Bool(!Truthy(first)), nil
	case Compare:
		if strict {
			return compareStrictly(e.Text, first, second)
		}
		return compare(e.Text, first, second)
	case Call:
		if e.re != nil {
			return e.matches(second)
		}
		return e.f.do(first, second)
	}
	return nil, errors.New("an expression of unknown kind")
}

// Walk calls f for each node of an expression.
func (e *Expr) Walk(f func(*Expr)) {
	f(e)
	for _, a := range e.Args {
		a.Walk(f)
	}
}
