package mcp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/stream"
)

// wireServer returns the server for the wire tests.
func wireServer(cancelled chan<- error) *mcp.Server {
	s := calculator(nil)
	err := s.AddTool(mcp.Tool{Name: "echo", InputSchema: jsonrpc.Raw(`{"type":"object"}`)}, func(_ context.Context, r *mcp.Request) (*mcp.ToolResult, error) {
		return mcp.TextResult(string(r.Arguments)), nil
	})
	if err != nil {
		panic(err)
	}
	mcp.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		if err := r.Progress(ctx, 1, 2, "waiting"); err != nil {
			return "", err
		}
		<-ctx.Done()
		cancelled <- context.Cause(ctx)
		return "too late", nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "fails"}, func(context.Context, *mcp.Request, struct{}) (string, error) {
		return "", mcp.Errorf("no %s today", "luck")
	})
	mcp.AddTool(s, mcp.Tool{Name: "leaks"}, func(context.Context, *mcp.Request, struct{}) (string, error) {
		return "", io.ErrUnexpectedEOF
	})
	if err := s.AddResource(mcp.Resource{URI: "test://a", Name: "a"}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		return mcp.TextResource(r, "text/plain", "A"), nil
	}); err != nil {
		panic(err)
	}
	return s
}

// A wire is one connection to a server, line by line, as on stdio.
type wire struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

func dialWire(t *testing.T, s *mcp.Server) *wire {
	here, there := net.Pipe()
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Serve(context.WithoutCancel(t.Context()), stream.New(there, stream.Line, nil)); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		here.Close()
		done.Wait()
		s.Close()
	})
	w := &wire{t: t, conn: here, in: bufio.NewScanner(here)}
	w.in.Buffer(nil, 1<<20)
	return w
}

func (w *wire) send(line string) {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(w.conn, line+"\n"); err != nil {
		w.t.Fatalf("send %s: %v", line, err)
	}
}

func (w *wire) want(line string) {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(time.Minute))
	if !w.in.Scan() {
		w.t.Fatalf("no line, want %s: %v", line, w.in.Err())
	}
	if w.in.Text() != line {
		w.t.Fatalf("\n got %s\nwant %s", w.in.Text(), line)
	}
}

// play sends the lines that begin with ">" and expects those that begin with "<".
func (w *wire) play(script string) {
	w.t.Helper()
	script = strings.NewReplacer(
		`$modern`, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`,
		`$server`, `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"calculator","version":"1.0"}}`,
	).Replace(script)
	for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "> "):
			w.send(line[2:])
		case strings.HasPrefix(line, "< "):
			w.want(line[2:])
		case line != "":
			w.t.Fatalf("what is %q?", line)
		}
	}
}

const hello = `
> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"w","version":"1"}}}
< {"jsonrpc":"2.0","result":{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}},"serverInfo":{"name":"calculator","version":"1.0"}},"id":0}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
`

// TestWire compares the bytes of both sides for many conversations.
func TestWire(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"a legacy conversation", hello + `
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"calculator/add","arguments":{"a":42,"b":23}}}
< {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"{\"sum\":65}"}],"structuredContent":{"sum":65}},"id":1}
> {"jsonrpc":"2.0","id":2,"method":"ping"}
< {"jsonrpc":"2.0","result":{},"id":2}`},
		{"a modern request needs no handshake", `
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"calculator/add","arguments":{"a":42,"b":23},$modern}}
< {"jsonrpc":"2.0","result":{"resultType":"complete",$server,"content":[{"type":"text","text":"{\"sum\":65}"}],"structuredContent":{"sum":65}},"id":1}`},
		{"both eras on one connection", hello + `
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",$modern}}
< {"jsonrpc":"2.0","result":{"resultType":"complete",$server,"content":[{"type":"text","text":""}]},"id":1}
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}
< {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""}]},"id":1}`},
		{"ids past 2^53 stay exact", hello + `
> {"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}
< {"jsonrpc":"2.0","result":{},"id":9007199254740993}
> {"jsonrpc":"2.0","id":-9223372036854775808,"method":"ping"}
< {"jsonrpc":"2.0","result":{},"id":-9223372036854775808}
> {"jsonrpc":"2.0","id":"9007199254740993","method":"ping"}
< {"jsonrpc":"2.0","result":{},"id":"9007199254740993"}`},
		{"fractional and null ids are refused", hello + `
> {"jsonrpc":"2.0","id":1.5,"method":"ping"}
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: an id must be a string or an integer"},"id":1.5}
> {"jsonrpc":"2.0","id":1e2,"method":"ping"}
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: an id must be a string or an integer"},"id":1e2}
> {"jsonrpc":"2.0","id":null,"method":"ping"}
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`},
		{"a number in arguments stays exact", hello + `
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":9007199254740993,"f":1.10}}}
< {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"{\"n\":9007199254740993,\"f\":1.10}"}]},"id":1}`},
		{"a malformed line costs one answer", hello + `
> {"jsonrpc":"2.0","id":1,"method":
< {"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}
> {"jsonrpc":"2.0","id":2,"method":"ping"}
< {"jsonrpc":"2.0","result":{},"id":2}`},
		{"keys have one case", hello + `
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"calculator/add","name":"echo","Arguments":{"a":1}}}
< {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""}]},"id":1}
> {"jsonrpc":"2.0","id":2,"Method":"ping"}
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":2}`},
		{"no member twice", hello + `
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"wait"}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: duplicate member"},"id":1}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}
< {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"arguments: duplicate member"}],"isError":true},"id":2}`},
		{"unknown versions, old and new", `
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}
< {"jsonrpc":"2.0","error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2099-01-01"}},"id":1}
> {"jsonrpc":"2.0","id":2,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}
< {"jsonrpc":"2.0","error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"1900-01-01"}},"id":2}`},
		{"an envelope that is not whole", `
> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: _meta has no io.modelcontextprotocol/protocolVersion"},"id":1}
> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: _meta has no io.modelcontextprotocol/clientCapabilities"},"id":2}
> {"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: _meta has no io.modelcontextprotocol/protocolVersion"},"id":3}`},
		{"what the modern era removed", `
> {"jsonrpc":"2.0","id":1,"method":"ping","params":{$modern}}
< {"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}
> {"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"w","version":"1"},$modern}}
< {"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":2}
> {"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"info",$modern}}
< {"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":3}
> {"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"test://a",$modern}}
< {"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":4}`},
		{"before the handshake", `
> {"jsonrpc":"2.0","id":1,"method":"ping"}
< {"jsonrpc":"2.0","result":{},"id":1}
> {"jsonrpc":"2.0","id":2,"method":"tools/list"}
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: not initialized, and no io.modelcontextprotocol/protocolVersion in _meta"},"id":2}`},
		{"one handshake only", hello + `
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"w","version":"1"}}}
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: already initialized"},"id":1}`},
		{"a handshake never ends in the modern era", `
> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2026-07-28","capabilities":{},"clientInfo":{"name":"w","version":"1"}}}
< {"jsonrpc":"2.0","result":{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}},"serverInfo":{"name":"calculator","version":"1.0"}},"id":0}`},
		{"batches in 2025-03-26 only", `
> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"w","version":"1"}}}
< {"jsonrpc":"2.0","result":{"protocolVersion":"2025-03-26","capabilities":{"logging":{},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}},"serverInfo":{"name":"calculator","version":"1.0"}},"id":0}
> [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]
< [{"jsonrpc":"2.0","result":{},"id":1},{"jsonrpc":"2.0","result":{},"id":2}]`},
		{"no batches elsewhere", hello + `
> [{"jsonrpc":"2.0","id":1,"method":"ping"}]
< [{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: no batches in this version"},"id":1}]
> [{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{$modern}}]
< [{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":2}]`},
		{"a tool's failure, its secret, and what is not its fault", hello + `
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fails"}}
< {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"no luck today"}],"isError":true},"id":1}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"leaks"}}
< {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"The tool failed."}],"isError":true},"id":2}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"calculator/add","arguments":{"a":"x","b":1}}}
< {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"arguments: at /a: must be a number, not a string"}],"isError":true},"id":3}
> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"calculator/add","arguments":{"a":1}}}
< {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"arguments: at /b: is required"}],"isError":true},"id":4}
> {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nobody"}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: unknown tool: nobody"},"id":5}`},
		{"an unknown resource, in both eras", hello + `
> {"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://b"}}
< {"jsonrpc":"2.0","error":{"code":-32002,"message":"Resource not found","data":{"uri":"test://b"}},"id":1}
> {"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"test://b",$modern}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Resource not found","data":{"uri":"test://b"}},"id":2}
> {"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"test://a",$modern}}
< {"jsonrpc":"2.0","result":{"resultType":"complete",$server,"ttlMs":0,"cacheScope":"private","contents":[{"uri":"test://a","mimeType":"text/plain","text":"A"}]},"id":3}`},
		{"params that are no object, cursors that are none", hello + `
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: params must be an object"},"id":1}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":[1]}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: arguments must be an object"},"id":3}
> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":7}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: name must be a string"},"id":4}
> {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":null,"_meta":{"progressToken":1.5}}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: progressToken must be a string or an integer"},"id":5}
> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"zzz"}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: cursor was not issued by this server"},"id":2}`},
		{"unknown notifications and responses are ignored", hello + `
> {"jsonrpc":"2.0","method":"notifications/unheard"}
> {"jsonrpc":"2.0","id":77,"result":{}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4711}}
> {"jsonrpc":"2.0","id":1,"method":"ping"}
< {"jsonrpc":"2.0","result":{},"id":1}`},
		{"levels of logging", hello + `
> {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}
< {"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: unknown log level"},"id":1}
> {"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"warning"}}
< {"jsonrpc":"2.0","result":{},"id":2}`},
		{"a subscription keeps the type of its id, and its result says which it was", `
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["test://a"]},$modern}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"resourceSubscriptions":["test://a"]}}}
> {"jsonrpc":"2.0","id":"1","method":"subscriptions/listen","params":{"notifications":{},$modern}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},"notifications":{}}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo",$modern}}
< {"jsonrpc":"2.0","result":{"resultType":"complete",$server,"content":[{"type":"text","text":""}]},"id":2}`},
	} {
		t.Run(c.name, func(t *testing.T) { dialWire(t, wireServer(make(chan error, 1))).play(c.script) })
	}
}

// TestCancelledCallIsSilent checks that a cancelled call ends its handler and gets no response.
func TestCancelledCallIsSilent(t *testing.T) {
	cancelled := make(chan error, 1)
	w := dialWire(t, wireServer(cancelled))
	w.play(hello + `
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","_meta":{"progressToken":"tok"}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":1,"total":2,"message":"waiting"}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	if err := eventually(t, cancelled); err != jsonrpc.ErrPeerCancelled {
		t.Errorf("cause %v", err)
	}
	w.play(`
> {"jsonrpc":"2.0","id":2,"method":"ping"}
< {"jsonrpc":"2.0","result":{},"id":2}`)
}

// TestListenEndsWithResult checks that a subscription ends with a result when the server is closed.
func TestListenEndsWithResult(t *testing.T) {
	s := wireServer(make(chan error, 1))
	w := dialWire(t, s)
	w.play(`
> {"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},$modern}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true}}}`)
	s.RemoveTools("echo")
	w.play(`< {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`)
	go s.Close()
	w.play(`< {"jsonrpc":"2.0","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":7,"io.modelcontextprotocol/serverInfo":{"name":"calculator","version":"1.0"}}},"id":7}`)
}

// TestListenTellsNothingElse checks that only selected notifications are sent.
func TestListenTellsNothingElse(t *testing.T) {
	s := wireServer(make(chan error, 1))
	w := dialWire(t, s)
	w.play(`
> {"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"promptsListChanged":true,"resourceSubscriptions":["test://b"]},$modern}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"promptsListChanged":true,"resourceSubscriptions":["test://b"]}}}`)
	s.RemoveTools("echo")
	s.RemoveResources("test://a")
	s.ResourceUpdated("test://a")
	s.ResourceUpdated("test://b")
	w.play(`< {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"uri":"test://b"}}`)
}

// TestModernServerAnswersHandshake checks that a server of only the modern era returns its versions
// to a client that only supports handshakes.
func TestModernServerAnswersHandshake(t *testing.T) {
	w := dialWire(t, calculator(&mcp.ServerOptions{Versions: []mcp.Version{mcp.V20260728}}))
	w.play(`
> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"w","version":"1"}}}
< {"jsonrpc":"2.0","error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}},"id":0}`)
}
