package interop

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/jhttp"
	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/check"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/sourcegraph/jsonrpc2"
)

// conformancePage holds the table that TestLibraries checks.
const conformancePage = "../docs/conformance.md"

const plantedHeading = "\n## Planted defects\n"

var writePage = flag.Bool("conformance", false, "write "+conformancePage)

// steady are the rules whose outcome does not depend on the load of this machine.
var steady = []string{"batch", "call", "connection", "error", "fail", "framing", "http", "id", "method", "notification", "params", "parse", "request", "response", "rpc", "state", "value", "ws"}

// A library is a server of another project.
type library struct {
	name, at string
	options  check.Options
}

// sourcegraphMethods handles the demo methods with sourcegraph/jsonrpc2.
func sourcegraphMethods(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	switch r.Method {
	case "echo":
		return r.Params, nil
	case "fail":
		var in jsonrpc2.Error
		if r.Params == nil || json.Unmarshal(*r.Params, &in) != nil {
			return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: "Invalid params"}
		}
		return nil, &in
	case "sleep":
		var in struct{ Ms int }
		if r.Params == nil || json.Unmarshal(*r.Params, &in) != nil {
			return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: "Invalid params"}
		}
		time.Sleep(time.Duration(in.Ms) * time.Millisecond) // as the method sleep requires
		return in.Ms, nil
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "Method not found"}
}

// libraries starts the servers.
func libraries(t *testing.T) []library {
	mapped := check.Options{Echo: "echo", Fail: "fail", Sleep: "sleep", Named: "subtract", NamedParams: []string{"minuend", "subtrahend"}}
	narrow := check.Options{Echo: "echo", Fail: "fail", Sleep: "sleep"}
	positional := mapped // the functions take positions
	positional.Fail, positional.Sleep = "", ""
	methods := jrpc2Methods(new(service))
	options := &jrpc2.ServerOptions{AllowPush: true, Concurrency: 64}
	lines := listen(t, "tcp", "127.0.0.1:0")
	serveEach(t, lines, func(c net.Conn) { _ = jrpc2.NewServer(methods, options).Start(channel.Line(c, c)).Wait() })
	bridge := jhttp.NewBridge(methods, &jhttp.BridgeOptions{Server: options})
	web := httptest.NewServer(bridge)
	t.Cleanup(func() {
		web.Close()
		_ = bridge.Close() // the test is over
	})

	_, ethWeb := ethereumServer(t)
	ethOptions := check.Options{Calls: []check.Call{{Method: "demo_subtract", Params: jsonrpc.Raw("[42,23]"), Result: jsonrpc.Raw("19")}}}

	objects := listen(t, "tcp", "127.0.0.1:0")
	serveEach(t, objects, func(c net.Conn) {
		conn := jsonrpc2.NewConn(context.Background(), jsonrpc2.NewBufferedStream(c, jsonrpc2.VSCodeObjectCodec{}), jsonrpc2.AsyncHandler(jsonrpc2.HandlerWithError(sourcegraphMethods)))
		<-conn.DisconnectNotify()
	})

	inGo := []library{
		{"jrpc2 1.3.6, TCP", "tcp://" + lines.Addr().String(), positional},
		{"jrpc2 1.3.6, HTTP", web.URL + "/", positional},
		{"go-ethereum 1.17.10, HTTP", ethWeb.URL + "/", ethOptions},
		{"go-ethereum 1.17.10, WebSocket", "ws" + strings.TrimPrefix(ethWeb.URL, "http") + "/ws", ethOptions},
		{"sourcegraph/jsonrpc2 0.2.3, TCP", "tcp://" + objects.Addr().String() + "?framing=header", narrow},
	}
	if !compared() {
		return inGo
	}
	jayson := harness.Server(t, harness.Node(t, "server-jayson.mjs"))
	plain := harness.Server(t, harness.Node(t, "server-json-rpc-2.0.mjs"))
	vscode := parley.Command(harness.Node(t, "server-vscode.mjs")...)
	vscodeAt := strings.Join(vscode.Argv, "\x00")
	return append(inGo, []library{
		{"jayson, HTTP", jayson["http"], mapped},
		{"jayson, TCP", jayson["tcp"], mapped},
		{"jayson, WebSocket", jayson["ws"], mapped},
		{"json-rpc-2.0, HTTP", plain["http"], mapped},
		{"json-rpc-2.0, WebSocket", plain["ws"], mapped},
		{"vscode-jsonrpc, stdio", vscodeAt, mapped},
	}...)
}

// compared reports whether the servers of Node.js are checked too, and all of them compared with
// the page. It takes a minute.
func compared() bool { return *writePage || os.Getenv("PARLEY_LONG") != "" }

// TestLibraries checks servers that are based on other libraries in Go. Those of parley must
// violate no rule. With PARLEY_LONG it checks those of Node.js too, and compares the failed rules
// of the others with those in docs/conformance.md: some of these servers end during the check, at a
// rule that depends on the load of the machine. With -conformance it writes the page.
func TestLibraries(t *testing.T) {
	var mu sync.Mutex
	reports := map[string]*check.Report{}
	all := libraries(t)
	all = append(all, library{"parley, HTTP", harness.Demo(t, "http://127.0.0.1:0")[0], check.Options{Echo: "echo", Fail: "fail", Sleep: "sleep", Named: "subtract", NamedParams: []string{"minuend", "subtrahend"}}})
	t.Run("check", func(t *testing.T) {
		for _, l := range all {
			t.Run(l.name, func(t *testing.T) {
				target, err := parley.ParseTarget(l.at)
				if strings.Contains(l.at, "\x00") {
					target, err = parley.Command(strings.Split(l.at, "\x00")...), nil
					target.Framing = 1 // Content-Length
				}
				if err != nil {
					t.Fatal(err)
				}
				l.options.Only, l.options.Timeout, l.options.NoDiscovery = steady, 2*time.Second, true
				report, err := check.Check(t.Context(), target, &l.options)
				if err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				defer mu.Unlock()
				reports[l.name] = report
			})
		}
	})
	old, err := os.ReadFile(conformancePage)
	if err != nil {
		t.Fatal(err)
	}
	// The table of planted defects belongs to a test of package check.
	_, planted, _ := strings.Cut(string(old), plantedHeading)
	page := conformanceText(all, reports) + plantedHeading + planted
	if *writePage {
		if err := os.WriteFile(conformancePage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		old = []byte(page)
	}
	for _, l := range all {
		n := reports[l.name].Counts
		if n.Pass == 0 || strings.HasPrefix(l.name, "parley") && n.Must+n.Expect > 0 {
			t.Errorf("%s: %+v", l.name, n)
		}
	}
	if !compared() {
		return
	}
	// What is received may differ in times and ports; the rules and their levels may not.
	got, want := headlines(page), headlines(string(old))
	slices.Sort(got)
	slices.Sort(want)
	if got, want = slices.Compact(got), slices.Compact(want); !slices.Equal(got, want) {
		for _, line := range got {
			if !slices.Contains(want, line) {
				t.Errorf("not in %s: %s", conformancePage, line)
			}
		}
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("no longer found: %s", line)
			}
		}
		t.Error("run go test -run TestLibraries . -conformance")
	}
}

// headlines are the lines of the page that name rules.
func headlines(page string) (lines []string) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "### ") || strings.HasPrefix(line, "- MUST ") || strings.HasPrefix(line, "- EXPECT ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// conformanceText returns the page.
func conformanceText(all []library, reports map[string]*check.Report) string {
	var b strings.Builder
	b.WriteString(`# What other libraries do

The findings of [parley check](guides/check.md) in servers that are based on other libraries, each
with the request that shows it. The servers are small programs in ` + "`interop/`" + `, with the libraries'
default options. ` + "`TestLibraries`" + ` repeats the checks, and with PARLEY_LONG (` + "`make test-long`" + `) compares
the rules; with ` + "`-conformance`" + ` it writes this page.

A library may leave some of this to the program that uses it, such as the check of params or the
status of HTTP. JSON-RPC over the base protocol of language servers has no batches, so that
vscode-jsonrpc and sourcegraph/jsonrpc2 need none. Rules about load and survival are not part of
this page, since they depend on the machine. Methods that panic were not called.

| server | pass | not checked | MUST failed | EXPECT failed | SHOULD failed |
|---|---|---|---|---|---|
`)
	for _, l := range all {
		n := reports[l.name].Counts
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", l.name, n.Pass, n.NotChecked, n.Must, n.Expect, n.Should)
	}
	b.WriteString("\n## Findings\n")
	for _, l := range all {
		report := reports[l.name]
		if report.Counts.Must+report.Counts.Expect == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", l.name)
		for _, level := range []check.Level{check.Must, check.Expect} {
			for _, r := range report.Rules {
				if r.Outcome == check.Fail && r.Level == level {
					fmt.Fprintf(&b, "- %s %s (%s)\n", r.Level, r.ID, r.Section)
					fmt.Fprintf(&b, "  - sent: %s\n  - received: %s\n  - %s\n", code(r.Sent), code(r.Received), plainText(r.Why))
				}
			}
		}
	}
	return b.String()
}

// code returns text as inline code, shortened.
func code(text string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "'")), " ")
	if r := []rune(text); len(r) > 160 {
		text = string(r[:150]) + "…"
	}
	if text == "" {
		return "nothing"
	}
	return "`" + text + "`"
}

func plainText(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 200 {
		text = string(r[:190]) + "…"
	}
	return strings.NewReplacer("<", "\\<", "*", "\\*", "_", "\\_").Replace(text)
}
