package jsonrpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

type allKinds struct {
	Text    string  `json:"text"`
	Count   int8    `json:"count"`
	Ratio   float64 `json:"ratio,omitzero"`
	On      *bool   `json:"on"`
	URLPath string  `json:",omitempty"`
	Nested  *struct {
		A int `json:"a"`
	} `json:"nested"`
	List   []string `json:"list,omitzero"`
	Free   any      `json:"free,omitzero"`
	hidden int      //nolint:unused // must not be a parameter
	Left   string   `json:"-"`
	Embedded
}

type Embedded struct {
	Deep Raw `json:"deep,omitzero"`
}

type untagged struct {
	Minuend, Subtrahend int
	ID                  string `json:",omitzero"`
	HTTPPort            int    `json:",omitzero"`
}

type formatted struct {
	At  time.Time `json:"at"`
	For int       `json:"for,string"`
}

type selfRead struct{ text string }

func (s *selfRead) ParseJSON(text []byte) error { s.text = string(text); return nil }

type picky struct{}

func (*picky) UnmarshalJSON([]byte) error {
	return &ParamFault{Pointer: "/x", Reason: "want something nicer"}
}

// shown responds with the decoded params, so that a test can compare them.
func shown[In any]() Handler {
	return Func(func(_ context.Context, in In) (string, error) { return fmt.Sprintf("%+v", in), nil })
}

func TestParams(t *testing.T) {
	fault := func(pointer, reason string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params","data":{"pointer":%q,"reason":%q}},"id":1}`, pointer, reason)
	}
	tests := []struct {
		name   string
		h      Handler
		params string // "" means no params member
		want   string // the result, or the whole response
	}{
		{"by position", shown[twoNumbers](), `[42,23]`, `{Minuend:42 Subtrahend:23}`},
		{"by name", shown[twoNumbers](), `{"subtrahend":23,"minuend":42}`, `{Minuend:42 Subtrahend:23}`},
		{"white space", shown[twoNumbers](), " { \"subtrahend\" :\n23 , \"minuend\"\t: 42 } ", `{Minuend:42 Subtrahend:23}`},
		{"escaped name", shown[twoNumbers](), `{"\u0073ubtrahend":23,"minuend":42}`, `{Minuend:42 Subtrahend:23}`},
		{"untagged by name", shown[untagged](), `{"minuend":1,"subtrahend":2,"id":"x","httpPort":80}`, `{Minuend:1 Subtrahend:2 ID:x HTTPPort:80}`},
		{"large numbers", shown[twoNumbers](), `[9223372036854775807,-9223372036854775808]`, `{Minuend:9223372036854775807 Subtrahend:-9223372036854775808}`},

		{"one too few", shown[twoNumbers](), `[42]`, fault("/1", "subtrahend is required")},
		{"integers in other letters", shown[twoNumbers](), `[5.0,-3e1]`, `{Minuend:5 Subtrahend:-30}`},
		{"one too many", shown[twoNumbers](), `[42,23,1]`, fault("/2", "want at most 2 params")},
		{"none", shown[twoNumbers](), ``, fault("/minuend", "is required")},
		{"null params", shown[twoNumbers](), `null`, fault("/minuend", "is required")},
		{"missing name", shown[twoNumbers](), `{"minuend":42}`, fault("/subtrahend", "is required")},
		{"unknown name", shown[twoNumbers](), `{"minuend":42,"subtrahend":23,"x":1}`, fault("/x", "unknown member")},
		{"name twice", shown[twoNumbers](), `{"minuend":42,"minuend":1,"subtrahend":23}`, fault("/minuend", "duplicate member")},
		{"wrong case", shown[twoNumbers](), `{"Minuend":42,"subtrahend":23}`, fault("/Minuend", "unknown member")},
		{"wrong kind", shown[twoNumbers](), `{"minuend":"42","subtrahend":23}`, fault("/minuend", "want integer in range, got string")},
		{"wrong kind by position", shown[twoNumbers](), `[42,true]`, fault("/1", "want integer in range, got boolean")},
		{"fraction", shown[twoNumbers](), `[42,2.5]`, fault("/1", "want integer in range, got number")},
		{"out of range", shown[twoNumbers](), `[42,9223372036854775808]`, fault("/1", "want integer in range, got number")},
		{"null where a value is required", shown[twoNumbers](), `[42,null]`, fault("/1", "want integer in range, got null")},
		{"pointer is escaped", shown[twoNumbers](), `{"a/b~c":1}`, fault("/a~1b~0c", "unknown member")},
		{"deep pointer", shown[allKinds](), `{"text":"","count":1,"nested":{"a":"x"}}`, fault("/nested/a", "want integer in range, got string")},
		{"deep unknown", shown[allKinds](), `{"text":"","count":1,"nested":{"b":1}}`, fault("/nested/b", "unknown member")},
		{"deep twice", shown[allKinds](), `{"text":"","count":1,"nested":{"a":1,"a":2}}`, fault("/nested/a", "duplicate member")},
		{"lone surrogate", shown[allKinds](), `{"text":"\ud800","count":1}`, fault("/text", "text is not valid Unicode")},

		{"optional left out", shown[allKinds](), `{"text":"é😀\u00e9","count":-128}`, `{Text:é😀é Count:-128 Ratio:0 On:<nil> URLPath: Nested:<nil> List:[] Free:<nil> hidden:0 Left: Embedded:{Deep:[]}}`},
		{"optional null", shown[allKinds](), `{"text":"a","count":1,"ratio":null,"on":null,"list":null}`, `{Text:a Count:1 Ratio:0 On:<nil> URLPath: Nested:<nil> List:[] Free:<nil> hidden:0 Left: Embedded:{Deep:[]}}`},
		{"embedded", shown[allKinds](), `["a",1,0.5,null,"p",null,["x"],{"y":1},[1, 2]]`, `{Text:a Count:1 Ratio:0.5 On:<nil> URLPath:p Nested:<nil> List:[x] Free:map[y:1] hidden:0 Left: Embedded:{Deep:[91 49 44 32 50 93]}}`},

		{"variadic", shown[[]int](), `[1,2,3]`, `[1 2 3]`},
		{"variadic, none", shown[[]int](), ``, `[]`},
		{"variadic by name", shown[[]int](), `{"a":1}`, fault("", "want params by position")},
		{"variadic, wrong kind", shown[[]int](), `[1,"2"]`, fault("/1", "want integer in range, got string")},
		{"array", shown[[2]int](), `[1,2]`, `[1 2]`},
		{"map", shown[map[string]int](), `{"a":1}`, `map[a:1]`},
		{"map by position", shown[map[string]int](), `[1]`, fault("", "want params by name")},
		{"single", shown[string](), `["x"]`, `x`},
		{"single, two", shown[string](), `["x","y"]`, fault("", "want one param by position")},
		{"single, none", shown[string](), ``, fault("", "want one param by position")},
		{"raw", Func(func(_ context.Context, in Raw) (string, error) { return string(in), nil }), `[1, 2.0,"\ud800"]`, `[1, 2.0,"\ud800"]`},
		{"RawMessage", Func(func(_ context.Context, in json.RawMessage) (string, error) { return string(in), nil }), `{"a": 1}`, `{"a": 1}`},
		{"any", shown[any](), `{"a":[1]}`, `map[a:[1]]`},
		{"any, none", shown[any](), ``, `<nil>`},
		{"pointer", Func(func(_ context.Context, in *twoNumbers) (bool, error) { return in == nil, nil }), ``, `true`},
		{"pointer, given", Func(func(_ context.Context, in *twoNumbers) (int, error) { return in.Minuend, nil }), `[4,5]`, `4`},
		{"no params wanted", shown[struct{}](), ``, `{}`},
		{"no params wanted, empty object", shown[struct{}](), `{}`, `{}`},
		{"no params wanted, empty array", shown[struct{}](), `[]`, `{}`},
		{"no params wanted, one given", shown[struct{}](), `[1]`, fault("/0", "want at most 0 params")},
		{"reads itself", shown[selfRead](), `{"b":1}`, `{text:{"b":1}}`},
		{"says itself what it wants", shown[picky](), `[1]`, fault("/x", "want something nicer")},
		{"says itself, in a field", shown[struct {
			P picky `json:"p"`
		}](), `[1]`, fault("/0/x", "want something nicer")},
		{"codec's own by name", shown[formatted](), `{"at":"2026-01-02T03:04:05Z","for":"90"}`, `{At:2026-01-02 03:04:05 +0000 UTC For:90}`},
		{"codec's own by position", shown[formatted](), `["2026-01-02T03:04:05Z","90"]`, `{At:2026-01-02 03:04:05 +0000 UTC For:90}`},
		{"codec's own, missing", shown[formatted](), `["2026-01-02T03:04:05Z"]`, fault("/1", "for is required")},
		{"not a time", shown[formatted](), `["yesterday","1"]`, fault("/at", "want time, got string")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := new(Mux)
			m.Add("f", tt.h)
			member := ""
			if tt.params != "" {
				member = `,"params":` + tt.params
			}
			in := `{"jsonrpc":"2.0","method":"f"` + member + `,"id":1}`
			want := tt.want
			if len(want) < 11 || want[:11] != `{"jsonrpc":` {
				text, _ := json.Marshal(tt.want)
				if tt.want == "true" || tt.want == "4" {
					text = []byte(tt.want)
				}
				want = `{"jsonrpc":"2.0","result":` + string(text) + `,"id":1}`
			}
			got, _ := (&Answerer{Handler: m}).Answer(t.Context(), nil, []byte(in), &Exchange{})
			if !sameJSON(got, want) {
				t.Errorf("\n in   %s\n got  %s\n want %s", in, got, want)
			}
		})
	}
}

// sameJSON compares two texts by value: the standard encoder escapes more than needed.
func sameJSON(got []byte, want string) bool {
	var a, b any
	return json.Unmarshal(got, &a) == nil && json.Unmarshal([]byte(want), &b) == nil && fmt.Sprint(a) == fmt.Sprint(b)
}

func TestFields(t *testing.T) {
	f := Func(func(context.Context, struct {
		A int     `json:"a" jsonschema:"the first"`
		B *string `json:"b"`
		C []int   `json:"c,omitempty"`
	}) (any, error) {
		return nil, nil
	})
	var got string
	for _, field := range f.Fields() {
		got += fmt.Sprintln(field.Name, field.Type, field.Required, field.Doc)
	}
	if want := "a int true the first\nb *string false \nc []int false \n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
