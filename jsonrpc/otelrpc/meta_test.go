package otelrpc

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/da1ed7bb/parley/jsonrpc"
)

var fields = W3C().Fields()

func TestTakeMeta(t *testing.T) {
	const tp = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	tests := []struct {
		name, in, rest string
		taken          int
	}{
		{"alone", `{"_meta":{` + tp + `}}`, `{}`, 1},
		{"first", `{"_meta":{` + tp + `},"a":1.0}`, `{"a":1.0}`, 1},
		{"last, with white space", "{ \"a\" : [1, 2] ,\n \"_meta\" : { " + tp + " } }", `{ "a" : [1, 2] }`, 1},
		{"between", `{"a":1,"_meta":{` + tp + `},"b":2}`, `{"a":1,"b":2}`, 1},
		{"beside others", `{"_meta":{"progressToken":9007199254740993,` + tp + `,"x":"y"},"a":1}`, `{"_meta":{"progressToken":9007199254740993,"x":"y"},"a":1}`, 1},
		{"all three", `{"_meta":{` + tp + `,"tracestate":"a=b","baggage":"k=v"}}`, `{}`, 3},
		{"escapes in the value", `{"_meta":{"baggage":"k=\u0076"}}`, `{}`, 1},
		{"no params", ``, ``, 0},
		{"no object", `["_meta"]`, `["_meta"]`, 0},
		{"no _meta", `{"a":"_meta"}`, `{"a":"_meta"}`, 0},
		{"deeper does not count", `{"a":{"_meta":{` + tp + `}}}`, `{"a":{"_meta":{` + tp + `}}}`, 0},
		{"_meta is no object", `{"_meta":[1]}`, `{"_meta":[1]}`, 0},
		{"nothing of ours", `{"_meta":{"progressToken":1}}`, `{"_meta":{"progressToken":1}}`, 0},
		{"no string", `{"_meta":{"traceparent":1}}`, `{"_meta":{"traceparent":1}}`, 0},
		{"_meta twice", `{"_meta":{` + tp + `},"_meta":{}}`, `{"_meta":{` + tp + `},"_meta":{}}`, 0},
		{"traceparent twice", `{"_meta":{` + tp + `,` + tp + `}}`, `{"_meta":{` + tp + `,` + tp + `}}`, 0},
	}
	for _, tt := range tests {
		carrier, rest, ok := takeMeta(jsonrpc.Raw(tt.in), fields)
		if string(rest) != tt.rest || len(carrier) != tt.taken || ok != (tt.taken > 0) {
			t.Errorf("%s: takeMeta(%s)\ngot  %s, %v, %v\nwant %s, %d members", tt.name, tt.in, rest, carrier, ok, tt.rest, tt.taken)
		}
	}
}

func TestGiveMeta(t *testing.T) {
	carrier := propagation.MapCarrier{"traceparent": "T", "baggage": `k="v"`}
	const ours = `"baggage":"k=\"v\"","traceparent":"T"`
	tests := []struct{ name, in, want string }{
		{"empty object", `{}`, `{"_meta":{` + ours + `}}`},
		{"white space stays", "{ \"a\": 1.0 }\n", `{ "a": 1.0,"_meta":{` + ours + "} }\n"},
		{"_meta is there", `{"_meta":{"progressToken":1},"a":2}`, `{"_meta":{"progressToken":1,` + ours + `},"a":2}`},
		{"empty _meta", `{"_meta":{}}`, `{"_meta":{` + ours + `}}`},
		{"older trace is replaced", `{"_meta":{"traceparent":"old","tracestate":"old=1","x":1}}`, `{"_meta":{"x":1,` + ours + `}}`},
		{"older trace alone", `{"_meta":{"traceparent":"old"}}`, `{"_meta":{` + ours + `}}`},
		{"_meta is no object", `{"_meta":null}`, `{"_meta":null}`},
		{"_meta twice", `{"_meta":{},"_meta":{}}`, `{"_meta":{},"_meta":{}}`},
		{"positions", `[1]`, `[1]`},
		{"no JSON", `{"a"`, `{"a"`},
	}
	for _, tt := range tests {
		if got := giveMeta(jsonrpc.Raw(tt.in), carrier, fields); string(got) != tt.want {
			t.Errorf("%s: giveMeta(%s)\ngot  %s\nwant %s", tt.name, tt.in, got, tt.want)
		}
	}
}

func FuzzMeta(f *testing.F) {
	for _, seed := range []string{
		`{"_meta":{"traceparent":"old"},"a":1}`, `{ "a" : [ {} ] }`, `{"_meta":{"x":"\ud800"}}`, `[1]`, `{}`, `{"\u005fmeta":{"traceparent":"x"}}`, `{"a":1,"a":2}`,
	} {
		f.Add(seed)
	}
	carrier := propagation.MapCarrier{"traceparent": "T", "tracestate": "S"}
	f.Fuzz(func(t *testing.T, text string) {
		raw := jsonrpc.Raw(text)
		if !jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) {
			return // params have been parsed before
		}
		given := giveMeta(raw, carrier, fields)
		if !jsontext.Value(given).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("%s became %s", text, given)
		}
		if string(given) == text {
			return
		}
		taken, rest, ok := takeMeta(given, fields)
		if diff := cmp.Diff(carrier, taken); !ok || diff != "" {
			t.Fatalf("%s became %s; taken out again (-want +got):\n%s", text, given, diff)
		}
		if !jsontext.Value(rest).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("%s became %s", given, rest)
		}
	})
}

// TestTraceTravels checks that the trace is sent in params and arrives as a remote parent, with
// baggage, and that the handler receives the original params.
func TestTraceTravels(t *testing.T) {
	l := newLab(t)
	o := l.options
	o.Meta = true
	w := &wire{}
	member, err := baggage.NewMember("tenant", "blue")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	root := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state})
	ctx := trace.ContextWithSpanContext(baggage.ContextWithBaggage(t.Context(), bag), root)

	params := jsonrpc.Raw(`{"a":1.0, "_meta":{"progressToken":"p"}}`)
	if err := Peer(w, &o).Call(ctx, "add", params, nil); err != nil {
		t.Fatal(err)
	}
	client := l.span(t)
	l.spans.Reset()
	if string(params) != `{"a":1.0, "_meta":{"progressToken":"p"}}` {
		t.Errorf("the caller's params were changed: %s", params)
	}
	sent := w.params.(jsonrpc.Raw)
	want := `{"a":1.0, "_meta":{"progressToken":"p","baggage":"tenant=blue","traceparent":"00-01000000000000000000000000000000-` +
		client.SpanContext.SpanID().String() + `-01","tracestate":"vendor=1"}}`
	if string(sent) != want {
		t.Errorf("sent\n%s\nwant\n%s", sent, want)
	}

	var seen jsonrpc.Raw
	var tenant string
	h := Middleware(&o)(handler(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		seen = req.Params.Clone()
		tenant = baggage.FromContext(ctx).Member("tenant").Value()
		return nil, nil
	}))
	req := &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: "add", Params: sent}
	carrierCtx, carrierSpan := sdktrace.NewTracerProvider().Tracer("http").Start(t.Context(), "POST /rpc")
	if _, err := h.Handle(carrierCtx, req); err != nil {
		t.Fatal(err)
	}
	server := l.span(t)
	if server.SpanContext.TraceID() != root.TraceID() || server.Parent.SpanID() != client.SpanContext.SpanID() || !server.Parent.IsRemote() ||
		server.SpanContext.TraceState().String() != "vendor=1" {
		t.Errorf("server span %+v below %+v, want a remote child of %+v", server.SpanContext, server.Parent, client.SpanContext)
	}
	if len(server.Links) != 1 || !server.Links[0].SpanContext.Equal(carrierSpan.SpanContext()) {
		t.Errorf("links = %+v, want the span of the carrier", server.Links)
	}
	if string(seen) != string(params) || tenant != "blue" {
		t.Errorf("handler saw %s and tenant %q, want %s and blue", seen, tenant, params)
	}
	if string(req.Params) != want {
		t.Errorf("the carrier's request was changed: %s", req.Params)
	}
}

// TestTraceInOneProcess checks that in one process, where both ways lead to the same span, that
// span is the parent and is not linked to itself.
func TestTraceInOneProcess(t *testing.T) {
	l := newLab(t)
	o := l.options
	o.Meta = true
	peer := Peer(jsonrpc.Local(&jsonrpc.Answerer{Handler: Middleware(&o)(returns(8, nil))}, nil), &o)
	sum, err := jsonrpc.Call[int](t.Context(), peer, "add", map[string]int{"a": 5})
	if sum != 8 || err != nil {
		t.Fatalf("Call = %v, %v", sum, err)
	}
	spans := l.spans.GetSpans()
	if len(spans) != 2 || spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() || len(spans[0].Links) != 0 {
		t.Errorf("spans %+v, want a server's below a client's, without links", spans)
	}
}

func TestNoTraceToTravel(t *testing.T) {
	l := newLab(t)
	o := l.options
	o.Meta = true
	o.TracerProvider = nil // nothing is sampled or sent
	for _, params := range []any{nil, jsonrpc.Raw(nil), jsonrpc.Raw(`{"a":1}`), []int{1}, map[string]int{"a": 1}} {
		w := &wire{}
		if err := Peer(w, &o).Call(t.Context(), "add", params, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(params, w.params); diff != "" {
			t.Errorf("params differ (-want +got):\n%s", diff)
		}
	}
}

// TestMetaLeavesAlone checks that params that are not an object arrive unchanged, and so do all
// params if Meta is off.
func TestMetaLeavesAlone(t *testing.T) {
	l := newLab(t)
	for _, meta := range []bool{true, false} {
		o := l.options
		o.Meta = meta
		params := []string{`[1,2]`, ``}
		if !meta {
			params = append(params, `{"a":1}`, `{"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`)
		}
		for _, p := range params {
			w := &wire{}
			if err := Peer(w, &o).Call(t.Context(), "add", jsonrpc.Raw(p), nil); err != nil {
				t.Fatal(err)
			}
			if got := string(w.params.(jsonrpc.Raw)); got != p {
				t.Errorf("Meta %v: %s became %s", meta, p, got)
			}
			_, err := Middleware(&o)(handler(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
				if string(req.Params) != p {
					t.Errorf("Meta %v: handler got %s, want %s", meta, req.Params, p)
				}
				return nil, nil
			})).Handle(t.Context(), &jsonrpc.Request{Method: "add", Params: jsonrpc.Raw(p)})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, span := range l.spans.GetSpans() {
		if span.Parent.IsValid() {
			t.Errorf("span %v has parent %v", span.Name, span.Parent)
		}
	}
}

// TestBrokenTrace checks that an invalid trace is dropped, and that the call starts a new one.
func TestBrokenTrace(t *testing.T) {
	l := newLab(t)
	o := l.options
	o.Meta = true
	params := jsonrpc.Raw(`{"_meta":{"traceparent":"00-nonsense"}}`)
	if _, err := Middleware(&o)(returns(nil, nil)).Handle(t.Context(), &jsonrpc.Request{Method: "add", Params: params}); err != nil {
		t.Fatal(err)
	}
	if span := l.span(t); span.Parent.IsValid() || len(span.Links) != 0 {
		t.Errorf("parent %v, links %v, want none", span.Parent, span.Links)
	}
}

// TestMetaInEncodedParams checks that params that are not Raw are first encoded with the codec of
// the engine.
func TestMetaInEncodedParams(t *testing.T) {
	l := newLab(t)
	o := l.options
	o.Meta = true
	type point struct {
		X int    `json:"x"`
		B []byte `json:"b"`
	}
	for _, params := range []any{point{1, []byte("hi")}, &point{1, []byte("hi")}, json.RawMessage(`{"x":1,"b":"aGk="}`)} {
		w := &wire{}
		if err := Peer(w, &o).Call(t.Context(), "add", params, nil); err != nil {
			t.Fatal(err)
		}
		sent, ok := w.params.(jsonrpc.Raw)
		if _, rest, taken := takeMeta(sent, fields); !ok || !taken || string(rest) != `{"x":1,"b":"aGk="}` {
			t.Errorf("sent %v, without the trace %s", w.params, rest)
		}
	}
	// The last two are left for the engine to reject.
	for _, params := range []any{[]int{1}, "scalar", make(chan int)} {
		w := &wire{}
		if err := Peer(w, &o).Call(t.Context(), "add", params, nil); err != nil {
			t.Fatal(err)
		}
		if got := flatParams(t, w.params); got != flatParams(t, params) {
			t.Errorf("%v became %v", params, w.params)
		}
	}
}

// flatParams returns the text of params, or their type if they have no text.
func flatParams(t *testing.T, params any) string {
	t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestOtherPropagator(t *testing.T) {
	l := newLab(t)
	o := l.options
	o.Meta, o.Propagator = true, propagation.TraceContext{}
	member, err := baggage.NewMember("k", "v")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{}
	if err := Peer(w, &o).Notify(baggage.ContextWithBaggage(t.Context(), bag), "add", jsonrpc.Raw(`{}`)); err != nil {
		t.Fatal(err)
	}
	carrier, _, _ := takeMeta(w.params.(jsonrpc.Raw), fields)
	if len(carrier) != 1 || carrier["traceparent"] == "" {
		t.Errorf("sent %v, want traceparent alone", carrier)
	}
}
