package complete

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/cursor"
	"github.com/da1ed7bb/parley/playground/internal/outline"
)

// bar marks the cursor in the texts of these tests.
const bar = "│"

// offered are the descriptions of targets, by protocol.
var offered = map[string]*outline.Description{
	outline.ProtocolJSONRPC: {Methods: []outline.Method{
		{Name: "subtract", Title: "the difference", From: "client", Examples: []outline.Example{{Name: "by position", Params: jsonrpc.Raw(`[42,23]`)}},
			Params: jsonrpc.Raw(`{"type":"object","x-order":["minuend","subtrahend"],"required":["minuend","subtrahend"],"properties":{"minuend":{"type":"integer","description":"from what"},"subtrahend":{"type":"integer","enum":[7,23]}}}`)},
		{Name: "sum", From: "client", Params: jsonrpc.Raw(`{"type":"object","x-order":["values"],"x-variadic":true,"properties":{"values":{"type":"number","examples":[1.5]}}}`)},
		{Name: "log/level", From: "client", Params: jsonrpc.Raw(`{"type":"object","properties":{"level":{"enum":["debug","info"]},"loud":{"type":"boolean"},"deep":{"$ref":"#/$defs/deep"}},"$defs":{"deep":{"type":"object","properties":{"unit":{"const":"m"},"list":{"type":"array","items":{"enum":["a","b"]}},"more":{"$ref":"#/$defs/deep"}}}}}`)},
		{Name: "tick", From: "server"},
	}},
	outline.ProtocolMCP: {
		Methods: outline.Methods[outline.ProtocolMCP],
		Tools: []outline.Item{{Name: "book-table", Title: "Book a table", Schema: jsonrpc.Raw(`{"type":"object","properties":{"restaurant":{"type":"string","enum":["Zur Linde","Blue Door"]},"guests":{"type":"integer","minimum":1,"default":2},` +
			`"wish":{"oneOf":[{"const":"window","title":"At the window"},{"const":"garden"}]},"who":{"anyOf":[{"properties":{"kind":{"const":"person"},"name":{"type":"string"}}},{"properties":{"kind":{"const":"firm"},"vat":{"type":"string"}}}]}},"required":["restaurant","guests"]}`)}},
		Resources: []outline.Item{{Name: "bookings", URI: "table://bookings"}},
		Templates: []outline.Item{{Name: "menu", URI: "table://menus/{restaurant}"}},
		Prompts:   []outline.Item{{Name: "plan", Schema: jsonrpc.Raw(`{"type":"object","properties":{"city":{"type":"string","description":"where"}},"required":["city"]}`)}},
		Agents:    []outline.Item{},
	},
	outline.ProtocolA2A: {Methods: outline.Methods[outline.ProtocolA2A]},
}

// completed returns the text with its cursor after the option with that label was chosen; "" if
// no option has it.
func completed(t *testing.T, protocol, text, label string, asked bool) (after string, labels []string) {
	t.Helper()
	before, behind, found := strings.Cut(text, bar)
	if !found {
		t.Fatalf("%q has no cursor", text)
	}
	r := At(context.Background(), Request{Text: before + behind, At: len(utf16.Encode([]rune(before))), Asked: asked}, func() Target {
		return Target{Protocol: protocol, Known: offered[protocol]}
	})
	all := utf16.Encode([]rune(before + behind))
	if r.From < 0 || r.To > len(all) || r.From > r.To {
		t.Fatalf("%s: from %d to %d", text, r.From, r.To)
	}
	for _, o := range r.Options {
		labels = append(labels, o.Label)
		if o.Label != label || after != "" {
			continue
		}
		insert := utf16.Encode([]rune(o.Insert))
		caret := o.Caret
		if caret == 0 {
			caret = len(insert)
		}
		after = string(utf16.Decode(all[:r.From])) + string(utf16.Decode(insert[:caret])) + bar + string(utf16.Decode(insert[caret:])) + string(utf16.Decode(all[r.To:]))
	}
	return after, labels
}

// TestComplete checks that a chosen option fits into the text, in every state of the text.
func TestComplete(t *testing.T) {
	for _, c := range []struct{ name, protocol, text, label, want string }{
		{"a method", "", `{"jsonrpc":"2.0","id":1,"method":"sub│`, "subtract", `{"jsonrpc":"2.0","id":1,"method":"subtract"│`},
		{"a method, and what follows on the line", "", `{"method":"su│,"params":[1]}`, "subtract", `{"method":"subtract"│,"params":[1]}`},
		{"a method, and a comma is missing", "", "{\n  \"method\": \"su│\n  \"params\": [1]\n}", "subtract", "{\n  \"method\": \"subtract\",│\n  \"params\": [1]\n}"},
		{"a method, in a closed string", "", `{"method":"su│","params":[1]}`, "subtract", `{"method":"subtract"│,"params":[1]}`},
		{"a method, from the middle", "", `{"method":"log/│evel"}`, "log/level", `{"method":"log/level"│}`},
		{"a method, by a part of its name", "", `{"method":"lev│"}`, "log/level", `{"method":"log/level"│}`},
		{"a method without quotes", "", `{"method":sub│}`, "subtract", `{"method":"subtract"│}`},
		{"a method, nothing typed", "", `{"method": │}`, "subtract", `{"method": "subtract"│}`},
		{"a method, and the next member is on the next line", "", "{\"method\": │\n\"params\":[]}", "subtract", "{\"method\": \"subtract\",│\n\"params\":[]}"},
		{"a method behind characters of four bytes", "", `{"𝄞é":"𝄞","method":"su│"}`, "subtract", `{"𝄞é":"𝄞","method":"subtract"│}`},
		{"a method with an escape", "", `{"method":"s\u0075│"}`, "subtract", `{"method":"subtract"│}`},
		{"in a batch", "", `[{"method":"sum"},{"method":"su│`, "subtract", `[{"method":"sum"},{"method":"subtract"│`},
		{"params by name", "", `{"method":"subtract","params":{"min│`, "minuend", `{"method":"subtract","params":{"minuend":│`},
		{"params by name, before others", "", `{"method":"subtract", "params":{│"minuend": 1}}`, "subtrahend", `{"method":"subtract", "params":{"subtrahend": │,"minuend": 1}}`},
		{"params by name, behind others", "", `{"method":"subtract", "params":{"minuend": 1 │}}`, "subtrahend", `{"method":"subtract", "params":{"minuend": 1, "subtrahend": │}}`},
		{"behind others, a line each", "", "{\"method\":\"subtract\", \"params\":{\n    \"minuend\": {}│\n}}", "subtrahend", "{\"method\":\"subtract\", \"params\":{\n    \"minuend\": {},\n    \"subtrahend\": │\n}}"},
		{"the method comes after the params", "", `{"params":{"│},"method":"subtract"}`, "minuend", `{"params":{"minuend":│},"method":"subtract"}`},
		{"a name that has its colon", "", `{"method":"subtract","params":{"m│":1}}`, "minuend", `{"method":"subtract","params":{"minuend"│:1}}`},
		{"an enumeration", "", `{"method":"subtract","params":{"subtrahend":2│`, "23", `{"method":"subtract","params":{"subtrahend":23│`},
		{"an enumeration by position", "", `{"method":"subtract","params":[1,2│`, "23", `{"method":"subtract","params":[1,23│`},
		{"by position, nothing typed", "", `{"method":"subtract","params":[1, │]}`, "7", `{"method":"subtract","params":[1, 7│]}`},
		{"by position, without the comma", "", `{"method":"subtract","params":[1 │]}`, "7", `{"method":"subtract","params":[1, 7│]}`},
		{"any number of values", "", `{"method":"sum","params":[1,2,1│]}`, "1.5", `{"method":"sum","params":[1,2,1.5│]}`},
		{"whole params", "", `{"method":"subtract","params":│}`, "[42,23]", `{"method":"subtract","params":[42,23]│}`},
		{"a truth", "", `{"method":"log/level","params":{"loud":t│}}`, "true", `{"method":"log/level","params":{"loud":true│}}`},
		{"a text of an enumeration", "", `{"method":"log/level","params":{"level":"d│}}`, "debug", `{"method":"log/level","params":{"level":"debug"│}}`},
		{"by reference", "", `{"method":"log/level","params":{"deep":{"more":{"more":{"u│`, "unit", `{"method":"log/level","params":{"deep":{"more":{"more":{"unit":"m"│`},
		{"in an array", "", `{"method":"log/level","params":{"deep":{"list":["a","│`, "b", `{"method":"log/level","params":{"deep":{"list":["a","b"│`},
		{"a constant", "", `{"method":"log/level","params":{"deep":{"unit":│`, "m", `{"method":"log/level","params":{"deep":{"unit":"m"│`},
		{"the version", "", `{"jsonrpc":│}`, "2.0", `{"jsonrpc":"2.0"│}`},
		{"the envelope", "", `{"jsonrpc": "2.0", "me│`, "method", `{"jsonrpc": "2.0", "method": "│"`},
		{"a name without quotes", "", `{me│}`, "method", `{"method": "│"}`},
		{"the envelope of an error", "", `{"jsonrpc":"2.0","id":1,"error":{"co│}}`, "code", `{"jsonrpc":"2.0","id":1,"error":{"code":│}}`},
		{"an error code", "", `{"id":1,"error":{"code":-326│`, "-32602", `{"id":1,"error":{"code":-32602│`},
		{"nothing at all", "", `│`, "request", `{"jsonrpc": "2.0", "id": 1, "method": "│"}`},
		{"a member of a batch", "", `[{"jsonrpc":"2.0","method":"sum"},│]`, "notification", `[{"jsonrpc":"2.0","method":"sum"},{"jsonrpc": "2.0", "method": "│"}]`},
		{"discovery", "lsp", `{"method":"hov│"}`, "textDocument/hover", `{"method":"textDocument/hover"│}`},
		{"a tool", outline.ProtocolMCP, `{"method":"tools/call","params":{"name":"b│`, "book-table", `{"method":"tools/call","params":{"name":"book-table"│`},
		{"a tool's argument", outline.ProtocolMCP, `{"method":"tools/call","params":{"name":"book-table","arguments":{"g│`, "guests", `{"method":"tools/call","params":{"name":"book-table","arguments":{"guests":2│`},
		{"a tool's argument before its name", outline.ProtocolMCP, `{"method":"tools/call","params":{"arguments":{"restaurant":"Z│},"name":"book-table"}}`, "Zur Linde", `{"method":"tools/call","params":{"arguments":{"restaurant":"Zur Linde"│},"name":"book-table"}}`},
		{"in a batch, a tool's argument", outline.ProtocolMCP, `[1,{"method":"tools/call","params":{"name":"book-table","arguments":{"restaurant":"bl│"}}}]`, "Blue Door", `[1,{"method":"tools/call","params":{"name":"book-table","arguments":{"restaurant":"Blue Door"│}}}]`},
		{"one of", outline.ProtocolMCP, `{"method":"tools/call","params":{"name":"book-table","arguments":{"wish":"│`, "window", `{"method":"tools/call","params":{"name":"book-table","arguments":{"wish":"window"│`},
		{"the kind of a union", outline.ProtocolMCP, `{"method":"tools/call","params":{"name":"book-table","arguments":{"who":{"kind":"f│"}}}}`, "firm", `{"method":"tools/call","params":{"name":"book-table","arguments":{"who":{"kind":"firm"│}}}}`},
		{"a member of the right alternative", outline.ProtocolMCP, `{"method":"tools/call","params":{"name":"book-table","arguments":{"who":{"kind":"firm","│"}}}}`, "vat", `{"method":"tools/call","params":{"name":"book-table","arguments":{"who":{"kind":"firm","vat":"│"}}}}`},
		{"a prompt", outline.ProtocolMCP, `{"method":"prompts/get","params":{"name":"│`, "plan", `{"method":"prompts/get","params":{"name":"plan"│`},
		{"a prompt's argument", outline.ProtocolMCP, `{"method":"prompts/get","params":{"name":"plan","arguments":{"│`, "city", `{"method":"prompts/get","params":{"name":"plan","arguments":{"city":"│"`},
		{"a resource", outline.ProtocolMCP, `{"method":"resources/read","params":{"uri":"table│`, "table://bookings", `{"method":"resources/read","params":{"uri":"table://bookings"│`},
		{"a level", outline.ProtocolMCP, `{"method":"logging/setLevel","params":{"level":"warn│`, "warning", `{"method":"logging/setLevel","params":{"level":"warning"│`},
		{"what completion completes", outline.ProtocolMCP, `{"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"plan"},"argument":{"name":"│`, "city", `{"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"plan"},"argument":{"name":"city"│`},
		{"a role", outline.ProtocolA2A, `{"method":"SendMessage","params":{"message":{"role":"│`, "ROLE_USER", `{"method":"SendMessage","params":{"message":{"role":"ROLE_USER"│`},
		{"a part of a message", outline.ProtocolA2A, `{"method":"SendMessage","params":{"message":{"parts":[{"│`, "text", `{"method":"SendMessage","params":{"message":{"parts":[{"text":"│"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			protocol := cmp.Or(c.protocol, outline.ProtocolJSONRPC)
			got, labels := completed(t, protocol, c.text, c.label, true)
			if got != c.want {
				t.Errorf("%s with %s is\n%s, want\n%s; the options are %q", c.text, c.label, got, c.want, labels)
			}
		})
	}
}

// TestCompletions checks the options, their order, and the positions without options.
func TestCompletions(t *testing.T) {
	for _, c := range []struct {
		name, protocol, text string
		asked                bool
		want                 []string
	}{
		{"methods, without the server's", "", `{"method":"│"}`, true, []string{"subtract", "sum", "log/level"}},
		{"those that begin so come first", "", `{"method":"l│"}`, true, []string{"log/level"}},
		{"members that are there are not", "", `{"method":"subtract","params":{"subtrahend":1,│}}`, true, []string{"minuend"}},
		{"required ones come first", outline.ProtocolMCP, `{"method":"tools/call","params":{"name":"book-table","arguments":{"│`, true, []string{"restaurant", "guests", "wish", "who"}},
		{"only those of the alternative that is chosen", outline.ProtocolMCP, `{"method":"tools/call","params":{"name":"book-table","arguments":{"who":{"kind":"firm","│`, true, []string{"vat"}},
		{"a response", "", `{"jsonrpc":"2.0","id":1,"result":1,│}`, true, []string{}},
		{"an envelope that has begun", "", `{"jsonrpc":"2.0","id":1,"│`, true, []string{"method", "params", "result", "error"}},
		{"nobody asked, nothing is typed", "", `{"method":│}`, false, nil},
		{"nobody asked, a string is closed", "", `{"method":"subtract"│}`, false, nil},
		{"nobody asked, it stands there", "", `{"method":"subtract│"}`, false, nil},
		{"nobody asked, a quote is typed", "", `{"method":"│"}`, false, []string{"subtract", "sum", "log/level"}},
		{"between a name and its colon", "", `{"method"│ :1}`, true, nil},
		{"behind the end", "", `{} │`, true, nil},
		{"before a container", "", `{"params":│{}}`, true, nil},
		{"an unknown method", "", `{"method":"nobody","params":{"│`, true, nil},
		{"a text of which nothing is known", "", `hel│lo`, true, nil},
		{"too deep", "", strings.Repeat("[", cursor.MaxDepth+5) + "│", true, nil},
		{"too long", "", `{"method":"│"}` + strings.Repeat(" ", maxText), true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got := completed(t, cmp.Or(c.protocol, outline.ProtocolJSONRPC), c.text, "", c.asked)
			if len(got) != len(c.want) || len(got) > 0 && !gocmp.Equal(got, c.want) {
				t.Errorf("%.200s offers %q, want %q", c.text, got, c.want)
			}
		})
	}
}

// TestCompleteBeforeTheText checks that a position below zero has no options.
func TestCompleteBeforeTheText(t *testing.T) {
	r := At(context.Background(), Request{Text: "{}", At: -1, Asked: true}, func() Target { return Target{} })
	if len(r.Options) != 0 {
		t.Errorf("at -1: %v", r)
	}
}

// TestTemplateParts checks the variables of a level-1 template; other levels have none.
func TestTemplateParts(t *testing.T) {
	for _, c := range []struct {
		template string
		want     []templatePart
	}{
		{"table://menus/{restaurant}", []templatePart{{"table://menus/", "restaurant", ""}}},
		{"a:{x}/b/{y}.json", []templatePart{{"a:", "x", "/b/"}, {"/b/", "y", ".json"}}},
		{"a:{+x}", nil}, {"a:{x", nil}, {"a:{}", nil}, {"plain", nil}, {"", nil},
	} {
		if got := templateParts(c.template); !gocmp.Equal(got, c.want, gocmp.AllowUnexported(templatePart{})) {
			t.Errorf("templateParts(%q) = %v, want %v", c.template, got, c.want)
		}
	}
}

// FuzzFindPlace checks that for any text and cursor, nothing panics, the place lies around the
// cursor within the text, and a complete document is read as a JSON parser reads it.
func FuzzFindPlace(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"method":"su`, `[{"a":[1,,2}],{"b"`, "{\"a\n\":\"\\", `{"a":{"b":[true,"x"]}}`, `:]}[{"`, "{\"é𝄞\":\"\xff", `{"a" "b" 1 [}`} {
		for at := 0; at <= len(seed); at += 3 {
			f.Add([]byte(seed), at)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		if at < 0 || at > len(text) {
			at = len(text)
		}
		root, p := cursor.Find(text, at)
		switch {
		case p == nil:
		case p.From < 0 || p.From > p.To || p.To > len(text),
			p.Begun && (p.From >= at || p.To < at), // the cursor is in the started word
			!p.Begun && p.From < at && p.To != at:  // or at the position of the missing value
			t.Errorf("%q at %d: %+v", text, at, p)
		}
		c := newCompleter(text, root, p, Target{Protocol: outline.ProtocolMCP, Known: offered[outline.ProtocolMCP]})
		if p != nil {
			c.collect(context.Background())
			c.options()
		}
		var v any
		if json.Unmarshal(text, &v) == nil {
			root, _ := cursor.Find(text, -1)
			if got := read(root, text); !gocmp.Equal(got, v) && strings.Count(string(text), "[")+strings.Count(string(text), "{") <= cursor.MaxDepth {
				t.Errorf("%q at %d is read as %v, want %v", text, at, got, v)
			}
		}
	})
}

// read returns the value of a node.
func read(n *cursor.Node, text []byte) (v any) {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case '{':
		object := map[string]any{}
		for _, m := range n.Members {
			object[m.Name] = read(m.Value, text)
		}
		return object
	case '[':
		list := []any{}
		for _, item := range n.Items {
			list = append(list, read(item, text))
		}
		return list
	}
	if json.Unmarshal(text[n.From:n.To], &v) != nil {
		return "no value"
	}
	return v
}
