package interop

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	legacy "net/rpc/jsonrpc"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/handler"
	"github.com/creachadair/jrpc2/jhttp"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
	ethereum "github.com/ethereum/go-ethereum/rpc"
)

func TestJaysonServer(t *testing.T) {
	t.Parallel()
	at := harness.Server(t, harness.Node(t, "server-jayson.mjs"))
	for _, name := range slices.Sorted(maps.Keys(at)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := strings.HasSuffix(name, "1.0")
			ourClient(t, address(t, at[name]), peerServer{rounds: true, positional: old, noBatch: old})
		})
	}
}

func TestJSONRPC20Server(t *testing.T) {
	t.Parallel()
	at := harness.Server(t, harness.Node(t, "server-json-rpc-2.0.mjs"))
	for _, name := range slices.Sorted(maps.Keys(at)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ourClient(t, address(t, at[name]), peerServer{rounds: true, duplex: name == "ws"})
		})
	}
}

func TestVSCodeServer(t *testing.T) {
	t.Parallel()
	at := child(t, harness.Node(t, "server-vscode.mjs"))
	ourClient(t, at, peerServer{rounds: true, noBatch: true, duplex: true, cancels: true})
	t.Run("progress", func(t *testing.T) {
		type progress struct {
			Token string `json:"token"`
			Value struct {
				Kind       string  `json:"kind"`
				Percentage float64 `json:"percentage"`
			} `json:"value"`
		}
		b := newBack()
		got := make(chan progress, 100)
		b.Add("$/progress", jsonrpc.Func(func(_ context.Context, in progress) (any, error) {
			got <- in
			return nil, nil
		}))
		client := dial(t, at, b)
		defer client.Close()
		done, err := jsonrpc.Call[string](t.Context(), client, "work", map[string]any{"workDoneToken": "one", "steps": 4})
		if err != nil || done != "done" {
			t.Errorf("work = %q, %v", done, err)
		}
		for _, want := range []float64{25, 50, 75, 100} {
			if p := await(t.Context(), t, got, "progress"); p.Token != "one" || p.Value.Percentage != want {
				t.Errorf("progress %+v, want %g", p, want)
			}
		}
	})
}

func TestPylspServer(t *testing.T) {
	t.Parallel()
	ourClient(t, child(t, harness.Python(t, "server_pylsp.py")), peerServer{noBatch: true, duplex: true})
}

func TestFastAPIServer(t *testing.T) {
	t.Parallel()
	at := harness.Server(t, harness.Python(t, "server_fastapi.py"))
	ourClient(t, address(t, at["http"]), peerServer{})
}

// Arithmetic is a service of the standard library's RPC: one parameter per call.
type Arithmetic struct{}

// Operands is that parameter.
type Operands struct{ Minuend, Subtrahend int }

// Subtract returns the difference.
func (Arithmetic) Subtract(in Operands, out *int) error {
	*out = in.Minuend - in.Subtrahend
	return nil
}

// Fail returns an error with the given text.
func (Arithmetic) Fail(text string, _ *int) error { return errors.New(text) }

// TestStandardLibraryServer uses the standard library's server, which supports JSON-RPC 1.0.
func TestStandardLibraryServer(t *testing.T) {
	t.Parallel()
	old := rpc.NewServer()
	if err := old.Register(Arithmetic{}); err != nil {
		t.Fatal(err)
	}
	listener := listen(t, "tcp", "127.0.0.1:0")
	serveEach(t, listener, func(c net.Conn) { old.ServeCodec(legacy.NewServerCodec(c)) })
	client := dial(t, address(t, "tcp://"+listener.Addr().String()+"?jsonrpc=1.0"), nil)
	defer client.Close()
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			if n, err := jsonrpc.Call[int](t.Context(), client, "Arithmetic.Subtract", []Operands{{i, 23}}); err != nil || n != i-23 {
				t.Errorf("subtract %d = %d, %v", i, n, err)
			}
		})
	}
	wait.Wait()
	// Its errors are texts, where 1.0 requires an object.
	if err := client.Call(t.Context(), "Arithmetic.Fail", []string{"as asked 🌍"}, nil); err == nil || !strings.Contains(err.Error(), "as asked 🌍") {
		t.Errorf("fail = %v", err)
	}
	if n, err := jsonrpc.Call[int](t.Context(), client, "Arithmetic.Subtract", []Operands{{42, 23}}); err != nil || n != 19 {
		t.Errorf("the call after it = %d, %v", n, err)
	}
}

// service implements the demo methods for servers that are based on Go functions.
type service struct {
	mu  sync.Mutex // guards log
	log []json.RawMessage
}

func (s *service) keep(event json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, event)
}

func (s *service) kept() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func pause(ctx context.Context, ms int) (int, error) {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ms, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// jrpc2Methods returns the demo methods of a jrpc2 server, which can call its client if push is
// set.
func jrpc2Methods(s *service) handler.Map {
	return handler.Map{
		"subtract": handler.NewPos(func(_ context.Context, a, b int) int { return a - b }, "minuend", "subtrahend"),
		"add":      handler.NewPos(func(_ context.Context, a, b int) int { return a + b }, "a", "b"),
		"get_data": func(context.Context, *jrpc2.Request) (any, error) { return []any{"hello", 5}, nil },
		"echo": func(_ context.Context, r *jrpc2.Request) (any, error) {
			return json.RawMessage(r.ParamString()), nil
		},
		"update":     func(context.Context, *jrpc2.Request) (any, error) { return nil, nil },
		"notify_sum": func(context.Context, *jrpc2.Request) (any, error) { return nil, nil },
		"fail": func(_ context.Context, r *jrpc2.Request) (any, error) {
			var code int
			var message string
			var data json.RawMessage
			if err := r.UnmarshalParams(&handler.Args{&code, &message, &data}); err != nil {
				return nil, err
			}
			e := &jrpc2.Error{Code: jrpc2.Code(code), Message: message}
			if string(data) != "null" {
				e.Data = data
			}
			return nil, e
		},
		"sleep": handler.NewPos(pause, "ms"),
		"log_event": func(_ context.Context, r *jrpc2.Request) (any, error) {
			s.keep(json.RawMessage(r.ParamString()))
			return nil, nil
		},
		"get_log": func(context.Context, *jrpc2.Request) (any, error) { return s.kept(), nil },
		"ask": func(ctx context.Context, r *jrpc2.Request) (any, error) {
			answer, err := jrpc2.ServerFromContext(ctx).Callback(ctx, "answer", json.RawMessage(r.ParamString()))
			if err != nil {
				return nil, err
			}
			return json.RawMessage(answer.ResultString()), nil
		},
		"countdown": func(ctx context.Context, r *jrpc2.Request) (any, error) {
			var in struct{ From int }
			if err := r.UnmarshalParams(&in); err != nil {
				return nil, err
			}
			for left := in.From; left > 0; left-- {
				if err := jrpc2.ServerFromContext(ctx).Notify(ctx, "countdown/tick", map[string]int{"left": left}); err != nil {
					return nil, err
				}
			}
			return "liftoff", nil
		},
		"$/cancelRequest": func(ctx context.Context, r *jrpc2.Request) (any, error) {
			var in struct{ ID json.RawMessage }
			if err := r.UnmarshalParams(&in); err != nil {
				return nil, err
			}
			jrpc2.ServerFromContext(ctx).CancelRequest(string(in.ID))
			return nil, nil
		},
	}
}

func TestJRPC2Server(t *testing.T) {
	t.Parallel()
	methods := jrpc2Methods(new(service))
	// It runs at most Concurrency handlers at once, including waiting ones.
	options := &jrpc2.ServerOptions{AllowPush: true, Concurrency: 64}
	for name, framing := range map[string]channel.Framing{"tcp": channel.Line, "tcp header": channel.Header(""), "tcp typed": channel.LSP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := listen(t, "tcp", "127.0.0.1:0")
			serveEach(t, listener, func(c net.Conn) { _ = jrpc2.NewServer(methods, options).Start(framing(c, c)).Wait() })
			at := "tcp://" + listener.Addr().String()
			if name != "tcp" {
				at += "?framing=header"
			}
			ourClient(t, address(t, at), peerServer{duplex: true, cancels: true})
		})
	}
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		bridge := jhttp.NewBridge(methods, &jhttp.BridgeOptions{Server: options})
		web := httptest.NewServer(bridge)
		t.Cleanup(func() {
			web.Close()
			_ = bridge.Close()
		})
		ourClient(t, address(t, web.URL+"/"), peerServer{cancels: true, loose: true})
	})
}

func listen(t *testing.T, network, at string) net.Listener {
	t.Helper()
	listener, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// serveEach calls serve with each connection, and waits for all of them when the test ends.
func serveEach(t *testing.T, listener net.Listener, serve func(net.Conn)) {
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // closed below
			}
			running.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
}

// ethereumService provides the demo methods in go-ethereum's form: Get_data is demo_get_data on the
// wire.
type ethereumService struct{ service }

type ethereumError struct {
	code    int
	message string
	data    any
}

func (e *ethereumError) Error() string  { return e.message }
func (e *ethereumError) ErrorCode() int { return e.code }
func (e *ethereumError) ErrorData() any { return e.data }

func (*ethereumService) Subtract(a, b int) int { return a - b }
func (*ethereumService) Add(a, b int) int      { return a + b }
func (*ethereumService) Get_data() []any       { return []any{"hello", 5} }
func (*ethereumService) Echo(value json.RawMessage) []json.RawMessage {
	return []json.RawMessage{value}
}
func (*ethereumService) Update(int)                                     {}
func (*ethereumService) Notify_sum(int)                                 {}
func (*ethereumService) Sleep(ctx context.Context, ms int) (int, error) { return pause(ctx, ms) }
func (s *ethereumService) Log_event(event json.RawMessage)              { s.keep(event) }
func (s *ethereumService) Get_log() []json.RawMessage                   { return s.kept() }
func (*ethereumService) Fail(code int, message string, data *json.RawMessage) error {
	e := &ethereumError{code: code, message: message}
	if data != nil {
		e.data = data
	}
	return e
}

// Ticks is a subscription: demo_subscribe returns its id, and demo_subscription delivers its
// events.
func (*ethereumService) Ticks(ctx context.Context, from int) (*ethereum.Subscription, error) {
	notifier, ok := ethereum.NotifierFromContext(ctx)
	if !ok {
		return nil, ethereum.ErrNotificationsUnsupported
	}
	s := notifier.CreateSubscription()
	go func() {
		for left := from; left > 0; left-- {
			if notifier.Notify(s.ID, left) != nil {
				return // the connection is closed
			}
		}
	}()
	return s, nil
}

// ethereumServer serves ethereumService over HTTP at "/", and over WebSocket at "/ws".
func ethereumServer(t *testing.T) (*ethereum.Server, *httptest.Server) {
	t.Helper()
	eth := ethereum.NewServer()
	t.Cleanup(eth.Stop)
	if err := eth.RegisterName("demo", new(ethereumService)); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", eth)
	mux.Handle("/ws", eth.WebsocketHandler(nil))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return eth, web
}

func TestEthereumServer(t *testing.T) {
	t.Parallel()
	eth, web := ethereumServer(t)
	path := socketPath(t)
	ipc := listen(t, "unix", path)
	served := make(chan error, 1)
	go func() { served <- eth.ServeListener(ipc) }()
	t.Cleanup(func() {
		_ = ipc.Close()
		<-served // it returns that the listener is closed
	})
	host := strings.TrimPrefix(web.URL, "http://")
	for name, at := range map[string]string{"http": web.URL + "/", "websocket": "ws://" + host + "/ws", "ipc": "unix:" + path} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// It has no message for cancelling, and runs each message of a connection on a separate
			// goroutine.
			ourClient(t, address(t, at), peerServer{prefix: "demo_", positional: true, loose: true, cancels: name == "http"})
			if name != "http" {
				ethereumSubscription(t, at)
			}
		})
	}
}

func ethereumSubscription(t *testing.T, at string) {
	t.Helper()
	type event struct {
		Subscription string `json:"subscription"`
		Result       int    `json:"result"`
	}
	events := make(chan event, 10)
	b := newBack()
	b.Add("demo_subscription", jsonrpc.Func(func(_ context.Context, in event) (any, error) {
		events <- in
		return nil, nil
	}))
	client := dial(t, address(t, at), b)
	defer client.Close()
	id, err := jsonrpc.Call[string](t.Context(), client, "demo_subscribe", []any{"ticks", 5})
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	for want := 5; want > 0; want-- {
		select {
		case got := <-events:
			if got != (event{id, want}) {
				t.Errorf("got %v, want %v", got, event{id, want})
			}
		case <-time.After(time.Minute):
			t.Fatalf("no event %d", want)
		}
	}
	if gone, err := jsonrpc.Call[bool](t.Context(), client, "demo_unsubscribe", []string{id}); err != nil || !gone {
		t.Errorf("unsubscribe = %t, %v", gone, err)
	}
}
