package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// Bounds of the problems of one validation.
const (
	maxProblems = 16  // further problems are not reported
	maxPointer  = 500 // approximate maximum bytes of a pointer in a message
)

// A Problem is one location at which a value is invalid.
type Problem struct {
	Pointer string // JSON pointer to the value; empty for the whole value
	Reason  string // for example "is required", without a full stop

	// Keyword is the keyword of the schema that is not satisfied; "enum" also for const, and
	// "additionalProperties" for every unknown member. It is empty for the schema false.
	Keyword string

	// Got is the type of the value ("integer" for a whole number), or the start of a string; Want
	// lists what the schema allows instead: types, values, and for anyOf and oneOf both. They are
	// set for type, enum, anyOf and oneOf, for programs that word the reason themselves. For bounds
	// of numbers, and of the length of strings, they are the number and the bound.
	Got  string
	Want []string

	depth int
}

// String returns "at /a/0: is required".
func (p Problem) String() string {
	if p.Pointer == "" {
		return p.Reason
	}
	return "at " + p.Pointer + ": " + p.Reason
}

// An InvalidError reports a value that does not satisfy its schema. It lists at most 16 problems,
// in the order of the schema's keywords and of the property names.
type InvalidError struct{ Problems []Problem }

func (e *InvalidError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// problem records that the value at the path is invalid. It returns false, so that the caller can
// return its result.
func (v *validator) problem(describe func(p *Problem)) bool {
	if v.found != nil && len(*v.found) < maxProblems {
		v.charge(16 + 2*len(v.path))
		p := Problem{Pointer: v.pointer(), depth: len(v.path)}
		describe(&p)
		*v.found = append(*v.found, p)
	}
	return false
}

func (v *validator) fail(keyword, format string, args ...any) bool {
	return v.problem(func(p *Problem) { p.Keyword, p.Reason = keyword, fmt.Sprintf(format, args...) })
}

// wrongType reports a value whose type is not in wanted. The names are those of wanted.
func (v *validator) wrongType(value any, wanted kinds, names []string) bool {
	return v.problem(func(p *Problem) {
		p.Keyword, p.Got, p.Want = "type", kindOf(value).name(), slices.Clone(names[:min(len(names), maxWant)])
		p.Reason = "must be " + wanted.words() + ", not " + (kindOf(value) &^ typeInteger).words()
	})
}

func (v *validator) pointer() string {
	var b strings.Builder
	for _, part := range v.path {
		b.WriteByte('/')
		b.WriteString(escape(harmless.Shorten(part, 100)))
		if b.Len() > maxPointer {
			b.WriteString("/…")
			break
		}
	}
	return b.String()
}

// A branch is one alternative that a value does not satisfy.
type branch struct {
	node     *node
	problems []Problem
}

// explain reports why a value satisfies no alternative: with the problems of the closest one, if
// there is exactly one.
func (v *validator) explain(keyword string, value any, tried []branch) bool {
	if v.found == nil {
		return false
	}
	v.charge(len(tried))
	before := len(*v.found)
	var types kinds
	var close []branch
	for _, b := range tried {
		if own := b.node.types; own != 0 && own&kindOf(value) == 0 {
			types |= own
			continue
		}
		if len(b.problems) == 1 && b.problems[0].Keyword == "type" && b.problems[0].depth == len(v.path) { // by a reference
			for _, name := range b.problems[0].Want {
				types |= kindNames[name]
			}
			continue
		}
		close = append(close, b)
	}
	if len(close) == 0 && types != 0 {
		v.wrongType(value, types, nil)
		return v.alternatives(keyword, value, tried, before)
	}
	if len(close) > 1 { // retain those whose problems are all below this level
		inner := slices.DeleteFunc(slices.Clone(close), func(b branch) bool {
			return slices.ContainsFunc(b.problems, func(p Problem) bool { return p.depth == len(v.path) })
		})
		if len(inner) == 1 {
			close = inner
		}
	}
	if len(close) == 1 && len(close[0].problems) > 0 {
		for _, p := range close[0].problems {
			if len(*v.found) < maxProblems {
				*v.found = append(*v.found, p)
			}
		}
		return false
	}
	v.fail(keyword, "matches none of the %d alternatives", len(tried))
	return v.alternatives(keyword, value, tried, before)
}

// alternatives adds to the problem just reported what each alternative allows.
func (v *validator) alternatives(keyword string, value any, tried []branch, before int) bool {
	if len(*v.found) == before { // there was no room for it
		return false
	}
	p := &(*v.found)[before]
	p.Keyword, p.Got, p.Want = keyword, got(value), nil
	w := wanted{left: maxWanted}
	for _, b := range tried {
		w.add(b.node, 0)
	}
	v.charge(maxWanted)
	p.Want = w.words
	return false
}

// Bounds of Problem.Want.
const (
	maxWant   = 20  // words
	maxWanted = 200 // schemas that are read for them
	maxNested = 4   // of them inside each other
)

// wanted collects what schemas allow, in a few words: values, or types.
type wanted struct {
	words []string
	left  int // schemas that may be read
}

func (w *wanted) add(n *node, depth int) {
	for ; n.ref != nil && n.types == 0 && n.enum == nil; n = n.ref { // weigh excludes loops
		w.left--
	}
	if w.left--; w.left < 0 {
		return
	}
	switch {
	case n.enum != nil:
		for _, c := range n.enum[:min(len(n.enum), maxWant)] {
			w.word(strings.Trim(c.text, `"`))
		}
	case n.types != 0:
		for _, name := range n.typeNames[:min(len(n.typeNames), maxWant)] {
			switch {
			case name == "array" && n.items != nil && depth < maxNested:
				of := wanted{left: w.left}
				of.add(n.items, depth+1)
				if w.left = of.left; len(of.words) == 1 {
					name = of.words[0] + "[]"
				}
			case name == "object" && len(n.required) > 0:
				name = "object with " + harmless.Shorten(strings.Join(n.required[:min(len(n.required), maxWant)], " and "), 80)
			}
			w.word(name)
		}
	case depth < maxNested:
		for _, list := range [][]*node{n.anyOf, n.oneOf} {
			for _, sub := range list {
				if w.left > 0 {
					w.add(sub, depth+1)
				}
			}
		}
	}
}

func (w *wanted) word(text string) {
	if len(w.words) < maxWant && !slices.Contains(w.words, text) {
		w.words = append(w.words, text)
	}
}

// got describes a value for Problem.Got.
func got(value any) string {
	if text, ok := value.(string); ok {
		return strconv.Quote(harmless.Shorten(text, 80))
	}
	return kindOf(value).name()
}
