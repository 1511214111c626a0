package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func TestNeedURL(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
		t.Run(v.String(), func(t *testing.T) {
			s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
			var paid atomic.Bool
			tried := make(chan struct{}, 10)
			mcp.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
				tried <- struct{}{}
				if paid.Load() {
					return "paid", nil
				}
				if err := r.NeedURL(ctx, mcp.Elicitation{Mode: mcp.ElicitURL, Message: "Pay", URL: "https://example.com/pay"}); err != nil {
					return "", err
				}
				return "paid", nil
			})
			mcp.AddTool(s, mcp.Tool{Name: "done"}, func(_ context.Context, r *mcp.Request, in struct {
				ID string `json:"id"`
			}) (string, error) {
				paid.Store(true)
				r.Session().ElicitationComplete(in.ID)
				return "", nil
			})
			o := answering()
			o.ElicitURL = true
			ids := make(chan string, 1)
			o.Elicit = func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
				ids <- e.ElicitationID
				return &mcp.ElicitResult{Action: mcp.ActionAccept}, nil
			}
			changes := make(chan mcp.Change, 1)
			o.OnChange = func(ch mcp.Change) { changes <- ch }
			c := connect(t, s, o, v)
			if v.Modern() {
				got, err := c.CallTool(t.Context(), "pay", nil, nil)
				if err != nil || got.Text() != "paid" {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			// The user has agreed to visit the URL, and the server waits for the payment: the call
			// is repeated until then.
			result := make(chan string, 1)
			go func() {
				got, err := c.CallTool(t.Context(), "pay", nil, nil)
				result <- fmt.Sprint(got.Text(), err)
			}()
			id := eventually(t, ids)
			eventually(t, tried)
			eventually(t, tried)
			_, err := c.CallTool(t.Context(), "done", map[string]string{"id": id}, nil)
			must(t, err)
			if ch := eventually(t, changes); ch.ID != id || id == "" {
				t.Errorf("heard %+v, want %s", ch, id)
			}
			if got := eventually(t, result); got != "paid<nil>" {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestLogger(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "log"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		l := r.Logger("tool").With("a", 1).WithGroup("g")
		l.DebugContext(ctx, "too fine")
		l.WarnContext(ctx, "careful", slog.String("b", "c"))
		return "", nil
	})
	logs := make(chan *mcp.LogParams, 2)
	c := connect(t, s, mcp.ClientOptions{LogLevel: mcp.LevelInfo, OnLog: func(p *mcp.LogParams) { logs <- p }})
	_, err := c.CallTool(t.Context(), "log", nil, nil)
	must(t, err)
	got := eventually(t, logs)
	if got.Level != mcp.LevelWarning || got.Logger != "tool" || string(got.Data) != `{"msg":"careful","a":1,"g":{"b":"c"}}` || len(logs) != 0 {
		t.Errorf("%v %s %s", got.Level, got.Logger, got.Data)
	}
}

// TestNoProgressIsLost checks that no notification about a call is lost, also if they are fast.
func TestNoProgressIsLost(t *testing.T) {
	const many = 20_000
	each(t, func(t *testing.T, v mcp.Version) {
		s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
		mcp.AddTool(s, mcp.Tool{Name: "count"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			for i := range many {
				if err := r.Progress(ctx, float64(i+1), many, ""); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		here, there := pipe(t, s)
		defer there()
		c, err := mcp.Connect(t.Context(), here, mcp.Implementation{}, &mcp.ClientOptions{Versions: []mcp.Version{v}})
		must(t, err)
		defer c.Close()
		n := 0
		_, err = c.CallTool(t.Context(), "count", nil, &mcp.CallOptions{Progress: func(p mcp.Progress) {
			if n++; p.Progress != float64(n) {
				t.Errorf("step %v after %d", p.Progress, n-1)
			}
		}})
		must(t, err)
		if n != many {
			t.Errorf("%d of %d came", n, many)
		}
	})
}

func TestCancelReachesTheHandler(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		cancelled := make(chan error, 1)
		c := connect(t, wireServer(cancelled), mcp.ClientOptions{}, v)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.CallTool(ctx, "wait", nil, &mcp.CallOptions{Progress: func(mcp.Progress) { cancel() }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := eventually(t, cancelled); !errors.Is(err, jsonrpc.ErrPeerCancelled) {
			t.Errorf("the handler saw %v", err)
		}
	})
}

func TestClientChecksResults(t *testing.T) {
	// A server that sends a result outside its schema, written by hand: a Server would not send it.
	liar := jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		switch req.Method {
		case mcp.MethodInitialize:
			return jsonrpc.Raw(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}`), nil
		case mcp.MethodToolsList:
			return jsonrpc.Raw(`{"tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["a"]}}]}`), nil
		case mcp.MethodToolsCall:
			return jsonrpc.Raw(`{"content":[],"structuredContent":{"b":1}}`), nil
		}
		return nil, jsonrpc.ErrMethodNotFound
	})
	c := connectTo(t, liar, mcp.ClientOptions{CheckResults: true})
	for _, err := range c.Tools(t.Context()) {
		must(t, err)
	}
	if _, err := c.CallTool(t.Context(), "t", nil, nil); !errors.Is(err, mcp.ErrResultSchema) {
		t.Errorf("got %v", err)
	}
}

// TestResultsOutliveTheirText checks that ParseJSON retains nothing of its argument, which belongs
// to a buffer of the connection.
func TestResultsOutliveTheirText(t *testing.T) {
	text := []byte(`{"content":[{"type":"text","text":"plain"},{"type":"text","text":"more","_meta":{"m":1}}],"structuredContent":{"a":[1,"b"]},"_meta":{"k":{"v":2}}}`)
	var r mcp.ToolResult
	must(t, r.ParseJSON(text))
	for i := range text {
		text[i] = 'X'
	}
	if string(r.Structured) != `{"a":[1,"b"]}` || r.Content[0].Text != "plain" || r.Content[1].Text != "more" ||
		string(r.Content[1].Meta["m"]) != "1" || string(r.Meta["k"]) != `{"v":2}` {
		t.Errorf("after the buffer was reused: %s, %+v, %s", r.Structured, r.Content, r.Meta["k"])
	}
}

// TestHostileOutputSchema checks that validation with an extremely expensive output schema ends
// with the context of the call, and by its own limit.
func TestHostileOutputSchema(t *testing.T) {
	const schema = `{"type":"object","$ref":"#/$defs/n","$defs":{"n":{"properties":{"a":{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}`
	value := strings.Repeat(`{"a":`, 200) + "{}" + strings.Repeat("}", 200)
	liar := jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		switch req.Method {
		case mcp.MethodInitialize:
			return jsonrpc.Raw(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}`), nil
		case mcp.MethodToolsList:
			return jsonrpc.Raw(`{"tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":` + schema + `}]}`), nil
		case mcp.MethodToolsCall:
			return jsonrpc.Raw(`{"content":[],"structuredContent":` + value + `}`), nil
		}
		return nil, jsonrpc.ErrMethodNotFound
	})
	c := connectTo(t, liar, mcp.ClientOptions{CheckResults: true})
	for _, err := range c.Tools(t.Context()) {
		must(t, err)
	}
	if _, err := c.CallTool(t.Context(), "t", nil, nil); !errors.Is(err, mcp.ErrResultSchema) || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

// TestProbeOfOldServers checks that old servers, which respond to the modern request in many ways,
// always get a handshake.
func TestProbeOfOldServers(t *testing.T) {
	for _, answer := range []error{
		jsonrpc.ErrMethodNotFound, jsonrpc.ErrInvalidParams, jsonrpc.ErrInvalidRequest, jsonrpc.NewError(-32002, "not initialized"), jsonrpc.NewError(0, "what?"),
	} {
		old := jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
			switch req.Method {
			case mcp.MethodInitialize:
				return jsonrpc.Raw(`{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"o","version":"1"}}`), nil
			case mcp.NotifyInitialized:
				return nil, nil
			}
			return nil, answer
		})
		if c := connectTo(t, old, mcp.ClientOptions{}); c.Version() != mcp.V20241105 {
			t.Errorf("%v: version %v", answer, c.Version())
		}
	}
	silent := jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		if req.Method == mcp.MethodInitialize {
			return jsonrpc.Raw(`{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"o","version":"1"}}`), nil
		}
		if req.Method == mcp.MethodDiscover {
			<-ctx.Done()
		}
		return nil, nil
	})
	if c := connectTo(t, silent, mcp.ClientOptions{Probe: 20_000_000}); c.Version() != mcp.V20250326 {
		t.Errorf("a silent server: version %v", c.Version())
	}
	future := jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		return nil, mcp.ErrUnsupportedVersion.WithData(mcp.UnsupportedVersionData{Supported: []string{"2031-01-01"}, Requested: "2026-07-28"})
	})
	here, stop := pipeTo(t, future)
	defer stop()
	if _, err := mcp.Connect(t.Context(), here, mcp.Implementation{}, nil); !errors.Is(err, mcp.ErrNoCommonVersion) || !strings.Contains(fmt.Sprint(err), "2031-01-01") {
		t.Errorf("a server from the future: %v", err)
	}
}

// TestHandshakeIsNotCancelled checks that a handshake is not cancelled on the wire: the client
// closes the connection instead.
func TestHandshakeIsNotCancelled(t *testing.T) {
	asked := make(chan struct{})
	var heard []string
	stuck := jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		if heard = append(heard, req.Method); req.Method == mcp.MethodInitialize {
			close(asked)
			<-ctx.Done()
		}
		return nil, nil
	})
	here, there := inproc.Pipe(nil)
	conn := jsonrpc.NewConn(there)
	conn.Handler = stuck // without Cancellation, so that a cancellation would be detected
	conn.Start(context.WithoutCancel(t.Context()))
	stop := func() { conn.Close() }
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err := mcp.Connect(ctx, here, mcp.Implementation{}, &mcp.ClientOptions{Versions: []mcp.Version{mcp.V20251125}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	stop()
	if fmt.Sprint(heard) != "[initialize]" {
		t.Errorf("the server heard %v", heard)
	}
}
