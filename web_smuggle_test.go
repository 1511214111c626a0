package parley

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// A front is a request framing for which two readers find the end of the request in different
// places. {host} is replaced by the address, {inner} by a request that must not run, {inner-length}
// by its length in bytes.
type front struct {
	name   string
	header string // lines, each with its line ending
	body   string
}

const someBody = `{"jsonrpc":"2.0","id":1,"method":"add","params":[1]}`

// fronts are the shapes of RFC 9112, sections 2.2, 5.1, 5.2, 6.1, 6.3, 7.1 and 11.2: a proxy that
// uses one framing forwards them as one request, and a server that uses the other reads two.
func fronts() []front {
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(someBody), someBody)
	const length = "Content-Length: 100000\r\n"
	const chunked = "Transfer-Encoding: chunked\r\n"
	end := chunk + "0\r\n\r\n{inner}"
	return []front{
		{"chunked", chunked, end},
		{"length before chunked", length + chunked, end},
		{"chunked before length", chunked + length, end},
		{"length 0 and chunked", "Content-Length: 0\r\n" + chunked, end},
		{"two lengths and chunked", "Content-Length: 5\r\nContent-Length: 5\r\n" + chunked, end},
		{"different lengths and chunked", "Content-Length: 5\r\nContent-Length: 6\r\n" + chunked, end},
		{"identity", "Transfer-Encoding: identity\r\n", "{inner}"},
		{"identity and length", "Transfer-Encoding: identity\r\nContent-Length: 5\r\n", "hello{inner}"},
		{"chunked, then identity", chunked + "Transfer-Encoding: identity\r\n", end},
		{"identity, then chunked", "Transfer-Encoding: identity\r\n" + chunked, end},
		{"chunked twice", chunked + chunked, end},
		{"chunked twice in a list", "Transfer-Encoding: chunked, chunked\r\n", end},
		{"chunked with a comma", "Transfer-Encoding: chunked,\r\n", end},
		{"chunked with a parameter", "Transfer-Encoding: chunked;a=b\r\n", end},
		{"gzip, chunked", "Transfer-Encoding: gzip, chunked\r\n", end},
		{"xchunked", "Transfer-Encoding: xchunked\r\n" + length, end},
		{"empty coding", "Transfer-Encoding:\r\n", end},
		{"quoted", "Transfer-Encoding: \"chunked\"\r\n", end},
		{"upper case", "TRANSFER-ENCODING: CHUNKED\r\n" + length, end},
		{"tabs around the value", "Transfer-Encoding:\t chunked \t\r\n" + length, end},
		{"no space after the colon", "Transfer-Encoding:chunked\r\n" + length, end},
		{"space before the colon", "Transfer-Encoding : chunked\r\n" + length, end},
		{"tab before the colon", "Transfer-Encoding\t: chunked\r\n" + length, end},
		{"space before the colon of the length", "Content-Length : 5\r\n" + chunked, end},
		{"vertical tab", "Transfer-Encoding:\vchunked\r\n" + length, end},
		{"control in the name", "\x01Transfer-Encoding: chunked\r\n" + length, end},
		{"underscore", "Transfer_Encoding: chunked\r\n" + chunked, end},
		{"folded value", "Transfer-Encoding:\r\n chunked\r\n" + length, end},
		{"folded list", "Transfer-Encoding: chunked,\r\n identity\r\n" + length, end},
		{"folded into another header", "X-A: b\r\n Content-Length: 5\r\n" + chunked, end},
		{"bare LF before it", "X-A: b\nTransfer-Encoding: chunked\r\n" + length, end},
		{"bare LF behind it", "Transfer-Encoding: chunked\nX-A: b\r\n" + length, end},
		{"bare CR before it", "X-A: b\rTransfer-Encoding: chunked\r\n" + length, end},
		{"bare CR behind it", "Transfer-Encoding: chunked\rX-A: b\r\n" + length, end},
		{"two CR", "Transfer-Encoding: chunked\r\r\n" + length, end},
		{"NUL in the value", "Transfer-Encoding: chunked\x00\r\n" + length, end},
		{"chunk extension", chunked, fmt.Sprintf("%x;a=b\r\n%s\r\n0;c\r\n\r\n{inner}", len(someBody), someBody)},
		{"chunk extension with bare LF", chunked, fmt.Sprintf("%x;a\n%s\r\n0\r\n\r\n{inner}", len(someBody), someBody)},
		{"chunk extension with bare CR", chunked, fmt.Sprintf("%x;a\rb\r\n%s\r\n0\r\n\r\n{inner}", len(someBody), someBody)},
		{"chunk size with bare LF", chunked, fmt.Sprintf("%x\n%s\r\n0\r\n\r\n{inner}", len(someBody), someBody)},
		{"chunk with bare LF behind it", chunked, fmt.Sprintf("%x\r\n%s\n0\r\n\r\n{inner}", len(someBody), someBody)},
		{"chunk end with bare LF", chunked, chunk + "0\n\n{inner}"},
		{"chunk size that overflows", chunked, "10000000000000034\r\n" + someBody + "\r\n0\r\n\r\n{inner}"},
		{"chunk size with 0x", chunked, fmt.Sprintf("0x%x\r\n%s\r\n0\r\n\r\n{inner}", len(someBody), someBody)},
		{"negative chunk size", chunked, "-1\r\n{inner}"},
		{"chunk longer than its size", chunked, "1\r\n" + someBody + "\r\n0\r\n\r\n{inner}"},
		{"empty chunked body", chunked, "0\r\n\r\n{inner}"},
		{"trailer", chunked, chunk + "0\r\nX-A: b\r\n\r\n{inner}"},
		{"trailer that is a length", chunked, chunk + "0\r\nContent-Length: 100000\r\n\r\n{inner}"},
		{"trailer that is a coding", chunked, chunk + "0\r\nTransfer-Encoding: chunked\r\n\r\n{inner}"},
		{"request in a trailer", chunked, chunk + "0\r\n{inner}\r\n\r\n"},
		{"request in a chunk", length + chunked, "{inner-length}\r\n{inner}\r\n0\r\n\r\n"},
		{"expecting 100", "Expect: 100-continue\r\n" + length + chunked, end},
		{"expecting something else", "Expect: 200-ok\r\n" + length + chunked, end},
		{"keep-alive asked for", "Connection: keep-alive\r\n" + length + chunked, end},
		{"keep-alive, hop by hop", "Connection: keep-alive, Transfer-Encoding\r\n" + length + chunked, end},
		{"kilobytes behind it", chunked, chunk + "0\r\n\r\n{inner}" + strings.Repeat(" ", 64<<10)},
	}
}

// routes are request lines with their headers: all endpoints of the project, for accepted and
// refused requests.
var routes = []struct{ name, line, header string }{
	{"endpoint", "POST /rpc HTTP/1.1", "Content-Type: application/json\r\n"},
	{"endpoint by /", "POST / HTTP/1.1", "Content-Type: application/json\r\n"},
	{"HTTP/1.0", "POST /rpc HTTP/1.0", "Content-Type: application/json\r\nConnection: keep-alive\r\n"},
	{"wrong method", "PUT /rpc HTTP/1.1", "Content-Type: application/json\r\n"},
	{"GET", "GET /rpc HTTP/1.1", ""},
	{"HEAD", "HEAD /rpc HTTP/1.1", ""},
	{"OPTIONS", "OPTIONS /rpc HTTP/1.1", ""},
	{"OPTIONS *", "OPTIONS * HTTP/1.1", ""},
	{"CONNECT", "CONNECT {host} HTTP/1.1", ""},
	{"TRACE", "TRACE /rpc HTTP/1.1", ""},
	{"wrong type", "POST /rpc HTTP/1.1", "Content-Type: text/plain\r\n"},
	{"compressed", "POST /rpc HTTP/1.1", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"},
	{"nothing acceptable", "POST /rpc HTTP/1.1", "Content-Type: application/json\r\nAccept: text/html\r\n"},
	{"a stream", "POST /rpc HTTP/1.1", "Content-Type: application/json\r\nAccept: text/event-stream\r\n"},
	{"another origin", "POST /rpc HTTP/1.1", "Content-Type: application/json\r\nOrigin: http://evil.example\r\n"},
	{"no such path", "POST /nope HTTP/1.1", "Content-Type: application/json\r\n"},
	{"health", "GET /healthz HTTP/1.1", ""},
	{"health by POST", "POST /healthz HTTP/1.1", "Content-Type: application/json\r\n"},
	{"page", "GET /index.html HTTP/1.1", ""},
	{"upgrade", "GET /rpc HTTP/1.1", upgradeLines + "Sec-WebSocket-Version: 13\r\n"},
	{"upgrade to another version", "GET /rpc HTTP/1.1", upgradeLines + "Sec-WebSocket-Version: 12\r\n"},
	{"upgrade by POST", "POST /rpc HTTP/1.1", "Content-Type: application/json\r\n" + upgradeLines + "Sec-WebSocket-Version: 13\r\n"},
	{"upgrade to HTTP/2", "POST /rpc HTTP/1.1", "Content-Type: application/json\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"},
	{"MCP", "POST /mcp HTTP/1.1", "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"},
	{"MCP, GET", "GET /mcp HTTP/1.1", "Accept: text/event-stream\r\n"},
	{"MCP, DELETE", "DELETE /mcp HTTP/1.1", ""},
	{"MCP, event stream", "POST /messages HTTP/1.1", "Content-Type: application/json\r\n"},
	{"A2A", "POST /a2a HTTP/1.1", "Content-Type: application/json\r\n"},
	{"A2A, REST", "POST /a2a/v1/message:send HTTP/1.1", "Content-Type: application/json\r\n"},
	{"A2A, card", "GET /a2a/.well-known/agent-card.json HTTP/1.1", ""},
	{"ACP", "POST /acp/runs HTTP/1.1", "Content-Type: application/json\r\n"},
	{"ACP, list", "GET /acp/agents HTTP/1.1", ""},
	{"ACP, ping", "GET /acp/ping HTTP/1.1", ""},
	{"ACP, JSON-RPC", "POST /acp-rpc HTTP/1.1", "Content-Type: application/json\r\n"},
}

const upgradeLines = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// everything returns a listener with all HTTP handlers of the project, and a method that must not
// run.
func everything(t *testing.T, ran *atomic.Int64) *Listener {
	t.Helper()
	m := testMux(nil)
	m.Add("smuggled", jsonrpc.Func(func(context.Context, []int) (any, error) { ran.Add(1); return "ran", nil }))
	mcpServer := mcp.NewServer(mcp.Implementation{Name: "m", Version: "1"}, nil)
	mcpHandler := mcphttp.NewHandler(mcpServer, &mcphttp.Options{Unguarded: true})
	agent := a2a.AgentFunc(func(_ context.Context, _ *a2a.Run) error { return nil })
	a2aServer := a2a.NewServer(a2a.AgentCard{Name: "a", Description: "d", Version: "1"}, agent, nil)
	a2aHandler := &a2ahttp.Server{A2A: a2aServer, Unguarded: true}
	acpServer := acp.NewServer(nil)
	rest, err := acphttp.NewREST(acpServer, nil)
	if err != nil {
		t.Fatal(err)
	}
	rpc, err := acphttp.NewRPC(acpServer, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTime)
		defer cancel()
		_ = mcpHandler.Shutdown(ctx)
		mcpServer.Close()
		a2aServer.Close()
		_ = acpServer.Close() // the test has ended
	})
	pair := mcpHandler.Pair("/messages")
	return &Listener{
		Handler: m,
		Pages:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a page") }),
		Mounts: map[string]Mount{
			"/mcp":      {Handler: mcpHandler},
			"/sse":      {Handler: pair},
			"/messages": {Handler: pair},
			"/a2a":      {Handler: a2aHandler},
			"/a2a/":     {Handler: http.StripPrefix("/a2a", a2aHandler)},
			"/acp/":     {Handler: http.StripPrefix("/acp", rest)},
			"/acp-rpc":  {Handler: rpc},
		},
	}
}

// TestNothingRunsBehindAnAmbiguousBody sends each shape to each route over a raw connection,
// followed by a request that must not run. A final request that may run shows that the method can
// be reached at all.
func TestNothingRunsBehindAnAmbiguousBody(t *testing.T) {
	var ran atomic.Int64
	s := serve(t, everything(t, &ran), "http://127.0.0.1:0")
	address := s.Targets()[0].Address
	const call = `{"jsonrpc":"2.0","id":9,"method":"smuggled","params":[]}`
	inner := fmt.Sprintf("POST /rpc HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, len(call), call)
	fill := strings.NewReplacer("{host}", address, "{inner}", inner, "{inner-length}", fmt.Sprintf("%x", len(inner)))
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range fronts() {
				before := ran.Load()
				text := fill.Replace(r.line + "\r\nHost: {host}\r\n" + r.header + f.header + "\r\n" + f.body)
				answer := exchangeRaw(t, address, text)
				if n := ran.Load() - before; n != 0 {
					t.Errorf("%s: what is behind the body ran %d times\n%.300s", f.name, n, answer)
				}
				if n := strings.Count(answer, "HTTP/1."); n > 1 && !strings.HasPrefix(answer, "HTTP/1.1 100") {
					t.Errorf("%s: %d responses\n%.300s", f.name, n, answer)
				}
				if head, _, _ := strings.Cut(answer, "\r\n\r\n"); answer != "" && strings.HasPrefix(head, "HTTP/1.1 2") && !strings.Contains(head, "\r\nConnection: close") {
					t.Errorf("%s: the connection is not announced to end\n%s", f.name, head)
				}
			}
		})
	}
	if answer := exchangeRaw(t, address, inner+inner); ran.Load() != 2 {
		t.Errorf("two plain requests on one connection ran %d times\n%s", ran.Load(), answer)
	}
}

// exchangeRaw sends text and returns everything that is received until the server closes the
// connection.
func exchangeRaw(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testTime))
	_, sendErr := io.WriteString(conn, text) // a rejection may arrive before all of text is sent
	_ = conn.(*net.TCPConn).CloseWrite()     // makes the server close a persistent connection
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection does not end: %v, %v, after %.300q", err, sendErr, answer)
	}
	return string(answer)
}

// TestResponseBeforeATailArrives checks that the response arrives although kilobytes of unread data
// follow a chunked body.
func TestResponseBeforeATailArrives(t *testing.T) {
	s := serve(t, &Listener{Handler: testMux(nil)}, "http://127.0.0.1:0")
	address := s.Targets()[0].Address
	text := fmt.Sprintf("POST /rpc HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n%s",
		address, len(someBody), someBody, strings.Repeat("GET / HTTP/1.1\r\n", 16<<10))
	for range 20 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(testTime))
		_, _ = io.WriteString(conn, text)                            // the server may close first
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // the connection is closed
		if err != nil {
			t.Fatalf("the response is lost: %v", err)
		}
		body, err := io.ReadAll(answer.Body)
		if want := `{"jsonrpc":"2.0","result":1,"id":1}`; string(body) != want || err != nil {
			t.Fatalf("%q, %v, want %s", body, err, want)
		}
		conn.Close()
	}
}

// TestHTTP2KeepsItsConnection checks that a request of unknown length is not ambiguous in HTTP/2.
func TestHTTP2KeepsItsConnection(t *testing.T) {
	s := serve(t, &Listener{Handler: testMux(nil)}, "http://127.0.0.1:0")
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	address, _, _ := strings.Cut(strings.TrimPrefix(s.Targets()[0].URL(), "http://"), "/")
	conn, err := (&http.Transport{Protocols: protocols}).NewClientConn(t.Context(), "http", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 5 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Targets()[0].URL(), io.MultiReader(strings.NewReader(someBody)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		answer, err := conn.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.ProtoMajor != 2 || answer.StatusCode != http.StatusOK || len(answer.Header["Connection"]) > 0 || err != nil {
			t.Fatalf("%s %s %v %q, %v", answer.Proto, answer.Status, answer.Header, body, err)
		}
	}
}

// TestEveryHandlerEndsAfterChunked checks the source code: users run the handlers in their own
// servers, so that each handler has to close the connection itself.
func TestEveryHandlerEndsAfterChunked(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch first, _, _ := strings.Cut(filepath.ToSlash(name), "/"); first {
			case "bench", "interop", "tools", "examples", "node_modules", ".git", ".cache":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok || f.Name.Name != "ServeHTTP" || f.Recv == nil {
				continue
			}
			found++
			if len(f.Body.List) == 0 || !callsEndAfterChunked(f.Body.List[0]) {
				t.Errorf("%s: ServeHTTP does not begin with guard.EndAfterChunked", filepath.ToSlash(name))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 8 {
		t.Errorf("found %d handlers only: is this the root of the module?", found)
	}
}

func callsEndAfterChunked(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, ok := call.Fun.(*ast.SelectorExpr)
	return ok && name.Sel.Name == "EndAfterChunked"
}
