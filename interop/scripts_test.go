package interop

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// webSocket returns the WebSocket address of an HTTP endpoint.
func webSocket(address string) string { return "ws" + strings.TrimPrefix(address, "http") }

// hostPort returns the part of an address between the scheme and the path or query.
func hostPort(t *testing.T, address string) string {
	t.Helper()
	_, rest, _ := strings.Cut(address, "://")
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "/")
	if _, _, err := net.SplitHostPort(rest); err != nil {
		t.Fatalf("%q has no host and port: %v", address, err)
	}
	return rest
}

// socketPath returns a path for a Unix socket that is short enough for every system.
func socketPath(t *testing.T) string { return filepath.Join(t.TempDir(), "s") }

func TestJaysonClient(t *testing.T) {
	t.Parallel()
	a := harness.Demo(t, "http://127.0.0.1:0", "tcp://127.0.0.1:0")
	harness.Checks(t, harness.Node(t, "client-jayson.mjs", a[0], a[1], webSocket(a[0])))
}

func TestJaysonClientVersion1(t *testing.T) {
	t.Parallel()
	a := harness.Demo(t, "http://127.0.0.1:0/rpc?jsonrpc=1.0", "tcp://127.0.0.1:0?jsonrpc=1.0")
	harness.Checks(t, harness.Node(t, "client-jayson.mjs", "1.0", a[0], a[1]))
}

func TestJSONRPC20Client(t *testing.T) {
	t.Parallel()
	a := harness.Demo(t, "http://127.0.0.1:0")
	harness.Checks(t, harness.Node(t, "client-json-rpc-2.0.mjs", a[0], webSocket(a[0])))
}

func TestVSCodeClient(t *testing.T) {
	t.Parallel()
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		harness.Checks(t, harness.Node(t, "client-vscode.mjs", append([]string{"--"}, harness.StdioDemo(t, "--framing", "header")...)...))
	})
	t.Run("sockets", func(t *testing.T) {
		t.Parallel()
		for _, address := range harness.Demo(t, "tcp://127.0.0.1:0?framing=header", "unix:"+socketPath(t)+"?framing=header") {
			harness.Checks(t, harness.Node(t, "client-vscode.mjs", address))
		}
	})
}

func TestPythonJSONRPCClient(t *testing.T) {
	t.Parallel()
	harness.Checks(t, harness.Python(t, "client_jsonrpc.py", harness.Demo(t, "http://127.0.0.1:0", "tcp://127.0.0.1:0", "unix:"+socketPath(t))...))
}

func TestPythonJSONRPCClientVersion1(t *testing.T) {
	t.Parallel()
	a := harness.Demo(t, "http://127.0.0.1:0/rpc?jsonrpc=1.0", "tcp://127.0.0.1:0?jsonrpc=1.0", "unix:"+socketPath(t)+"?jsonrpc=1.0")
	harness.Checks(t, harness.Python(t, "client_jsonrpc.py", append([]string{"1.0"}, a...)...))
}

func TestPylspClient(t *testing.T) {
	t.Parallel()
	harness.Checks(t, harness.Python(t, "client_pylsp.py", append([]string{"--"}, harness.StdioDemo(t, "--framing", "header")...)...))
	harness.Checks(t, harness.Python(t, "client_pylsp.py", harness.Demo(t, "tcp://127.0.0.1:0?framing=header")...))
}
