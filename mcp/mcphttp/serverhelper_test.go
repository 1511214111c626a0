package mcphttp_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// A site is an MCP server on its own port.
type site struct {
	*httptest.Server
	mcp     *mcp.Server
	handler *mcphttp.Handler
	started chan struct{} // the tool wait has begun
	ended   chan error    // the tool wait has ended, with the cause of its context
}

// newSite serves a few tools until the end of the test.
func newSite(t testing.TB, o *mcphttp.Options) *site {
	t.Helper()
	w := &site{started: make(chan struct{}, 10), ended: make(chan error, 10)}
	so := &mcp.ServerOptions{}
	if o != nil {
		so.Principal = o.Principal
	}
	w.mcp = mcp.NewServer(mcp.Implementation{Name: "site", Version: "1"}, so)
	w.addTools(t)
	w.handler = mcphttp.NewHandler(w.mcp, o)
	pair := w.handler.Pair("/messages")
	mux := http.NewServeMux()
	mux.Handle("/mcp", w.handler)
	mux.Handle("/sse", pair)
	mux.Handle("/messages", pair)
	w.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		w.mcp.Close()
		if err := w.handler.Close(); err != nil {
			t.Error(err)
		}
		w.Server.Close()
	})
	return w
}

func (w *site) addTools(t testing.TB) {
	type nothing struct{}
	mcp.AddTool(w.mcp, mcp.Tool{Name: "calculator/add"}, func(_ context.Context, _ *mcp.Request, in struct {
		A int `json:"a"`
		B int `json:"b"`
	}) (string, error) {
		return fmt.Sprint(in.A + in.B), nil
	})
	raw := func(name string, f mcp.ToolFunc) {
		if err := w.mcp.AddTool(mcp.Tool{Name: name, InputSchema: jsonrpc.Raw(`{"type":"object"}`)}, f); err != nil {
			t.Fatal(err)
		}
	}
	raw("echo", echo)
	raw("panic", func(context.Context, *mcp.Request) (*mcp.ToolResult, error) { panic("a secret") })
	raw("wait", func(ctx context.Context, _ *mcp.Request) (*mcp.ToolResult, error) {
		w.started <- struct{}{}
		select {
		case <-ctx.Done():
			w.ended <- context.Cause(ctx)
		case <-time.After(time.Minute):
			w.ended <- nil
		}
		return nil, context.Cause(ctx)
	})
	mcp.AddTool(w.mcp, mcp.Tool{Name: "count"}, func(ctx context.Context, r *mcp.Request, in struct {
		To int `json:"to"`
	}) (string, error) {
		for n := range in.To {
			if err := r.Progress(ctx, float64(n+1), 0, ""); err != nil {
				return "", err
			}
		}
		return "counted", nil
	})
	mcp.AddTool(w.mcp, mcp.Tool{Name: "book"}, func(ctx context.Context, r *mcp.Request, _ nothing) (string, error) {
		e, err := r.Elicit(ctx, "when", &mcp.Elicitation{Message: "When?"})
		if err != nil {
			return "", err
		}
		return e.Action, nil
	})
	mcp.AddTool(w.mcp, mcp.Tool{Name: "region"}, func(_ context.Context, _ *mcp.Request, in struct {
		Region string `json:"region" mcp:"header=Region"`
	}) (string, error) {
		return in.Region, nil
	})
	err := w.mcp.AddResource(mcp.Resource{URI: "test://panics", Name: "panics"}, func(context.Context, *mcp.Request) (*mcp.ReadResourceResult, error) { panic("a secret") })
	if err != nil {
		t.Fatal(err)
	}
}

func echo(_ context.Context, r *mcp.Request) (*mcp.ToolResult, error) {
	return mcp.TextResult(string(r.Arguments)), nil
}

// host returns the host and port of the site.
func (w *site) host() string { return w.Listener.Addr().String() }

// send sends bytes on a new connection and returns the raw response.
func (w *site) send(t testing.TB, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", w.host())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil && len(got) == 0 {
		t.Fatal(err)
	}
	return string(got)
}

// request returns a complete HTTP/1.0 request, whose response has no chunks and ends with the
// connection.
func (w *site) request(method, path, body string, headers ...string) string {
	h := method + " " + path + " HTTP/1.0\r\n"
	has := func(name string) bool {
		for _, line := range headers {
			if strings.HasPrefix(line, name+":") {
				return true
			}
		}
		return false
	}
	if !has("Host") {
		h += "Host: " + w.host() + "\r\n"
	}
	if !has("Accept") {
		h += "Accept: application/json, text/event-stream\r\n"
	}
	if method == http.MethodPost && !has("Content-Type") {
		h += "Content-Type: application/json\r\n"
	}
	if method == http.MethodPost {
		h += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	for _, line := range headers {
		h += line + "\r\n"
	}
	return h + "\r\n" + body
}

func (w *site) post(t testing.TB, body string, headers ...string) reply {
	t.Helper()
	return replyOf(w.send(t, w.request("POST", "/mcp", body, headers...)))
}

// A reply is a parsed response.
type reply struct{ status, kind, body, head string }

var statusLine = regexp.MustCompile(`^HTTP/1\.[01] (\d{3}) `)

func replyOf(wire string) reply {
	head, body, _ := strings.Cut(wire, "\r\n\r\n")
	r := reply{head: head, body: body}
	if m := statusLine.FindStringSubmatch(head); m != nil {
		r.status = m[1]
	}
	r.kind = r.header("Content-Type")
	return r
}

func (r reply) header(name string) string {
	for line := range strings.SplitSeq(r.head, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return value
		}
	}
	return ""
}

func (r reply) want(t *testing.T, status, kind, body string) {
	t.Helper()
	if r.status != status || r.kind != kind || r.body != body {
		t.Errorf("got  %s %s %s\nwant %s %s %s", r.status, r.kind, r.body, status, kind, body)
	}
}

// envelope is the _meta of a modern request.
const envelope = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// modern returns the body and the headers of a modern request.
func modern(id, method, params string) (string, []string) {
	headers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}
	if m := regexp.MustCompile(`^"(?:name|uri)":"([^"]*)"`).FindStringSubmatch(params); m != nil {
		headers = append(headers, "Mcp-Name: "+m[1])
	}
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + envelope + `}}`, headers
}

func (w *site) modern(t testing.TB, id, method, params string, headers ...string) reply {
	t.Helper()
	body, standard := modern(id, method, params)
	return w.post(t, body, append(standard, headers...)...)
}

// initialize returns the body of a handshake.
func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`
}

// open performs a handshake and returns the headers of the session.
func (w *site) open(t testing.TB, version string, headers ...string) []string {
	t.Helper()
	got := w.post(t, initialize(version), headers...)
	id := got.header("Mcp-Session-Id")
	if got.status != "200" || got.kind != "application/json" || id == "" || !strings.Contains(got.body, `"protocolVersion":"`+version+`"`) {
		t.Fatalf("initialize was answered %s\n%s", got.head, got.body)
	}
	session := append([]string{"Mcp-Session-Id: " + id}, headers...)
	if mcp.ParseVersion(version).HasVersionHeader() {
		session = append(session, "MCP-Protocol-Version: "+version)
	}
	if got := w.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...); got.status != "202" || got.body != "" {
		t.Fatalf("initialized was answered %s\n%s", got.head, got.body)
	}
	return session
}

func call(id, name, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
}

func counting(id string, to int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"count","arguments":{"to":%d},"_meta":{"progressToken":"p"}}}`, id, to)
}

func fault(code int, message, id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":%d,"message":"%s"},"id":%s}`, code, message, id)
}

// A stream is a response that is being read.
type stream struct {
	net.Conn
	lines *bufio.Reader
}

// begin sends a request and, unless until is empty, reads until that text has arrived.
func (w *site) begin(t testing.TB, request, until string) *stream {
	t.Helper()
	s := w.dial(t, request)
	t.Cleanup(func() { _ = s.Close() })
	if until != "" {
		s.until(t, until)
	}
	return s
}

// dial sends a request. The caller closes the connection.
func (w *site) dial(t testing.TB, request string) *stream {
	t.Helper()
	conn, err := net.Dial("tcp", w.host())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return &stream{conn, bufio.NewReader(conn)}
}

// until reads up to the end of a line that contains text, and returns that line.
func (s *stream) until(t testing.TB, text string) string {
	t.Helper()
	_ = s.SetReadDeadline(time.Now().Add(time.Minute))
	var before bytes.Buffer
	for {
		line, err := s.lines.ReadString('\n')
		before.WriteString(line)
		if strings.Contains(line, text) {
			return strings.TrimRight(line, "\r\n")
		}
		if err != nil {
			t.Fatalf("%q did not come: %v\n%s", text, err, before.String())
		}
	}
}

// within waits for a value.
func within[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
