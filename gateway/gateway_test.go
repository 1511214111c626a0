package gateway_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/gateway"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// serve listens with l on a free port of this machine until the test ends, and returns the target.
func serve(t testing.TB, l *parley.Listener, target string) parley.Target {
	t.Helper()
	to, err := parley.ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Listen(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Targets()[0]
}

// start returns a running Gateway with this configuration, in which {NAME} stands for the address
// of the upstream of this name, and the target of its endpoint.
func start(t testing.TB, configuration string, upstreams map[string]string) (*gateway.Gateway, parley.Target) {
	t.Helper()
	for name, address := range upstreams {
		configuration = strings.ReplaceAll(configuration, "{"+name+"}", address)
	}
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := config.Read(path, &config.Options{Gateway: &config.GatewayOptions{}})
	if err != nil || len(file.Problems) > 0 {
		t.Fatal(err, file.Problems)
	}
	g, err := gateway.New(&gateway.Options{File: file, Report: func(string, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	l := new(parley.Listener)
	g.Listener(l)
	return g, serve(t, l, "http://127.0.0.1:0/rpc")
}

// post sends body and returns the status and the body of the response.
func post(t testing.TB, to parley.Target, body string) (int, string) {
	t.Helper()
	resp, text := send(t, http.MethodPost, to.URL(), body, nil)
	return resp.StatusCode, text
}

// named responds with its name, the method and the params.
func named(name string) *parley.Listener {
	return &parley.Listener{Handler: jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		switch req.Method {
		case "fail":
			return nil, jsonrpc.NewError(7, "no such plan").WithData(map[string]any{"id": 1})
		}
		return []any{name, req.Method, req.Params}, nil
	})}
}

const twoServers = `
servers:
  billing: {url: "{billing}", protocol: jsonrpc}
  stock: {url: "{stock}", protocol: jsonrpc}
gateway:
  routes:
    - {method: "billing.*", to: billing, strip: "billing."}
    - {method: "stock.*|fail", to: stock}
`

// TestRoutes checks that requests reach the server of their method with the bytes of the client,
// and that results and errors come back with its ID.
func TestRoutes(t *testing.T) {
	_, g := start(t, twoServers, map[string]string{
		"billing": serve(t, named("billing"), "http://127.0.0.1:0/rpc").String(),
		"stock":   serve(t, named("stock"), "tcp://127.0.0.1:0").String(),
	})
	for _, tt := range []struct {
		name, send, want string
		status           int
	}{
		{"HTTP upstream", `{"jsonrpc":"2.0","method":"billing.get","params":{"n":1.50,"s":"\u00fc"},"id":"x"}`,
			`{"jsonrpc":"2.0","result":["billing","get",{"n":1.50,"s":"\u00fc"}],"id":"x"}`, 200},
		{"TCP upstream", `{"jsonrpc":"2.0","method":"stock.get","params":[1],"id":1.0}`,
			`{"jsonrpc":"2.0","result":["stock","stock.get",[1]],"id":1.0}`, 200},
		{"error of an upstream", `{"jsonrpc":"2.0","method":"fail","id":null}`,
			`{"jsonrpc":"2.0","error":{"code":7,"message":"no such plan","data":{"id":1}},"id":null}`, 200},
		{"no route", `{"jsonrpc":"2.0","method":"other","id":2}`,
			`{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":2}`, 200},
		{"notification", `{"jsonrpc":"2.0","method":"stock.changed"}`, "", 204},
		{"batch over two upstreams", `[{"jsonrpc":"2.0","method":"stock.a","id":1},{"jsonrpc":"2.0","method":"billing.b","id":1},` +
			`{"jsonrpc":"2.0","method":"billing.c"},{"jsonrpc":"2.0","method":"none","id":3},{"jsonrpc":"2.0","method":"billing.d","id":"d"},1]`,
			`[{"jsonrpc":"2.0","result":["stock","stock.a",null],"id":1},{"jsonrpc":"2.0","result":["billing","b",null],"id":1},` +
				`{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":3},` +
				`{"jsonrpc":"2.0","result":["billing","d",null],"id":"d"},{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}]`, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, got := post(t, g, tt.send); status != tt.status || got != tt.want {
				t.Errorf("HTTP %d\n%s, want %d\n%s", status, got, tt.status, tt.want)
			}
		})
	}
}
