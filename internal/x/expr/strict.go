package expr

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/glob"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// isNumber reports whether a value is a JSON number.
func isNumber(v jsonrpc.Raw) bool {
	c := Kind(v)
	return c == '-' || c >= '0' && c <= '9'
}

// typeOf returns one byte for each type of JSON.
func typeOf(v jsonrpc.Raw) byte {
	switch c := Kind(v); {
	case c == 't' || c == 'f':
		return 't'
	case isNumber(v):
		return '0'
	default:
		return c
	}
}

// compareStrictly compares two values of one type. A comparison with a missing value is false.
// Null is equal only to null.
func compareStrictly(op string, a, b jsonrpc.Raw) (jsonrpc.Raw, error) {
	if a == nil || b == nil {
		return rawFalse, nil
	}
	if op == "==" || op == "!=" {
		equal, err := equalStrictly(a, b)
		return Bool(err == nil && equal == (op == "==")), err
	}
	order := 0
	switch kind := typeOf(a); {
	case kind != typeOf(b) || kind != '0' && kind != '"':
		return nil, fmt.Errorf("%s and %s cannot be compared", show(a), show(b))
	case kind == '0':
		var err error
		if order, err = compareNumbers(a, b); err != nil {
			return nil, err
		}
	default:
		x, okX := textBytes(a)
		y, okY := textBytes(b)
		if !okX || !okY {
			return nil, errInvalid
		}
		order = bytes.Compare(x, y)
	}
	return ordered(op, order), nil
}

var errInvalid = errors.New("a value that is compared is not valid JSON")

// equalStrictly compares two values of one type; null may be compared with everything.
func equalStrictly(a, b jsonrpc.Raw) (bool, error) {
	kind := typeOf(a)
	switch {
	case kind == 'n' || typeOf(b) == 'n':
		return kind == typeOf(b), nil
	case kind != typeOf(b):
		return false, fmt.Errorf("%s and %s cannot be compared", show(a), show(b))
	}
	switch kind {
	case '"':
		x, okX := textBytes(a)
		y, okY := textBytes(b)
		if !okX || !okY {
			return false, errInvalid
		}
		return bytes.Equal(x, y), nil
	case '0':
		order, err := compareNumbers(a, b)
		return order == 0, err
	case 't':
		return Kind(a) == Kind(b), nil
	}
	return bytes.Equal(canonical(a), canonical(b)), nil
}

const (
	maxDigits   = 512 // bytes of a number that floating point cannot tell from another
	maxExponent = 400
	maxGlob     = 64 << 10 // bytes of a text
)

// compareNumbers compares numbers exactly: 9007199254740993 differs from 9007199254740992.
func compareNumbers(a, b jsonrpc.Raw) (int, error) {
	a, b = bytes.TrimSpace(a), bytes.TrimSpace(b)
	if bytes.Equal(a, b) {
		return 0, nil
	}
	x, errX := strconv.ParseFloat(string(a), 64)
	y, errY := strconv.ParseFloat(string(b), 64)
	switch {
	case errX != nil || errY != nil:
		return 0, fmt.Errorf("%s and %s cannot be compared", show(a), show(b))
	case x < y:
		return -1, nil
	case x > y:
		return 1, nil
	}
	p, okP := exact(a)
	q, okQ := exact(b)
	if !okP || !okQ {
		return 0, fmt.Errorf("%s and %s cannot be compared", show(a), show(b))
	}
	return p.Cmp(q), nil
}

// exact returns the value of a number, within bounds.
func exact(v jsonrpc.Raw) (*big.Rat, bool) {
	if len(v) > maxDigits {
		return nil, false
	}
	if i := bytes.IndexAny(v, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(string(v[i+1:]))
		if err != nil || exponent > maxExponent || exponent < -maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(string(v))
}

// has reports whether a list contains a value. Elements of another type are not equal to it.
func has(list, v jsonrpc.Raw) (jsonrpc.Raw, error) {
	if list == nil || v == nil {
		return rawFalse, nil
	}
	if Kind(list) != '[' {
		return nil, fmt.Errorf("the first argument of has must be a list, not %s", show(list))
	}
	for e := range list.Elements() {
		if typeOf(e) != typeOf(v) {
			continue
		}
		equal, err := equalStrictly(e, v)
		if equal || err != nil {
			return Bool(equal), err
		}
	}
	return rawFalse, nil
}

// matchGlob reports whether a text matches a pattern in which each * stands for any text.
func matchGlob(pattern, text jsonrpc.Raw) (jsonrpc.Raw, error) {
	if pattern == nil || text == nil {
		return rawFalse, nil
	}
	p, okP := textBytes(pattern)
	t, okT := textBytes(text)
	if !okP || !okT {
		return nil, fmt.Errorf("glob compares texts, not %s and %s", show(pattern), show(text))
	}
	if len(t) > maxGlob {
		return nil, fmt.Errorf("glob compares texts of at most %d bytes", maxGlob)
	}
	return Bool(glob.Match(string(p), string(t))), nil
}

// matches implements the function of that name, with the compiled expression.
func (e *Expr) matches(text jsonrpc.Raw) (jsonrpc.Raw, error) {
	if text == nil {
		return rawFalse, nil
	}
	t, ok := textBytes(text)
	if !ok {
		return nil, fmt.Errorf("matches needs a text, not %s", show(text))
	}
	return Bool(e.re.Match(t)), nil
}

// PolicyNames are the names that rules of access may read, for [Expr.Check].
var PolicyNames = map[string][]string{
	"principal": {"name", "groups", "scopes", "claims"},
	"server":    nil, "method": nil, "tool": nil, "arguments": nil, "annotations": nil, "address": nil,
}

// ClaimNames are the names that expressions over the claims of a token may read, for [Expr.Check].
var ClaimNames = map[string][]string{"claims": nil}

// Check returns a [*SyntaxError] if the expression reads a name that is not in names. If the list
// of a name is not nil, only its members can be read, and only by a dot: a wrong member would never
// have a value, and a rule with it would never apply.
func (e *Expr) Check(names map[string][]string) error {
	if e.Op == Member && e.Args[0].Op == Name {
		if fields := names[e.Args[0].Text]; fields != nil && !slices.Contains(fields, e.Text) {
			return &SyntaxError{e.Offset, fmt.Sprintf("%s has no %q; it has %s", e.Args[0].Text, Clip(e.Text), strings.Join(fields, ", "))}
		}
	}
	for _, a := range e.Args {
		if fields := names[a.Text]; a.Op == Name && fields != nil {
			if e.Op == Member {
				continue
			}
			return &SyntaxError{a.Offset, fmt.Sprintf("use a member of %s: %s", a.Text, strings.Join(fields, ", "))}
		}
		if err := a.Check(names); err != nil {
			return err
		}
	}
	if e.Op != Name {
		return nil
	}
	switch fields, known := names[e.Text]; {
	case fields != nil: // only without an operation around it
		return &SyntaxError{e.Offset, fmt.Sprintf("use a member of %s: %s", e.Text, strings.Join(fields, ", "))}
	case !known:
		return &SyntaxError{e.Offset, fmt.Sprintf("unknown name %q; the names are %s", Clip(e.Text), strings.Join(slices.Sorted(maps.Keys(names)), ", "))}
	}
	return nil
}

// Names returns the names that an expression reads, without duplicates, in order of appearance.
func (e *Expr) Names() []string {
	var names []string
	e.Walk(func(e *Expr) {
		if e.Op == Name && !slices.Contains(names, e.Text) {
			names = append(names, e.Text)
		}
	})
	return names
}
