package mcp_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

func TestCallInEveryRevision(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		c := connect(t, calculator(nil), mcp.ClientOptions{}, v)
		if c.Version() != v {
			t.Fatalf("version %v, want %v", c.Version(), v)
		}
		if got := c.ServerInfo().Name; got != "calculator" {
			t.Errorf("server is %q", got)
		}
		var names []string
		for tool, err := range c.Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
			if has := tool.OutputSchema != nil; has != v.HasStructuredContent() {
				t.Errorf("output schema: %s", tool.OutputSchema)
			}
		}
		if len(names) != 1 || names[0] != "calculator/add" {
			t.Errorf("tools %v", names)
		}
		got, err := c.CallTool(t.Context(), "calculator/add", sumIn{42, 23}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Text() != `{"sum":65}` || got.IsError {
			t.Errorf("result %+v", got)
		}
		if v.HasStructuredContent() != (string(got.Structured) == `{"sum":65}`) {
			t.Errorf("structured %s", got.Structured)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("ping: %v", err)
		}
	})
}

func TestEraIsDetected(t *testing.T) {
	for _, c := range []struct {
		name   string
		server []mcp.Version
		client []mcp.Version
		want   mcp.Version
	}{
		{"both new", nil, nil, mcp.V20260728},
		{"old server", []mcp.Version{mcp.V20241105}, nil, mcp.V20241105},
		{"old client", nil, []mcp.Version{mcp.V20250618, mcp.V20241105}, mcp.V20250618},
		{"legacy server, newest first", []mcp.Version{mcp.V20250326, mcp.V20251125}, nil, mcp.V20251125},
		{"modern server only", []mcp.Version{mcp.V20260728}, nil, mcp.V20260728},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := connect(t, calculator(&mcp.ServerOptions{Versions: c.server}), mcp.ClientOptions{}, c.client...)
			if got.Version() != c.want {
				t.Errorf("version %v, want %v", got.Version(), c.want)
			}
		})
	}
}

func TestNoCommonVersionFailsQuickly(t *testing.T) {
	for _, c := range []struct{ server, client mcp.Version }{{mcp.V20241105, mcp.V20260728}, {mcp.V20260728, mcp.V20241105}} {
		s := calculator(&mcp.ServerOptions{Versions: []mcp.Version{c.server}})
		_, err := mcp.Connect(t.Context(), serve(t, s), mcp.Implementation{}, &mcp.ClientOptions{Versions: []mcp.Version{c.client}})
		if err == nil {
			t.Errorf("a %v client connected to a %v server", c.client, c.server)
		}
	}
}

// TestLocal checks that a server in the same process behaves like one behind a transport.
func TestLocal(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		var runs, computed atomic.Int32
		s := booking(&runs, &computed)
		defer s.Close()
		mcp.AddTool(s, mcp.Tool{Name: "step"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			return "ok", r.Progress(ctx, 1, 2, "half")
		})
		o := answering()
		o.Versions = []mcp.Version{v}
		changes := make(chan mcp.Change, 9)
		o.OnChange = func(ch mcp.Change) { changes <- ch }
		c, err := mcp.ConnectLocal(t.Context(), s, mcp.Implementation{Name: "l", Version: "1"}, &o)
		must(t, err)
		if v.HasElicitation() {
			got, err := c.CallTool(t.Context(), "book-table", nil, nil)
			if err != nil || got.IsError {
				t.Errorf("book-table: %+v, %v", got, err)
			}
		}
		var steps []float64
		_, err = c.CallTool(t.Context(), "step", nil, &mcp.CallOptions{Progress: func(p mcp.Progress) { steps = append(steps, p.Progress) }})
		if err != nil || len(steps) != 1 {
			t.Errorf("step: %v, %v", steps, err)
		}
		ended := make(chan error)
		go func() {
			ended <- c.Listen(t.Context(), mcp.Filter{ToolsListChanged: true}, func(ch mcp.Change) error {
				if ch.Method == mcp.NotifyAcknowledged {
					s.RemoveTools("step")
				}
				return nil
			})
		}()
		if ch := eventually(t, changes); ch.Method != mcp.NotifyToolsChanged {
			t.Errorf("heard %+v", ch)
		}
		must(t, c.Close())
		if err := eventually(t, ended); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("Listen: %v", err)
		}
		if _, err := c.CallTool(t.Context(), "step", nil, nil); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestListenEndsWithTheServer checks that Listen returns when the server is gone.
func TestListenEndsWithTheServer(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		here, stop := pipe(t, calculator(nil))
		c, err := mcp.Connect(t.Context(), here, mcp.Implementation{Name: "l", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{v}})
		must(t, err)
		defer c.Close()
		err = c.Listen(t.Context(), mcp.Filter{ToolsListChanged: true}, func(ch mcp.Change) error {
			if ch.Method == mcp.NotifyAcknowledged {
				go stop()
			}
			return nil
		})
		if err == nil {
			t.Error("it ended without an error")
		}
	})
}
