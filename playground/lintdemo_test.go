package playground_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// TestLintOfTheDemo checks that no documented example of a server gets a mark, nor does a method
// with any number of values; a mismatch does.
func TestLintOfTheDemo(t *testing.T) {
	web, _ := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@web", Address: web + "/rpc"}, {Name: "@table", Address: web + "/mcp", Protocol: playground.ProtocolMCP}}})
	type marks struct {
		Kind  string `json:"kind"`
		Marks []struct {
			Text    string         `json:"text"`
			Pointer string         `json:"pointer"`
			Answer  string         `json:"answer"`
			Rest    map[string]any `json:",embed"`
		} `json:"marks"`
		Rest map[string]any `json:",embed"`
	}
	type example struct {
		Params jsonrpc.Raw    `json:"params"`
		Rest   map[string]any `json:",embed"`
	}
	var d struct {
		Methods []struct {
			Name     string         `json:"name"`
			Examples []example      `json:"examples"`
			Rest     map[string]any `json:",embed"`
		} `json:"methods"`
		Rest map[string]any `json:",embed"`
	}
	b.call("describe", obj{"target": "@web"}, &d)
	examples := 0
	lint := func(target, text string) (l marks) {
		t.Helper()
		b.call("lint", obj{"target": target, "text": text}, &l)
		return l
	}
	for _, m := range d.Methods {
		for _, x := range m.Examples {
			text := `{"jsonrpc":"2.0","id":1,"method":"` + m.Name + `"`
			if len(x.Params) > 0 {
				text += `,"params":` + string(x.Params)
			}
			examples++
			if l := lint("@web", text+"}"); len(l.Marks) > 0 {
				t.Errorf("%s}: %+v", text, l.Marks)
			}
		}
	}
	if examples < 5 {
		t.Errorf("there are %d examples", examples)
	}
	b.call("describe", obj{"target": "@table"}, nil)
	for _, c := range []struct{ target, text, pointer, says, answer string }{
		{"@web", `{"jsonrpc":"2.0","id":1,"method":"sum","params":[1,2,3]}`, "", "", ""},
		{"@web", `{"jsonrpc":"2.0","id":1,"method":"sum","params":[]}`, "", "", ""},
		{"@web", `{"jsonrpc":"2.0","id":1,"method":"sum","params":[1,2,"x"]}`, "/params/2", "is a string, but must be a number", "-32602"},
		{"@web", `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"any":[1,{"thing":null}]}}`, "", "", ""},
		{"@web", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[1,2,3]}`, "/params", "the method takes 2", "-32602"},
		{"@table", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book-table","arguments":{"restaurant":"x","guests":"4"}}}`, "/params/arguments/guests", "but must be an integer", "isError"},
	} {
		l := lint(c.target, c.text)
		switch {
		case c.says == "" && len(l.Marks) > 0:
			t.Errorf("%s: %+v, want no marks", c.text, l.Marks)
		case c.says != "" && (len(l.Marks) != 1 || l.Marks[0].Pointer != c.pointer || !strings.Contains(l.Marks[0].Text, c.says) || !strings.Contains(l.Marks[0].Answer, c.answer)):
			t.Errorf("%s: %+v, want %s %s %s", c.text, l.Marks, c.pointer, c.says, c.answer)
		}
	}
}

// TestCompleteByTheTarget checks that completions that need the target are requested from it: an
// argument of a prompt together with the given ones, and a variable of a template. A target that is
// not open gets no request.
func TestCompleteByTheTarget(t *testing.T) {
	web, _ := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@table", Address: web + "/mcp", Protocol: playground.ProtocolMCP}}})
	type option struct {
		Label string         `json:"label"`
		Rest  map[string]any `json:",embed"`
	}
	complete := func(text string) (labels string) {
		t.Helper()
		var out struct {
			Options []option       `json:"options"`
			Rest    map[string]any `json:",embed"`
		}
		b.call("complete", obj{"target": "@table", "text": text, "at": len(text)}, &out)
		for _, o := range out.Options {
			labels += o.Label + " "
		}
		return labels
	}
	const prompt = `{"method":"prompts/get","params":{"name":"plan-evening","arguments":{"restaurant":"Blue`
	if got := complete(prompt); got != "" {
		t.Errorf("of one that is not open: %s", got)
	}
	if b.page.Recorder().Flush(); len(b.page.Recorder().Rows(capture.Ref{}, 10)) > 0 {
		t.Error("completion has opened a target")
	}
	b.call("describe", obj{"target": "@table"}, nil)
	for text, want := range map[string]string{
		prompt: "Blue Door ",
		`{"method":"resources/read","params":{"uri":"table://menus/`:                     "table://menus/zur-linde table://menus/blue-door table://menus/osteria-bella table://menus/{restaurant} ",
		`{"method":"resources/read","params":{"uri":"weather://sun/Osl`:                  "weather://sun/Oslo ",
		`{"method":"prompts/get","params":{"name":"explain-error","arguments":{"code":"`: "-32",
	} {
		if got := complete(text); !strings.HasPrefix(got, want) {
			t.Errorf("%s offers %q, want %q", text, got, want)
		}
	}
	b.page.Recorder().Flush()
	if !slices.ContainsFunc(b.page.Recorder().Rows(capture.Ref{}, 100), func(row capture.Row) bool { return row.Method == "completion/complete" }) {
		t.Error("the questions are not on the wire")
	}
}
