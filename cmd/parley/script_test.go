package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// stuckVariable is the environment variable of a copy of the test program that is parley with the
// method stuck in its demo.
const stuckVariable = "PARLEY_TEST_STUCK"

func stuckChild() int {
	return mainOf(&app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, logs: true, methods: func(m *jsonrpc.Mux) {
		m.Add("stuck", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
			fmt.Fprintln(os.Stdout, "entered")
			select {}
		}))
	}})
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == hostileArgument {
		os.Exit(hostileChild(os.Args[2]))
	}
	if os.Getenv(stuckVariable) != "" { // this is the child of TestAStuckHandler
		os.Exit(stuckChild())
	}
	// Most tests wait for other processes. An option of go test overrides this.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"parley": main})
}

// TestScripts runs testdata/*.txtar. Each script has its own demo, with addresses in $HTTP, $WS,
// $TCP and $UNIX, and their parts as in setPlaces. The addresses for MCP are in $MCP_HTTP, $MCP_WS,
// $MCP_SSE, $MCP_TCP and $MCP_UNIX; those of its agents are in $ACP_HTTP, $ACP_WS, $ACP_UNIX,
// $A2A_HTTP, $A2A_WS and $A2A_UNIX.
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("there are no scripts: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Otherwise each command takes a second longer with the race detector.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("SUITES", suites)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Values[failing{}] = env.T().Fatal
			return startDemo(nil, env.Setenv, env.Defer, env.T().Fatal)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "demo": demoWith, "certify": certify, "examples": examples, "guide": guide, "saved": saved, "enddemo": endDemo, "gatestart": gateStart},
	})
}

// failing is the key of the function that fails the test of a script, for what runs at its end.
type failing struct{}

// exits runs a command and requires its exit code: exits 2 parley call
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND …")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("%s: exit code %s, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// demoWith starts another demo with additional flags and sets $HTTP, $WS, $TCP and $UNIX to it:
// demo --token-file token.txt
func demoWith(ts *testscript.TestScript, neg bool, args []string) {
	for i, arg := range args {
		if strings.HasSuffix(arg, ".txt") || strings.HasSuffix(arg, ".pem") {
			args[i] = ts.MkAbs(arg)
		}
	}
	ts.Check(startDemo(args, ts.Setenv, func(f func()) {
		var once sync.Once
		end := func() { once.Do(f) }
		ended.Lock()
		ended.of[ts] = append(ended.of[ts], end)
		ended.Unlock()
		ts.Defer(end)
	}, ts.Value(failing{}).(func(...any))))
}

// ended stores the functions that stop the demos of a script.
var ended = struct {
	sync.Mutex
	of map[*testscript.TestScript][]func()
}{of: map[*testscript.TestScript][]func(){}}

// endDemo stops the demos that the demo command started, before the script ends.
func endDemo(ts *testscript.TestScript, neg bool, args []string) {
	ended.Lock()
	all := ended.of[ts]
	delete(ended.of, ts)
	ended.Unlock()
	for _, end := range slices.Backward(all) {
		end()
	}
}

// saved stores the output of the last command in a variable, without JSON quotes: saved RUN
func saved(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: saved NAME")
	}
	ts.Setenv(args[0], strings.Trim(strings.TrimSpace(ts.ReadFile("stdout")), `"`))
}

// examples runs the three examples of a command's help, unchanged except for the ports: examples
// mcp tools
func examples(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("parley", append(args, "--help")...))
	if ran := runLines(ts, ts.ReadFile("stdout"), "  parley "); ran < 2 {
		ts.Fatalf("%d examples were found in the help of %s", ran, strings.Join(args, " "))
	}
}

// guide runs the commands in the sh blocks of a page of docs/guides, unchanged except for the
// ports, in the folder of the script: guide load.md
func guide(ts *testscript.TestScript, neg bool, args []string) {
	text, err := os.ReadFile(filepath.Join(guides, args[0]))
	ts.Check(err)
	ran := 0
	for _, block := range strings.Split(string(text), "\n```")[1:] {
		if code, ok := strings.CutPrefix(block, "sh\n"); ok {
			ran += runLines(ts, code, "parley ")
		}
	}
	if ran < 2 {
		ts.Fatalf("%d commands were found in %s", ran, args[0])
	}
}

// guides is the folder of the guides, from the working directory of the tests.
var guides, _ = filepath.Abs("../../docs/guides")

// suites is the folder of the example suites.
var suites, _ = filepath.Abs("../../examples/suites")

// runLines runs the lines of text that begin with prefix, and returns their number. A line with a
// comment that names Ctrl-C does not end by itself, and is skipped.
func runLines(ts *testscript.TestScript, text, prefix string) (ran int) {
	real := strings.NewReplacer(" :3000/mcp", " "+ts.Getenv("MCP_HTTP"), "http://127.0.0.1:3000/mcp", ts.Getenv("MCP_HTTP"),
		" :3000/acp", " "+ts.Getenv("ACP_HTTP"), " :3000/a2a", " "+ts.Getenv("A2A_HTTP")+"/a2a",
		" :3000/rpc", " "+ts.Getenv("HTTP"), "http://127.0.0.1:3000/rpc", ts.Getenv("HTTP"), "http://127.0.0.1:3000", ts.Getenv("A2A_HTTP"), "tcp://127.0.0.1:3001", ts.Getenv("TCP"),
		"http://127.0.0.1:7500", ts.Getenv("GATE"))
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(line, prefix)
		if !ok || strings.Contains(command, "example.com") || strings.Contains(command, "Ctrl-C") {
			continue
		}
		command, _, _ = strings.Cut(strings.TrimSpace(command), "   ") // a comment
		ts.Logf("> parley %s", command)
		if err := ts.Exec("parley", shellWords(real.Replace(command))...); err != nil {
			ts.Fatalf("the example does not run: parley %s: %v", command, err)
		}
		ran++
	}
	return ran
}

// certify creates cert.pem and key.pem for 127.0.0.1.
func certify(ts *testscript.TestScript, neg bool, args []string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	ts.Check(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
}

// setPlaces stores the parts of an address: host and port in $PLACE (HTTP), $SECURE (HTTPS) and
// $STREAM (TCP), and the addresses of HTTP without a path in $ROOT and $WSROOT.
func setPlaces(setenv func(string, string), scheme, address string) {
	place, _, _ := strings.Cut(strings.TrimPrefix(address, scheme+"://"), "/")
	switch scheme {
	case "http":
		setenv("PLACE", place)
		setenv("ROOT", "http://"+place)
		setenv("WSROOT", "ws://"+place)
	case "https":
		setenv("SECURE", place)
	case "tcp":
		setenv("STREAM", place)
	}
}

// startTime bounds how long a demo may take to start.
const startTime = 20 * time.Second

// startDemo runs a demo in this process until the script ends, and stores its addresses in the
// environment.
func startDemo(flags []string, setenv func(string, string), atEnd func(func()), fail func(...any)) error {
	// Socket paths have a maximum length that test folders can exceed.
	dir, err := os.MkdirTemp("", "parley")
	if err != nil {
		return err
	}
	atEnd(func() { _ = os.RemoveAll(dir) })
	web, stream := "http://127.0.0.1:0", "tcp://127.0.0.1:0"
	if slices.Contains(flags, "--tls-cert") {
		web, stream = "https://127.0.0.1:0", "tls://127.0.0.1:0"
	}
	flags = append(flags, "--listen-acp", "unix:"+filepath.Join(dir, "c"), "--listen-a2a", "unix:"+filepath.Join(dir, "a"))
	flags = append(flags, "--listen-mcp", stream, "--listen-mcp", "unix:"+filepath.Join(dir, "m"))
	flags = append(flags, "--listen", web, "--listen", stream, "--listen", "unix:"+filepath.Join(dir, "s"))
	ctx, cancel := context.WithCancelCause(context.Background())
	out, stderr := io.Pipe()
	said := make(chan string, 1)
	done := make(chan int, 1)
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: stderr, getenv: func(string) string { return "" }}
		done <- a.main(ctx, append([]string{"demo"}, flags...))
		_ = stderr.Close()
	}()
	atEnd(func() {
		cancel(errInterrupted)
		code := <-done
		if rest := <-said; code != 0 {
			fail(fmt.Sprintf("the demo ends with exit code %d and says:\n%s", code, rest))
		}
	})
	late := time.AfterFunc(startTime, func() { cancel(errInterrupted) })
	defer late.Stop()

	lines := bufio.NewScanner(out)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		for i, word := range words {
			scheme, _, isAddress := strings.Cut(word, ":")
			switch {
			case i > 2 && words[i-2] == "mcp" && isAddress:
				carrier, _, _ := strings.Cut(scheme, "+") // sse+http
				setenv("MCP_"+strings.ToUpper(carrier), word)
			case i > 2 && (words[i-2] == "acp" || words[i-2] == "a2a") && isAddress:
				setenv(strings.ToUpper(words[i-2]+"_"+scheme), word)
			case i > 1 && words[i-1] == "call" && isAddress:
				setenv(strings.ToUpper(scheme), word)
				setPlaces(setenv, scheme, word)
			}
		}
		if strings.Contains(lines.Text(), "Ctrl-C") {
			break
		}
	}
	go func() { // ends with the demo
		rest, _ := io.ReadAll(out)
		said <- string(rest)
	}()
	return lines.Err()
}
