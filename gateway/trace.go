package gateway

import (
	"context"
	"net/http"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A traceContext is the trace that a request belongs to, as its client wrote it (W3C Trace Context,
// level 1): 00-TRACE-SPAN-FLAGS.
type traceContext struct{ parent, state string }

type traceKey struct{}

// maxTraceState bounds the vendors' part of a trace that is sent on, in bytes (section 3.3.1.5).
const maxTraceState = 512

// traced adds the trace of each request to its context. A header that is not valid has no effect.
func traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if values := r.Header["Traceparent"]; len(values) == 1 && traceIDOf(values[0]) != "" {
			t := &traceContext{parent: values[0]}
			if state := strings.Join(r.Header["Tracestate"], ","); len(state) <= maxTraceState {
				t.state = state
			}
			r = r.WithContext(context.WithValue(r.Context(), traceKey{}, t))
		}
		next.ServeHTTP(w, r)
	})
}

// traceIDIn returns the trace ID of a call, or "": that of its params (SEP-414), or else of its
// HTTP request.
func traceIDIn(ctx context.Context, params jsonrpc.Raw) string {
	for name, meta := range params.Members() {
		if string(name) != "_meta" {
			continue
		}
		for name, value := range meta.Members() {
			if string(name) == mcp.MetaTraceparent && len(value) > 2 {
				if id := traceIDOf(string(value[1 : len(value)-1])); id != "" {
					return id
				}
			}
		}
	}
	if t, _ := ctx.Value(traceKey{}).(*traceContext); t != nil {
		return traceIDOf(t.parent)
	}
	return ""
}

// traceIDOf returns the trace ID of a traceparent, or "" if that is not valid (sections 3.2.2 and
// 4.3).
func traceIDOf(parent string) string {
	const version, trace, span, flags = 2, 35, 52, 55 // where each ends
	if len(parent) < flags || parent[version] != '-' || parent[trace] != '-' || parent[span] != '-' || parent[:version] == "ff" ||
		len(parent) > flags && (parent[:version] == "00" || parent[flags] != '-') {
		return ""
	}
	for i := range flags {
		if c := parent[i]; i != version && i != trace && i != span && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	id := parent[version+1 : trace]
	if strings.Trim(id, "0") == "" || strings.Trim(parent[trace+1:span], "0") == "" {
		return ""
	}
	return id
}

// A traceTrip adds the trace of the caller to requests that have no other.
type traceTrip struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t traceTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	trace, _ := r.Context().Value(traceKey{}).(*traceContext)
	if trace == nil || len(r.Header["Traceparent"]) > 0 {
		return t.next.RoundTrip(r)
	}
	own := r.WithContext(r.Context())
	own.Header = r.Header.Clone()
	own.Header["Traceparent"] = []string{trace.parent}
	if trace.state != "" {
		own.Header["Tracestate"] = []string{trace.state}
	}
	return t.next.RoundTrip(own)
}
