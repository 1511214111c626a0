package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/inproc"
	"github.com/da1ed7bb/parley/transport/socket"
	"github.com/da1ed7bb/parley/transport/sse"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// A transport connects a client with the given options to a site. The client is
// closed at the end of the test.
type transport func(t *testing.T, w *site, o mcp.ClientOptions) *mcp.Client

var me = mcp.Implementation{Name: "test", Version: "1"}

// transports maps the names of all transports to functions that connect a client to the same
// server.
var transports = map[string]transport{
	"streamable": func(t *testing.T, w *site, o mcp.ClientOptions) *mcp.Client {
		return must(mcphttp.Connect(t.Context(), w.URL+"/mcp", me, &mcphttp.ClientOptions{Client: o}))(t)
	},
	"pair": func(t *testing.T, w *site, o mcp.ClientOptions) *mcp.Client {
		return must(mcp.Connect(t.Context(), must(sse.Dial(t.Context(), w.URL+"/sse", nil))(t), me, &o))(t)
	},
	"websocket": func(t *testing.T, w *site, o mcp.ClientOptions) *mcp.Client {
		served := make(chan struct{})
		web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			transport, err := websocket.Upgrade(rw, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				defer close(served)
				_ = w.mcp.Serve(context.Background(), transport) // the client closes the connection
			}()
		}))
		t.Cleanup(func() { <-served; web.Close() })
		return must(mcp.Connect(t.Context(), must(websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(web.URL, "http"), nil))(t), me, &o))(t)
	},
	"unix": func(t *testing.T, w *site, o mcp.ClientOptions) *mcp.Client {
		path := filepath.Join(t.TempDir(), "s")
		l := must(socket.Listen(t.Context(), "unix", path, nil))(t)
		served := make(chan error, 1)
		go func() {
			transport, err := l.Accept()
			if err == nil {
				err = w.mcp.Serve(context.Background(), transport)
			}
			served <- err
		}()
		t.Cleanup(func() {
			if err := errors.Join(l.Close(), <-served); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
		return must(mcp.Connect(t.Context(), must(socket.Dial(t.Context(), "unix", path, nil))(t), me, &o))(t)
	},
	"inproc": func(t *testing.T, w *site, o mcp.ClientOptions) *mcp.Client {
		here, there := inproc.Pipe(nil)
		served := make(chan error, 1)
		go func() { served <- w.mcp.Serve(context.Background(), there) }()
		t.Cleanup(func() {
			// the client closes the connection during a call
			if err := <-served; err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Error(err)
			}
		})
		return must(mcp.Connect(t.Context(), here, me, &o))(t)
	},
}

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestCarriers runs the same conversation over every transport, in every version that the transport
// supports. In each, the client disconnects during a call whose handler ends some time later. On a
// connection this takes the drain timeout; all clients are closed concurrently, so that these waits
// overlap.
func TestCarriers(t *testing.T) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sites := map[mcp.Version]*site{}
			var leave []func()
			for _, v := range mcp.Versions() {
				if name == "streamable" && v == mcp.V20241105 {
					continue // the transport is newer
				}
				w := newSite(t, nil)
				c := connect(t, w, mcp.ClientOptions{
					Versions: []mcp.Version{v},
					Elicit: func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) {
						return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{}`)}, nil
					},
				})
				hangUp := sync.OnceFunc(func() {
					if err := c.Close(); err != nil {
						t.Logf("%s: close: %v", v, err) // the peer may have closed the connection
					}
				})
				t.Cleanup(hangUp)
				t.Run(v.String(), func(t *testing.T) {
					if c.Version() != v {
						t.Fatalf("agreed on %s", c.Version())
					}
					converse(t, w, c)
				})
				sites[v] = w
				leave = append(leave, hangUp)
			}
			var gone sync.WaitGroup
			for _, hangUp := range leave {
				gone.Go(hangUp)
			}
			gone.Wait()
			for v, w := range sites {
				if err := within(t, w.ended); err == nil {
					t.Errorf("%s: the handler went on without its client", v)
				}
			}
		})
	}
}

// converse tries each direction, and leaves the client during a call.
func converse(t *testing.T, w *site, c *mcp.Client) {
	changed := make(chan mcp.Change, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result, err := c.CallTool(ctx, "calculator/add", map[string]int{"a": 40, "b": 2}, nil)
	if err != nil || result.Text() != "42" {
		t.Errorf("add: %v, %v", result, err)
	}
	steps := ""
	result, err = c.CallTool(ctx, "count", map[string]int{"to": 3}, &mcp.CallOptions{Progress: func(p mcp.Progress) { steps += fmt.Sprint(p.Progress, " ") }})
	if err != nil || result.Text() != "counted" || steps != "1 2 3 " {
		t.Errorf("count: %v, %v, progress %q", result, err, steps)
	}
	result, err = c.CallTool(ctx, "book", struct{}{}, nil)
	switch {
	case err != nil:
		t.Errorf("book: %v", err)
	case c.Version().HasElicitation() && result.Text() != mcp.ActionAccept:
		t.Errorf("book: %q", result.Text())
	case !c.Version().HasElicitation() && !result.IsError:
		t.Errorf("book asked a client that knows no questions: %q", result.Text())
	}
	listening := make(chan error, 1)
	go func() {
		listening <- c.Listen(ctx, mcp.Filter{ToolsListChanged: true}, func(what mcp.Change) error { changed <- what; return nil })
	}()
	if what := within(t, changed); what.Method != mcp.NotifyAcknowledged {
		t.Errorf("listen began with %v", what)
	}
	w.mcp.RemoveTools("region")
	if what := within(t, changed); what.Method != mcp.NotifyToolsChanged {
		t.Errorf("heard of %v", what)
	}
	cancel()
	<-listening
	// ends with the client
	go func() { _, _ = c.CallTool(context.WithoutCancel(t.Context()), "wait", struct{}{}, nil) }()
	within(t, w.started)
}
