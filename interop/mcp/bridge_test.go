package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestGoSDKClientThroughBridge has the official Go SDK's client use our server through parley
// bridge in both directions, with sessions and without.
func TestGoSDKClientThroughBridge(t *testing.T) {
	t.Parallel()
	program := harness.Parley(t)
	address := ourEndpoint(t)
	here := bridgeToChild(t)
	for _, v := range []mcp.Version{mcp.V20260728, mcp.V20251125, mcp.V20250618, mcp.V20250326} {
		t.Run("stdio "+v.String(), func(t *testing.T) {
			ctx := within(t)
			cmd := exec.CommandContext(ctx, program, "bridge", "--from", "stdio:", "--to", address+"/mcp")
			useFromGo(ctx, t, v, &gosdk.CommandTransport{Command: cmd})
		})
		t.Run("http "+v.String(), func(t *testing.T) {
			useFromGo(within(t), t, v, &gosdk.StreamableClientTransport{Endpoint: here})
		})
	}
}

// TestNPMClientsThroughBridge does the same with the clients of both TypeScript SDKs. Each has a
// server of its own, as in TestClientsThroughGateway.
func TestNPMClientsThroughBridge(t *testing.T) {
	t.Parallel()
	program := harness.Parley(t)
	for _, script := range [][]string{
		{"node/client-v1.mjs"}, {"node/client-v2.mjs", "auto"}, {"node/client-v2.mjs", "legacy"}, {"node/client-v2.mjs", "2026-07-28"},
	} {
		for _, mode := range []string{"stdio", "http"} {
			t.Run(strings.Join(append(script[:len(script):len(script)], mode), " "), func(t *testing.T) {
				t.Parallel()
				words := append(script[1:len(script):len(script)], mode)
				if mode == "stdio" {
					words = append(words, program, "bridge", "--from", "stdio:", "--to", ourEndpoint(t)+"/mcp")
				} else {
					words = append(words, bridgeToChild(t))
				}
				harness.Checks(t, node(t, script[0], words...))
			})
		}
	}
}

// TestFiftyClientsThroughBridge has 50 clients of the Go SDK and of both TypeScript SDKs use one
// bridge at once, while servers of some are killed and others leave in the middle of a call. All
// responses are those of their calls; a call on a killed server fails with -31006 before a call on
// another server that begins with the kill and takes a second; and no process is left.
func TestFiftyClientsThroughBridge(t *testing.T) {
	t.Parallel()
	const (
		fromNode = 25
		steady   = 12 // only call
		killed   = 8  // lose their servers
		leaving  = 4  // leave in the middle of a call
	)
	var pids sync.Map
	t.Cleanup(func() { // after the bridge has ended
		pids.Range(func(pid, _ any) bool {
			if err := syscall.Kill(pid.(int), 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d is left: %v", pid, err)
			}
			return true
		})
	})
	here := bridgeToChild(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	connect := func(v mcp.Version) *crowdClient {
		c := &crowdClient{t: t, ctx: ctx, pids: &pids, waits: make(chan struct{}, 10)}
		sdk := gosdk.NewClient(&gosdk.Implementation{Name: "go-sdk", Version: "1.8.0"}, &gosdk.ClientOptions{
			ProgressNotificationHandler: func(context.Context, *gosdk.ProgressNotificationClientRequest) { c.waits <- struct{}{} },
		})
		var err error
		c.session, err = sdk.Connect(ctx, &gosdk.StreamableClientTransport{Endpoint: here}, &gosdk.ClientSessionOptions{ProtocolVersion: v.String()})
		if err != nil {
			t.Error(err)
			return nil
		}
		return c
	}
	versions := []mcp.Version{mcp.V20251125, mcp.V20260728, mcp.V20250618}
	control := connect(mcp.V20251125) // the last of the 50
	if control == nil {
		return
	}
	control.pid()
	var all sync.WaitGroup
	all.Go(func() {
		harness.Checks(t, node(t, "node/crowd.mjs", here, strconv.Itoa(fromNode), "20"))
	})
	run := func(n int, v func(i int) mcp.Version, use func(c *crowdClient, i int)) {
		for i := range n {
			all.Go(func() {
				if c := connect(v(i)); c != nil {
					c.pid()
					use(c, i)
				}
			})
		}
	}
	withSession := func(int) mcp.Version { return mcp.V20251125 }
	run(steady, func(i int) mcp.Version { return versions[i%len(versions)] }, func(c *crowdClient, i int) {
		for n := range 40 {
			c.add(1000*i, n)
		}
		c.close()
	})
	run(killed, withSession, func(c *crowdClient, i int) {
		for n := range 2 {
			c.add(1000*i, n)
			c.killed(control)
		}
		c.add(1000*i, 0)
		c.pid()
		c.close()
	})
	run(leaving, withSession, func(c *crowdClient, i int) {
		c.add(1000*i, i)
		ctx, leave := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := c.session.CallTool(ctx, &gosdk.CallToolParams{Name: "second"})
			ended <- err
		}()
		leave()
		if err := <-ended; err == nil {
			t.Error("a call that was left has a result")
		}
		c.close()
	})
	all.Wait()
	control.add(1, 1)
	control.close()
}

// A crowdClient is a client of TestFiftyClientsThroughBridge.
type crowdClient struct {
	t       *testing.T
	ctx     context.Context
	session *gosdk.ClientSession
	pids    *sync.Map     // of all servers
	waits   chan struct{} // receives when a call of wait has begun
}

// text calls a tool without arguments.
func (c *crowdClient) text(name string) (string, error) {
	r, err := c.session.CallTool(c.ctx, &gosdk.CallToolParams{Name: name})
	if err != nil {
		return "", err
	}
	block, ok := r.Content[0].(*gosdk.TextContent)
	if !ok || r.IsError {
		return "", fmt.Errorf("%s returned %+v", name, r)
	}
	return block.Text, nil
}

// pid returns the process of the client's server.
func (c *crowdClient) pid() int {
	text, err := c.text("pid")
	pid, bad := strconv.Atoi(text)
	if err != nil || bad != nil {
		c.t.Errorf("pid: %q, %v", text, err)
		return 0
	}
	c.pids.Store(pid, true)
	return pid
}

func (c *crowdClient) add(a, b int) {
	r, err := c.session.CallTool(c.ctx, &gosdk.CallToolParams{Name: "add", Arguments: map[string]any{"a": a, "b": b}})
	if err != nil {
		c.t.Errorf("add %d %d: %v", a, b, err)
		return
	}
	if got, _ := json.Marshal(r.StructuredContent); string(got) != fmt.Sprintf(`{"sum":%d}`, a+b) {
		c.t.Errorf("add %d %d = %s", a, b, got)
	}
}

// killed kills the server of the client while a call of it waits.
func (c *crowdClient) killed(control *crowdClient) {
	pid := c.pid()
	if pid == 0 {
		return
	}
	failed := make(chan error, 1)
	go func() {
		wait := &gosdk.CallToolParams{Name: "wait"}
		wait.SetProgressToken("waits")
		_, err := c.session.CallTool(c.ctx, wait)
		failed <- err
	}()
	select {
	case <-c.waits:
	case err := <-failed:
		c.t.Errorf("wait ended with %v", err)
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		c.t.Errorf("kill: %v", err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := control.text("second")
		second <- err
	}()
	select {
	case err := <-second:
		c.t.Errorf("a call on a killed server had no response when one that took a second had: %v", err)
		<-failed
	case err := <-failed:
		if e, ok := errors.AsType[*sdkrpc.Error](err); !ok || e.Code != jsonrpc.CodeUnavailable {
			c.t.Errorf("a call on a killed server: %v", err)
		}
	}
}

func (c *crowdClient) close() {
	if err := c.session.Close(); err != nil {
		c.t.Errorf("close: %v", err)
	}
}

var bridgeAddress = regexp.MustCompile(`^parley: bridge for .* at (http://\S+)$`)

// bridgeToChild runs parley bridge for clients over HTTP, with this binary as the server on stdio,
// and returns the bridge's address.
func bridgeToChild(t *testing.T) (address string) {
	t.Helper()
	return parleyAt(t, bridgeAddress, "bridge", "--from", "http://127.0.0.1:0/mcp", "--env", serveStdio+"=1", "--", os.Args[0])
}

// parleyAt starts our program until the test ends, and returns the address in its stderr: the first
// group of pattern.
func parleyAt(t *testing.T, pattern *regexp.Regexp, args ...string) (address string) {
	t.Helper()
	cmd := harness.Command(context.Background(), t, append([]string{harness.Parley(t)}, args...))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := new(harness.Output)
	log.ShowIfFailed(t, "parley "+args[0])
	found, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		defer close(found)
		said := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := pattern.FindStringSubmatch(lines.Text()); m != nil && !said {
				said = true
				found <- m[1]
			}
			_, _ = log.Write(append(lines.Bytes(), '\n'))
		}
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("end parley %s: %v", args[0], err)
		}
		<-read
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 0 {
			t.Logf("parley %s: %v", args[0], err)
		}
	})
	select {
	case address = <-found:
	case <-time.After(patience):
	}
	if address == "" {
		t.Fatalf("parley %s does not print its address", args[0])
	}
	return address
}
