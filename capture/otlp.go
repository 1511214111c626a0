package capture

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// The types of OTLP 1.x in JSON (opentelemetry-proto, trace.proto): IDs are hexadecimal, times are
// strings of nanoseconds.
type (
	otlpSpan struct {
		Trace      string          `json:"traceId"`
		Span       string          `json:"spanId"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes"`
		Events     []otlpEvent     `json:"events,omitempty"`
		Status     otlpStatus      `json:"status"`
	}
	otlpEvent struct {
		Time       string          `json:"timeUnixNano"`
		Name       string          `json:"name"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String string `json:"stringValue"`
	}
	otlpStatus struct {
		Code    int    `json:"code,omitempty"` // 2: error
		Message string `json:"message,omitempty"`
	}
)

const (
	otlpServer = 2 // the kinds of a span
	otlpClient = 3
	otlpFailed = 2
)

// maxSpanEvents is the number of notifications that a span contains as events.
const maxSpanEvents = 128

// WriteOTLP writes the calls of the session as spans: one ExportTraceServiceRequest of OTLP in
// JSON, which collectors accept by POST to /v1/traces and read from files. A call with a
// traceparent keeps its trace; the other calls of a connection share one. The notifications of a
// call are events of its span, at most 128. Names are those of package jsonrpc/otelrpc. Params and
// results are not exported. It builds the whole request in memory.
func (l *Log) WriteOTLP(w io.Writer, o *ExportOptions) error {
	x, err := l.export(o)
	if err != nil {
		return err
	}
	spans := map[string][]*otlpSpan{} // by target
	byRef := map[Ref]*otlpSpan{}
	var targets []string
	for r := range l.Select(x.filter, Ref{}) {
		switch r.Kind {
		case RowRequest:
			s := x.span(&r)
			if parent := byRef[r.Parent]; parent != nil {
				s.Parent, s.Trace = parent.Span, parent.Trace
			}
			byRef[r.Ref] = s
			target := x.hide.hideText(r.Target)
			if spans[target] == nil {
				targets = append(targets, target)
			}
			spans[target] = append(spans[target], s)
		case RowNotification:
			if s := byRef[r.Parent]; s != nil && len(s.Events) < maxSpanEvents {
				s.Events = append(s.Events, otlpEvent{Time: nanoseconds(r.Time), Name: x.hide.hideText(r.Method), Attributes: x.attributes("parley.summary", r.Brief)})
			}
		}
	}
	resources := []any{}
	for _, target := range targets {
		resources = append(resources, map[string]any{
			"resource":   map[string]any{"attributes": x.attributes("service.name", target)},
			"scopeSpans": []any{map[string]any{"scope": map[string]string{"name": "parley"}, "spans": spans[target]}},
		})
	}
	out := harmless.NewJSONWriter(w)
	if err := json.MarshalWrite(out, map[string]any{"resourceSpans": resources}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.WithIndent(" ")); err != nil {
		return err
	}
	return out.Flush()
}

// span returns the span of a request.
func (x *export) span(r *Row) *otlpSpan {
	s := &otlpSpan{
		Trace: r.Trace, Span: otlpID(8, r.Time, r.Ref.String()), Name: x.hide.hideText(r.Method), Kind: otlpClient,
		Start: nanoseconds(r.Time), End: nanoseconds(r.Time.Add(r.Took)),
	}
	if r.Dir == In { // the server called the client
		s.Kind = otlpServer
	}
	if !isTraceID(s.Trace) {
		s.Trace = otlpID(16, time.Time{}, fmt.Sprint(x.log.start(), r.Conn))
	}
	code := ""
	switch r.State {
	case StateFailed:
		s.Status = otlpStatus{otlpFailed, x.hide.hideText(r.Brief)}
		code = "_OTHER"
		if answer, ok := x.log.Row(r.Answer); ok && answer.HasCode {
			code, s.Status.Message = strconv.FormatInt(answer.Code, 10), x.hide.hideText(answer.Brief)
		}
	case StateUnanswered, StateCancelled:
		code, s.Status = r.State, otlpStatus{otlpFailed, x.hide.hideText(r.Brief)}
	}
	s.Attributes = x.attributes("rpc.system.name", "jsonrpc", "rpc.method", r.Method, "jsonrpc.protocol.version", "2.0", "jsonrpc.request.id", r.ID,
		"network.transport", map[string]string{"stdio": "pipe", "unix": "unix"}[r.Carrier], "mcp.session.id", r.Session, "gen_ai.tool.name", toolOf(r),
		"error.type", code)
	if code != "" && code != "_OTHER" && s.Status.Code == otlpFailed && r.State == StateFailed {
		s.Attributes = append(s.Attributes, x.attributes("rpc.response.status_code", code)...)
	}
	return s
}

// toolOf returns the name of the tool that a row calls.
func toolOf(r *Row) string {
	if r.Method == "tools/call" {
		return r.Name
	}
	return ""
}

// attributes returns the pairs whose value is not empty.
func (x *export) attributes(pairs ...string) []otlpAttribute {
	list := []otlpAttribute{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			list = append(list, otlpAttribute{pairs[i], otlpValue{x.hide.hideText(pairs[i+1])}})
		}
	}
	return list
}

// start returns the time of the first row, which identifies the session.
func (l *Log) start() time.Time {
	if rows := l.Rows(Ref{}, 1); len(rows) > 0 {
		return rows[0].Time.UTC()
	}
	return time.Time{}
}

// otlpID returns an ID of n bytes that is the same for the same session.
func otlpID(n int, at time.Time, what string) string {
	sum := sha256.Sum256([]byte(at.UTC().Format(time.RFC3339Nano) + what))
	return hex.EncodeToString(sum[:n])
}

func isTraceID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 16
}

func nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
