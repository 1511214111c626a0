package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/playground"
)

// TestTopicWidth checks that no line of a help topic is wider than a terminal of 100 columns, apart
// from the example of an error.
func TestTopicWidth(t *testing.T) {
	all := map[string]string{"agent-help": agentHelp}
	for name, text := range topics {
		all[name] = text
	}
	for name, text := range all {
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth && !strings.HasPrefix(line, "  {") {
				t.Errorf("%s has a line of %d columns: %s", name, n, line)
			}
		}
	}
}

// TestUpTarget checks that the target of the command line comes first, and what it is.
func TestUpTarget(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(file, []byte("servers: {one: {url: 'http://h/mcp'}, two: {command: cat, protocol: acp}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		argv, words                      []string
		name, address, protocol, command string
	}{
		{nil, []string{":3000/mcp"}, "http://127.0.0.1:3000/mcp", "http://127.0.0.1:3000/mcp", playground.ProtocolMCP, ""},
		{nil, []string{"localhost:3000/rpc"}, "http://localhost:3000/rpc", "http://localhost:3000/rpc", playground.ProtocolJSONRPC, ""},
		{nil, []string{"tcp://h:1?framing=header"}, "tcp://h:1?framing=header", "tcp://h:1?framing=header", playground.ProtocolLSP, ""},
		{nil, []string{"@one"}, "@one", "http://h/mcp", playground.ProtocolMCP, ""},
		{nil, []string{"@two"}, "@two", "", playground.ProtocolACP, "cat"},
		{[]string{"/bin/server.sh", "x"}, nil, "@server", "", playground.ProtocolMCP, "/bin/server.sh x"},
	} {
		a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }, argv: tt.argv, hasArgv: tt.argv != nil}
		first, err := a.upTarget(t.Context(), file, tt.words)
		if err != nil {
			t.Errorf("%q: %v", tt.words, err)
			continue
		}
		if first.Name != tt.name || first.Address != tt.address || first.Protocol != tt.protocol || strings.Join(first.Command, " ") != tt.command {
			t.Errorf("%q %q is %+v", tt.words, tt.argv, first)
		}
		read, err := a.upFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, target := range upTargets(first, read, []playground.Target{{Name: "@demo"}}) {
			names = append(names, target.Name)
		}
		want := slices.DeleteFunc([]string{"@one", "@two", "@demo"}, func(name string) bool { return name == tt.name })
		if !slices.Equal(names, append([]string{tt.name}, want...)) {
			t.Errorf("%q: the targets are %q", tt.words, names)
		}
	}
}

// TestCanBrowse checks when parley up opens the browser by itself.
func TestCanBrowse(t *testing.T) {
	display := map[string]string{"DISPLAY": ":0"}
	for _, tt := range []struct {
		terminal bool
		env      map[string]string
		want     bool
	}{
		{true, display, true},
		{false, display, false},
		{true, map[string]string{"WAYLAND_DISPLAY": "wayland-0"}, true},
		{true, nil, runtime.GOOS == "windows" || runtime.GOOS == "darwin"},
		{true, map[string]string{"DISPLAY": ":0", "CI": "true"}, false},
		{true, map[string]string{"DISPLAY": ":0", "SSH_CONNECTION": "a b"}, false},
		{true, map[string]string{"DISPLAY": ":0", "SSH_TTY": "/dev/pts/1"}, false},
	} {
		a := &app{stdin: strings.NewReader(""), stderr: io.Discard, getenv: func(name string) string { return tt.env[name] }}
		if tt.terminal {
			a.stdin, a.stderr = keys{strings.NewReader("")}, new(glass)
		}
		if got := a.canBrowse(); got != tt.want {
			t.Errorf("terminal %v, %v: %v, want %v", tt.terminal, tt.env, got, tt.want)
		}
	}
}

// TestStdinThatStaysOpen checks that an open pipe without data is waited for until --timeout only.
func TestStdinThatStaysOpen(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var errs glass
	a := &app{stdin: r, stdout: io.Discard, stderr: &errs, getenv: func(string) string { return "" }}
	if code := a.main(t.Context(), []string{"call", "http://127.0.0.1:1/rpc", "x", "--timeout", "50ms"}); code != exitAway || !strings.Contains(errs.String(), "--ignore-stdin") {
		t.Errorf("exit code %d:\n%s", code, &errs)
	}
	errs = glass{}
	if code := a.main(t.Context(), []string{"call", "http://127.0.0.1:1/rpc", "x", "--ignore-stdin"}); code != exitAway || !strings.Contains(errs.String(), "connection refused") {
		t.Errorf("with --ignore-stdin: exit code %d:\n%s", code, &errs)
	}
}

// acceptTCP listens on TCP, runs serve for each connection, and closes the connection after it.
func acceptTCP(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// blackHole listens on TCP, accepts connections, and never sends anything.
func blackHole(t *testing.T) (address string) {
	t.Helper()
	return acceptTCP(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}

// TestBlackHole checks that each command with --timeout ends by it if the server accepts
// connections and never answers. A new command of that kind must be added to the table.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	words := map[string][]string{
		"call": {"x", "1"}, "mcp call": {"x"}, "mcp tools": nil, "mcp resources": nil, "mcp read": {"a:b"}, "mcp prompts": nil,
		"mcp get": {"x"}, "mcp complete": {"x", "y"}, "mcp listen": nil, "mcp ping": nil,
		"acp agents": nil, "acp run": {"x", "y"}, "acp get": {"x"}, "acp watch": {"x"}, "acp resume": {"x", "y"}, "acp cancel": {"x"}, "acp session": {"x"},
		"a2a card": nil, "a2a send": {"x"}, "a2a tasks": nil, "a2a get": {"x"}, "a2a watch": {"x"}, "a2a resume": {"x", "y"}, "a2a cancel": {"x"},
		"list": nil, "describe": {"x"}, "check": nil, "bench": {"x"},
		"gate status": nil, "gate reload": nil, "gate cordon": {"x"}, "gate approve": {"x"},
	}
	// These have their own tests, or talk to no server before a session file or a suite is read.
	others := []string{"mcp logout", "edit", "replay", "repl", "doctor", "test", "bridge", "mock", "serve", "diff", "learn", "tap"}
	place := blackHole(t)
	var missing []string
	everyCommand((&app{getenv: os.Getenv}).rootCommand(), func(command *cobra.Command) {
		name := strings.TrimPrefix(command.CommandPath(), "parley ")
		if command.Flags().Lookup("timeout") == nil || command.HasSubCommands() {
			return
		}
		args, known := words[name]
		if !known {
			if !slices.Contains(others, name) {
				missing = append(missing, name)
			}
			return
		}
		for _, scheme := range []string{"http://", "ws://", "tcp://", "tls://"} {
			if scheme != "http://" && name != "call" && name != "mcp tools" {
				continue
			}
			t.Run(name+" "+scheme, func(t *testing.T) {
				t.Parallel()
				var errs glass
				a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs, getenv: func(name string) string {
					return map[string]string{"HOME": t.TempDir()}[name]
				}}
				target := []string{scheme + place}
				if strings.HasPrefix(name, "gate ") {
					target = []string{"--at", scheme + place}
				}
				ended := make(chan int, 1)
				go func() {
					ended <- a.main(context.Background(), slices.Concat(strings.Fields(name), target, args, []string{"--timeout", "200ms"}))
				}()
				select {
				case code := <-ended:
					if code != exitAway {
						t.Errorf("exit code %d, want %d:\n%s", code, exitAway, &errs)
					}
				case <-time.After(time.Minute):
					t.Errorf("the command does not end:\n%s", &errs)
				}
			})
		}
	})
	if len(missing) > 0 {
		t.Errorf("commands with --timeout that are not tested: %q", missing)
	}
}
