package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A form is a schema that is being written: its keywords in order. An empty form allows everything.
type form []Keyword

func typed(name string, more ...Keyword) form {
	return append(form{{"type", quote(name)}}, more...)
}

func quote(text string) jsonrpc.Raw { return jsonrpc.AppendString(nil, text) }

func decimal(n int64) jsonrpc.Raw { return strconv.AppendInt(nil, n, 10) }

// parseForm reads the text of a schema.
func parseForm(text jsonrpc.Raw) (n form) {
	if string(text) == "false" {
		return form{{"not", jsonrpc.Raw("true")}}
	}
	for name, value := range text.Members() {
		n = append(n, Keyword{string(name), value})
	}
	return n
}

func (n form) isNever() bool {
	return len(n) == 1 && n[0].Name == "not" && string(n[0].Value) == "true"
}

// get returns the value of a keyword, or nil.
func (n form) get(name string) jsonrpc.Raw {
	for _, k := range n {
		if k.Name == name {
			return k.Value
		}
	}
	return nil
}

// set replaces the value of a keyword that n has.
func (n form) set(name string, value jsonrpc.Raw) {
	for i := range n {
		if n[i].Name == name {
			n[i].Value = value
		}
	}
}

// beforeDescription are the keywords that components have before the description.
var beforeDescription = []string{"type", "properties", "dependencies", "items", "$id", "$schema", "$ref", "$comment", "$defs", "definitions",
	"$anchor", "$dynamicAnchor", "$dynamicRef", "$vocabulary", "title"}

// describe sets the description of a component.
func (n form) describe(description Keyword) form {
	n = slices.DeleteFunc(slices.Clone(n), func(k Keyword) bool { return k.Name == "description" })
	at := slices.IndexFunc(n, func(k Keyword) bool { return !slices.Contains(beforeDescription, k.Name) })
	if at < 0 {
		at = len(n)
	}
	return slices.Insert(n, at, description)
}

// nullable returns a schema that also allows null.
func (g *Generator) nullable(n form) form {
	kind := string(n.get("type"))
	switch {
	case len(n) == 0, n.isNever(), strings.Contains(kind, `"null"`):
		return n
	case kind != "" && kind[0] == '"' && !slices.ContainsFunc(n, func(k Keyword) bool {
		return slices.Contains([]string{"enum", "const", "allOf", "anyOf", "oneOf", "not"}, k.Name)
	}):
		n = slices.Clone(n)
		n.set("type", jsonrpc.Raw("["+kind+`,"null"]`))
		return n
	}
	return form{{"anyOf", jsonrpc.Raw("[" + string(g.text(n)) + `,{"type":"null"}]`)}}
}

// text writes the schema.
func (g *Generator) text(n form) jsonrpc.Raw {
	switch {
	case n.isNever():
		return jsonrpc.Raw("false")
	case len(n) == 0 && g.Prefix != "":
		return jsonrpc.Raw("true")
	}
	dst := []byte{'{'}
	for i, k := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(jsonrpc.AppendString(dst, k.Name), ':'), k.Value...)
	}
	return append(dst, '}')
}
