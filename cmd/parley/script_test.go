package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
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
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"parley": main})
}

// TestScripts runs testdata/*.txtar. Each script has a demo of its own, whose addresses are in $HTTP, $WS, $TCP and $UNIX;
// those where it speaks MCP are in $MCP_HTTP, $MCP_WS, $MCP_SSE, $MCP_TCP and $MCP_UNIX, those of its agents in $ACP_HTTP, $ACP_WS, $ACP_UNIX,
// $A2A_HTTP, $A2A_WS and $A2A_UNIX.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("there are no scripts: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command under the race detector takes a second more
			return startDemo(nil, env.Setenv, env.Defer)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "demo": demoWith, "certify": certify, "examples": examples, "saved": saved, "enddemo": endDemo},
	})
}

// exits runs a command that must end with the exit code: exits 2 parley call
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

// demoWith starts another demo with more flags and points $HTTP, $WS, $TCP and $UNIX to it: demo --token-file token.txt
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
	}))
}

// ended is what ends the demos that a script has started.
var ended = struct {
	sync.Mutex
	of map[*testscript.TestScript][]func()
}{of: map[*testscript.TestScript][]func(){}}

// endDemo ends the demos that demo has started, before the script does.
func endDemo(ts *testscript.TestScript, neg bool, args []string) {
	ended.Lock()
	all := ended.of[ts]
	delete(ended.of, ts)
	ended.Unlock()
	for _, end := range slices.Backward(all) {
		end()
	}
}

// saved puts what the last command printed into a variable, without the quotes of JSON: saved RUN
func saved(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: saved NAME")
	}
	ts.Setenv(args[0], strings.Trim(strings.TrimSpace(ts.ReadFile("stdout")), `"`))
}

// examples runs the three examples at the beginning of a verb's help, as they stand but for the ports: examples mcp tools
func examples(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("parley", append(args, "--help")...))
	real := strings.NewReplacer(" :3000/mcp", " "+ts.Getenv("MCP_HTTP"), "http://127.0.0.1:3000/mcp", ts.Getenv("MCP_HTTP"),
		" :3000/acp", " "+ts.Getenv("ACP_HTTP"), " :3000/a2a", " "+ts.Getenv("A2A_HTTP")+"/a2a",
		" :3000/rpc", " "+ts.Getenv("HTTP"), "http://127.0.0.1:3000/rpc", ts.Getenv("HTTP"), "http://127.0.0.1:3000", ts.Getenv("A2A_HTTP"), "tcp://127.0.0.1:3001", ts.Getenv("TCP"))
	ran := 0
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		command, ok := strings.CutPrefix(line, "  parley ")
		if !ok || strings.Contains(command, "example.com") || strings.Contains(command, "Ctrl-C") {
			continue
		}
		command, _, _ = strings.Cut(strings.TrimSpace(command), "   ") // a remark
		ts.Logf("> parley %s", command)
		if err := ts.Exec("parley", shellWords(real.Replace(command))...); err != nil {
			ts.Fatalf("the example does not run: parley %s: %v", command, err)
		}
		ran++
	}
	if ran < 2 {
		ts.Fatalf("%d examples were found in the help of %s", ran, strings.Join(args, " "))
	}
}

// certify makes cert.pem and key.pem for 127.0.0.1.
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

// startTime bounds how long a demo may take to come up.
const startTime = 20 * time.Second

// startDemo runs a demo in this process until the script ends, and puts its addresses into the environment.
func startDemo(flags []string, setenv func(string, string), atEnd func(func())) error {
	dir, err := os.MkdirTemp("", "parley") // for paths of sockets the system has a limit, which test folders may be over
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
			panic(fmt.Sprintf("the demo ends with exit code %d and says:\n%s", code, rest))
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
