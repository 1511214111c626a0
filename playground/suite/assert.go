package suite

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// filterTime limits how long a jq filter may run.
const filterTime = 5 * time.Second

// maxPattern limits a regular expression, in bytes.
const maxPattern = 1000

// A Result is the result of one assertion.
type Result struct {
	Assert int         `json:"assert"` // its index
	OK     bool        `json:"ok"`
	Got    jsonrpc.Raw `json:"got,omitzero"` // the value at the path, or nil
	Text   string      `json:"text"`
	Why    string      `json:"-"` // why it failed, if not because of the value
}

// Check validates assertions before they are used. at is the index of the first invalid one, and
// member is its member that is wrong.
func Check(list []Assert) (at int, member string, err error) {
	if len(list) > MaxAsserts {
		return -1, "", fmt.Errorf("%d assertions; the limit for a call is %d", len(list), MaxAsserts)
	}
	for i, a := range list {
		if _, err := readPath(a.Path); err != nil {
			return i, "path", err
		}
		if !slices.Contains(comparisons, a.Is) {
			return i, "is", fmt.Errorf("%q is not one of %s", a.Is, strings.Join(comparisons, ", "))
		}
	}
	return 0, "", nil
}

// HoldAll checks all assertions against a reply. ok reports whether all hold. Without a response,
// only assertions hold that a path is missing, and those about notifications and time.
func HoldAll(ctx context.Context, asserts []Assert, r *Reply) (results []Result, ok bool) {
	results, ok = []Result{}, true
	for i := range asserts {
		one := asserts[i].hold(ctx, r)
		one.Assert = i
		results = append(results, one)
		ok = ok && one.OK
	}
	return results, ok
}

// hold checks the assertion against a reply.
func (a *Assert) hold(ctx context.Context, reply *Reply) Result {
	p, err := readPath(a.Path)
	if err != nil {
		return Result{Text: err.Error(), Why: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, filterTime)
	defer cancel()
	got, err := p.find(ctx, reply)
	if err != nil {
		return Result{Text: a.String() + ": failed: " + err.Error(), Why: err.Error()}
	}
	r := Result{Got: got}
	if r.OK, r.Why = a.compare(got); r.Why != "" {
		r.Text = r.Why
		return r
	}
	r.Text = a.String() + ": "
	switch {
	case r.OK:
		r.Text += "passed"
	case got == nil:
		r.Text += "failed: there is no value"
	default:
		r.Text += "failed: the value is " + harmless.Shorten(string(got), 200)
	}
	return r
}

// compare compares a value with that of the assertion. why explains an assertion that no value can
// meet.
func (a *Assert) compare(got jsonrpc.Raw) (ok bool, why string) {
	switch a.Is {
	case "exists":
		return got != nil, ""
	case "missing":
		return got == nil, ""
	case "equals":
		return got != nil && len(a.Value) > 0 && schemaview.SameValue(a.Value, got), ""
	case "differs":
		return got == nil || len(a.Value) > 0 && !schemaview.SameValue(a.Value, got), ""
	case "contains":
		return got != nil && len(a.Value) > 0 && contains(got, a.Value), ""
	case "matches":
		var pattern, text string
		if a.Value.Decode(&pattern) != nil || len(pattern) > maxPattern {
			return false, "the pattern is not a string"
		}
		expression, err := regexp.Compile(pattern)
		if err != nil {
			return false, "the pattern is not a valid regular expression"
		}
		if got.Decode(&text) != nil {
			text = string(got)
		}
		return got != nil && expression.MatchString(text), ""
	case "less", "more":
		x, isNumber := schemaview.Number(got)
		y, also := schemaview.Number(a.Value)
		return isNumber && also && len(got) > 0 && (x.Cmp(y) < 0) == (a.Is == "less") && x.Cmp(y) != 0, ""
	case "count":
		y, isNumber := schemaview.Number(a.Value)
		n := size(got)
		return isNumber && n >= 0 && y.IsInt() && y.Num().IsInt64() && y.Num().Int64() == int64(n), ""
	case "type":
		kind := schemaview.KindOf(got)
		want := ValueOf(a.Value).Text
		return got != nil && (kind == want || kind == "integer" && want == "number"), ""
	}
	return false, "is: " + strings.Join(comparisons[:len(comparisons)-1], ", ") + " or " + comparisons[len(comparisons)-1]
}

// contains reports whether a string contains the text of value, a list contains an element that
// contains or equals it, or an object has all of its members.
func contains(got, value jsonrpc.Raw) bool {
	if schemaview.SameValue(got, value) {
		return true
	}
	switch got[0] {
	case '"':
		return value[0] == '"' && strings.Contains(ValueOf(got).Text, ValueOf(value).Text)
	case '[':
		for e := range got.Elements() {
			if schemaview.SameValue(e, value) || value[0] == '{' && contains(e, value) {
				return true
			}
		}
	case '{':
		if value[0] != '{' {
			return false
		}
		for name, member := range value.Members() {
			mine := schemaview.LastMember(got, string(name))
			if mine == nil || !schemaview.SameValue(mine, member) && (member[0] != '{' || !contains(mine, member)) {
				return false
			}
		}
		return true
	}
	return false
}

// size returns the number of elements, of members, or of characters; -1 for other values.
func size(value jsonrpc.Raw) (n int) {
	if len(value) == 0 {
		return -1
	}
	switch value[0] {
	case '[':
		for range value.Elements() {
			n++
		}
	case '{':
		for range value.Members() {
			n++
		}
	case '"':
		n = utf8.RuneCountInString(ValueOf(value).Text)
	default:
		n = -1
	}
	return n
}
