package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/config"
)

// metricLine is one line of a sample in the text format.
var metricLine = regexp.MustCompile(`^[a-z_]+(\{[a-z_]+="([^"\\\n]|\\["\\n])*"(,[a-z_]+="([^"\\\n]|\\["\\n])*")*\})? [0-9.e+-]+$`)

func scrape(t *testing.T, m *metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("status %d, type %q", w.Code, w.Header().Get("Content-Type"))
	}
	kinds := map[string]bool{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if kinds[rest] {
				t.Errorf("%s occurs twice", rest)
			}
			kinds[rest] = true
			continue
		}
		if !strings.HasPrefix(line, "# HELP parley_gateway_") && !metricLine.MatchString(line) {
			t.Errorf("not a line of the format: %q", line)
		}
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	m := newMetrics(&config.Gateway{Routes: []config.Route{{Method: []string{"billing.get", "billing.*"}}}, Limits: []config.Limit{{Method: []string{"limited"}}}})
	m.collect = func(g *gauges) {
		g.set(m.inflight, 3, "crm")
		g.set(m.state, 1, "crm", "open")
		g.set(m.sessions, 0)
	}
	m.request("crm", "mcp", m.method("mcp", "tools/call"), outcomeOK, 30*time.Millisecond)
	m.request("crm", "mcp", m.method("mcp", "tools/call"), outcomeOK, time.Minute)
	m.request("crm", "jsonrpc", m.method("jsonrpc", "chosen by a client"), outcomeDenied, 0)
	m.request("e\"vil\\\n\xff", "jsonrpc", m.method("jsonrpc", "billing.get"), outcomeError, 0)
	m.attempt("crm", 4*time.Millisecond)
	m.retries.add(2, "crm")
	m.cache.add(1, "crm", "hit")
	m.drops.add(7, "audit")
	text := scrape(t, m)
	for _, want := range []string{
		`parley_gateway_requests_total{server="crm",protocol="mcp",method="tools/call",outcome="ok"} 2`,
		`parley_gateway_requests_total{server="crm",protocol="jsonrpc",method="_OTHER",outcome="denied"} 1`,
		`parley_gateway_requests_total{server="e\"vil\\\n` + "\uFFFD" + `",protocol="jsonrpc",method="billing.get",outcome="error"} 1`,
		`parley_gateway_request_duration_seconds_bucket{server="crm",protocol="mcp",le="0.025"} 0`,
		`parley_gateway_request_duration_seconds_bucket{server="crm",protocol="mcp",le="0.05"} 1`,
		`parley_gateway_request_duration_seconds_bucket{server="crm",protocol="mcp",le="10"} 1`,
		`parley_gateway_request_duration_seconds_bucket{server="crm",protocol="mcp",le="+Inf"} 2`,
		`parley_gateway_request_duration_seconds_sum{server="crm",protocol="mcp"} 60.03`,
		`parley_gateway_request_duration_seconds_count{server="crm",protocol="mcp"} 2`,
		`parley_gateway_upstream_duration_seconds_bucket{server="crm",le="0.005"} 1`,
		`parley_gateway_upstream_state{server="crm",state="open"} 1`,
		`parley_gateway_inflight{server="crm"} 3`,
		`parley_gateway_sessions 0`,
		`parley_gateway_retries_total{server="crm"} 2`,
		`parley_gateway_cache_total{server="crm",result="hit"} 1`,
		`parley_gateway_dropped_total{what="audit"} 7`,
		`# TYPE parley_gateway_requests_total counter`,
		`# TYPE parley_gateway_request_duration_seconds histogram`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	m.collect = func(g *gauges) { g.set(m.state, 1, "crm", "healthy") }
	if text = scrape(t, m); strings.Contains(text, "open") || strings.Contains(text, "inflight{") {
		t.Errorf("a gauge that is not set any more is still there: %s", text)
	}
	for method, want := range map[string]string{"limited": "limited", "billing.put": "_OTHER", "tools/call": "_OTHER"} {
		if got := m.method("jsonrpc", method); got != want {
			t.Errorf("the label of %s is %s", method, got)
		}
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestMetricsAreBounded checks that names beyond the bound share one time series.
func TestMetricsAreBounded(t *testing.T) {
	m := newMetrics(nil)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range maxSeries {
				m.request(fmt.Sprint(w, i), "jsonrpc", "x", outcomeOK, time.Millisecond)
			}
		})
	}
	scrape(t, m)
	wg.Wait()
	if n := len(m.requests.sample); n > maxSeries+1 {
		t.Errorf("%d time series", n)
	}
	if got := m.requests.sample[series{otherMethod, otherMethod, otherMethod, otherMethod}].count.Load(); got != 3*maxSeries {
		t.Errorf("%d calls are counted together, want %d", got, 3*maxSeries)
	}
}

func BenchmarkMetrics(b *testing.B) {
	m := newMetrics(nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.request("crm", "mcp", m.method("mcp", "tools/call"), outcomeOK, time.Millisecond)
		}
	})
}
