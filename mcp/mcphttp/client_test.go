package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// A scriptedWeb is a server without a network: a function returns its response to each request. It
// records the requests.
type scriptedWeb struct {
	answer func(r *scriptedRequest) scriptedAnswer

	mu  sync.Mutex
	all []*scriptedRequest
}

type scriptedRequest struct {
	verb, body string
	header     http.Header
	method     string     // of JSON-RPC
	id         jsonrpc.ID // zero if absent
	ctx        context.Context
}

type scriptedAnswer struct {
	status int // 200 if zero
	header http.Header
	kind   string // application/json if empty
	body   string
	err    error // instead of a response
}

func (w *scriptedWeb) RoundTrip(req *http.Request) (*http.Response, error) {
	r := &scriptedRequest{verb: req.Method, header: req.Header.Clone(), ctx: req.Context()}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		r.body = string(body)
		// a body without a JSON-RPC message has no method
		_ = jsonrpc.Scan(body, func(m *jsonrpc.Message) { r.method, r.id = m.Method, m.ID })
	}
	w.mu.Lock()
	w.all = append(w.all, r)
	a := w.answer(r)
	w.mu.Unlock()
	if a.err != nil {
		return nil, a.err
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	if a.kind == "" {
		a.kind = "application/json"
	}
	a.header.Set("Content-Type", a.kind)
	return &http.Response{StatusCode: a.status, Header: a.header, Request: req, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// asked returns the requests: the HTTP method, and the JSON-RPC method if there is one.
func (w *scriptedWeb) asked() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.all {
		all = append(all, strings.TrimSpace(r.verb+" "+r.method))
	}
	return all
}

func (w *scriptedWeb) find(method string) *scriptedRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.all {
		if r.method == method {
			return r
		}
	}
	return &scriptedRequest{header: http.Header{}}
}

var myself = mcp.Implementation{Name: "me", Version: "1"}

func connectTo(ctx context.Context, w http.RoundTripper, o mcp.ClientOptions) (*mcp.Client, error) {
	return mcphttp.Connect(ctx, "http://server.example/mcp", myself, &mcphttp.ClientOptions{HTTP: &http.Client{Transport: w}, Client: o})
}

// Responses of servers.
func scriptedResult(r *scriptedRequest, result string) scriptedAnswer {
	return scriptedAnswer{body: `{"jsonrpc":"2.0","id":` + r.id.String() + `,"result":` + result + `}`}
}

func scriptedError(r *scriptedRequest, status int, text string) scriptedAnswer {
	return scriptedAnswer{status: status, body: `{"jsonrpc":"2.0","id":` + r.id.String() + `,"error":` + text + `}`}
}

const (
	modernHello   = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"public"}`
	unknownMethod = `{"code":-32601,"message":"Method not found"}`
)

// legacyWeb responds like a server of an older version, in sessions S1, S2 and so on.
func legacyWeb(version string, sessions *int) func(*scriptedRequest) scriptedAnswer {
	return func(r *scriptedRequest) scriptedAnswer {
		switch {
		case r.verb != http.MethodPost:
			return scriptedAnswer{status: http.StatusMethodNotAllowed}
		case r.method == mcp.MethodInitialize:
			*sessions++
			a := scriptedResult(r, `{"protocolVersion":"`+version+`","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`)
			a.header = http.Header{"Mcp-Session-Id": {fmt.Sprint("S", *sessions)}}
			return a
		case r.header.Get("Mcp-Session-Id") == "" || r.method == mcp.MethodDiscover:
			return scriptedAnswer{status: http.StatusBadRequest, body: `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`}
		case r.header.Get("Mcp-Session-Id") != fmt.Sprint("S", *sessions):
			return scriptedAnswer{status: http.StatusNotFound, body: `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`}
		case r.id.IsZero():
			return scriptedAnswer{status: http.StatusAccepted}
		}
		return scriptedResult(r, `{"content":[{"type":"text","text":"`+r.header.Get("Mcp-Session-Id")+`"}]}`)
	}
}

// TestConnectEra checks how the client negotiates the version (MCP 2026-07-28, Versioning): the
// requests that it sends, and the result.
func TestConnectEra(t *testing.T) {
	hand := []string{"POST server/discover", "POST initialize", "POST notifications/initialized", "GET", "DELETE"}
	probe := []string{"POST server/discover"}
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	status := func(code int) func(error) bool {
		return func(err error) bool {
			s, ok := errors.AsType[*mcphttp.StatusError](err)
			return ok && s.Status == code
		}
	}
	refused := errors.New("connection refused")
	for _, tt := range []struct {
		name     string
		discover func(r *scriptedRequest) scriptedAnswer // nil: as a legacy server
		versions []mcp.Version
		version  mcp.Version
		fails    func(error) bool
		asked    []string
	}{
		{"modern", func(r *scriptedRequest) scriptedAnswer { return scriptedResult(r, modernHello) }, nil, mcp.V20260728, nil, probe},
		{"both: the newest", func(r *scriptedRequest) scriptedAnswer {
			return scriptedResult(r, `{"supportedVersions":["2025-11-25","2026-07-28","2099-01-01"],"capabilities":{}}`)
		}, nil, mcp.V20260728, nil, probe},
		{"legacy, 400 in words", func(*scriptedRequest) scriptedAnswer {
			return scriptedAnswer{status: 400, kind: "text/plain", body: "no session"}
		}, nil, mcp.V20251125, nil, hand},
		{"legacy, 400 for nobody", nil, nil, mcp.V20251125, nil, hand},
		{"legacy, unknown method with 200", func(r *scriptedRequest) scriptedAnswer { return scriptedError(r, 200, unknownMethod) }, nil, mcp.V20251125, nil, hand},
		{"legacy, unknown method with 404", func(r *scriptedRequest) scriptedAnswer { return scriptedError(r, 404, unknownMethod) }, nil, mcp.V20251125, nil, hand},
		{"legacy, wrong params", func(r *scriptedRequest) scriptedAnswer {
			return scriptedError(r, 400, `{"code":-32602,"message":"no"}`)
		}, nil, mcp.V20251125, nil, hand},
		{"legacy, in rage", func(*scriptedRequest) scriptedAnswer {
			return scriptedAnswer{status: 500, kind: "text/html", body: "<p>"}
		}, nil, mcp.V20251125, nil, hand},
		{"legacy, with a page", func(*scriptedRequest) scriptedAnswer { return scriptedAnswer{kind: "text/html", body: "<p>hello"} }, nil, mcp.V20251125, nil, hand},
		{"legacy, says yes to all", func(r *scriptedRequest) scriptedAnswer { return scriptedResult(r, `{}`) }, nil, mcp.V20251125, nil, hand},
		{"legacy, and breaks off", func(*scriptedRequest) scriptedAnswer {
			return scriptedAnswer{kind: "text/event-stream", body: ": hello\n\n"}
		}, nil, mcp.V20251125, nil, hand},
		{"legacy only, says the modern error", func(r *scriptedRequest) scriptedAnswer {
			return scriptedError(r, 400, `{"code":-32022,"message":"no","data":{"supported":["2025-06-18","2025-11-25"],"requested":"2026-07-28"}}`)
		}, nil, mcp.V20251125, nil, hand},
		{"a version from the future", func(r *scriptedRequest) scriptedAnswer {
			return scriptedError(r, 400, `{"code":-32022,"message":"no","data":{"supported":["2099-01-01"],"requested":"2026-07-28"}}`)
		}, nil, 0, is(mcp.ErrNoCommonVersion), probe},
		{"modern, but something is wrong with the headers", func(r *scriptedRequest) scriptedAnswer {
			return scriptedError(r, 400, `{"code":-32020,"message":"no"}`)
		}, nil, 0, is(mcp.ErrHeaderMismatch), probe},
		{"we are legacy", nil, []mcp.Version{mcp.V20250618}, mcp.V20251125, is(mcp.ErrNoCommonVersion), []string{"POST initialize", "DELETE"}},
		{"we are modern", nil, []mcp.Version{mcp.V20260728}, 0, status(400), []string{"POST server/discover", "GET"}},
		{"credentials", func(*scriptedRequest) scriptedAnswer { return scriptedAnswer{status: 401} }, nil, 0, is(mcphttp.ErrUnauthorized), probe},
		{"other credentials", func(*scriptedRequest) scriptedAnswer { return scriptedAnswer{status: 403} }, nil, 0, is(mcphttp.ErrForbidden), probe},
		{"nobody there", func(*scriptedRequest) scriptedAnswer { return scriptedAnswer{err: refused} }, nil, 0, is(refused), probe},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sessions := 0
			legacy := legacyWeb("2025-11-25", &sessions)
			w := &scriptedWeb{answer: func(r *scriptedRequest) scriptedAnswer {
				if r.method == mcp.MethodDiscover && tt.discover != nil {
					return tt.discover(r)
				}
				return legacy(r)
			}}
			c, err := connectTo(t.Context(), w, mcp.ClientOptions{Versions: tt.versions})
			if tt.fails != nil {
				if err == nil || !tt.fails(err) {
					t.Errorf("got error %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if c != nil {
				if c.Version() != tt.version {
					t.Errorf("version %s, want %s", c.Version(), tt.version)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			if !slices.Equal(w.asked(), tt.asked) {
				t.Errorf("asked %q, want %q", w.asked(), tt.asked)
			}
		})
	}
}

// TestConnectProbeTime checks that a server that does not respond to the modern request within 10 s
// is treated as a legacy server.
func TestConnectProbeTime(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			sessions := 0
			legacy := legacyWeb("2025-06-18", &sessions)
			w := &scriptedWeb{answer: legacy}
			begun := time.Now()
			c, err := connectTo(t.Context(), silentProbe{w}, mcp.ClientOptions{Probe: given})
			if err != nil {
				t.Fatal(err)
			}
			if c.Version() != mcp.V20250618 || time.Since(begun) != want {
				t.Errorf("version %s after %v", c.Version(), time.Since(begun))
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A silentProbe never responds to the modern request.
type silentProbe struct{ next http.RoundTripper }

func (s silentProbe) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Mcp-Method") == mcp.MethodDiscover {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	return s.next.RoundTrip(req)
}

// TestConnectHeaders checks the headers of requests in each version.
func TestConnectHeaders(t *testing.T) {
	for _, tt := range []struct {
		version string
		want    map[string]map[string]string // by method
	}{
		{"2026-07-28", map[string]map[string]string{
			mcp.MethodDiscover:  {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover", "Mcp-Name": "", "Mcp-Session-Id": ""},
			mcp.MethodToolsCall: {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?d8O2cnRlcg==?=", "Mcp-Session-Id": ""},
		}},
		{"2025-11-25", map[string]map[string]string{
			mcp.MethodInitialize:  {"Mcp-Protocol-Version": "", "Mcp-Session-Id": "", "Mcp-Method": ""},
			mcp.NotifyInitialized: {"Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "S1", "Mcp-Method": ""},
			// the GET
			"":                  {"Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "S1"},
			mcp.MethodToolsCall: {"Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "S1", "Mcp-Method": "", "Mcp-Name": ""},
		}},
		{"2025-03-26", map[string]map[string]string{
			mcp.MethodToolsCall: {"Mcp-Protocol-Version": "", "Mcp-Session-Id": "S1", "Mcp-Method": "", "Mcp-Name": ""},
		}},
	} {
		t.Run(tt.version, func(t *testing.T) {
			sessions := 0
			legacy := legacyWeb(tt.version, &sessions)
			w := &scriptedWeb{answer: func(r *scriptedRequest) scriptedAnswer {
				if tt.version != "2026-07-28" {
					return legacy(r)
				}
				if r.method == mcp.MethodDiscover {
					return scriptedResult(r, modernHello)
				}
				return scriptedResult(r, `{"resultType":"complete","content":[]}`)
			}}
			c, err := connectTo(t.Context(), w, mcp.ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.CallTool(t.Context(), "wörter", nil, nil); err != nil {
				t.Fatal(err)
			}
			for method, headers := range tt.want {
				for name, want := range headers {
					if got := w.find(method).header.Get(name); got != want {
						t.Errorf("%s of %s is %q, want %q", name, method, got, want)
					}
				}
			}
		})
	}
}

// TestHeaderMismatch checks that the client fetches the headers of a tool if the server reports a
// mismatch (MCP 2026-07-28, Transports, Custom Headers).
func TestHeaderMismatch(t *testing.T) {
	w := &scriptedWeb{answer: func(r *scriptedRequest) scriptedAnswer {
		switch {
		case r.method == mcp.MethodDiscover:
			return scriptedResult(r, modernHello)
		case r.method == mcp.MethodToolsList:
			return scriptedResult(r, `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":"t","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}]}`)
		case r.header.Get("Mcp-Param-Region") != "west":
			return scriptedError(r, 400, `{"code":-32020,"message":"Header mismatch"}`)
		}
		return scriptedResult(r, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
	}}
	c, err := connectTo(t.Context(), w, mcp.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r, err := c.CallTool(t.Context(), "t", map[string]string{"r": "west"}, nil); err != nil || r.Text() != "done" {
		t.Errorf("got %+v, %v", r, err)
	}
	if want := []string{"POST server/discover", "POST tools/call", "POST tools/list", "POST tools/call"}; !slices.Equal(w.asked(), want) {
		t.Errorf("asked %q, want %q", w.asked(), want)
	}
}

// TestConnectPair checks that a server with only the older transport is detected, and used with the
// features that it has.
func TestConnectPair(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "pair", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "where"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		roots, err := r.Roots(ctx, "roots")
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	})
	h := mcphttp.NewHandler(s, nil)
	pair := h.Pair("/messages")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/sse" && r.Method != http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.URL.Path == "/sse", r.URL.Path == "/messages":
			pair.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	defer h.Close()
	defer s.Close()
	for address, version := range map[string]mcp.Version{
		web.URL + "/sse":          mcp.V20251125, // it has rejected a modern request
		"sse+" + web.URL + "/sse": mcp.V20260728,
	} {
		var mu sync.Mutex
		var seen []string
		c, err := mcphttp.Connect(t.Context(), address, myself, &mcphttp.ClientOptions{
			Client: mcp.ClientOptions{Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///here"}}, nil }},
			Tap: func(out bool, payload []byte) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, fmt.Sprint(out, " ", string(payload)))
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if c.Version() != version {
			t.Errorf("%s: version %s, want %s", address, c.Version(), version)
		}
		if r, err := c.CallTool(t.Context(), "where", nil, nil); err != nil || r.Text() != "file:///here" {
			t.Errorf("%s: %+v, %v", address, r, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		if !slices.ContainsFunc(seen, func(s string) bool { return strings.HasPrefix(s, "true ") && strings.Contains(s, `"tools/call"`) }) ||
			!slices.ContainsFunc(seen, func(s string) bool { return strings.HasPrefix(s, "false ") && strings.Contains(s, "file:///here") }) {
			t.Errorf("%s: the tap saw %q", address, seen)
		}
		mu.Unlock()
	}

	// A server without either transport returns both errors.
	_, err := mcphttp.Connect(t.Context(), web.URL+"/nothing", myself, nil)
	if err == nil || !strings.Contains(err.Error(), "and over HTTP+SSE") {
		t.Errorf("got %v", err)
	}
}

// TestCancel checks how a server is notified of a cancellation, in each era.
func TestCancel(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20260728, mcp.V20251125} {
		t.Run(v.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sessions := 0
				legacy := legacyWeb("2025-11-25", &sessions)
				w := &scriptedWeb{answer: func(r *scriptedRequest) scriptedAnswer {
					if v.Modern() {
						return scriptedResult(r, modernHello)
					}
					return legacy(r)
				}}
				hangs := &hangingCall{next: w}
				c, err := connectTo(t.Context(), hangs, mcp.ClientOptions{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				if _, err := c.CallTool(ctx, "t", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				synctest.Wait()
				if !hangs.gone {
					t.Error("the request goes on")
				}
				cancelled := w.find(mcp.NotifyCancelled).body
				if v.Modern() && cancelled != "" || !v.Modern() && !strings.Contains(cancelled, `"requestId":`) {
					t.Errorf("the server was told %q", cancelled)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A hangingCall never responds to tool calls.
type hangingCall struct {
	next http.RoundTripper
	gone bool
}

func (h *hangingCall) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.GetBody == nil {
		return h.next.RoundTrip(req)
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(body)
	if err != nil || !strings.Contains(string(text), `"tools/call"`) {
		return h.next.RoundTrip(req)
	}
	<-req.Context().Done()
	h.gone = true
	return nil, context.Cause(req.Context())
}
