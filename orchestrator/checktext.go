package orchestrator

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/expr"
)

func (c *checker) template(path, text string, in *names) {
	t, err := parseTemplate(text)
	if err != nil {
		c.syntax(path, text, err)
		return
	}
	t.walk(func(e *expr.Expr) { c.part(path, text, e, in) })
}

// expression checks a condition, with or without {{ and }} around it.
func (c *checker) expression(path, text string, in *names) {
	e, err := parseCondition(text)
	if err != nil {
		c.syntax(path, text, err)
		return
	}
	e.Walk(func(e *expr.Expr) { c.part(path, text, e, in) })
}

// parseCondition parses an expression, with or without {{ and }} around it.
func parseCondition(text string) (*expr.Expr, error) {
	t, err := parseTemplate(text)
	if err == nil && len(t.parts) == 1 && t.parts[0].expr != nil {
		return t.parts[0].expr, nil
	}
	return expr.Parse(text)
}

func (c *checker) syntax(path, text string, err error) {
	offset := 0
	if wrong, ok := errors.AsType[*expr.SyntaxError](err); ok {
		offset = wrong.Offset
	}
	c.wrongIn(path, text, offset, "%v", err)
}

// part checks that a name is known and that the members used on it can exist.
func (c *checker) part(path, text string, e *expr.Expr, in *names) {
	switch e.Op {
	case expr.Name:
		if _, ok := in.find(e.Text); !ok {
			c.wrongIn(path, text, e.Offset, "unknown name %q; the names are %s", e.Text, in.all())
		}
	case expr.Member:
		owner := e.Args[0]
		switch owner.Op {
		case expr.Name:
			k, ok := in.find(owner.Text)
			if ok && k.fields != nil && !slices.Contains(k.fields, e.Text) {
				c.wrongIn(path, text, e.Offset, "%s has no %q; it has %s", owner.Text, e.Text, or(strings.Join(k.fields, ", "), "nothing"))
			}
		case expr.Member:
			c.branch(path, text, e, in)
		}
	}
}

// branch checks paths such as reviews.results.alice, whose branch names are known too.
func (c *checker) branch(path, text string, e *expr.Expr, in *names) {
	results := e.Args[0]
	if results.Text != "results" || results.Args[0].Op != expr.Name {
		return
	}
	k, ok := in.find(results.Args[0].Text)
	if !ok || k.branches == nil {
		return
	}
	if _, ok := k.branches[e.Text]; !ok {
		c.wrongIn(path, text, e.Offset, "%s has no branch %q; it has %s", results.Args[0].Text, e.Text,
			or(strings.Join(slices.Sorted(maps.Keys(k.branches)), ", "), "none with an id"))
	}
}
