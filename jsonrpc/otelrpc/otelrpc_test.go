package otelrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lab holds a program's providers, in memory.
type lab struct {
	spans   *tracetest.InMemoryExporter
	reader  *metric.ManualReader
	options Options
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(l.spans))
	mp := metric.NewMeterProvider(metric.WithReader(l.reader))
	t.Cleanup(func() {
		if err := errors.Join(tp.Shutdown(context.Background()), mp.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	l.options = Options{TracerProvider: tp, MeterProvider: mp, Known: Methods("add")}
	return l
}

// span returns the only span.
func (l *lab) span(t *testing.T) tracetest.SpanStub {
	t.Helper()
	got := l.spans.GetSpans()
	if len(got) != 1 {
		t.Fatalf("%d spans, want 1: %v", len(got), got)
	}
	return got[0]
}

// metrics returns all metrics.
func (l *lab) metrics(t *testing.T) []metricdata.Metrics {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := l.reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	var out []metricdata.Metrics
	for _, s := range rm.ScopeMetrics {
		if s.Scope.Name != scope || s.Scope.SchemaURL != schemaURL {
			t.Errorf("scope of metrics = %+v", s.Scope)
		}
		out = append(out, s.Metrics...)
	}
	return out
}

// point returns the only point of the only histogram.
func (l *lab) point(t *testing.T, name string) metricdata.HistogramDataPoint[float64] {
	t.Helper()
	all := l.metrics(t)
	if len(all) != 1 || all[0].Name != name || all[0].Unit != "s" || all[0].Description == "" {
		t.Fatalf("metrics = %+v, want %s in seconds alone", all, name)
	}
	h, ok := all[0].Data.(metricdata.Histogram[float64])
	if !ok || len(h.DataPoints) != 1 {
		t.Fatalf("data = %+v, want one point of a histogram", all[0].Data)
	}
	return h.DataPoints[0]
}

// flat returns attributes with their types, so that numbers and texts are distinguished.
func flat(kvs []attribute.KeyValue) map[string]string {
	out := make(map[string]string)
	for _, kv := range kvs {
		out[string(kv.Key)] = kv.Value.Type().String() + " " + kv.Value.String()
	}
	return out
}

type handler = jsonrpc.HandlerFunc

func returns(result any, err error) handler {
	return func(context.Context, *jsonrpc.Request) (any, error) { return result, err }
}

// An outcome is the expected observation of one call, besides what all calls have in common.
type outcome struct {
	name   string            // of the span
	attrs  map[string]string // of the span
	status sdktrace.Status
	metric map[string]string
}

func TestServer(t *testing.T) {
	long := strings.Repeat("ä", 200)
	tests := []struct {
		name string
		req  *jsonrpc.Request
		h    handler
		want outcome
	}{
		{"known method", &jsonrpc.Request{ID: jsonrpc.IntID(10), Method: "add"}, returns(8, nil), outcome{
			name:   "add",
			attrs:  map[string]string{"rpc.method": "STRING add", "jsonrpc.request.id": "STRING 10"},
			metric: map[string]string{"rpc.method": "STRING add"},
		}},
		{"unknown method", &jsonrpc.Request{ID: jsonrpc.StringID("request-7"), Method: "evil"}, returns(nil, jsonrpc.ErrMethodNotFound), outcome{
			name: "jsonrpc",
			attrs: map[string]string{"rpc.method": "STRING _OTHER", "rpc.method_original": "STRING evil", "jsonrpc.request.id": "STRING request-7",
				"rpc.response.status_code": "STRING -32601", "error.type": "STRING -32601"},
			status: sdktrace.Status{Code: codes.Error, Description: "Method not found"},
			metric: map[string]string{"rpc.method": "STRING _OTHER", "rpc.response.status_code": "STRING -32601", "error.type": "STRING -32601"},
		}},
		{"notification", &jsonrpc.Request{Method: "add"}, returns(nil, nil), outcome{
			name:   "add",
			attrs:  map[string]string{"rpc.method": "STRING add"},
			metric: map[string]string{"rpc.method": "STRING add"},
		}},
		{"null id is left out", &jsonrpc.Request{ID: jsonrpc.NullID, Method: "add"}, returns(nil, nil), outcome{
			name:   "add",
			attrs:  map[string]string{"rpc.method": "STRING add"},
			metric: map[string]string{"rpc.method": "STRING add"},
		}},
		{"own code", &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: "add"}, returns(nil, jsonrpc.NewError(4001, "overflow")), outcome{
			name: "add",
			attrs: map[string]string{"rpc.method": "STRING add", "jsonrpc.request.id": "STRING 1",
				"rpc.response.status_code": "STRING 4001", "error.type": "STRING 4001"},
			status: sdktrace.Status{Code: codes.Error, Description: "overflow"},
			metric: map[string]string{"rpc.method": "STRING add", "rpc.response.status_code": "STRING 4001", "error.type": "STRING 4001"},
		}},
		{"private error", &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: "add"}, returns(nil, fmt.Errorf("secret: %w", jsonrpc.NewError(5, "inner"))), outcome{
			name: "add",
			attrs: map[string]string{"rpc.method": "STRING add", "jsonrpc.request.id": "STRING 1",
				"rpc.response.status_code": "STRING -32603", "error.type": "STRING -32603"},
			status: sdktrace.Status{Code: codes.Error},
			metric: map[string]string{"rpc.method": "STRING add", "rpc.response.status_code": "STRING -32603", "error.type": "STRING -32603"},
		}},
		{"panic", &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: "add"}, func(context.Context, *jsonrpc.Request) (any, error) { panic("secret") }, outcome{
			name: "add",
			attrs: map[string]string{"rpc.method": "STRING add", "jsonrpc.request.id": "STRING 1",
				"rpc.response.status_code": "STRING -32603", "error.type": "STRING -32603"},
			status: sdktrace.Status{Code: codes.Error},
			metric: map[string]string{"rpc.method": "STRING add", "rpc.response.status_code": "STRING -32603", "error.type": "STRING -32603"},
		}},
		{"long names are cut", &jsonrpc.Request{ID: jsonrpc.StringID(long), Method: long}, returns(nil, nil), outcome{
			name: "jsonrpc",
			attrs: map[string]string{"rpc.method": "STRING _OTHER", "rpc.method_original": "STRING " + long[:256],
				"jsonrpc.request.id": "STRING " + long[:256]},
			metric: map[string]string{"rpc.method": "STRING _OTHER"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			func() {
				defer func() {
					if v := recover(); (v != nil) != (tt.name == "panic") {
						t.Errorf("recovered %v", v)
					}
				}()
				// The table has its result.
				_, _ = Middleware(&l.options)(tt.h).Handle(t.Context(), tt.req)
			}()
			l.check(t, trace.SpanKindServer, "rpc.server.call.duration", tt.want)
		})
	}
}

// check compares the only call with the expected outcome and with what all calls have in common.
func (l *lab) check(t *testing.T, kind trace.SpanKind, metric string, want outcome) {
	t.Helper()
	span := l.span(t)
	if span.Name != want.name || span.SpanKind != kind || span.Status != want.status {
		t.Errorf("span %q, %v, %+v, want %q, %v, %+v", span.Name, span.SpanKind, span.Status, want.name, kind, want.status)
	}
	if len(span.Events) != 0 {
		t.Errorf("events %v: texts of errors stay out of traces", span.Events)
	}
	if span.InstrumentationScope.Name != scope || span.InstrumentationScope.SchemaURL != schemaURL {
		t.Errorf("scope of the span = %+v", span.InstrumentationScope)
	}
	attrs := flat(span.Attributes)
	want.attrs["rpc.system.name"], want.metric["rpc.system.name"] = "STRING jsonrpc", "STRING jsonrpc"
	want.attrs["jsonrpc.protocol.version"] = "STRING 2.0"
	if diff := cmp.Diff(want.attrs, attrs); diff != "" {
		t.Errorf("attributes of the span differ (-want +got):\n%s", diff)
	}
	point := l.point(t, metric)
	if diff := cmp.Diff(want.metric, flat(point.Attributes.ToSlice())); diff != "" {
		t.Errorf("attributes of the measurement differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}, point.Bounds); diff != "" {
		t.Errorf("buckets differ (-want +got):\n%s", diff)
	}
	if point.Count != 1 {
		t.Errorf("%d measurements, want 1", point.Count)
	}
}

func TestDurationIsInSeconds(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		h := Middleware(&l.options)(handler(func(context.Context, *jsonrpc.Request) (any, error) {
			time.Sleep(1500 * time.Millisecond)
			return nil, nil
		}))
		if _, err := h.Handle(t.Context(), &jsonrpc.Request{Method: "add"}); err != nil {
			t.Fatal(err)
		}
	})
	span, point := l.span(t), l.point(t, "rpc.server.call.duration")
	if took := span.EndTime.Sub(span.StartTime); point.Sum != 1.5 || took != 1500*time.Millisecond {
		t.Errorf("measured %v s, span of %v, want 1.5 s both", point.Sum, took)
	}
}

// TestServerCancelledAndLate checks that a private error is recorded with the code that the engine
// sends.
func TestServerCancelledAndLate(t *testing.T) {
	for cause, code := range map[error]string{jsonrpc.ErrPeerCancelled: "-32800", jsonrpc.ErrTimeout: "-31002", jsonrpc.ErrClosed: "-32603"} {
		l := newLab(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := Middleware(&l.options)(returns(nil, context.Canceled)).Handle(ctx, &jsonrpc.Request{Method: "add"})
		if got := flat(l.span(t).Attributes)["rpc.response.status_code"]; err != context.Canceled || got != "STRING "+code {
			t.Errorf("%v: error %v with code %s, want %s", cause, err, got, code)
		}
	}
}

func TestHandlerRunsInsideItsSpan(t *testing.T) {
	l := newLab(t)
	var inside trace.SpanContext
	h := Middleware(&l.options)(handler(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		inside = trace.SpanContextFromContext(ctx)
		return "result", nil
	}))
	ctx, outer := l.options.TracerProvider.Tracer("test").Start(t.Context(), "POST")
	if result, err := h.Handle(ctx, &jsonrpc.Request{Method: "add"}); result != "result" || err != nil {
		t.Errorf("Handle = %v, %v", result, err)
	}
	span := l.span(t)
	if !inside.Equal(span.SpanContext) || span.Parent.SpanID() != outer.SpanContext().SpanID() {
		t.Errorf("handler in %v, span %v below %v", inside, span.SpanContext, span.Parent)
	}
	outer.End()
}

// A wire is a Peer that stores its params and returns err.
type wire struct {
	params any
	err    error
	ctx    context.Context
}

func (w *wire) Call(ctx context.Context, _ string, params, result any) error {
	w.params, w.ctx = params, ctx
	if s, ok := result.(*string); ok && w.err == nil {
		*s = "called"
	}
	return w.err
}

func (w *wire) Stream(ctx context.Context, _ string, params, _ any, on func(*jsonrpc.Request) error) error {
	w.params, w.ctx = params, ctx
	if err := on(&jsonrpc.Request{Method: "progress"}); err != nil {
		return err
	}
	return w.err
}

func (w *wire) Notify(ctx context.Context, _ string, params any) error {
	w.params, w.ctx = params, ctx
	return w.err
}

func TestClient(t *testing.T) {
	ok := outcome{name: "add", attrs: map[string]string{"rpc.method": "STRING add"}, metric: map[string]string{"rpc.method": "STRING add"}}
	fails := func(kind string) outcome {
		return outcome{
			name: "add", status: sdktrace.Status{Code: codes.Error},
			attrs:  map[string]string{"rpc.method": "STRING add", "error.type": "STRING " + kind},
			metric: map[string]string{"rpc.method": "STRING add", "error.type": "STRING " + kind},
		}
	}
	tests := []struct {
		name   string
		method string
		err    error
		want   outcome
	}{
		{"result", "add", nil, ok},
		{"unknown method", "other", nil, outcome{
			name:   "jsonrpc",
			attrs:  map[string]string{"rpc.method": "STRING _OTHER", "rpc.method_original": "STRING other"},
			metric: map[string]string{"rpc.method": "STRING _OTHER"},
		}},
		{"the peer's error", "add", jsonrpc.NewError(-32602, "bad"), outcome{
			name: "add", status: sdktrace.Status{Code: codes.Error, Description: "bad"},
			attrs:  map[string]string{"rpc.method": "STRING add", "rpc.response.status_code": "STRING -32602", "error.type": "STRING -32602"},
			metric: map[string]string{"rpc.method": "STRING add", "rpc.response.status_code": "STRING -32602", "error.type": "STRING -32602"},
		}},
		{"timeout", "add", fmt.Errorf("add: %w", jsonrpc.ErrTimeout), fails("timeout")},
		{"deadline", "add", context.DeadlineExceeded, fails("timeout")},
		{"cancelled", "add", context.Canceled, fails("cancelled")},
		{"closed", "add", fmt.Errorf("a secret: %w", jsonrpc.ErrClosed), fails("closed")},
		{"busy", "add", jsonrpc.ErrBusy, fails("busy")},
		{"bad response", "add", jsonrpc.ErrBadResponse, fails("bad_response")},
		{"too large", "add", jsonrpc.ErrTooLarge, fails("too_large")},
		{"one way", "add", jsonrpc.ErrOneWay, fails("one_way")},
		{"answered", "add", jsonrpc.ErrAnswered, fails("answered")},
		{"lagging", "add", jsonrpc.ErrLagging, fails("lagging")},
		{"garbage", "add", jsonrpc.ErrGarbage, fails("garbage")},
		{"slow peer", "add", jsonrpc.ErrSlowPeer, fails("slow_peer")},
		{"anything else", "add", errors.New("dial tcp: refused"), fails("_OTHER")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			if err := Peer(&wire{err: tt.err}, &l.options).Call(t.Context(), tt.method, nil, nil); err != tt.err {
				t.Errorf("Call = %v, want %v itself", err, tt.err)
			}
			l.check(t, trace.SpanKindClient, "rpc.client.call.duration", tt.want)
		})
	}
}

func TestClientCallStreamNotify(t *testing.T) {
	boom := errors.New("boom")
	calls := map[string]func(context.Context, jsonrpc.Peer) error{
		"call": func(ctx context.Context, p jsonrpc.Peer) error {
			result, err := jsonrpc.Call[string](ctx, p, "add", []int{1})
			if result != "called" {
				return fmt.Errorf("result %q", result)
			}
			return err
		},
		"stream": func(ctx context.Context, p jsonrpc.Peer) error {
			n := 0
			err := p.Stream(ctx, "add", []int{1}, nil, func(*jsonrpc.Request) error { n++; return nil })
			if n != 1 {
				return fmt.Errorf("%d notifications", n)
			}
			return err
		},
		"notify": func(ctx context.Context, p jsonrpc.Peer) error { return p.Notify(ctx, "add", []int{1}) },
	}
	for name, call := range calls {
		l := newLab(t)
		w := &wire{}
		if err := call(t.Context(), Peer(w, &l.options)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if span := l.span(t); span.Name != "add" || !trace.SpanContextFromContext(w.ctx).Equal(span.SpanContext) {
			t.Errorf("%s: span %v, the call ran in %v", name, span, trace.SpanContextFromContext(w.ctx))
		}
		if got, ok := w.params.([]int); !ok || len(got) != 1 {
			t.Errorf("%s: params %v arrived", name, w.params)
		}
	}
	l := newLab(t)
	if err := Peer(&wire{}, &l.options).Stream(t.Context(), "add", nil, nil, func(*jsonrpc.Request) error { return boom }); err != boom {
		t.Errorf("Stream = %v, want what the callback said", err)
	}
}

type broken struct{ wire }

func (*broken) Notify(context.Context, string, any) error { panic("encoder") }

func TestClientPanics(t *testing.T) {
	l := newLab(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was kept")
			}
		}()
		_ = Peer(&broken{}, &l.options).Notify(t.Context(), "add", nil) // panics
	}()
	l.check(t, trace.SpanKindClient, "rpc.client.call.duration", outcome{
		name: "add", status: sdktrace.Status{Code: codes.Error},
		attrs:  map[string]string{"rpc.method": "STRING add", "error.type": "STRING _OTHER"},
		metric: map[string]string{"rpc.method": "STRING add", "error.type": "STRING _OTHER"},
	})
}

func TestEndpoints(t *testing.T) {
	l := newLab(t)
	o := l.options
	o.Version = jsonrpc.Version1
	o.Transport, o.ServerAddress, o.ServerPort, o.PeerAddress, o.PeerPort = "tcp", "example.com", 8080, "10.1.2.80", 65123
	o.Attributes = func(_ context.Context, method string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("tenant", "t-"+method)}
	}
	if err := Peer(&wire{}, &o).Call(t.Context(), "add", nil, nil); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"rpc.system.name": "STRING jsonrpc", "rpc.method": "STRING add", "network.transport": "STRING tcp",
		"server.address": "STRING example.com", "server.port": "INT64 8080",
		"network.peer.address": "STRING 10.1.2.80", "network.peer.port": "INT64 65123", "tenant": "STRING t-add",
	}
	if diff := cmp.Diff(want, flat(l.span(t).Attributes)); diff != "" {
		t.Errorf("attributes of the span differ (-want +got):\n%s", diff)
	}
	want = map[string]string{"rpc.system.name": "STRING jsonrpc", "rpc.method": "STRING add", "server.address": "STRING example.com", "server.port": "INT64 8080"}
	point := l.point(t, "rpc.client.call.duration")
	if diff := cmp.Diff(want, flat(point.Attributes.ToSlice())); diff != "" {
		t.Errorf("attributes of the measurement differ (-want +got):\n%s", diff)
	}

	l = newLab(t)
	o.TracerProvider, o.MeterProvider = l.options.TracerProvider, l.options.MeterProvider
	if _, err := Middleware(&o)(returns(nil, nil)).Handle(t.Context(), &jsonrpc.Request{Method: "add"}); err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"rpc.system.name": "STRING jsonrpc", "rpc.method": "STRING add"}
	point = l.point(t, "rpc.server.call.duration")
	if diff := cmp.Diff(want, flat(point.Attributes.ToSlice())); diff != "" {
		t.Errorf("attributes of the server's measurement differ (-want +got):\n%s", diff)
	}

	l = newLab(t)
	o.TracerProvider, o.MeterProvider = l.options.TracerProvider, l.options.MeterProvider
	o.ServerAddress = ""
	if _, err := Middleware(&o)(returns(nil, nil)).Handle(t.Context(), &jsonrpc.Request{Method: "add"}); err != nil {
		t.Fatal(err)
	}
	if got := flat(l.span(t).Attributes); got["server.port"] != "" {
		t.Errorf("a port without its address: %v", got)
	}
}

// TestZeroOptions checks that without providers and options nothing is observed, and that calls
// still work.
func TestZeroOptions(t *testing.T) {
	h := Middleware(nil)(returns("ok", nil))
	if result, err := h.Handle(t.Context(), &jsonrpc.Request{Method: "add"}); result != "ok" || err != nil {
		t.Errorf("Handle = %v, %v", result, err)
	}
	if err := Peer(&wire{}, nil).Call(t.Context(), "add", nil, nil); err != nil {
		t.Errorf("Call = %v", err)
	}
}

func TestSampledAtStart(t *testing.T) {
	var seen map[string]string
	sampler := samplerFunc(func(p sdktrace.SamplingParameters) { seen = flat(p.Attributes) })
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
	defer func() { _ = tp.Shutdown(context.Background()) }() // nothing to flush
	o := Options{TracerProvider: tp, Known: Methods("add"), ServerAddress: "example.com", ServerPort: 1}
	if err := Peer(&wire{}, &o).Call(t.Context(), "add", nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rpc.system.name", "rpc.method", "server.address", "server.port"} {
		if seen[name] == "" {
			t.Errorf("samplers do not see %s: %v", name, seen)
		}
	}
}

type samplerFunc func(sdktrace.SamplingParameters)

func (f samplerFunc) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	f(p)
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}
func (samplerFunc) Description() string { return "test" }
