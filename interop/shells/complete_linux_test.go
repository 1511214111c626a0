package shells_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
)

// shells are the shells, with the lines that load the completion.
var shells = []struct {
	argv []string
	load []string
	set  string // sets an environment variable to the text that follows
}{
	{[]string{"bash", "--norc", "--noprofile", "-i"}, []string{"source <(parley completion bash)"}, "export PLACE="},
	{[]string{"zsh", "-f", "-i"}, []string{"autoload -U compinit; compinit -u -d \"$HOME/dump\"", "source <(parley completion zsh)"}, "export PLACE="},
	{[]string{"fish", "--no-config", "-i"}, []string{"parley completion fish | source"}, "set -gx PLACE "},
}

// hostile is a method name that would create a file if a shell evaluated it.
const hostile = "evil $(touch $HOME/ran) `touch $HOME/ran` 'q' \"d\" ;touch $HOME/ran"

// serveHostile serves a method with that name and returns its address.
func serveHostile(t *testing.T) string {
	t.Helper()
	mux := new(jsonrpc.Mux)
	mux.Add(hostile, jsonrpc.Func(func(context.Context, struct{}) (string, error) { return "reached", nil }))
	openrpc.New(mux, openrpc.Info{Title: "hostile", Version: "1"}).Register()
	target, err := parley.ParseTarget("http://127.0.0.1:0/rpc")
	if err != nil {
		t.Fatal(err)
	}
	server, err := (&parley.Listener{Handler: mux}).Listen(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(context.Background()) }()
	t.Cleanup(func() {
		_ = server.Close() // the test is over
		<-done
	})
	return server.Targets()[0].String()
}

// TestCompletion completes lines in each shell and executes the result: methods, the names of
// parameters and arguments, values, flags and targets with colons, in words with quotes and
// variables. What a server offers is quoted, and nothing of it runs.
func TestCompletion(t *testing.T) {
	t.Parallel()
	demo := harness.Demo(t, "http://127.0.0.1:0", "tcp://127.0.0.1:0")
	web, mcp := demo[0], strings.TrimSuffix(demo[0], "/rpc")+"/mcp"
	short := strings.TrimPrefix(web, "http://127.0.0.1")
	evil := serveHostile(t)
	for _, one := range shells {
		t.Run(one.argv[0], func(t *testing.T) {
			t.Parallel()
			s := start(t, one.argv, append(one.load, one.set+short)...)
			for _, tt := range []struct{ name, line, want string }{
				{"a command", "parley versi\t", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
				{"a method", "parley call " + short + " subt\t42 23", "19\nmark"},
				{"a method over TCP", "parley call " + demo[1] + " subt\t42 23", "19\nmark"},
				{"names of parameters", "parley call " + web + " subtract minu\t42 subtr\t23", "19\nmark"},
				{"names of arguments", "parley mcp call " + mcp + " calculator/ad\ta\t2 b\t3", `{"result": 5, "exact": true}`},
				{"the value of a flag", "parley call " + short + " sum 1 2 --output=nd\t", "3\nmark"},
				{"a word in quotes", "parley call '" + short + "' \"subt\t42 23", "19\nmark"},
				{"an environment variable", "parley call $PLACE subt\t42 23", "19\nmark"},
				{"a topic", "parley help exit-c\t", "cancelled with Ctrl-C"},
				{"what a server offers", "parley call " + evil + " ev\t", "\"reached\"\nmark"},
			} {
				if got := s.run(tt.line); !strings.Contains(got, tt.want) {
					t.Errorf("%s: %q does not lead to %q:\n%s", tt.name, tt.line, tt.want, got)
				}
			}
			if _, err := os.Stat(filepath.Join(s.home, "ran")); err == nil {
				t.Error("a name of the server was evaluated")
			}
		})
	}
}
