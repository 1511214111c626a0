package suite

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/similar"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// maxFaults is the maximum number of faults of a file that are reported at once.
const maxFaults = 5

// Read reads the suite in a file. A fault in it is an [*Error], several are joined.
func Read(name string) (*Suite, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxBytes {
		return nil, &Error{File: name, Text: fmt.Sprintf("it has %d bytes; the limit is %d", info.Size(), maxBytes)}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}

// Parse parses a suite: YAML without anchors, or JSON with comments and trailing commas, by the
// extension of the name. Unknown members are errors, except those whose names begin with x-, and
// $schema. A file with the member text or method is a suite of one call.
func Parse(name string, text []byte) (*Suite, error) {
	s, _, err := parse(name, text, false)
	return s, err
}

// ParseCall parses a file of one call, as the page does: JSON, in which unknown members are
// ignored. If its name is missing, it is "".
func ParseCall(text []byte) (*Call, error) {
	_, c, err := parse("a.json", text, true)
	if faults, ok := errors.AsType[*Error](err); ok {
		faults.File = ""
	}
	return c, err
}

// parse parses a suite, or one call.
func parse(name string, text []byte, one bool) (*Suite, *Call, error) {
	if len(text) > maxBytes {
		return nil, nil, &Error{File: name, Text: fmt.Sprintf("it has %d bytes; the limit is %d", len(text), maxBytes)}
	}
	d, err := parseDocument(name, text)
	if err != nil {
		return nil, nil, err
	}
	r := &reader{file: name, at: d.at, lenient: one}
	s := &Suite{File: name}
	var c *Call
	if one || schemaview.LastMember(d.json, "text") != nil || schemaview.LastMember(d.json, "method") != nil {
		c = r.single(s, d.json, one)
	} else {
		r.object(d.json, "", "a suite", r.suiteFields(s))
		if len(s.Calls) == 0 && r.faults == nil {
			r.wrong("", "a suite needs calls, or text or method of a single call")
		}
	}
	if s.Name == "" {
		s.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	}
	if len(s.Command) > 0 && s.Target != "" {
		r.wrong("/command", "target and command cannot be used together")
	}
	if len(s.Env) > 0 && len(s.Command) == 0 {
		r.wrong("/env", "env needs command")
	}
	if !one {
		r.nameCalls(s)
	}
	if r.faults != nil {
		return nil, nil, errors.Join(r.faults[:min(len(r.faults), maxFaults)]...)
	}
	return s, c, nil
}

// A reader converts JSON to a suite and collects the faults.
type reader struct {
	file    string
	at      func(pointer string) (line, column int)
	lenient bool // unknown members are ignored
	faults  []error
}

func (r *reader) wrong(pointer, format string, args ...any) {
	line, column := r.at(pointer)
	r.faults = append(r.faults, &Error{r.file, line, column, fmt.Sprintf(format, args...)})
}

// fields are the functions that read the members of an object, by name.
type fields map[string]func(value jsonrpc.Raw, pointer string)

// object reads the members of an object.
func (r *reader) object(value jsonrpc.Raw, pointer, what string, f fields) {
	if !r.is(value, pointer, "object") {
		return
	}
	for name, member := range value.Members() {
		name := string(name)
		at := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if read := f[name]; read != nil {
			if string(member) != "null" {
				read(member, at)
			}
			continue
		}
		if r.lenient || strings.HasPrefix(name, "x-") || name == "$schema" {
			continue
		}
		known := slices.Sorted(maps.Keys(f))
		if near := similar.Names(name, known); len(near) > 0 {
			r.wrong(at, "%s has no member %s; did you mean %s?", what, harmless.Shorten(name, 60), strings.Join(near, " or "))
		} else {
			r.wrong(at, "%s has no member %s; its members are %s", what, harmless.Shorten(name, 60), strings.Join(known, ", "))
		}
	}
}

var articles = map[string]string{"object": "a mapping", "array": "a list", "string": "a text", "boolean": "true or false"}

// is reports whether a value has a type.
func (r *reader) is(value jsonrpc.Raw, pointer, kind string) bool {
	if schemaview.KindOf(value) == kind {
		return true
	}
	name := "the file"
	if pointer != "" {
		name = pointer[strings.LastIndexByte(pointer, '/')+1:]
		if _, err := strconv.Atoi(name); err == nil {
			name = "the element"
		}
	}
	r.wrong(pointer, "%s must be %s", name, articles[kind])
	return false
}

func (r *reader) text(to *string) func(jsonrpc.Raw, string) {
	return func(value jsonrpc.Raw, pointer string) {
		switch schemaview.KindOf(value) {
		case "object", "array":
			r.is(value, pointer, "string")
		default:
			*to = ValueOf(value).Text
		}
	}
}

func (r *reader) texts(to *[]string) func(jsonrpc.Raw, string) {
	return func(value jsonrpc.Raw, pointer string) {
		if !r.is(value, pointer, "array") {
			return
		}
		i := 0
		for e := range value.Elements() {
			var text string
			r.text(&text)(e, fmt.Sprintf("%s/%d", pointer, i))
			*to = append(*to, text)
			i++
		}
	}
}

func (r *reader) duration(to *time.Duration) func(jsonrpc.Raw, string) {
	return func(value jsonrpc.Raw, pointer string) {
		d, err := time.ParseDuration(ValueOf(value).Text)
		if err != nil || d <= 0 {
			r.wrong(pointer, "%s is not a time such as 5s or 500ms", harmless.Shorten(string(value), 60))
		}
		*to = d
	}
}

func ignore(jsonrpc.Raw, string) {}

func (r *reader) suiteFields(s *Suite) fields {
	return fields{
		"name": r.text(&s.Name), "description": ignore, "target": r.text(&s.Target), "command": r.texts(&s.Command), "env": r.texts(&s.Env),
		"protocol": r.text(&s.Protocol), "headers": r.headers(&s.Headers), "variables": r.values(&s.Variables), "secrets": r.texts(&s.Secrets),
		"timeout": r.duration(&s.Timeout), "answers": r.answers(&s.Answers),
		"environments": func(value jsonrpc.Raw, pointer string) {
			if !r.is(value, pointer, "object") {
				return
			}
			s.Environments = make(map[string]Values)
			for name, member := range value.Members() {
				values := Values{}
				if string(member) != "null" {
					r.values(&values)(member, pointer+"/"+string(name))
				}
				s.Environments[string(name)] = values
			}
		},
		"calls": func(value jsonrpc.Raw, pointer string) {
			if !r.is(value, pointer, "array") {
				return
			}
			for e := range value.Elements() {
				if len(s.Calls) == maxCalls {
					r.wrong(pointer, "a suite can have at most %d calls", maxCalls)
					return
				}
				at := fmt.Sprintf("%s/%d", pointer, len(s.Calls))
				c := Call{}
				c.Line, _ = r.at(at)
				r.object(e, at, "a call", r.callFields(&c))
				r.checkCall(&c, e, at)
				s.Calls = append(s.Calls, c)
			}
		},
	}
}

func (r *reader) callFields(c *Call) fields {
	return fields{
		"name": r.text(&c.Name), "description": ignore, "target": r.text(&c.Target), "text": r.text(&c.Text), "method": r.text(&c.Method),
		"params": func(value jsonrpc.Raw, pointer string) {
			if c.Params = value; value[0] != '{' && value[0] != '[' {
				r.wrong(pointer, "params must be a list or a mapping; use text to send any message")
			}
		},
		"notify": func(value jsonrpc.Raw, pointer string) {
			c.Notify = r.is(value, pointer, "boolean") && string(value) == "true"
		},
		"headers": r.headers(&c.Headers), "variables": r.values(&c.Variables), "asserts": r.asserts(&c.Asserts), "capture": r.capture(&c.Capture),
		"answers": r.answers(&c.Answers), "timeout": r.duration(&c.Timeout), "skip": r.text(&c.Skip),
		"updated": func(value jsonrpc.Raw, pointer string) {
			if value.Decode(&c.Updated) != nil {
				r.wrong(pointer, "%s is not a time", harmless.Shorten(string(value), 60))
			}
		},
	}
}

// single reads a suite of one call.
func (r *reader) single(s *Suite, value jsonrpc.Raw, lenient bool) *Call {
	c := &Call{Line: 1}
	all := r.suiteFields(s)
	delete(all, "calls")
	maps.Copy(all, r.callFields(c))
	r.object(value, "", "a saved call", all)
	if !lenient {
		r.checkCall(c, value, "")
		s.Name = c.Name
	}
	// The variables are those of the file, so that its environments replace them.
	s.Variables, c.Environments = c.Variables, s.Environments
	s.Calls = []Call{*c}
	s.Calls[0].Variables = nil
	return c
}

// checkCall reports what the members of a call contradict each other in.
func (r *reader) checkCall(c *Call, value jsonrpc.Raw, pointer string) {
	has := func(name string) bool { return schemaview.LastMember(value, name) != nil }
	switch {
	case schemaview.KindOf(value) != "object":
	case has("text") && has("method"):
		r.wrong(pointer+"/method", "text and method cannot be used together")
	case !has("text") && c.Method == "":
		r.wrong(pointer, "a call needs method or text")
	case has("text") && has("params"):
		r.wrong(pointer+"/params", "params need method; text is the whole message")
	case has("text") && c.Notify:
		r.wrong(pointer+"/notify", "notify needs method; a text without an id is a notification")
	}
}

// nameCalls gives each call a name of its own.
func (r *reader) nameCalls(s *Suite) {
	seen := make(map[string]int)
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Name != "" && seen[c.Name] > 0 {
			r.wrong(fmt.Sprintf("/calls/%d/name", i), "the name %q is used twice", harmless.Shorten(c.Name, 60))
		}
		seen[c.Name]++
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Name != "" {
			continue
		}
		base := c.Method
		if base == "" {
			base = fmt.Sprintf("call %d", i+1)
		}
		c.Name = base
		for n := 2; seen[c.Name] > 0; n++ {
			c.Name = fmt.Sprintf("%s (%d)", base, n)
		}
		seen[c.Name]++
	}
}

func (r *reader) values(to *Values) func(jsonrpc.Raw, string) {
	return func(value jsonrpc.Raw, pointer string) {
		if schemaview.KindOf(value) != "object" {
			r.wrong(pointer, "variables must be an object")
			return
		}
		*to = make(Values)
		for name, member := range value.Members() {
			if !r.lenient && !IsVariable(string(name)) {
				r.wrong(pointer+"/"+string(name), "%q is not a valid variable name: use letters, digits, and _ . -", harmless.Shorten(string(name), 60))
			}
			(*to)[string(name)] = ValueOf(member)
		}
	}
}

func (r *reader) headers(to *[]Header) func(jsonrpc.Raw, string) {
	return func(value jsonrpc.Raw, pointer string) {
		add := func(name string, v jsonrpc.Raw, pointer string) {
			h := Header{Name: name}
			if v != nil && string(v) != "null" {
				var text string
				r.text(&text)(v, pointer)
				h.Value = &text
			}
			*to = append(*to, h)
			if _, err := HeaderOf([]Header{h}); err != nil && !r.lenient {
				r.wrong(pointer, "%v", err)
			}
		}
		if schemaview.KindOf(value) == "object" {
			for name, v := range value.Members() {
				add(string(name), v, pointer+"/"+string(name))
			}
			return
		}
		if !r.is(value, pointer, "array") {
			return
		}
		i := 0
		for e := range value.Elements() {
			at := fmt.Sprintf("%s/%d", pointer, i)
			var name string
			var text jsonrpc.Raw
			r.object(e, at, "a header", fields{"name": r.text(&name), "value": func(v jsonrpc.Raw, _ string) { text = v }})
			add(name, text, at)
			i++
		}
	}
}

func (r *reader) answers(to *Answers) func(jsonrpc.Raw, string) {
	return func(value jsonrpc.Raw, pointer string) {
		if !r.is(value, pointer, "object") {
			return
		}
		*to = make(Answers)
		for method, result := range value.Members() {
			(*to)[string(method)] = result
		}
	}
}

func (r *reader) asserts(to *[]Assert) func(jsonrpc.Raw, string) {
	return func(value jsonrpc.Raw, pointer string) {
		if !r.is(value, pointer, "array") {
			return
		}
		for e := range value.Elements() {
			at := fmt.Sprintf("%s/%d", pointer, len(*to))
			*to = append(*to, r.assert(e, at))
		}
		i, member, err := Check(*to)
		switch {
		case err == nil:
		case i < 0:
			r.wrong(pointer, "%v", err)
		default:
			r.wrong(fmt.Sprintf("%s/%d/%s", pointer, i, member), "%v", err)
		}
	}
}

// assert reads an assertion: a text such as "$.result equals 19", or an object.
func (r *reader) assert(value jsonrpc.Raw, pointer string) (a Assert) {
	if schemaview.KindOf(value) == "string" {
		text := ValueOf(value).Text
		var ok bool
		if a, ok = parseAssert(text); !ok {
			r.wrong(pointer, "%q is not an assertion: write PATH COMPARISON VALUE, for example $.result equals 19; the comparisons are %s", harmless.Shorten(text, 60), strings.Join(comparisons, ", "))
			return Assert{Path: "$", Is: "exists"}
		}
		return a
	}
	var filter string
	r.object(value, pointer, "an assertion", fields{"path": r.text(&a.Path), "jq": r.text(&filter), "is": r.text(&a.Is), "value": func(v jsonrpc.Raw, _ string) { a.Value = v }})
	if schemaview.LastMember(value, "value") != nil && a.Value == nil {
		a.Value = jsonrpc.Raw("null")
	}
	if filter != "" {
		if a.Path != "" {
			r.wrong(pointer+"/jq", "path and jq cannot be used together")
		}
		a.Path = filterPrefix + " " + filter
		if a.Is == "" {
			a.Is, a.Value = "equals", jsonrpc.Raw("true")
		}
	}
	a.normalize()
	if !r.lenient && a.Value == nil && takesValue(a.Is) && slices.Contains(comparisons, a.Is) {
		r.wrong(pointer, "%s needs a value", a.Is)
	}
	return a
}

// normalize converts a time as people write it to milliseconds.
func (a *Assert) normalize() {
	if a.Path != rootTime || len(a.Value) == 0 || a.Value[0] != '"' {
		return
	}
	if d, err := time.ParseDuration(ValueOf(a.Value).Text); err == nil {
		a.Value = milliseconds(d)
	}
}

// parseAssert parses an assertion as people write it: "$.result equals 19". The value is JSON, or
// else a string.
func parseAssert(text string) (a Assert, ok bool) {
	text = strings.TrimSpace(text)
	for i := range len(text) {
		if text[i] != ' ' {
			continue
		}
		is, value, _ := strings.Cut(strings.TrimLeft(text[i:], " "), " ")
		if !slices.Contains(comparisons, is) {
			continue
		}
		a = Assert{Path: strings.TrimSpace(text[:i]), Is: is}
		if _, err := readPath(a.Path); err != nil {
			continue
		}
		value = strings.TrimSpace(value)
		if takesValue(is) != (value != "") {
			return a, false
		}
		if value != "" {
			if raw, err := jsonrpc.ParseRaw([]byte(value)); err == nil {
				a.Value = raw
			} else {
				a.Value = jsonrpc.AppendString(nil, value)
			}
		}
		a.normalize()
		return a, true
	}
	return a, false
}

func (r *reader) capture(to *[]Capture) func(jsonrpc.Raw, string) {
	return func(value jsonrpc.Raw, pointer string) {
		if !r.is(value, pointer, "object") {
			return
		}
		for name, v := range value.Members() {
			c, at := Capture{Name: string(name)}, pointer+"/"+string(name)
			var filter string
			if schemaview.KindOf(v) == "object" {
				r.object(v, at, "a capture", fields{"path": r.text(&c.Path), "jq": r.text(&filter)})
			} else {
				r.text(&c.Path)(v, at)
			}
			if filter != "" {
				c.Path = filterPrefix + " " + filter
			}
			if !IsVariable(c.Name) {
				r.wrong(at, "%q is not a valid variable name: use letters, digits, and _ . -", harmless.Shorten(c.Name, 60))
			}
			if _, err := readPath(c.Path); err != nil {
				r.wrong(at, "%v", err)
			}
			*to = append(*to, c)
		}
	}
}
