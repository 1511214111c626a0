package gateway

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/mcp"
)

// otherMethod stands for all methods that are not in the configuration or a specification: clients
// choose the names, and each name would create a time series.
const otherMethod = "_OTHER"

// maxSeries bounds the time series of one metric. Further ones are counted under otherMethod.
const maxSeries = 10_000

// metricBuckets holds the bucket bounds of durations in seconds, those of OpenTelemetry's RPC
// conventions.
var metricBuckets = [...]float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// metrics counts what a gateway does, and serves it in the text format of Prometheus 0.0.4. Its
// methods allocate nothing for known series. One value lives as long as the Gateway:
//
//	m := newMetrics(file.Gateway)
//	m.collect = func(g *gauges) { g.set(m.inflight, 3, "crm") … } // at each scrape
//	m.request("crm", "mcp", m.method("mcp", "tools/call"), outcomeOK, took)
//	m.know(newFile.Gateway) // after a reload
type metrics struct {
	families []*family

	requests, requestTime, upstreamTime     *family
	retries, hedges, limited, cache, drops  *family
	state, inflight, queue, sessions, procs *family

	// collect sets the gauges before each scrape. It must not wait. It may be nil.
	collect func(g *gauges)

	known atomic.Pointer[map[string]bool] // methods of JSON-RPC that the configuration names
	mu    sync.Mutex                      // held during a scrape: gauges are set anew
}

func newMetrics(gw *config.Gateway) *metrics {
	m := &metrics{}
	add := func(name, kind, help string, labels ...string) *family {
		f := &family{name: "parley_gateway_" + name, kind: kind, help: help, labels: labels}
		m.families = append(m.families, f)
		return f
	}
	m.requests = add("requests_total", "counter", "Calls of clients, by result.", "server", "protocol", "method", "outcome")
	m.requestTime = add("request_duration_seconds", "histogram", "Time from the request of a client to the response.", "server", "protocol")
	m.upstreamTime = add("upstream_duration_seconds", "histogram", "Time of one attempt at a server.", "server")
	m.state = add("upstream_state", "gauge", "1 for the present state of a server.", "server", "state")
	m.inflight = add("inflight", "gauge", "Calls that run at a server.", "server")
	m.queue = add("queue", "gauge", "Calls that wait for a server.", "server")
	m.retries = add("retries_total", "counter", "Further attempts after a failure.", "server")
	m.hedges = add("hedges_total", "counter", "Second attempts because the first took long.", "server")
	m.sessions = add("sessions", "gauge", "Sessions of clients.")
	m.procs = add("processes", "gauge", "Running programs.", "server")
	m.limited = add("rate_limited_total", "counter", "Calls that a limit refused.", "server")
	m.cache = add("cache_total", "counter", "Lookups in the cache.", "server", "result")
	m.drops = add("dropped_total", "counter", "What was dropped and not delivered.", "what")
	m.know(gw)
	return m
}

// know sets the configuration whose methods have their own time series.
func (m *metrics) know(gw *config.Gateway) {
	known := make(map[string]bool)
	add := func(lists ...[]string) {
		for _, list := range lists {
			for _, name := range list {
				if !strings.Contains(name, "*") {
					known[name] = true
				}
			}
		}
	}
	if gw != nil {
		for i := range gw.Routes {
			r := &gw.Routes[i]
			add(r.Method, r.Idempotent)
			if r.Cache != nil {
				add(r.Cache.Methods)
			}
		}
		for i := range gw.Policy {
			add(gw.Policy[i].Method)
		}
		for i := range gw.Limits {
			add(gw.Limits[i].Method)
		}
	}
	m.known.Store(&known)
}

// specified are the methods of the protocols, which have their own time series.
var specified = map[string][]string{
	"mcp": {
		mcp.MethodInitialize, mcp.MethodPing, mcp.MethodDiscover, mcp.MethodToolsList, mcp.MethodToolsCall, mcp.MethodResourcesList,
		mcp.MethodResourceTemplatesList, mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe, mcp.MethodPromptsList,
		mcp.MethodPromptsGet, mcp.MethodComplete, mcp.MethodSetLevel, mcp.MethodListen, mcp.MethodTasksGet, mcp.MethodTasksCancel, mcp.MethodTasksList,
		mcp.MethodTasksResult, mcp.MethodTasksUpdate, mcp.NotifyInitialized, mcp.NotifyCancelled, mcp.NotifyProgress, mcp.NotifyRootsChanged,
	},
	"a2a": {
		a2a.MethodSend, a2a.MethodStreamSend, a2a.MethodGetTask, a2a.MethodListTasks, a2a.MethodCancelTask, a2a.MethodSubscribe, a2a.MethodExtendedCard,
		a2a.MethodCreatePush, a2a.MethodGetPush, a2a.MethodListPush, a2a.MethodDeletePush, a2a.MethodSend03, a2a.MethodStreamSend03, a2a.MethodGetTask03,
		a2a.MethodCancelTask03, a2a.MethodSubscribe03, a2a.MethodExtendedCard03,
	},
	"acp": {
		acp.MethodPing, acp.MethodAgentsList, acp.MethodAgentsGet, acp.MethodRunsCreate, acp.MethodRunsGet, acp.MethodRunsResume, acp.MethodRunsCancel,
		acp.MethodRunsEvents, acp.MethodSessionsGet,
	},
}

// method returns the label for a method: the method itself, if it is one of a bounded set.
func (m *metrics) method(protocol, method string) string {
	if slices.Contains(specified[protocol], method) || (*m.known.Load())[method] {
		return method
	}
	return otherMethod
}

// request counts a call that has ended. method is from [metrics.method].
func (m *metrics) request(server, protocol, method, outcome string, took time.Duration) {
	m.requests.with(series{server, protocol, method, outcome}).count.Add(1)
	m.requestTime.with(series{server, protocol}).observe(took)
}

// attempt counts one attempt at a server.
func (m *metrics) attempt(server string, took time.Duration) {
	m.upstreamTime.with(series{server}).observe(took)
}

// attempted is attempt for one that began at start and ends now.
func (m *metrics) attempted(server string, start time.Time) { m.attempt(server, time.Since(start)) }

// add adds to a counter, such as m.retries.
func (f *family) add(n uint64, labels ...string) {
	var s series
	copy(s[:], labels)
	f.with(s).count.Add(n)
}

// A series are the values of the labels of one time series.
type series [4]string

// A family is one metric with its time series.
type family struct {
	name, kind, help string
	labels           []string

	mu     sync.RWMutex // guards sample
	sample map[series]*sample
}

// A sample is one time series: a counter, the value of a gauge, or a histogram.
type sample struct {
	count   atomic.Uint64
	value   atomic.Uint64 // bits of a float64: of a gauge, or the sum of a histogram
	buckets []atomic.Uint64
}

// with returns a time series, which is made if it does not exist.
func (f *family) with(s series) *sample {
	f.mu.RLock()
	found := f.sample[s]
	f.mu.RUnlock()
	if found != nil {
		return found
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if found = f.sample[s]; found != nil {
		return found
	}
	if len(f.sample) >= maxSeries {
		s = series{}
		for i := range f.labels {
			s[i] = otherMethod
		}
		if found = f.sample[s]; found != nil {
			return found
		}
	}
	if f.sample == nil {
		f.sample = make(map[series]*sample)
	}
	made := &sample{}
	if f.kind == "histogram" {
		made.buckets = make([]atomic.Uint64, len(metricBuckets))
	}
	f.sample[s] = made
	return made
}

// observe adds a duration to a histogram.
func (s *sample) observe(d time.Duration) {
	seconds := d.Seconds()
	for i, most := range metricBuckets {
		if seconds <= most {
			s.buckets[i].Add(1)
			break
		}
	}
	for {
		old := s.value.Load()
		if s.value.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+seconds)) {
			break
		}
	}
	s.count.Add(1)
}

// gauges sets the gauges of one scrape.
type gauges struct{ m *metrics }

// set sets a gauge, such as m.inflight.
func (g *gauges) set(f *family, value float64, labels ...string) {
	var s series
	copy(s[:], labels)
	f.with(s).value.Store(math.Float64bits(value))
}

// metricsType is the media type of the text format.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// ServeHTTP serves GET and HEAD. Access is checked before.
func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", metricsType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(m.text()) // the client may be gone
}

// text returns all metrics in the text format, sorted by their labels.
func (m *metrics) text() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.families {
		if f.kind == "gauge" {
			f.mu.Lock()
			f.sample = nil
			f.mu.Unlock()
		}
	}
	if m.collect != nil {
		m.collect(&gauges{m})
	}
	var b []byte
	for _, f := range m.families {
		b = f.append(b)
	}
	return b
}

func (f *family) append(b []byte) []byte {
	b = append(b, "# HELP "+f.name+" "+f.help+"\n# TYPE "+f.name+" "+f.kind+"\n"...)
	f.mu.RLock()
	defer f.mu.RUnlock()
	keys := make([]series, 0, len(f.sample))
	for s := range f.sample {
		keys = append(keys, s)
	}
	slices.SortFunc(keys, func(x, y series) int { return slices.Compare(x[:], y[:]) })
	for _, s := range keys {
		v := f.sample[s]
		switch f.kind {
		case "counter":
			b = append(f.appendName(b, "", s, ""), strconv.FormatUint(v.count.Load(), 10)+"\n"...)
		case "gauge":
			b = append(f.appendName(b, "", s, ""), formatMetric(math.Float64frombits(v.value.Load()))+"\n"...)
		default:
			// while a duration is added, its bucket may be counted and the total not yet
			var sum uint64
			for i, most := range metricBuckets {
				sum += v.buckets[i].Load()
				b = append(f.appendName(b, "_bucket", s, formatMetric(most)), strconv.FormatUint(sum, 10)+"\n"...)
			}
			count := strconv.FormatUint(max(v.count.Load(), sum), 10)
			b = append(f.appendName(b, "_bucket", s, "+Inf"), count+"\n"...)
			b = append(f.appendName(b, "_sum", s, ""), formatMetric(math.Float64frombits(v.value.Load()))+"\n"...)
			b = append(f.appendName(b, "_count", s, ""), count+"\n"...)
		}
	}
	return b
}

func formatMetric(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// appendName appends the name and the labels of a line, and a space.
func (f *family) appendName(b []byte, suffix string, s series, le string) []byte {
	b = append(append(b, f.name...), suffix...)
	separator := byte('{')
	label := func(name, value string) {
		b = append(append(append(b, separator), name...), `="`...)
		b = append(append(b, escapeLabel.Replace(strings.ToValidUTF8(value, "\uFFFD"))...), '"')
		separator = ','
	}
	for i, name := range f.labels {
		label(name, s[i])
	}
	if le != "" {
		label("le", le)
	}
	if separator == ',' {
		b = append(b, '}')
	}
	return append(b, ' ')
}
