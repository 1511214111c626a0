package suite

import (
	"maps"
	"regexp"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// variable matches a variable with its braces.
var variable = regexp.MustCompile(`\{\{([A-Za-z_][A-Za-z0-9_.-]*)\}\}`)

// IsVariable reports whether a name is valid for a variable.
func IsVariable(name string) bool {
	found := variable.FindString("{{" + name + "}}")
	return found != "" && len(found) == len(name)+4
}

// fillText replaces each {{name}} of a text by the value of its variable, unchanged. A variable
// without a value is left as it is. Values are not expanded again.
func fillText(text string, values Values) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := values[found[2:len(found)-2]]; ok {
			return value.Text
		}
		return found
	})
}

// fillJSON replaces the variables in the strings of a JSON value: a string that is only {{name}}
// becomes the variable's value, which may be of any type. Elsewhere in a string the value's text is
// inserted. Names of members are filled, too.
func fillJSON(value jsonrpc.Raw, values Values) jsonrpc.Raw {
	if !variable.Match(value) {
		return value
	}
	return appendFilled(nil, value, values)
}

func appendFilled(dst []byte, value jsonrpc.Raw, values Values) []byte {
	switch {
	case len(value) == 0:
		return dst
	case value[0] == '{':
		dst = append(dst, '{')
		for name, member := range value.Members() {
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(jsonrpc.AppendString(dst, fillText(string(name), values)), ':')
			dst = appendFilled(dst, member, values)
		}
		return append(dst, '}')
	case value[0] == '[':
		dst = append(dst, '[')
		for element := range value.Elements() {
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			dst = appendFilled(dst, element, values)
		}
		return append(dst, ']')
	case value[0] == '"':
		text := ValueOf(value).Text
		if m := variable.FindStringSubmatch(text); m != nil && len(m[0]) == len(text) {
			if v, ok := values[m[1]]; ok {
				return append(dst, v.JSON...)
			}
		}
		return jsonrpc.AppendString(dst, fillText(text, values))
	}
	return append(dst, value...)
}

// used returns the names of the variables in texts, each once, in order.
func used(texts ...string) (names []string) {
	for _, text := range texts {
		for _, m := range variable.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// texts returns everything of a call in which variables are filled.
func (c *Call) texts() []string {
	list := []string{c.Target, c.Text, c.Method, string(c.Params)}
	for _, h := range c.Headers {
		if h.Value != nil {
			list = append(list, *h.Value)
		}
	}
	for _, a := range c.Asserts {
		list = append(list, a.Path, string(a.Value))
	}
	for _, method := range slices.Sorted(maps.Keys(c.Answers)) {
		list = append(list, string(c.Answers[method]))
	}
	return list
}

// merge returns the variables of all groups. Later groups replace variables of earlier ones.
func merge(groups ...Values) Values {
	all := make(Values)
	for _, g := range groups {
		maps.Copy(all, g)
	}
	return all
}
