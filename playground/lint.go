package playground

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

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// This file says, before anything is sent, which rule the bytes break and what a right server does about it. It never stops them.

// maxMarks bounds what is said about one text.
const maxMarks = 50

// A mark is one remark about the text, with its place in UTF-16 units, as editors in a browser count.
type mark struct {
	From    int    `json:"from"`
	To      int    `json:"to"`
	Level   string `json:"level"` // bad: a rule is broken; doubt: it may be meant so
	Text    string `json:"text"`
	Answer  string `json:"answer,omitzero"`
	Rule    string `json:"rule,omitzero"`
	Pointer string `json:"pointer,omitzero"`
}

type lintParams struct {
	Target string `json:"target,omitzero"`
	Text   string `json:"text,omitzero"`
	Base64 []byte `json:"base64,omitzero"`
}

type lintResult struct {
	Kind  string `json:"kind"`
	Marks []mark `json:"marks"`
	Bytes int    `json:"bytes"`
}

// apiLint looks at a text as a strict server would, and at params as the target has described them.
func (p *Playground) apiLint(_ context.Context, in lintParams) (lintResult, error) {
	b := bytesParam{in.Text, in.Base64}
	var known *description
	line := false
	protocol := ProtocolJSONRPC
	p.mu.Lock()
	if t := p.targets[in.Target]; t != nil {
		known, protocol = t.known, t.protocol()
		line = t.link != nil && t.link.line
	}
	p.mu.Unlock()
	text := b.bytes()
	l := &linter{text: text, known: known, protocol: protocol}
	out := lintResult{Kind: l.look(), Bytes: len(text)}
	if line {
		out.Bytes = len(oneLine(text))
	}
	out.Marks = append([]mark{}, l.marks...)
	for i := range out.Marks {
		m := &out.Marks[i]
		m.From, m.To = units(text, m.From), units(text, m.To)
	}
	return out, nil
}

// units is an offset in bytes as one in UTF-16 code units.
func units(text []byte, offset int) int {
	n := 0
	for _, r := range string(text[:min(max(offset, 0), len(text))]) {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// A linter looks at one text.
type linter struct {
	text     []byte
	known    *description
	protocol string
	marks    []mark
	places   map[string][2]int // JSON pointer to where the value is
}

func (l *linter) mark(from, to int, level, text, answer, rule, pointer string) {
	if len(l.marks) < maxMarks {
		l.marks = append(l.marks, mark{from, max(to, from), level, text, answer, rule, pointer})
	}
}

// at marks the value of a pointer, or what holds it.
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
	parseAnswer   = "A right server answers -32700, Parse error, with id null."
	requestAnswer = "A right server answers -32600, Invalid Request."
	paramsAnswer  = "A right server answers -32602, Invalid params."
	toolAnswer    = "A right server answers with a result that has isError, since MCP 2025-11-25; older ones often with -32602."
	spec          = "JSON-RPC 2.0, section "
)

// look marks what is wrong and returns what the text is.
func (l *linter) look() (kind string) {
	if len(bytes.TrimSpace(l.text)) == 0 {
		l.mark(0, 0, "bad", "There is nothing to send.", "", "", "")
		return "junk"
	}
	if !utf8.Valid(l.text) {
		at := invalidAt(l.text)
		l.mark(at, at+1, "bad", "This byte is no UTF-8.", parseAnswer, "RFC 8259, section 8.1", "")
		return "junk"
	}
	if _, err := jsonrpc.ParseRaw(bytes.TrimSpace(l.text)); err != nil {
		at, why := 0, err.Error()
		if e, ok := errors.AsType[*jsonrpc.SyntaxError](err); ok {
			at, why = e.Offset+bytes.Index(l.text, bytes.TrimSpace(l.text)), e.Reason
		}
		at = min(at, len(l.text))
		l.mark(at, min(at+1, len(l.text)), "bad", fmt.Sprintf("Line %d is not JSON: %s.", 1+bytes.Count(l.text[:at], []byte("\n")), why), parseAnswer, spec+"5.1", "")
		return "junk"
	}
	l.find()
	trimmed := bytes.TrimSpace(l.text)
	if trimmed[0] != '[' {
		return l.message(jsonrpc.Raw(trimmed), "")
	}
	members := elements(jsonrpc.Raw(trimmed))
	if len(members) == 0 {
		l.at("", "bad", "An empty batch is no batch.", requestAnswer, spec+"6")
	}
	if l.protocol == ProtocolMCP || l.protocol == ProtocolEditor {
		l.at("", "doubt", "This protocol has no batches any more.", requestAnswer, "MCP 2025-06-18, Key Changes")
	}
	seen := make(map[string]bool)
	for i, m := range members {
		at := "/" + strconv.Itoa(i)
		l.message(m, at)
		members1(m, "id", func(id jsonrpc.Raw) {
			if seen[string(id)] {
				l.at(at+"/id", "doubt", "Two members have the id "+string(id)+". Nobody can tell their responses apart.", "", spec+"4")
			}
			seen[string(id)] = true
		})
	}
	return "batch"
}

// members1 calls f for the member of that name.
func members1(object jsonrpc.Raw, name string, f func(jsonrpc.Raw)) {
	members(object, func(n string, value jsonrpc.Raw) {
		if n == name {
			f(value)
		}
	})
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

// find notes where each value is.
func (l *linter) find() {
	l.places = make(map[string][2]int)
	d := jsontext.NewDecoder(bytes.NewReader(l.text), jsontext.AllowDuplicateNames(true))
	var open []int // where the containers begin
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
				continue // a name
			}
			l.places[pointer] = [2]int{before, int(d.InputOffset())}
		}
	}
}

// skipBlank is where the next token begins.
func skipBlank(text []byte, at int) int {
	for at < len(text) && strings.IndexByte(" \t\r\n,:", text[at]) >= 0 {
		at++
	}
	return at
}

// message looks at one message.
func (l *linter) message(text jsonrpc.Raw, at string) (kind string) {
	if kindOf(text) != "object" {
		l.at(at, "bad", "This is "+article(kindOf(text))+". A message is an object.", requestAnswer, spec+"4")
		return "junk"
	}
	m := make(map[string]jsonrpc.Raw)
	members(text, func(name string, value jsonrpc.Raw) {
		if _, twice := m[name]; twice {
			l.at(at+"/"+name, "bad", "The member "+strconv.Quote(name)+" is there twice; which one counts is anybody's guess.", requestAnswer, "RFC 8259, section 4")
		}
		m[name] = value
	})
	switch version, ok := m["jsonrpc"]; {
	case !ok:
		l.at(at, "bad", `It has no "jsonrpc".`, requestAnswer, spec+"4")
	case string(version) != `"2.0"`:
		l.at(at+"/jsonrpc", "bad", `"jsonrpc" is "2.0", exactly.`, requestAnswer, spec+"4")
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
		l.at(at, "bad", "It has a result and an error; a response has one of both.", "The other side drops it.", spec+"5")
	}
	if id, ok := m["id"]; !ok {
		l.at(at, "bad", "A response has the id of its request.", "The other side cannot tell which request it answers.", spec+"5")
	} else if kind := kindOf(id); kind != "string" && kind != "integer" && kind != "null" && kind != "number" {
		l.at(at+"/id", "bad", "An id is a string, a number or null; this is "+article(kind)+".", "", spec+"5")
	}
	if !hasError {
		return
	}
	var code, message jsonrpc.Raw
	members(m["error"], func(name string, value jsonrpc.Raw) {
		switch name {
		case "code":
			code = value
		case "message":
			message = value
		}
	})
	if kindOf(code) != "integer" {
		l.at(at+"/error", "bad", "An error has a code, which is an integer.", "", spec+"5.1")
	}
	if kindOf(message) != "string" {
		l.at(at+"/error", "bad", "An error has a message, which is a text.", "", spec+"5.1")
	}
}

func (l *linter) request(m map[string]jsonrpc.Raw, at string) (kind string) {
	kind = "request"
	id, hasID := m["id"]
	if !hasID {
		kind = "notification"
	}
	if hasID {
		switch idKind := kindOf(id); {
		case idKind == "null":
			l.at(at+"/id", "doubt", "The id null is for responses to what could not be read. Leave the member out for a notification.", "", spec+"4")
		case idKind == "number":
			l.at(at+"/id", "doubt", "A number with a fraction may come back as another one.", "", spec+"4")
		case idKind != "string" && idKind != "integer":
			l.at(at+"/id", "bad", "An id is a string, a number or null; this is "+article(idKind)+".", requestAnswer, spec+"4")
		}
	}
	var method string
	switch name, ok := m["method"]; {
	case !ok:
		l.at(at, "bad", "It is no request: it has no \"method\".", requestAnswer, spec+"4")
		return "junk"
	case name.Decode(&method) != nil || kindOf(name) != "string":
		l.at(at+"/method", "bad", "The name of a method is a text; this is "+article(kindOf(name))+".", requestAnswer, spec+"4.1")
		return kind
	}
	for name := range m {
		if !slices.Contains([]string{"jsonrpc", "id", "method", "params"}, name) {
			l.at(at+"/"+name, "doubt", strconv.Quote(name)+" is no member of a request.", "Most servers do not look at it.", spec+"4")
		}
	}
	params, hasParams := m["params"]
	if hasParams {
		if k := kindOf(params); k != "object" && k != "array" {
			l.at(at+"/params", "bad", "params are an array or an object; this is "+article(k)+".", requestAnswer, spec+"4.2")
			return kind
		}
	}
	l.method(method, params, at, kind)
	return kind
}

// method holds a call against what the target says about itself.
func (l *linter) method(name string, params jsonrpc.Raw, at, kind string) {
	if l.known == nil {
		if strings.HasPrefix(name, "rpc.") && name != "rpc.discover" {
			l.at(at+"/method", "doubt", `Names with "rpc." in front are reserved for extensions.`, "", spec+"4.3")
		}
		return
	}
	i := slices.IndexFunc(l.known.Methods, func(m methodView) bool { return m.Name == name && m.From == "client" })
	if i < 0 {
		switch {
		case name == "rpc.discover":
		case strings.HasPrefix(name, "rpc."):
			l.at(at+"/method", "doubt", `Names with "rpc." in front are reserved for extensions.`, "", spec+"4.3")
		case len(l.known.Methods) > 0 && l.protocol == ProtocolJSONRPC:
			l.at(at+"/method", "doubt", "The target does not list "+strconv.Quote(name)+near(name, l.known.Methods)+".", "A right server answers -32601, Method not found.", spec+"5.1")
		}
		return
	}
	m := &l.known.Methods[i]
	if m.Notification && kind == "request" && l.protocol != ProtocolJSONRPC {
		l.at(at+"/id", "doubt", name+" is a notification. It has no id.", requestAnswer, "")
	}
	l.params(schema{m.Params, m.Params}, params, at+"/params", "schema of "+name, paramsAnswer)
	if l.protocol == ProtocolMCP && name == mcp.MethodToolsCall {
		l.tool(params, at+"/params")
	}
	if l.protocol == ProtocolA2A && name == a2a.MethodSend && len(params) == 0 {
		l.at(at, "bad", "It has no message.", paramsAnswer, "")
	}
}

// tool holds the arguments of a tool against its schema.
func (l *linter) tool(params jsonrpc.Raw, at string) {
	var in struct {
		Name      string      `json:"name"`
		Arguments jsonrpc.Raw `json:"arguments"`
	}
	if decodeLoosely(params, &in) != nil || in.Name == "" {
		return
	}
	i := slices.IndexFunc(l.known.Tools, func(t itemView) bool { return t.Name == in.Name })
	if i < 0 {
		if len(l.known.Tools) > 0 {
			l.at(at+"/name", "doubt", "There is no tool "+strconv.Quote(in.Name)+" in the list.", paramsAnswer, "MCP, Tools")
		}
		return
	}
	if len(in.Arguments) == 0 {
		in.Arguments = jsonrpc.Raw(`{}`)
	}
	l.params(schema{l.known.Tools[i].Schema, l.known.Tools[i].Schema}, in.Arguments, at+"/arguments", "schema of "+in.Name, toolAnswer)
}

// params holds params, by name or by position, against a schema.
func (l *linter) params(s schema, params jsonrpc.Raw, at, rule, answer string) {
	k, _, ok := s.keys(0)
	if !ok {
		return
	}
	var misfits []misfit
	switch kindOf(params) {
	case "array":
		items := elements(params)
		n := len(k.Order)
		if n > 0 && len(items) > n && !k.Variadic {
			misfits = append(misfits, misfit{"", fmt.Sprintf("has %d items; the method takes %d", len(items), n)})
		}
		for i, item := range items {
			if i < n || n > 0 && k.Variadic {
				(schema{s.root, k.Properties[k.Order[min(i, n-1)]]}).check(item, "/"+strconv.Itoa(i), 1, &misfits)
			}
		}
		for _, name := range k.Order[min(len(items), n):] {
			if slices.Contains(k.Required, name) {
				misfits = append(misfits, misfit{"", "lacks " + strconv.Quote(name)})
			}
		}
	case "":
		for _, name := range k.Required {
			misfits = append(misfits, misfit{"", "lacks " + strconv.Quote(name)})
		}
	default:
		s.check(params, "", 0, &misfits)
		for i := range misfits {
			if k.Order != nil && misfits[i].text == "is not known" {
				misfits[i].text = "is no parameter of the method"
			}
		}
	}
	for _, m := range misfits {
		l.at(at+m.pointer, "doubt", at[strings.LastIndexByte(at, '/'):]+m.pointer+" "+m.text+".", answer, rule)
	}
}

// near suggests a name that looks like the one that is not there.
func near(name string, list []methodView) string {
	best, distance := "", 3
	for _, m := range list {
		if d := apart(name, m.Name, distance); d < distance {
			best, distance = m.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return "; it has " + strconv.Quote(best)
}

// apart is how many letters differ between two names, or limit if they are that many or more.
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
