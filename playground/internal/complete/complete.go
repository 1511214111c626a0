// Package complete offers completions at the cursor of a message that is being typed: method names,
// member names and values. It locates the cursor with package cursor and uses the target's
// description of itself. It never changes the text: the page inserts the chosen option.
package complete

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/cursor"
	"github.com/da1ed7bb/parley/playground/internal/outline"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// Limits of one completion.
const (
	maxText    = 1 << 20 // bytes; a longer document is not completed
	maxOptions = 100
	maxAbout   = 200 // bytes of an option's description
	maxShapes  = 64  // schemas followed at once
)

// A Request is the position at which options are wanted.
type Request struct {
	Text string
	At   int // cursor position, in UTF-16 units
	// Asked is set for an explicit request. Otherwise options are offered only for a started word.
	Asked bool
}

// A Target is what is known of the program that the text is for. The zero Target is unknown.
type Target struct {
	Protocol  string               // the default is plain JSON-RPC
	Known     *outline.Description // nil if the target has not been described
	NextID    int64                // the next unused ID; zero means 1
	Questions []Question           // that wait for a response

	// Propose requests values for an argument from the target. ref is the JSON text of a reference
	// (MCP 2025-11-25, Completion), others are the arguments that have a value already. If nil, the
	// target is not open.
	Propose func(ctx context.Context, ref, name, typed string, others map[string]string) []string
	Name    string // the target's name, for values that it proposes
}

// A Question is a request of the target that waits for a response.
type Question struct {
	ID      string // JSON text
	Method  string
	Choices []Choice    // suggested responses
	Form    jsonrpc.Raw // JSON Schema of the content of the result, or nil
}

// A Choice is a suggested response: its label, and the whole message.
type Choice struct{ Label, Draft string }

// A Result lists options, each of which replaces the text between From and To (UTF-16 units).
type Result struct {
	From    int      `json:"from"`
	To      int      `json:"to"`
	Options []Option `json:"options"` // best first, at most maxOptions
}

// An Option is one completion.
type Option struct {
	Label  string `json:"label"`
	Insert string `json:"insert"`
	// Caret is the cursor position in Insert after it is inserted, in UTF-16 units; 0 means the
	// end.
	Caret int    `json:"caret,omitzero"`
	About string `json:"about,omitzero"`
	Kind  string `json:"kind"` // method, member, value or message
}

// At returns the options at a position of a text. target is called only if the position can have
// options. At calls Propose only for arguments of MCP prompts and resource templates.
func At(ctx context.Context, in Request, target func() Target) Result {
	out := Result{From: in.At, To: in.At, Options: []Option{}}
	if len(in.Text) > maxText || in.At < 0 {
		return out
	}
	text := []byte(in.Text)
	root, at := cursor.Find(text, cursor.Offset(in.Text, in.At))
	if at == nil || !at.Begun && !in.Asked {
		return out
	}
	c := newCompleter(text, root, at, target())
	c.collect(ctx)
	out.Options = c.options()
	out.From, out.To = cursor.Units(text, at.From), cursor.Units(text, at.To)
	if len(out.Options) == 1 && !in.Asked && out.Options[0].Insert == string(text[at.From:at.To]) {
		out.Options = out.Options[:0] // the text already contains it
	}
	return out
}

// A completer completes one place.
type completer struct {
	text   []byte
	root   *cursor.Node
	place  *cursor.Place
	target Target

	message *cursor.Node // the message that contains the place
	path    []any        // path within the message
	offers  []offer
	has     map[string]bool // labels of the offers so far
}

func newCompleter(text []byte, root *cursor.Node, at *cursor.Place, t Target) *completer {
	t.Protocol, t.NextID = cmp.Or(t.Protocol, outline.ProtocolJSONRPC), cmp.Or(t.NextID, 1)
	return &completer{text: text, root: root, place: at, target: t}
}

// An offer is an option before it is fitted into the text.
type offer struct {
	label, about, kind string
	insert             string // JSON text
	caret              int    // cursor position in insert, in bytes; -1 means the end
	rank               int
}

// offer adds an option if it matches the typed text. caret is the cursor position in insert, -1 for
// the end.
func (c *completer) offer(kind, label, insert string, caret int, about string) {
	rank := closeness(label, c.place.Typed)
	if rank < 0 || c.has[label] || len(c.offers) >= 10*maxOptions {
		return
	}
	if c.has == nil {
		c.has = make(map[string]bool)
	}
	c.has[label] = true
	c.offers = append(c.offers, offer{label, harmless.Shorten(strings.Join(strings.Fields(about), " "), maxAbout), kind, insert, caret, rank})
}

// textValue offers a string as a value.
func (c *completer) textValue(value, about string) {
	if quoted, err := jsontext.AppendQuote(nil, value); err == nil {
		c.offer("value", value, string(quoted), -1, about)
	}
}

// value offers any value. Strings are displayed without their quotes.
func (c *completer) value(value jsonrpc.Raw, about string) {
	var text string
	switch {
	case len(value) == 0:
	case value[0] == '"' && value.Decode(&text) == nil:
		c.textValue(text, about)
	default:
		c.offer("value", harmless.Shorten(string(value), 80), string(value), -1, about)
	}
}

// quote returns a string as JSON.
func quote(text string) string { return string(jsonrpc.AppendString(nil, text)) }

// closeness ranks a label for the typed text: 0 if it is a prefix, 1 if a part of the label starts
// with it, 2 if the label contains it, -1 if not.
func closeness(label, typed string) int {
	if typed == "" {
		return 0
	}
	label, typed = strings.ToLower(label), strings.ToLower(typed)
	switch i := strings.Index(label, typed); {
	case i < 0:
		return -1
	case i == 0:
		return 0
	case strings.ContainsAny(label[i-1:i], "/_-. :$"):
		return 1
	}
	return 2
}

// options returns the offers as insertable text, including missing commas before and after them.
func (c *completer) options() []Option {
	slices.SortStableFunc(c.offers, func(a, b offer) int { return cmp.Compare(a.rank, b.rank) })
	before, behind := "", ""
	if c.place.Comma {
		before = c.separator()
	}
	if next := c.place.Next; len(c.place.Path)+len(c.offers) > 0 && c.inside() && (next == '"' || next == '{' || next == '[' || next == '-' || next >= '0' && next <= '9' || next >= 'a' && next <= 'z') {
		behind = ","
	}
	list := []Option{}
	for _, o := range c.offers[:min(len(c.offers), maxOptions)] {
		x := Option{Label: o.label, Insert: before + o.insert + behind, About: o.about, Kind: o.kind}
		if caret := len(before) + o.caret; o.caret >= 0 && caret < len(x.Insert) {
			x.Caret = cursor.Units([]byte(x.Insert), caret)
		}
		list = append(list, x)
	}
	return list
}

// inside reports whether the place is in an object or an array.
func (c *completer) inside() bool { return c.place.Name || len(c.place.Path) > 0 }

// separator returns the comma between two members, with a line break if each member has its own
// line.
func (c *completer) separator() string {
	holder := c.root
	steps := c.place.Path
	if !c.place.Name {
		steps = steps[:len(steps)-1]
	}
	for _, step := range steps {
		holder = holder.Step(step)
	}
	line := strings.LastIndexByte(string(c.text[:c.place.From]), '\n') + 1
	if holder == nil || line == 0 || holder.From >= line {
		return ", "
	}
	indent := line
	for indent < c.place.From && (c.text[indent] == ' ' || c.text[indent] == '\t') {
		indent++
	}
	return ",\n" + string(c.text[line:indent])
}

// collect gathers the offers for the place.
func (c *completer) collect(ctx context.Context) {
	c.message, c.path = c.root, c.place.Path
	if c.root != nil && c.root.Kind == '[' {
		if len(c.path) == 0 {
			return
		}
		c.message, c.path = c.root.Step(c.path[0]), c.path[1:]
	}
	switch {
	case len(c.path) == 0 && c.place.Name:
		c.envelope()
	case len(c.path) == 0:
		c.messages()
	case c.place.Name:
		c.names()
	default:
		c.values(ctx)
	}
}

// messages offers complete messages, for an empty text or the next element of a batch.
func (c *completer) messages() {
	if c.place.Begun {
		return
	}
	id := jsonrpc.IntID(c.target.NextID).String()
	add := func(label, begin, end, about string) { c.offer("message", label, begin+end, len(begin), about) }
	add("request", `{"jsonrpc": "2.0", "id": `+id+`, "method": "`, `"}`, "gets a response")
	add("notification", `{"jsonrpc": "2.0", "method": "`, `"}`, "has no id and gets no response")
	if len(c.place.Path) == 0 {
		add("batch", `[`, `]`, "several messages in one array")
	}
	for _, q := range c.target.Questions {
		for _, choice := range q.Choices {
			c.offer("message", choice.Label+", for "+q.Method, choice.Draft, -1, "a response to id "+q.ID)
		}
	}
}

// member offers the name of a member with the start of its value.
func (c *completer) member(name, value string, caret int, about string) {
	quoted, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		return
	}
	if c.place.Colon {
		c.offer("member", name, string(quoted), -1, about)
		return
	}
	colon := ": "
	if c.root != nil && !strings.Contains(string(c.text), ": ") && strings.Contains(string(c.text), `":`) {
		colon = ":"
	}
	if caret < 0 {
		caret = len(value)
	}
	begin := string(quoted) + colon
	c.offer("member", name, begin+value, len(begin)+caret, about)
}

// envelope offers the JSON-RPC members that the message does not have yet.
func (c *completer) envelope() {
	m := c.message
	response := m.Has("result") || m.Has("error")
	request := m.Has("method") || m.Has("params")
	add := func(name, value string, caret int, about string) {
		if !m.Has(name) {
			c.member(name, value, caret, about)
		}
	}
	add("jsonrpc", `"2.0"`, -1, "the version, always 2.0")
	add("id", jsonrpc.IntID(c.target.NextID).String(), -1, "a string or a number; the response has the same id")
	if !response {
		add("method", `""`, 1, "the method to call")
		open := c.paramsOpen()
		add("params", open, 1, "the arguments: an object or an array")
	}
	if !request && !m.Has("error") {
		add("result", "", 0, "the result of the call")
	}
	if !request && !m.Has("result") {
		add("error", `{"code": -32603, "message": ""}`, len(`{"code": -32603, "message": "`), "why the call failed")
	}
}

// paramsOpen returns the start of params.
func (c *completer) paramsOpen() string {
	if m := c.method(); m != nil {
		if k, _, ok := schemaview.New(m.Params).Keys(0); ok && (k.Variadic || len(k.Properties) == 0 && k.Order != nil) {
			return `[]`
		}
	}
	return `{}`
}

// method returns the description of the message's method, or nil.
func (c *completer) method() *outline.Method {
	name := c.message.Member("method").String()
	list := c.methods()
	if i := slices.IndexFunc(list, func(m outline.Method) bool { return m.Name == name && name != "" }); i >= 0 {
		return &list[i]
	}
	return nil
}

func (c *completer) methods() []outline.Method {
	if c.target.Known != nil {
		return c.target.Known.Methods
	}
	return outline.Methods[c.target.Protocol]
}

// names offers the members that an object may have and lacks, required members first.
func (c *completer) names() {
	holder := c.message
	for _, step := range c.path {
		holder = holder.Step(step)
	}
	shapes := c.shapes()
	for _, must := range []bool{true, false} {
		for _, s := range shapes {
			for _, name := range s.names() {
				part := s.Sub(s.Properties[name])
				if holder.Has(name) || slices.Contains(s.Required, name) != must {
					continue
				}
				value, caret := skeleton(part)
				c.member(name, value, caret, hint(part, must))
			}
		}
	}
	c.argumentNames(holder)
}

// values offers the possible values at the place.
func (c *completer) values(ctx context.Context) {
	switch c.path[0] {
	case "jsonrpc":
		c.textValue("2.0", "JSON-RPC 2.0")
		return
	case "id":
		c.value(jsonrpc.Raw(jsonrpc.IntID(c.target.NextID).String()), "the next free id")
		for _, q := range c.target.Questions {
			c.value(jsonrpc.Raw(q.ID), "id of a request: "+q.Method)
		}
		return
	case "method":
		for _, m := range c.methods() {
			if m.From == "client" {
				c.offer("method", m.Name, quote(m.Name), -1, cmp.Or(m.Title, m.About))
			}
		}
		if c.target.Protocol == outline.ProtocolJSONRPC && c.target.Known == nil {
			c.offer("method", "rpc.discover", `"rpc.discover"`, -1, "describes the server")
		}
		return
	case "params":
		if len(c.path) == 1 && !c.place.Begun {
			c.examples()
		}
		c.dynamic(ctx)
	case "result":
		c.results()
	}
	for _, s := range c.shapes() {
		s.offerTo(c)
	}
}

// examples offers complete params from the method's documentation.
func (c *completer) examples() {
	m := c.method()
	if m == nil {
		return
	}
	for _, x := range m.Examples {
		c.value(x.Params, cmp.Or(x.Name, "an example"))
	}
}

// results offers example results for a question of the server.
func (c *completer) results() {
	if q := c.question(); q != nil && len(c.path) == 1 {
		for _, choice := range q.Choices {
			if result := schemaview.LastMember(jsonrpc.Raw(choice.Draft), "result"); result != nil {
				c.value(result, choice.Label)
			}
		}
	}
}

// question returns the open question that the message answers, or nil.
func (c *completer) question() *Question {
	id := c.message.Member("id")
	if id == nil {
		return nil
	}
	text := string(c.text[id.From:id.To])
	for i := range c.target.Questions {
		if c.target.Questions[i].ID == text {
			return &c.target.Questions[i]
		}
	}
	return nil
}
