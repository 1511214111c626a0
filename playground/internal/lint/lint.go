// Package lint reports, before a text is sent, which rules it breaks and how a conforming server
// responds. It never prevents sending.
package lint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/playground/internal/cursor"
	"github.com/da1ed7bb/parley/playground/internal/outline"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// maxMarks is the maximum number of marks on one text.
const maxMarks = 50

// A Mark is one remark about the text. Its position is in UTF-16 units, as in browser editors.
type Mark struct {
	From    int    `json:"from"`
	To      int    `json:"to"`
	Level   string `json:"level"` // bad: a rule is broken; doubt: it may be intended
	Text    string `json:"text"`
	Answer  string `json:"answer,omitzero"`
	Rule    string `json:"rule,omitzero"`
	Pointer string `json:"pointer,omitzero"`
}

// Check checks a text as a strict server would, and its params against the description of the
// target, which may be nil. It returns the kind of the message and its marks.
func Check(text []byte, known *outline.Description, protocol string) (kind string, marks []Mark) {
	l := &linter{text: text, known: known, protocol: protocol}
	kind = l.look()
	marks = append([]Mark{}, l.marks...)
	for i := range marks {
		m := &marks[i]
		m.From, m.To = cursor.Units(text, m.From), cursor.Units(text, m.To)
	}
	return kind, marks
}

// A linter checks one text.
type linter struct {
	text     []byte
	known    *outline.Description
	protocol string
	marks    []Mark
	places   map[string][2]int // JSON pointer to the position of the value
}

func (l *linter) mark(from, to int, level, text, answer, rule, pointer string) {
	if len(l.marks) < maxMarks {
		l.marks = append(l.marks, Mark{from, max(to, from), level, text, answer, rule, pointer})
	}
}

// at marks the value of a pointer, or its nearest existing parent.
func (l *linter) at(pointer, level, text, answer, rule string) {
	for look := pointer; ; look = look[:strings.LastIndexByte(look, '/')] {
		if place, ok := l.places[look]; ok {
			l.mark(place[0], place[1], level, text, answer, rule, pointer)
			return
		}
		if look == "" {
			l.mark(0, len(l.text), level, text, answer, rule, pointer)
			return
		}
	}
}

const (
	parseAnswer   = "A conforming server responds with -32700 (Parse error) and id null."
	requestAnswer = "A conforming server responds with -32600 (Invalid Request)."
	paramsAnswer  = "A conforming server responds with -32602 (Invalid params)."
	toolAnswer    = "Since MCP 2025-11-25 a conforming server returns a result with isError; older ones often respond with -32602."
	spec          = "JSON-RPC 2.0, section "
)

// look marks the errors in the text and returns the kind of message.
func (l *linter) look() (kind string) {
	if len(bytes.TrimSpace(l.text)) == 0 {
		l.mark(0, 0, "bad", "There is nothing to send.", "", "", "")
		return "junk"
	}
	if !utf8.Valid(l.text) {
		at := invalidAt(l.text)
		l.mark(at, at+1, "bad", "This byte is not valid UTF-8.", parseAnswer, "RFC 8259, section 8.1", "")
		return "junk"
	}
	if _, err := jsonrpc.ParseRaw(bytes.TrimSpace(l.text)); err != nil {
		at, why := 0, err.Error()
		if e, ok := errors.AsType[*jsonrpc.SyntaxError](err); ok {
			at, why = e.Offset+bytes.Index(l.text, bytes.TrimSpace(l.text)), e.Reason
		}
		at = min(at, len(l.text))
		l.mark(at, min(at+1, len(l.text)), "bad", "This is not JSON: "+why+".", parseAnswer, spec+"5.1", "")
		return "junk"
	}
	l.find()
	trimmed := bytes.TrimSpace(l.text)
	if trimmed[0] != '[' {
		return l.message(jsonrpc.Raw(trimmed), "")
	}
	members := slices.Collect(jsonrpc.Raw(trimmed).Elements())
	if len(members) == 0 {
		l.at("", "bad", "A batch must not be empty.", requestAnswer, spec+"6")
	}
	if l.protocol == outline.ProtocolMCP || l.protocol == outline.ProtocolEditor {
		l.at("", "doubt", "This protocol version does not have batches.", requestAnswer, "MCP 2025-06-18, Key Changes")
	}
	seen := make(map[string]bool)
	for i, m := range members {
		at := "/" + strconv.Itoa(i)
		l.message(m, at)
		for name, id := range m.Members() {
			if string(name) != "id" {
				continue
			}
			if seen[string(id)] {
				l.at(at+"/id", "doubt", "Two members have the id "+string(id)+". Their responses cannot be distinguished.", "", spec+"4")
			}
			seen[string(id)] = true
		}
	}
	return "batch"
}

func invalidAt(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return 0
}

// find records the position of each value.
func (l *linter) find() {
	l.places = make(map[string][2]int)
	d := jsontext.NewDecoder(bytes.NewReader(l.text), jsontext.AllowDuplicateNames(true))
	var open []int // start positions of the open containers
	for len(l.places) < 20_000 {
		before := skipBlank(l.text, int(d.InputOffset()))
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) || err != nil {
			return
		}
		pointer := string(d.StackPointer())
		switch token.Kind() {
		case '{', '[':
			open = append(open, before)
			l.places[pointer] = [2]int{before, before + 1}
		case '}', ']':
			begin := open[len(open)-1]
			open = open[:len(open)-1]
			l.places[pointer] = [2]int{begin, int(d.InputOffset())}
		default:
			kind, length := d.StackIndex(d.StackDepth())
			if kind == '{' && length%2 == 1 {
				continue // a member name
			}
			l.places[pointer] = [2]int{before, int(d.InputOffset())}
		}
	}
}

// skipBlank returns the position of the next token.
func skipBlank(text []byte, at int) int {
	for at < len(text) && strings.IndexByte(" \t\r\n,:", text[at]) >= 0 {
		at++
	}
	return at
}

// message checks one message.
func (l *linter) message(text jsonrpc.Raw, at string) (kind string) {
	if schemaview.KindOf(text) != "object" {
		l.at(at, "bad", "This is "+schemaview.Article(schemaview.KindOf(text))+". A message must be an object.", requestAnswer, spec+"4")
		return "junk"
	}
	m := make(map[string]jsonrpc.Raw)
	for member, value := range text.Members() {
		name := string(member)
		if _, twice := m[name]; twice {
			l.at(at+"/"+name, "bad", "Duplicate member "+strconv.Quote(name)+". Parsers disagree on which one to use.", requestAnswer, "RFC 8259, section 4")
		}
		m[name] = value
	}
	switch version, ok := m["jsonrpc"]; {
	case !ok:
		l.at(at, "bad", `"jsonrpc" is missing.`, requestAnswer, spec+"4")
	case string(version) != `"2.0"`:
		l.at(at+"/jsonrpc", "bad", `"jsonrpc" must be exactly "2.0".`, requestAnswer, spec+"4")
	}
	_, hasMethod := m["method"]
	_, hasResult := m["result"]
	_, hasError := m["error"]
	if !hasMethod && (hasResult || hasError) {
		l.response(m, at, hasResult, hasError)
		return "response"
	}
	return l.request(m, at)
}

func (l *linter) response(m map[string]jsonrpc.Raw, at string, hasResult, hasError bool) {
	if hasResult && hasError {
		l.at(at, "bad", "A response must have either a result or an error, not both.", "The receiver drops it.", spec+"5")
	}
	if id, ok := m["id"]; !ok {
		l.at(at, "bad", "A response must have the id of its request.", "The receiver cannot match it to a request.", spec+"5")
	} else if kind := schemaview.KindOf(id); kind != "string" && kind != "integer" && kind != "null" && kind != "number" {
		l.at(at+"/id", "bad", "An id must be a string, a number or null; this is "+schemaview.Article(kind)+".", "", spec+"5")
	}
	if !hasError {
		return
	}
	var code, message jsonrpc.Raw
	for name, value := range m["error"].Members() {
		switch string(name) {
		case "code":
			code = value
		case "message":
			message = value
		}
	}
	if schemaview.KindOf(code) != "integer" {
		l.at(at+"/error", "bad", "An error must have an integer code.", "", spec+"5.1")
	}
	if schemaview.KindOf(message) != "string" {
		l.at(at+"/error", "bad", "An error must have a message, which is a string.", "", spec+"5.1")
	}
}

func (l *linter) request(m map[string]jsonrpc.Raw, at string) (kind string) {
	kind = "request"
	id, hasID := m["id"]
	if !hasID {
		kind = "notification"
	}
	if hasID {
		switch idKind := schemaview.KindOf(id); {
		case idKind == "null":
			l.at(at+"/id", "doubt", "The id null is for responses to messages that could not be parsed. For a notification, omit the id.", "", spec+"4")
		case idKind == "number":
			l.at(at+"/id", "doubt", "A fractional id can lose precision in the response.", "", spec+"4")
		case idKind != "string" && idKind != "integer":
			l.at(at+"/id", "bad", "An id must be a string, a number or null; this is "+schemaview.Article(idKind)+".", requestAnswer, spec+"4")
		}
	}
	var method string
	switch name, ok := m["method"]; {
	case !ok:
		l.at(at, "bad", "Not a request: \"method\" is missing.", requestAnswer, spec+"4")
		return "junk"
	case name.Decode(&method) != nil || schemaview.KindOf(name) != "string":
		l.at(at+"/method", "bad", "The method name must be a string; this is "+schemaview.Article(schemaview.KindOf(name))+".", requestAnswer, spec+"4.1")
		return kind
	}
	for name := range m {
		if !slices.Contains([]string{"jsonrpc", "id", "method", "params"}, name) {
			l.at(at+"/"+name, "doubt", strconv.Quote(name)+" is not a member of a request.", "Most servers ignore it.", spec+"4")
		}
	}
	params, hasParams := m["params"]
	if hasParams {
		if k := schemaview.KindOf(params); k != "object" && k != "array" {
			l.at(at+"/params", "bad", "params must be an array or an object; this is "+schemaview.Article(k)+".", requestAnswer, spec+"4.2")
			return kind
		}
	}
	l.method(method, params, at, kind)
	return kind
}

// method checks a call against the target's description.
func (l *linter) method(name string, params jsonrpc.Raw, at, kind string) {
	if l.known == nil {
		if strings.HasPrefix(name, "rpc.") && name != "rpc.discover" {
			l.at(at+"/method", "doubt", `Method names that start with "rpc." are reserved for extensions.`, "", spec+"4.3")
		}
		return
	}
	i := slices.IndexFunc(l.known.Methods, func(m outline.Method) bool { return m.Name == name && m.From == "client" })
	if i < 0 {
		switch {
		case name == "rpc.discover":
		case strings.HasPrefix(name, "rpc."):
			l.at(at+"/method", "doubt", `Method names that start with "rpc." are reserved for extensions.`, "", spec+"4.3")
		case len(l.known.Methods) > 0 && l.protocol == outline.ProtocolJSONRPC:
			l.at(at+"/method", "doubt", "The target does not list "+strconv.Quote(name)+near(name, l.known.Methods)+".", "A conforming server responds with -32601 (Method not found).", spec+"5.1")
		}
		return
	}
	m := &l.known.Methods[i]
	if m.Notification && kind == "request" && l.protocol != outline.ProtocolJSONRPC {
		l.at(at+"/id", "doubt", name+" is a notification and must not have an id.", requestAnswer, "")
	}
	l.params(m.Params, params, at+"/params", "schema of "+name, paramsAnswer)
	if l.protocol == outline.ProtocolMCP && name == mcp.MethodToolsCall {
		l.tool(params, at+"/params")
	}
	if l.protocol == outline.ProtocolA2A && name == a2a.MethodSend && len(params) == 0 {
		l.at(at, "bad", "\"message\" is missing.", paramsAnswer, "")
	}
}

// tool checks the arguments of a tool against its schema.
func (l *linter) tool(params jsonrpc.Raw, at string) {
	var in struct {
		Name      string      `json:"name"`
		Arguments jsonrpc.Raw `json:"arguments"`
	}
	if json.Unmarshal(params, &in) != nil || in.Name == "" {
		return
	}
	i := slices.IndexFunc(l.known.Tools, func(t outline.Item) bool { return t.Name == in.Name })
	if i < 0 {
		if len(l.known.Tools) > 0 {
			l.at(at+"/name", "doubt", "The target does not list a tool "+strconv.Quote(in.Name)+".", paramsAnswer, "MCP, Tools")
		}
		return
	}
	if len(in.Arguments) == 0 {
		in.Arguments = jsonrpc.Raw(`{}`)
	}
	l.params(l.known.Tools[i].Schema, in.Arguments, at+"/arguments", "schema of "+in.Name, toolAnswer)
}

// params checks params, by name or by position, against a schema.
func (l *linter) params(text, params jsonrpc.Raw, at, rule, answer string) {
	k, _, ok := schemaview.New(text).Keys(0)
	if !ok {
		return
	}
	add := func(pointer, reason string) {
		l.at(at+pointer, "doubt", at[strings.LastIndexByte(at, '/'):]+pointer+" "+reason+".", answer, rule)
	}
	lacks := func(names []string) {
		for _, name := range names {
			if slices.Contains(k.Required, name) {
				add("", "lacks "+strconv.Quote(name))
			}
		}
	}
	switch schemaview.KindOf(params) {
	case "array":
		items := slices.Collect(params.Elements())
		n := len(k.Order)
		if n > 0 && len(items) > n && !k.Variadic {
			add("", fmt.Sprintf("has %d items; the method takes %d", len(items), n))
		}
		compiled, err := schema.Compile(text)
		for i, item := range items {
			if err == nil && (i < n || n > 0 && k.Variadic) {
				param, _ := compiled.At(string(jsontext.Pointer("/properties").AppendToken(k.Order[min(i, n-1)])))
				for _, p := range problems(param, item) {
					pointer, reason := misfit(p)
					add("/"+strconv.Itoa(i)+pointer, reason)
				}
			}
		}
		lacks(k.Order[min(len(items), n):])
	case "":
		lacks(k.Required)
	default:
		compiled, _ := schema.Compile(text) // the server decides about a schema that is not supported
		for _, p := range problems(compiled, params) {
			pointer, reason := misfit(p)
			if k.Order != nil && p.Keyword == "additionalProperties" {
				reason = "is not a parameter of the method"
			}
			add(pointer, reason)
		}
	}
}

// problems lists why a value is invalid. A value without a schema, or one that is too expensive to
// validate, is not.
func problems(s *schema.Schema, value jsonrpc.Raw) []schema.Problem {
	if s == nil {
		return nil
	}
	invalid, ok := errors.AsType[*schema.InvalidError](s.Validate(context.Background(), value))
	if !ok {
		return nil
	}
	return invalid.Problems
}

// misfit words a problem as a part of a sentence about the value at a pointer.
func misfit(p schema.Problem) (pointer, reason string) {
	switch p.Keyword {
	case "required":
		at := jsontext.Pointer(p.Pointer)
		return string(at.Parent()), "lacks " + strconv.Quote(at.LastToken())
	case "additionalProperties":
		return p.Pointer, "is unknown"
	case "type":
		return p.Pointer, "is " + schemaview.Article(p.Got) + ", but must be " + schemaview.Article(strings.Join(p.Want, " or "))
	case "minimum":
		return p.Pointer, "is less than " + p.Want[0]
	case "maximum":
		return p.Pointer, "is more than " + p.Want[0]
	}
	return p.Pointer, p.Reason
}

// near suggests a similar name for a missing one.
func near(name string, list []outline.Method) string {
	best, distance := "", 3
	for _, m := range list {
		if d := apart(name, m.Name, distance); d < distance {
			best, distance = m.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return "; it lists " + strconv.Quote(best)
}

// apart returns the edit distance of two names, or limit if it is at least limit.
func apart(a, b string, limit int) int {
	if len(a) > 64 || len(b) > 64 || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return min(row[len(b)], limit)
}
