package openrpc

import (
	order "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	operands struct {
		Minuend    int `json:"minuend" jsonschema:"what is taken from"`
		Subtrahend int `json:"subtrahend" jsonschema:"what is taken"`
	}
	untagged struct {
		UserID   string
		URLPath  string
		MaxItems *int
	}
	mixed struct {
		Limit int    `json:"limit,omitzero" jsonschema:"how many"`
		Query string `json:"query"`
		After *node  `json:"after"`
	}
	composed struct {
		base
		Extra bool `json:"extra"`
	}
	stringly struct {
		N int64 `json:"n,string"`
		M *int8 `json:"m,string"`
	}
	selfRead  struct{ text string }
	selfWrite struct {
		A int `json:"a"`
	}
)

func (s *selfRead) ParseJSON(text []byte) error           { s.text = string(text); return nil }
func (s selfWrite) AppendJSON(dst []byte) ([]byte, error) { return append(dst, `["own"]`...), nil }

func fn[In, Out any](out Out) *jsonrpc.Function {
	return jsonrpc.Func(func(context.Context, In) (Out, error) { return out, nil })
}

// zoo returns a Mux with a method for each kind of parameters.
func zoo() *jsonrpc.Mux {
	mux := new(jsonrpc.Mux)
	mux.Add("subtract", fn[operands](19))
	mux.Add("untagged", fn[untagged](untagged{}))
	mux.Add("mixed", fn[mixed, *node](nil))
	mux.Add("composed", fn[composed](page[composed]{}))
	mux.Add("stringly", fn[stringly](stringly{}))
	mux.Add("none", fn[struct{}](struct{}{}))
	mux.Add("sum", fn[[]float64](3.5))
	mux.Add("pair", fn[[2]int]([]byte("hi")))
	mux.Add("optionalPair", fn[*[2]int](true))
	mux.Add("one", fn[string](time.Unix(0, 0).UTC()))
	mux.Add("text", fn[ownText](ownText{}))
	mux.Add("map", fn[map[string]int](map[string]any{"a": nil}))
	mux.Add("any", fn[any, any](nil))
	mux.Add("raw", fn[jsonrpc.Raw](jsonrpc.Raw(`{}`)))
	mux.Add("self", fn[selfRead](selfWrite{}))
	mux.Add("pointer", fn[*operands](forest{}))
	mux.Add("untyped", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { return 1, nil }))
	return mux
}

func documentOfZoo(t *testing.T, d *Discovery) (*Document, []byte) {
	t.Helper()
	doc, err := d.Document()
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return doc, text
}

func TestDocumentOfAllKinds(t *testing.T) {
	for _, version := range []string{"", Version13, Version14} {
		d := New(zoo(), Info{Title: "Zoo", Version: "1.0.0"})
		d.Version = version
		d.Register()
		doc, text := documentOfZoo(t, d)
		checkDocument(t, text)
		if want := order.Or(version, "1.3.2"); doc.OpenRPC != want {
			t.Errorf("openrpc = %q, want %q", doc.OpenRPC, want)
		}
		var got []string
		for i := range doc.Methods {
			got = append(got, doc.Signature(&doc.Methods[i])+" "+doc.Methods[i].ParamStructure)
		}
		want := []string{
			"subtract(minuend: integer, subtrahend: integer) -> integer either",
			"untagged(userID: string, urlPath: string, maxItems?: integer | null) -> untagged either",
			"mixed(query: string, limit?: integer, after?: node | null) -> node | null by-name",
			"composed(id: string, name: string, extra: boolean) -> page_composed either",
			"stringly(n: string, m?: string | null) -> stringly either",
			"none() -> object either",
			"sum(...values: number) -> number by-position",
			"pair(value1: integer, value2: integer) -> string by-position",
			"optionalPair(value1?: integer, value2?: integer) -> boolean by-position",
			"one(value: string) -> string by-position",
			"text(value: string) -> string by-position",
			"map(...members: integer) -> object by-name",
			"any(...params: any) -> any either",
			"raw(...params: any) -> any either",
			"self(...params: any) -> any either",
			"pointer(minuend: integer, subtrahend: integer) -> forest either",
			"untyped(...params: any) -> any either",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("methods differ (-want +got):\n%s", diff)
		}
	}
}

// TestDiscoveryNeverLies checks that a method accepts what its document allows and rejects what it
// forbids, except for the cases listed here.
func TestDiscoveryNeverLies(t *testing.T) {
	mux := zoo()
	_, text := documentOfZoo(t, New(mux, Info{}))
	tests := []struct {
		method    string
		params    string
		allowed   bool // by the document
		tolerated bool // accepted by the method although not allowed
	}{
		{"subtract", `[42,23]`, true, false},
		{"subtract", `{"minuend":42,"subtrahend":23}`, true, false},
		{"subtract", `{"subtrahend":23,"minuend":42}`, true, false},
		{"subtract", `[42]`, false, false},
		{"subtract", `[42,23,1]`, false, false},
		{"subtract", `[42,"23"]`, false, false},
		{"subtract", `[42,null]`, false, false},
		{"subtract", `{"minuend":42}`, false, false},
		{"subtract", `{"minuend":42,"subtrahend":23,"x":1}`, false, false},
		{"subtract", `{"Minuend":42,"subtrahend":23}`, false, false},
		{"subtract", ``, false, false},
		{"untagged", `{"userID":"u","urlPath":"/"}`, true, false},
		{"untagged", `{"UserID":"u","URLPath":"/"}`, false, false},
		{"untagged", `["u","/",null]`, true, false},
		{"untagged", `["u","/",3]`, true, false},
		{"mixed", `{"query":"q"}`, true, false},
		{"mixed", `{"query":"q","after":null,"limit":3}`, true, false},
		{"mixed", `{"query":"q","after":{"value":1,"next":{"value":2}}}`, true, false},
		{"mixed", `{"query":"q","after":{"value":1,"x":2}}`, false, false},
		// Required members are not checked below the params.
		{"mixed", `{"query":"q","after":{}}`, false, true},
		{"mixed", `{"query":"q","limit":null}`, false, true}, // null is treated as absent
		// Also by position, in the order of the fields.
		{"mixed", `[3,"q"]`, false, true},
		{"mixed", `{"limit":3}`, false, false},
		{"composed", `{"id":"1","name":"n","extra":true}`, true, false},
		{"composed", `["1","n",true]`, true, false},
		{"composed", `{"base":{},"extra":true}`, false, false},
		{"stringly", `{"n":"5"}`, true, false},
		{"stringly", `["5","6"]`, true, false},
		{"stringly", `{"n":5}`, false, false},
		{"none", `{}`, true, false},
		{"none", `[]`, true, false},
		{"none", ``, true, false},
		{"none", `[1]`, false, false},
		{"sum", `[]`, true, false},
		{"sum", `[1,2.5,-3e4]`, true, false},
		{"sum", ``, true, false},
		{"sum", `["1"]`, false, false},
		{"sum", `{"values":1}`, false, false},
		{"pair", `[1,2]`, true, false},
		{"pair", `[1]`, false, false},
		{"pair", `[1,2,3]`, false, false},
		{"one", `["x"]`, true, false},
		{"one", `[]`, false, false},
		{"one", `{"value":"x"}`, false, false},
		{"text", `["x"]`, true, false},
		{"text", `[1]`, false, false},
		{"map", `{"a":1,"b":2}`, true, false},
		{"map", `{"a":"x"}`, false, false},
		{"map", `[1]`, false, false},
		{"any", `[1,{"a":null}]`, true, false},
		{"any", `{"a":1}`, true, false},
		{"raw", `{"a":1}`, true, false},
		{"raw", ``, true, false},
		{"self", `[1]`, true, false},
		{"pointer", `[42,23]`, true, false},
		{"pointer", `{"minuend":42}`, false, false},
		{"pointer", ``, false, true}, // all or nothing, which a document cannot express
	}
	doc, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		m, ok := doc.Method(tt.method)
		if !ok {
			t.Fatalf("no method %s", tt.method)
		}
		if got := allows(t, text, doc, m, tt.params); got != tt.allowed {
			t.Errorf("the document allows %s %s: %v, want %v", tt.method, tt.params, got, tt.allowed)
		}
		req := &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: tt.method}
		if tt.params != "" {
			req.Params = jsonrpc.Raw(tt.params)
		}
		_, err := mux.Handle(t.Context(), req)
		if taken := err == nil; taken != (tt.allowed || tt.tolerated) {
			t.Errorf("%s takes %s: %v (%v), want %v", tt.method, tt.params, taken, err, tt.allowed || tt.tolerated)
		}
		if err != nil && !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("%s %s: %v", tt.method, tt.params, err)
		}
	}
}

// allows reports whether a document, interpreted according to the specification, allows params.
func allows(t *testing.T, text []byte, doc *Document, m *Method, params string) bool {
	t.Helper()
	index := -1
	for i := range doc.Methods {
		if doc.Methods[i].Name == m.Name {
			index = i
		}
	}
	fits := func(param int, value json.RawMessage) bool {
		return accepts(t, compileIn(t, text, fmt.Sprintf("/methods/%d/params/%d/schema", index, param)), string(value))
	}
	required := func(given func(i int, name string) bool) bool {
		for i, p := range m.Params {
			if p.Required && !given(i, p.Name) {
				return false
			}
		}
		return true
	}
	variadic := len(m.Params) > 0 && m.Params[len(m.Params)-1].Extra[Variadic] != nil
	switch {
	case params == "":
		return required(func(int, string) bool { return false })
	case params[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(params), &list); err != nil {
			t.Fatal(err)
		}
		if m.ParamStructure == ByName || (len(list) > len(m.Params) && !variadic) {
			return false
		}
		for i, v := range list {
			if !fits(min(i, len(m.Params)-1), v) {
				return false
			}
		}
		return required(func(i int, _ string) bool { return i < len(list) })
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(params), &object); err != nil {
		t.Fatal(err)
	}
	if m.ParamStructure == ByPosition {
		return false
	}
	for name, v := range object {
		at := -1
		for i, p := range m.Params {
			if p.Name == name || (variadic && i == len(m.Params)-1) {
				at = i
			}
		}
		if at < 0 || !fits(at, v) {
			return false
		}
	}
	return required(func(_ int, name string) bool { _, ok := object[name]; return ok })
}

// TestResultsFit checks that every result of the zoo matches the schema of its method.
func TestResultsFit(t *testing.T) {
	mux := zoo()
	doc, text := documentOfZoo(t, New(mux, Info{}))
	params := map[string]string{
		"subtract": `[1,2]`, "untagged": `["",""]`, "mixed": `{"query":""}`, "composed": `["","",true]`, "stringly": `["1"]`,
		"pair": `[1,2]`, "one": `[""]`, "text": `["x"]`,
	}
	for i, m := range doc.Methods {
		peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: mux}, nil)
		var in any
		if p := params[m.Name]; p != "" {
			in = jsonrpc.Raw(p)
		}
		result, err := jsonrpc.Call[jsonrpc.Raw](t.Context(), peer, m.Name, in)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if schema := compileIn(t, text, fmt.Sprintf("/methods/%d/result/schema", i)); !accepts(t, schema, string(result)) {
			t.Errorf("%s returns %s, which its schema refuses: %s", m.Name, result, m.Result.Schema)
		}
	}
}

func TestDescribe(t *testing.T) {
	mux := zoo()
	d := New(mux, Info{Title: "Zoo", Version: "2", License: &License{Name: "Apache-2.0"}})
	d.Servers = []Server{{URL: "http://127.0.0.1:3000/rpc", Name: "here"}}
	d.Extra = Extensions{"x-made-by": jsonrpc.Raw(`"test"`)}
	d.Describe("subtract", Doc{
		Summary: "One number less another.", Description: "*Exact* below 2^53.", Tags: []string{"arithmetic"}, Deprecated: true,
		Errors:       []*jsonrpc.Error{jsonrpc.NewError(1, "Overflow").WithData(map[string]int{"max": 5}), jsonrpc.ErrInvalidParams},
		Examples:     []ExamplePairing{Pair("the specification's", []any{42, 23}, 19), {Name: "notification", Params: []Example{{Name: "minuend", Value: jsonrpc.Raw("1")}}}},
		ExternalDocs: &ExternalDocs{URL: "https://www.jsonrpc.org/specification"},
		Links:        []Link{{Name: "again", Method: "subtract"}},
		Servers:      []Server{{URL: "http://127.0.0.1:3001"}},
		Extra:        Extensions{"x-cost": jsonrpc.Raw("1")},
	})
	d.Describe("sum", Doc{
		Params:   []ContentDescriptor{{Name: "numbers", Summary: "what to add", Extra: Extensions{"x-unit": jsonrpc.Raw(`"m"`)}}},
		Examples: []ExamplePairing{Pair("three", []any{1, 2, 3.5}, 6.5)},
		Result:   &ContentDescriptor{Name: "sum", Description: "of all"},
	})
	d.Describe("untyped", Doc{
		Params:         []ContentDescriptor{{Name: "text", Required: true, Schema: jsonrpc.Raw(`{"type":"string"}`)}, {Name: "more"}},
		ParamStructure: ByName, Notification: true,
	})
	d.Describe("raw", Doc{Function: fn[operands](1)})
	d.Describe("not yet there", Doc{Summary: "waits"})
	d.Register()
	doc, text := documentOfZoo(t, d)
	checkDocument(t, text)

	want := map[string]string{
		"subtract": `{"name":"subtract","summary":"One number less another.","description":"*Exact* below 2^53.","tags":[{"name":"arithmetic"}],
			"paramStructure":"either","params":[
				{"name":"minuend","description":"what is taken from","required":true,"schema":{"type":"integer"}},
				{"name":"subtrahend","description":"what is taken","required":true,"schema":{"type":"integer"}}],
			"result":{"name":"result","schema":{"type":"integer"}},
			"errors":[{"code":1,"message":"Overflow","data":{"max":5}},{"code":-32602,"message":"Invalid params"}],
			"links":[{"name":"again","method":"subtract"}],
			"examples":[
				{"name":"the specification's","params":[{"name":"minuend","value":42},{"name":"subtrahend","value":23}],"result":{"name":"result","value":19}},
				{"name":"notification","params":[{"name":"minuend","value":1}]}],
			"deprecated":true,"externalDocs":{"url":"https://www.jsonrpc.org/specification"},"servers":[{"url":"http://127.0.0.1:3001"}],"x-cost":1}`,
		"sum": `{"name":"sum","paramStructure":"by-position",
			"params":[{"name":"numbers","summary":"what to add","schema":{"type":"number"},"x-variadic":true,"x-unit":"m"}],
			"result":{"name":"sum","description":"of all","schema":{"type":"number"}},
			"examples":[{"name":"three","params":[{"name":"numbers","value":1},{"name":"numbers","value":2},{"name":"numbers","value":3.5}],"result":{"name":"result","value":6.5}}]}`,
		"untyped": `{"name":"untyped","paramStructure":"by-name","params":[{"name":"text","required":true,"schema":{"type":"string"}},{"name":"more","schema":true}]}`,
		"raw": `{"name":"raw","paramStructure":"either","params":[
				{"name":"minuend","description":"what is taken from","required":true,"schema":{"type":"integer"}},
				{"name":"subtrahend","description":"what is taken","required":true,"schema":{"type":"integer"}}],
			"result":{"name":"result","schema":{"type":"integer"}}}`,
	}
	for name, wanted := range want {
		m, ok := doc.Method(name)
		if !ok {
			t.Errorf("no method %s", name)
			continue
		}
		got, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(generic(t, []byte(wanted)), generic(t, got)); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, diff)
		}
	}
	if _, ok := doc.Method("not yet there"); ok {
		t.Error("a method that is described but not added is in the document")
	}
	if _, ok := doc.Method(MethodDiscover); ok {
		t.Error("rpc.discover is in the document")
	}
	if string(doc.Extra["x-made-by"]) != `"test"` || len(doc.Servers) != 1 || doc.Info.License.Name != "Apache-2.0" {
		t.Errorf("document %s", text)
	}
}

func TestDocumentFollowsTheMux(t *testing.T) {
	mux := new(jsonrpc.Mux)
	d := New(mux, Info{Title: "Growing", Version: "1"})
	d.Register()
	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: mux}, nil)
	seen := func() string {
		doc, err := Discover(t.Context(), peer)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range doc.Methods {
			names = append(names, m.Name+" "+m.Summary)
		}
		return strings.Join(names, ",")
	}
	if got := seen(); got != "" {
		t.Errorf("an empty Mux has %s", got)
	}
	d.Describe("later", Doc{Summary: "was here first"})
	mux.Add("later", fn[struct{}](1))
	if got := seen(); got != "later was here first" {
		t.Errorf("after Add: %q", got)
	}
	d.Describe("later", Doc{Summary: "changed"})
	if got := seen(); got != "later changed" {
		t.Errorf("after Describe: %q", got)
	}
	mux.Add("last", fn[struct{}](1))
	if got := seen(); got != "later changed,last " {
		t.Errorf("after the second Add: %q", got)
	}
	first, err := d.Document()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := d.Document(); err != nil || first != second {
		t.Error("the document is made again although nothing changed")
	}
}

func TestDiscoverInParallel(t *testing.T) {
	mux := zoo()
	d := New(mux, Info{})
	d.Register()
	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: mux}, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			mux.Add(fmt.Sprintf("added%d", i), fn[operands](1))
			d.Describe("subtract", Doc{Summary: "s"})
			if doc, err := Discover(t.Context(), peer); err != nil || len(doc.Methods) < 18 {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
}

func TestDiscoverFails(t *testing.T) {
	mux := new(jsonrpc.Mux)
	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: mux}, nil)
	if _, err := Discover(t.Context(), peer); !errors.Is(err, jsonrpc.ErrMethodNotFound) {
		t.Errorf("without discovery: %v, want method not found", err)
	}
	mux.AddReserved(MethodDiscover, fn[jsonrpc.Raw](jsonrpc.Raw(`{"swagger":"2.0"}`)))
	if _, err := Discover(t.Context(), peer); !errors.Is(err, ErrNoDocument) {
		t.Errorf("another document: %v, want ErrNoDocument", err)
	}
}

func TestBadValues(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Pair took a channel")
		}
	}()
	Pair("bad", []any{make(chan int)}, nil)
}

func TestUnwritableDocument(t *testing.T) {
	mux := new(jsonrpc.Mux)
	mux.Add("m", fn[struct{}](1))
	d := New(mux, Info{})
	d.Describe("m", Doc{Extra: Extensions{"x-bad": jsonrpc.Raw(`{`)}})
	if _, err := d.JSON(); err == nil {
		t.Error("a document with half an object was written")
	}
}
