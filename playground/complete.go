package playground

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file says what could stand at the cursor: names of methods, names of members, values. It looks at the document with
// findPlace, and at what the target has said about itself. It never changes anything: the page puts in what somebody chooses.

// Bounds of one completion.
const (
	maxCompleteText = 1 << 20 // bytes of the document; a longer one is not completed
	maxOptions      = 100
	maxAbout        = 200 // bytes of what is said about an option
	maxShapes       = 64  // schemas that are followed at once
)

type completeParams struct {
	Target string `json:"target,omitzero"`
	Text   string `json:"text"`
	At     int    `json:"at"`             // of the cursor, in UTF-16 units
	Asked  bool   `json:"asked,omitzero"` // somebody asked; otherwise there are options for what was begun alone
}

// A completeResult replaces what is between From and To, in UTF-16 units, by one of the options.
type completeResult struct {
	From    int          `json:"from"`
	To      int          `json:"to"`
	Options []completion `json:"options"` // the best first, at most maxOptions
}

// A completion is one option.
type completion struct {
	Label  string `json:"label"`
	Insert string `json:"insert"`
	Caret  int    `json:"caret,omitzero"` // where the cursor goes in Insert, in UTF-16 units; 0 for its end
	About  string `json:"about,omitzero"`
	Kind   string `json:"kind"` // method, member, value or message
}

// apiComplete says what could stand at a place of a text. Only for the arguments of MCP's prompts and resource templates it asks
// the target, and only one that is open.
func (p *Playground) apiComplete(ctx context.Context, in completeParams) (completeResult, error) {
	out := completeResult{From: in.At, To: in.At, Options: []completion{}}
	if len(in.Text) > maxCompleteText || in.At < 0 {
		return out, nil
	}
	text := []byte(in.Text)
	root, at := findPlace(text, offsetOf(in.Text, in.At))
	if at == nil || !at.begun && !in.Asked {
		return out, nil
	}
	c := &completer{text: text, root: root, place: at, protocol: ProtocolJSONRPC, next: 1}
	p.mu.Lock()
	if t := p.targets[in.Target]; t != nil {
		c.protocol, c.known, c.link = t.protocol(), t.known, t.link
	}
	for _, q := range p.questions {
		if c.link != nil && q.link == c.link {
			c.questions = append(c.questions, q)
		}
	}
	p.mu.Unlock()
	if c.link != nil {
		c.link.mu.Lock()
		c.next = c.link.next
		c.link.mu.Unlock()
	}
	c.collect(ctx)
	out.Options = c.options()
	out.From, out.To = units(text, at.from), units(text, at.to)
	if len(out.Options) == 1 && !in.Asked && out.Options[0].Insert == string(text[at.from:at.to]) {
		out.Options = out.Options[:0] // it stands there already
	}
	return out, nil
}

// offsetOf is an offset in UTF-16 units as one in bytes.
func offsetOf(text string, units int) int {
	n := 0
	for i, r := range text {
		if n >= units {
			return i
		}
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return len(text)
}

// A completer completes one place.
type completer struct {
	text      []byte
	root      *node
	place     *place
	known     *description // nil: the target has not described itself
	protocol  string
	link      *link // nil: it is not open
	next      int64 // the next free id
	questions []*question

	message *node // in which the place is
	path    []any // from there on
	offers  []offer
	has     map[string]bool // the labels of offers
}

// An offer is an option before it is fitted into the text.
type offer struct {
	label, about, kind string
	insert             string // JSON text
	caret              int    // in bytes of insert; -1 for its end
	rank               int
}

// offer adds an option if what was typed leads to it. caret is where the cursor goes, -1 for the end.
func (c *completer) offer(kind, label, insert string, caret int, about string) {
	rank := closeness(label, c.place.typed)
	if rank < 0 || c.has[label] || len(c.offers) >= 10*maxOptions {
		return
	}
	if c.has == nil {
		c.has = make(map[string]bool)
	}
	c.has[label] = true
	c.offers = append(c.offers, offer{label, cutLabel(strings.Join(strings.Fields(about), " "), maxAbout), kind, insert, caret, rank})
}

// textValue adds a string as a value.
func (c *completer) textValue(value, about string) {
	if quoted, err := jsontext.AppendQuote(nil, value); err == nil {
		c.offer("value", value, string(quoted), -1, about)
	}
}

// value adds any value; strings are shown without their quotes.
func (c *completer) value(value jsonrpc.Raw, about string) {
	var text string
	switch {
	case len(value) == 0:
	case value[0] == '"' && value.Decode(&text) == nil:
		c.textValue(text, about)
	default:
		c.offer("value", cutLabel(string(value), 80), string(value), -1, about)
	}
}

// closeness tells how well a label fits what was typed: 0 it begins so, 1 a part of it does, 2 it is in it, -1 it is not.
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

// cutLabel cuts a text at the end of a character.
func cutLabel(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// options are the offers, fitted into the text: with the commas that are missing before and behind them.
func (c *completer) options() []completion {
	slices.SortStableFunc(c.offers, func(a, b offer) int { return cmp.Compare(a.rank, b.rank) })
	before, behind := "", ""
	if c.place.comma {
		before = c.separator()
	}
	if next := c.place.next; len(c.place.path)+len(c.offers) > 0 && c.inside() && (next == '"' || next == '{' || next == '[' || next == '-' || next >= '0' && next <= '9' || next >= 'a' && next <= 'z') {
		behind = ","
	}
	list := []completion{}
	for _, o := range c.offers[:min(len(c.offers), maxOptions)] {
		x := completion{Label: o.label, Insert: before + o.insert + behind, About: o.about, Kind: o.kind}
		if caret := len(before) + o.caret; o.caret >= 0 && caret < len(x.Insert) {
			x.Caret = units([]byte(x.Insert), caret)
		}
		list = append(list, x)
	}
	return list
}

// inside reports whether the place is in an object or an array.
func (c *completer) inside() bool { return c.place.name || len(c.place.path) > 0 }

// separator is the comma between two members, and the line break if each has a line of its own.
func (c *completer) separator() string {
	holder := c.root
	steps := c.place.path
	if !c.place.name {
		steps = steps[:len(steps)-1]
	}
	for _, step := range steps {
		holder = holder.step(step)
	}
	line := strings.LastIndexByte(string(c.text[:c.place.from]), '\n') + 1
	if holder == nil || line == 0 || holder.from >= line {
		return ", "
	}
	indent := line
	for indent < c.place.from && (c.text[indent] == ' ' || c.text[indent] == '\t') {
		indent++
	}
	return ",\n" + string(c.text[line:indent])
}

// collect finds the offers.
func (c *completer) collect(ctx context.Context) {
	c.message, c.path = c.root, c.place.path
	if c.root != nil && c.root.kind == '[' {
		if len(c.path) == 0 {
			return
		}
		c.message, c.path = c.root.step(c.path[0]), c.path[1:]
	}
	switch {
	case len(c.path) == 0 && c.place.name:
		c.envelope()
	case len(c.path) == 0:
		c.messages()
	case c.place.name:
		c.names()
	default:
		c.values(ctx)
	}
}

// messages are whole ones, for an empty text or the next member of a batch.
func (c *completer) messages() {
	if c.place.begun {
		return
	}
	id := jsonrpc.IntID(c.next).String()
	add := func(label, begin, end, about string) { c.offer("message", label, begin+end, len(begin), about) }
	add("request", `{"jsonrpc": "2.0", "id": `+id+`, "method": "`, `"}`, "is answered")
	add("notification", `{"jsonrpc": "2.0", "method": "`, `"}`, "has no id and is not answered")
	if len(c.place.path) == 0 {
		add("batch", `[`, `]`, "several messages in one")
	}
	for _, q := range c.questions {
		_, choices, _ := q.answers()
		for _, choice := range choices {
			c.offer("message", choice.Label+", for "+q.method, choice.Draft, -1, "a response to id "+q.id)
		}
	}
}

// member adds the name of a member, with a beginning of its value.
func (c *completer) member(name, value string, caret int, about string) {
	quoted, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		return
	}
	if c.place.colon {
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

// envelope offers the members of a message that it does not have.
func (c *completer) envelope() {
	m := c.message
	response := m.has("result") || m.has("error")
	request := m.has("method") || m.has("params")
	add := func(name, value string, caret int, about string) {
		if !m.has(name) {
			c.member(name, value, caret, about)
		}
	}
	add("jsonrpc", `"2.0"`, -1, "the version, always 2.0")
	add("id", jsonrpc.IntID(c.next).String(), -1, "a string or a number; the response has it too")
	if !response {
		add("method", `""`, 1, "what is called")
		open := c.paramsOpen()
		add("params", open, 1, "an object or an array")
	}
	if !request && !m.has("error") {
		add("result", "", 0, "what came out")
	}
	if !request && !m.has("result") {
		add("error", `{"code": -32603, "message": ""}`, len(`{"code": -32603, "message": "`), "why nothing did")
	}
}

// paramsOpen is how params begin.
func (c *completer) paramsOpen() string {
	if m := c.method(); m != nil {
		if k, _, ok := (schema{m.Params, m.Params}).keys(0); ok && (k.Variadic || len(k.Properties) == 0 && k.Order != nil) {
			return `[]`
		}
	}
	return `{}`
}

// method is what the target says about the method of the message.
func (c *completer) method() *methodView {
	name := c.message.member("method").string()
	list := c.methods()
	if i := slices.IndexFunc(list, func(m methodView) bool { return m.Name == name && name != "" }); i >= 0 {
		return &list[i]
	}
	return nil
}

func (c *completer) methods() []methodView {
	if c.known != nil {
		return c.known.Methods
	}
	return protocolMethods[c.protocol]
}

// names offers the members that an object may have and does not have: those it must have first.
func (c *completer) names() {
	holder := c.message
	for _, step := range c.path {
		holder = holder.step(step)
	}
	shapes := c.shapes()
	for _, must := range []bool{true, false} {
		for _, s := range shapes {
			for _, name := range s.names() {
				part := schema{s.root, s.Properties[name]}
				if holder.has(name) || slices.Contains(s.Required, name) != must {
					continue
				}
				value, caret := part.skeleton()
				c.member(name, value, caret, part.hint(must))
			}
		}
	}
	c.argumentNames(holder)
}

// values offers what a value may be.
func (c *completer) values(ctx context.Context) {
	switch c.path[0] {
	case "jsonrpc":
		c.textValue("2.0", "JSON-RPC 2.0")
		return
	case "id":
		c.value(jsonrpc.Raw(jsonrpc.IntID(c.next).String()), "the next that is free")
		for _, q := range c.questions {
			c.value(jsonrpc.Raw(q.id), "asked by "+q.method)
		}
		return
	case "method":
		for _, m := range c.methods() {
			if m.From == "client" {
				c.offer("method", m.Name, string(raw(m.Name)), -1, orDefault(m.Title, m.About))
			}
		}
		if c.protocol == ProtocolJSONRPC && c.known == nil {
			c.offer("method", "rpc.discover", `"rpc.discover"`, -1, "what the server offers")
		}
		return
	case "params":
		if len(c.path) == 1 && !c.place.begun {
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

// examples offers whole params: those that the method is documented with.
func (c *completer) examples() {
	m := c.method()
	if m == nil {
		return
	}
	for _, x := range m.Examples {
		c.value(x.Params, orDefault(x.Name, "an example"))
	}
}

// results offers the results that a question of the server has.
func (c *completer) results() {
	if q := c.question(); q != nil && len(c.path) == 1 {
		_, choices, _ := q.answers()
		for _, choice := range choices {
			members1(jsonrpc.Raw(choice.Draft), "result", func(result jsonrpc.Raw) { c.value(result, choice.Label) })
		}
	}
}

// question is the open question that the message answers.
func (c *completer) question() *question {
	id := c.message.member("id")
	if id == nil {
		return nil
	}
	text := string(c.text[id.from:id.to])
	for _, q := range c.questions {
		if q.id == text {
			return q
		}
	}
	return nil
}
