package lens

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

const (
	maxBrief = 64 << 10 // bytes of a result that is read for its words
	fewBytes = 48       // what is as short as this is shown as it is
)

// Brief gives a result that no protocol has words for a few: the value if it is short, else what it is a list of, or the names in it. It
// stands behind the other judges.
func Brief() capture.Judge {
	return func(l *capture.Look) {
		if l.Row.Kind == capture.RowResult && l.Row.Brief == "" && l.Message != nil && l.Message.Bad == nil {
			l.Row.Brief = briefOf(l.Message.Result)
		}
	}
}

// briefOf is a result in a few words, "" for none.
func briefOf(result jsonrpc.Raw) string {
	v := jsontext.Value(bytes.TrimSpace(result))
	switch {
	case len(v) == 0 || len(v) > maxBrief:
		return ""
	case string(v) == "{}":
		return "" // done, with nothing to say
	case v.Kind() == '"':
		return short(strings.ToValidUTF8(string(v), "\uFFFD"))
	case v.Kind() != '{' && v.Kind() != '[', len(v) <= fewBytes:
		return short(string(v))
	case v.Kind() == '[':
		return count(v, "item")
	}
	var names []string
	var list string
	each(v, func(name string, value jsontext.Value) {
		switch kind := value.Kind(); {
		case kind == '[' && list == "" && len(value) > 2:
			list = count(value, name)
		case kind == '{' && (name == "serverInfo" || name == "agentInfo"):
			var who struct {
				Name    text `json:"name"`
				Version text `json:"version"`
			}
			decode(jsonrpc.Raw(value), &who)
			list = strings.TrimSpace(string(who.Name + " " + who.Version))
		}
		names = append(names, name)
	})
	if list != "" {
		return short(list)
	}
	return short(strings.Join(names, ", "))
}

// each calls f for the members of an object.
func each(object jsontext.Value, f func(name string, value jsontext.Value)) {
	dec := jsontext.NewDecoder(bytes.NewReader(object), lenient)
	if _, err := dec.ReadToken(); err != nil {
		return
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return
		}
		text := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return
		}
		f(text, value)
	}
}

// count is how many of what a list has: "1 tool", "3 tools".
func count(list jsontext.Value, what string) string {
	n := 0
	dec := jsontext.NewDecoder(bytes.NewReader(list), lenient)
	if _, err := dec.ReadToken(); err != nil {
		return ""
	}
	for dec.PeekKind() != ']' {
		if dec.SkipValue() != nil {
			return ""
		}
		n++
	}
	switch {
	case n == 1 && strings.HasSuffix(what, "s") && !strings.HasSuffix(what, "ss"):
		what = what[:len(what)-1]
	case n != 1 && what == "item":
		what = "items"
	}
	return strconv.Itoa(n) + " " + what
}
