package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestReadField checks how typed text is converted, for all forms of a field in the protocol
// versions.
func TestReadField(t *testing.T) {
	const (
		enum    = `{"type":"string","enum":["opt1","opt2"]}`
		titled  = `{"type":"string","oneOf":[{"const":"a","title":"First, the best"},{"const":"b","title":"Second"}]}`
		named   = `{"type":"string","enum":["a","b"],"enumNames":["First","Second"]}`
		several = `{"type":"array","items":{"type":"string","enum":["a","b","c"]}}`
		titles  = `{"type":"array","items":{"anyOf":[{"const":"a","title":"First"},{"const":"b","title":"Second"}]}}`
	)
	for _, tt := range []struct{ schema, typed, want string }{
		{`{"type":"string"}`, "Ada", `"Ada"`},
		{`{"type":"string"}`, `42 "quoted"`, `"42 \"quoted\""`},
		{`{"type":"string","minLength":2,"maxLength":3}`, "A", "!at least 2 characters"},
		{`{"type":"string","minLength":2,"maxLength":3}`, "Ädäö", "!at most 3 characters"},
		{`{"type":"string","minLength":2,"maxLength":3}`, "Äda", `"Äda"`},
		{`{"type":"integer"}`, " 9007199254740993 ", "9007199254740993"},
		{`{"type":"integer"}`, "2.5", "!a whole number"},
		{`{"type":"integer"}`, "1e99999999", "!is not a number"},
		{`{"type":"integer"}`, "two", "!is not a number"},
		{`{"type":"integer"}`, `"2"`, "!is not a number"},
		{`{"type":"number","minimum":0.5,"maximum":2}`, "0.25", "!at least 1/2"},
		{`{"type":"number","minimum":0.5,"maximum":2}`, "3", "!at most 2"},
		{`{"type":"number","minimum":0.5,"maximum":2}`, "1.5", "1.5"},
		{`{"type":"boolean"}`, "Y", "true"},
		{`{"type":"boolean"}`, "no", "false"},
		{`{"type":"boolean"}`, "perhaps", "!yes or no"},
		{enum, "opt2", `"opt2"`},
		{enum, "2", `"opt2"`},
		{enum, "3", "!choose one of the 2 options"},
		{titled, "first, the best", `"a"`},
		{titled, "b", `"b"`},
		{titled, "1", `"a"`},
		{named, "Second", `"b"`},
		{several, "a, 3", `["a","c"]`},
		{several, "", `[]`},
		{several, "a,d", "!choose one of the 3 options"},
		{titles, "Second,First", `["b","a"]`},
		{`{"type":"string","pattern":"^[a-z]+$"}`, "42", "!must match the pattern"},
		{`{"type":"number","exclusiveMaximum":2}`, "2", "!must be less than 2"},
		{`{"type":"array","minItems":2,"items":{"type":"string","enum":["a","b","c"]}}`, "a", "!at least 2 items"},
		{`{"type":"string","pattern":"("}`, "x", `"x"`}, // the server decides
		{`{}`, "x", `"x"`},
		{`true`, "x", `"x"`},
	} {
		f := field{name: "f", schema: jsonrpc.Raw(tt.schema)}
		got, err := f.read(tt.typed)
		if want, wrong := strings.CutPrefix(tt.want, "!"); wrong {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: %s, %v; want %s", tt.schema, tt.typed, got, err, want)
			}
		} else if err != nil || string(got) != tt.want {
			t.Errorf("%s %q: %s, %v; want %s", tt.schema, tt.typed, got, err, tt.want)
		}
	}
}

const bookingForm = `{"type":"object","properties":{` +
	`"time":{"type":"string","title":"Time","oneOf":[{"const":"20:15","title":"20:15, garden"},{"const":"21:00","title":"21:00, inside"}],"default":"20:15"},` +
	`"name":{"type":"string","title":"Name","minLength":2,"maxLength":40},` +
	`"note":{"type":"string","description":"for the kitchen"},` +
	`"highChair":{"type":"boolean","title":"High chair","default":false}},"required":["time","name"]}`

// TestDialogue checks that the dialogue asks field by field, uses defaults for empty lines, and
// repeats a question after invalid input.
func TestDialogue(t *testing.T) {
	for _, tt := range []struct{ typed, want string }{
		{"\nA\nAda\n\n\ny\n", `{"time":"20:15","name":"Ada","highChair":false}`},
		{"3\n2\nAda\nno nuts\nyes\n\n", `{"time":"21:00","name":"Ada","note":"no nuts","highChair":true}`},
		{"2\nAda\n\n\nwhat?\nn\n", "declined"},
		{"2\nAda", "declined"}, // the input ends
	} {
		var stderr bytes.Buffer
		v := &mcpCommand{app: &app{stdin: strings.NewReader(tt.typed), stderr: &stderr}, screen: &screen{w: &stderr}}
		content, err := v.fill(t.Context(), fieldsOf(jsonrpc.Raw(bookingForm)), nil)
		if err == nil {
			err = v.confirm(t.Context())
		}
		got := string(content)
		if is[errNoMore](err) {
			got = "declined"
		} else if err != nil {
			t.Error(err)
		}
		if got != tt.want {
			t.Errorf("%q: %s, want %s\n%s", tt.typed, got, tt.want, &stderr)
		}
		for _, shown := range []string{"    1  20:15, garden\n", "  [20:15, garden] > ", "  Name: 2 to 40 letters\n"} {
			if !strings.Contains(stderr.String(), shown) {
				t.Errorf("%q is not shown:\n%s", shown, &stderr)
			}
		}
	}
}

// TestDialogueEndsWithTheCall checks that a question ends with its call, even while the user is
// typing.
func TestDialogueEndsWithTheCall(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &app{stderr: new(bytes.Buffer), lines: make(chan string)}
	cancel(errInterrupted)
	if _, err := a.typed(ctx); !errors.Is(err, errInterrupted) {
		t.Errorf("typed = %v", err)
	}
}

func TestAnswersWithoutATerminal(t *testing.T) {
	for _, tt := range []struct {
		answers []string
		want    string
	}{
		{nil, "decline "},
		{[]string{"name=Ada"}, `accept {"name":"Ada"}`},
		{[]string{"name=Ada", "time=2", "highChair:=true"}, `accept {"time":"21:00","name":"Ada","highChair":true}`},
		{[]string{"time=2"}, "decline "},             // without a name
		{[]string{"other=1"}, "decline "},            // for another question
		{[]string{"name=A"}, "error at least 2"},     // invalid
		{[]string{"name:={"}, "error is not JSON"},   // invalid too
		{[]string{"no answer"}, "error FIELD=VALUE"}, // not an answer
	} {
		var stderr bytes.Buffer
		v := &mcpCommand{app: &app{stdin: strings.NewReader("Ada\n"), stderr: &stderr}, screen: &screen{w: &stderr}, patience: new(patience), answers: tt.answers}
		got := ""
		result, err := v.elicit(t.Context(), &mcp.Elicitation{Message: "Which?", RequestedSchema: jsonrpc.Raw(bookingForm)})
		if err != nil {
			got = "error " + err.Error()
		} else {
			got = result.Action + " " + string(result.Content)
		}
		if want, wrong := strings.CutPrefix(tt.want, "error "); got != tt.want && !(wrong && strings.Contains(got, want)) {
			t.Errorf("%q: %s, want %s", tt.answers, got, tt.want)
		}
	}
}

// TestLogsBelowTheLevelAreNotTold covers a server that did not receive the log level and may send
// all levels.
func TestLogsBelowTheLevelAreNotTold(t *testing.T) {
	var stderr bytes.Buffer
	v := &mcpCommand{screen: &screen{w: &stderr}, patience: new(patience), log: "info"}
	for _, level := range []mcp.Level{mcp.LevelDebug, mcp.LevelInfo, mcp.LevelError} {
		v.heard(&mcp.LogParams{Level: level, Logger: "a\x1b", Data: jsonrpc.Raw(`"b\u001b"`)})
	}
	if want := "info a\\u001b: b\\u001b\nerror a\\u001b: b\\u001b\n"; stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
}

// FuzzForm checks forms, which come from the server and can be any JSON. Nothing in a form may
// break the dialogue, control the terminal, or lead to an invalid JSON answer.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{bookingForm, `{"properties":{"a":{"type":["integer","null"],"minimum":1e400}}}`, `{"properties":[]}`, `{"properties":{"a":true,"b":{"items":{"enum":[1,null]},"type":"array"}},"required":"a"}`,
		`{"properties":{"\u001b[2J":{"title":"\u001b]0;x\u0007","default":{"a":1},"oneOf":[1,{"const":[]}]}}}`} {
		f.Add(seed, "1\nx\n\n")
	}
	f.Fuzz(func(t *testing.T, schema, typed string) {
		form, err := jsonrpc.ParseRaw([]byte(schema))
		if err != nil {
			return
		}
		var stderr bytes.Buffer
		v := &mcpCommand{app: &app{stdin: strings.NewReader(typed), stderr: &stderr}, screen: &screen{w: &stderr}}
		content, err := v.fill(t.Context(), fieldsOf(form), nil)
		if err == nil {
			if _, err := jsonrpc.ParseRaw(content); err != nil {
				t.Errorf("%s %q makes %s: %v", schema, typed, content, err)
			}
		}
		if strings.ContainsAny(stderr.String(), "\x1b\a\u009b\r") {
			t.Errorf("the form reaches the terminal: %q", stderr.String())
		}
		b := &listing{width: textWidth}
		tool := &mcp.Tool{Name: "t", InputSchema: form, OutputSchema: form}
		b.entry(tool.Name, toolSignature(tool), typed)
		b.describe(tool)
		if strings.ContainsAny(b.String(), "\x1b\a\u009b\r") {
			t.Errorf("the schema reaches the terminal: %q", b.String())
		}
	})
}
