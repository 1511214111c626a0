package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/creachadair/jrpc2/channel"
	ethereum "github.com/ethereum/go-ethereum/rpc"

	"github.com/da1ed7bb/parley/transport/websocket"
)

// Idle is what a server's connection costs while nothing goes over it. Each has answered one call before.
type Idle struct {
	Name       string  `json:"name"`
	RSS        float64 `json:"rss"` // bytes for each connection
	Goroutines float64 `json:"goroutines"`
	Error      string  `json:"error,omitempty"`
}

// idleConns is how many connections are open. Server and clients are processes of their own: both together have more file
// descriptors than one may have.
const idleConns = 9000

// These tell a child process of this program what it is: the name of a server, or the network and address to dial.
const (
	idleServer = "BENCH_IDLE_SERVER"
	idleClient = "BENCH_IDLE_CLIENT"
)

// An idler is a server whose connections are to be idle: on a socket, or behind HTTP.
type idler struct {
	name  string
	serve func(net.Conn) (func(), error)
	http  http.Handler
	call  string // what each client sends once
}

func idlers() []idler {
	const ethereumCall = `{"jsonrpc":"2.0","method":"math_subtract","params":[{"minuend":42,"subtrahend":23}],"id":1}`
	server := ethereumServer()
	return []idler{
		{"bare unix", rawServeSmall, nil, smallRequest},
		{"parley unix", parleyUse{}.serve, nil, smallRequest},
		{"go.lsp.dev unix", golspServe(golspHandler), nil, smallRequest},
		{"jrpc2 unix", func(c net.Conn) (func(), error) { return jrpc2Serve(channel.Line(c, c)), nil }, nil, smallRequest},
		{"go-ethereum unix", func(c net.Conn) (func(), error) {
			go server.ServeCodec(ethereum.NewCodec(c), 0)
			return nil, nil
		}, nil, ethereumCall},
		{"parley WebSocket", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if t, err := websocket.Upgrade(w, r, nil); err == nil {
				parleyUse{}.serving(t)
			}
		}), smallRequest},
		{"go-ethereum WebSocket", nil, server.WebsocketHandler([]string{"*"}), ethereumCall},
	}
}

// rawServeSmall is a goroutine that reads into a small buffer on its stack.
func rawServeSmall(conn net.Conn) (func(), error) {
	go func() {
		in := make([]byte, 256)
		for {
			if _, err := conn.Read(in); err != nil {
				return
			}
			if _, err := conn.Write([]byte(smallAnswer + "\n")); err != nil {
				return
			}
		}
	}()
	return nil, nil
}

// measureIdle runs one server after the other.
func measureIdle(chosen *regexp.Regexp) []Idle {
	var all []Idle
	for _, s := range idlers() {
		if !chosen.MatchString(s.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "idle", s.name)
		found := Idle{Name: s.name}
		out, err := child(idleServer + "=" + s.name).Output()
		if err == nil {
			err = json.Unmarshal(out, &found)
		}
		found.Error = errText(err)
		all = append(all, found)
	}
	return all
}

// child is this program as another process.
func child(env string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	return cmd
}

// serveIdle is the server's process. It prints an Idle.
func serveIdle(name string) {
	dir, err := os.MkdirTemp("", "bench")
	must(err)
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(err)
	for _, s := range idlers() {
		if s.name == name {
			go s.accept(l)
			found := Idle{Name: name}
			before, threads := memory(), runtime.NumGoroutine()
			clients := child(idleClient + "=" + l.Addr().String() + "\n" + s.call)
			if s.http != nil {
				clients.Env = append(clients.Env, "BENCH_IDLE_UPGRADE=1")
			}
			stop, err := clients.StdinPipe()
			must(err)
			out, err := clients.StdoutPipe()
			must(err)
			must(clients.Start())
			_, err = io.ReadFull(out, make([]byte, 6)) // "ready\n"
			must(err)
			time.Sleep(3 * time.Second) // goroutines that wait for more work leave
			found.RSS = float64(memory()-before) / idleConns
			found.Goroutines = float64(runtime.NumGoroutine()-threads) / idleConns
			must(json.NewEncoder(os.Stdout).Encode(found))
			must(stop.Close())
			_ = clients.Wait() // it has no more to say
		}
	}
}

func (s idler) accept(l net.Listener) {
	if s.http != nil {
		_ = http.Serve(l, s.http) // ends with the process
		return
	}
	for {
		conn, err := l.Accept()
		must(err)
		_, err = s.serve(conn)
		must(err)
	}
}

// memory is what the process has resident after a collection.
func memory() int {
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	must(err)
	var size, resident int
	_, err = fmt.Sscan(string(text), &size, &resident)
	must(err)
	return resident * os.Getpagesize()
}

// dialIdle is the clients' process: it opens the connections, makes one call on each, and holds them until its input ends.
func dialIdle(what string) {
	address, call, _ := strings.Cut(what, "\n")
	ask := askLine
	if os.Getenv("BENCH_IDLE_UPGRADE") != "" {
		ask = askWebSocket
	}
	conns := make([]net.Conn, idleConns)
	for i := range conns {
		conn, err := net.Dial("unix", address)
		must(err)
		must(ask(conn, call))
		conns[i] = conn
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
	runtime.KeepAlive(conns)
}

func askLine(conn net.Conn, call string) error {
	if _, err := io.WriteString(conn, call+"\n"); err != nil {
		return err
	}
	return readUntil(bufio.NewReader(conn), '}')
}

// askWebSocket does the client's part of a handshake and sends one short frame (RFC 6455, sections 4.1 and 5.2), without a library's buffers.
func askWebSocket(conn net.Conn, call string) error {
	in := bufio.NewReader(conn)
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("%s: %w", answer.Status, err)
	}
	frame := []byte{0x81, 0x80 | byte(len(call)), 0, 0, 0, 0} // text, final, masked with zeros
	if _, err := conn.Write(append(frame, call...)); err != nil {
		return err
	}
	return readUntil(in, '}')
}

func readUntil(in *bufio.Reader, end byte) error {
	answer, err := in.ReadString(end)
	if err == nil && !strings.Contains(answer, `"result":19`) {
		err = fmt.Errorf("the answer is %s", answer)
	}
	return err
}

func writeIdle(w io.Writer, all []Idle) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## Idle connections\n\nServer only, %d connections, each after one call; resident memory and goroutines of one.\n\n| | RSS | goroutines |\n|---|--:|--:|\n", idleConns)
	for _, i := range all {
		if i.Error != "" {
			fmt.Fprintf(w, "| %s | failed: %s |\n", i.Name, i.Error)
			continue
		}
		fmt.Fprintf(w, "| %s | %.1f KiB | %.1f |\n", i.Name, i.RSS/1024, i.Goroutines)
	}
}
