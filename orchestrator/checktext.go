package orchestrator

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

func (c *checker) template(path, text string, in *names) {
	t, err := parseTemplate(text)
	if err != nil {
		c.syntax(path, text, err)
		return
	}
	t.walk(func(e *expr) { c.part(path, text, e, in) })
}

// expression checks a condition, which may stand between {{ and }} or not.
func (c *checker) expression(path, text string, in *names) {
	e, err := parseCondition(text)
	if err != nil {
		c.syntax(path, text, err)
		return
	}
	e.walk(func(e *expr) { c.part(path, text, e, in) })
}

// parseCondition reads an expression, with {{ and }} around it or without.
func parseCondition(text string) (*expr, error) {
	t, err := parseTemplate(text)
	if err == nil && len(t.parts) == 1 && t.parts[0].expr != nil {
		return t.parts[0].expr, nil
	}
	return parseExpr(text)
}

func (c *checker) syntax(path, text string, err error) {
	offset := 0
	if wrong, ok := errors.AsType[*syntaxError](err); ok {
		offset = wrong.offset
	}
	c.wrongIn(path, text, offset, "%v", err)
}

// part checks that a name is known, and that its members can be.
func (c *checker) part(path, text string, e *expr, in *names) {
	switch e.op {
	case opName:
		if _, ok := in.find(e.text); !ok {
			c.wrongIn(path, text, e.offset, "%q names nothing here; there are %s", e.text, in.all())
		}
	case opMember:
		owner := e.args[0]
		switch owner.op {
		case opName:
			k, ok := in.find(owner.text)
			if ok && k.fields != nil && !slices.Contains(k.fields, e.text) {
				c.wrongIn(path, text, e.offset, "%s has no %q; it has %s", owner.text, e.text, or(strings.Join(k.fields, ", "), "nothing"))
			}
		case opMember:
			c.branch(path, text, e, in)
		}
	}
}

// branch checks reviews.results.alice, whose names are known too.
func (c *checker) branch(path, text string, e *expr, in *names) {
	results := e.args[0]
	if results.text != "results" || results.args[0].op != opName {
		return
	}
	k, ok := in.find(results.args[0].text)
	if !ok || k.branches == nil {
		return
	}
	if _, ok := k.branches[e.text]; !ok {
		c.wrongIn(path, text, e.offset, "%s has no branch %q; it has %s", results.args[0].text, e.text,
			or(strings.Join(slices.Sorted(maps.Keys(k.branches)), ", "), "none with an id"))
	}
}
