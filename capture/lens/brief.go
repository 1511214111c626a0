package lens

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

const (
	maxBrief = 64 << 10 // maximum bytes of a result that is summarized
	fewBytes = 48       // a value of at most this length is shown unchanged
)

// Brief returns a Judge that summarizes results without a protocol-specific summary: the value if
// it is short, else what it is a list of, or its member names. It must be the last of the judges.
func Brief() capture.Judge {
	return func(l *capture.Look) {
		if l.Row.Kind == capture.RowResult && l.Row.Brief == "" && l.Message != nil && l.Message.Bad == nil {
			l.Row.Brief = briefOf(l.Message.Result)
		}
	}
}

// briefOf returns a short summary of a result, or "".
func briefOf(result jsonrpc.Raw) string {
	v := jsonrpc.Raw(bytes.TrimSpace(result))
	switch {
	case len(v) == 0 || len(v) > maxBrief:
		return ""
	case string(v) == "{}":
		return "" // completed, without details
	case v[0] == '"':
		return short(strings.ToValidUTF8(string(v), "\uFFFD"))
	case v[0] != '{' && v[0] != '[', len(v) <= fewBytes:
		return short(string(v))
	case v[0] == '[':
		return count(v, "item")
	}
	var names []string
	var list string
	for member, value := range v.Members() {
		name := strings.ToValidUTF8(string(member), "\uFFFD")
		switch kind := value[0]; {
		case kind == '[' && list == "" && len(value) > 2:
			list = count(value, name)
		case kind == '{' && (name == "serverInfo" || name == "agentInfo"):
			var who struct {
				Name    text `json:"name"`
				Version text `json:"version"`
			}
			decode(value, &who)
			list = strings.TrimSpace(string(who.Name + " " + who.Version))
		}
		names = append(names, name)
	}
	if list != "" {
		return short(list)
	}
	return short(strings.Join(names, ", "))
}

// count returns the length of a list with a unit: "1 tool", "3 tools".
func count(list jsonrpc.Raw, what string) string {
	n := 0
	for range list.Elements() {
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
