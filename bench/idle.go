package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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
	"syscall"
	"time"

	"github.com/creachadair/jrpc2/channel"
	ethereum "github.com/ethereum/go-ethereum/rpc"

	"github.com/da1ed7bb/parley/transport/websocket"
)

// An Idle is the cost of an idle server connection.
type Idle struct {
	Name       string  `json:"name"`
	Fresh      float64 `json:"fresh"` // resident bytes per connection, just after it was accepted
	RSS        float64 `json:"rss"`   // the same after one call on each
	Goroutines float64 `json:"goroutines"`
	Error      string  `json:"error,omitempty"`
}

// idleConns is the number of open connections. Server and clients are separate processes, because
// together they need more file descriptors than one process may have.
const idleConns = 9000

// These variables select the role of a child process of this program: the name of a server, or the
// network and address to dial.
const (
	idleServer = "BENCH_IDLE_SERVER"
	idleClient = "BENCH_IDLE_CLIENT"
)

// An idler is a server whose connections will be idle: on a socket, or over HTTP.
type idler struct {
	name  string
	serve func(net.Conn) (func(), error)
	http  http.Handler
	call  string // sent once by each client
}

func idlers() []idler {
	const ethereumCall = `{"jsonrpc":"2.0","method":"math_subtract","params":[{"minuend":42,"subtrahend":23}],"id":1}`
	server, parley := ethereumServer(), newParleyUse(false, false)
	return []idler{
		{"bare unix", rawServeSmall, nil, smallRequest},
		{"parley unix", parley.serve, nil, smallRequest},
		{"go.lsp.dev unix", golspServe(golspHandler), nil, smallRequest},
		{"jrpc2 unix", func(c net.Conn) (func(), error) { return jrpc2Serve(channel.Line(c, c)), nil }, nil, smallRequest},
		{"go-ethereum unix", func(c net.Conn) (func(), error) {
			go server.ServeCodec(ethereum.NewCodec(c), 0)
			return nil, nil
		}, nil, ethereumCall},
		{"parley WebSocket", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if t, err := websocket.Upgrade(w, r, nil); err == nil {
				parley.serving(t)
			}
		}), smallRequest},
		{"go-ethereum WebSocket", nil, server.WebsocketHandler([]string{"*"}), ethereumCall},
	}
}

// rawServeSmall runs a goroutine that reads into a small buffer on its stack.
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

// child returns a command that runs this program as another process.
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
			in, err := clients.StdinPipe()
			must(err)
			out, err := clients.StdoutPipe()
			must(err)
			must(clients.Start())
			each := func() float64 {
				_, err := io.ReadFull(out, make([]byte, len(done)))
				must(err)
				time.Sleep(3 * time.Second) // wait until idle goroutines exit
				return float64(memory()-before) / idleConns
			}
			found.Fresh = each()
			_, err = io.WriteString(in, "now call\n")
			must(err)
			found.RSS = each()
			found.Goroutines = float64(runtime.NumGoroutine()-threads) / idleConns
			must(json.NewEncoder(os.Stdout).Encode(found))
			must(in.Close())
			_ = clients.Wait() // it has no further output
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

// memory returns the resident memory of the process after a collection.
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

// done is the output of the clients' process after each step.
const done = "done\n"

// dialIdle is the clients' process: it opens the connections, makes one call on each when a line
// arrives on stdin, and holds them until its input ends.
func dialIdle(what string) {
	address, call, _ := strings.Cut(what, "\n")
	webSocket := os.Getenv("BENCH_IDLE_UPGRADE") != ""
	conns := make([]*bufio.ReadWriter, idleConns)
	for i := range conns {
		conn, err := net.Dial("unix", address)
		for errors.Is(err, syscall.EAGAIN) { // the server's queue of connections to accept is full
			time.Sleep(time.Millisecond)
			conn, err = net.Dial("unix", address)
		}
		must(err)
		conns[i] = bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriterSize(conn, 512))
		if webSocket {
			must(upgrade(conns[i]))
		}
	}
	fmt.Print(done)
	commands := bufio.NewReader(os.Stdin)
	_, err := commands.ReadString('\n')
	must(err)
	for _, conn := range conns {
		if webSocket {
			must(askFrame(conn, call))
		} else {
			must(askLine(conn, call))
		}
	}
	fmt.Print(done)
	_, _ = commands.ReadString('\n') // until it is closed
	runtime.KeepAlive(conns)
}

func askLine(conn *bufio.ReadWriter, call string) error {
	_, _ = conn.WriteString(call + "\n") // Flush returns the error
	return answered(conn)
}

// upgrade performs the client's part of a handshake (RFC 6455, section 4.1).
func upgrade(conn *bufio.ReadWriter) error {
	_, _ = conn.WriteString("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if err := conn.Flush(); err != nil {
		return err
	}
	answer, err := http.ReadResponse(conn.Reader, nil)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("%s: %w", answer.Status, err)
	}
	return nil
}

// askFrame sends the call in one short frame, masked with zeros (RFC 6455, section 5.2).
func askFrame(conn *bufio.ReadWriter, call string) error {
	_, _ = conn.Write([]byte{0x81, 0x80 | byte(len(call)), 0, 0, 0, 0})
	_, _ = conn.WriteString(call) // Flush returns the error
	return answered(conn)
}

// answered flushes the request and reads its response.
func answered(conn *bufio.ReadWriter) error {
	if err := conn.Flush(); err != nil {
		return err
	}
	answer, err := conn.ReadString('}')
	if err == nil && !strings.Contains(answer, `"result":19`) {
		err = fmt.Errorf("the answer is %s", answer)
	}
	if err == nil && conn.Reader.Buffered() > 0 { // the newline
		_, err = conn.Discard(conn.Reader.Buffered())
	}
	return err
}

func writeIdle(w io.Writer, all []Idle) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## Idle connections\n\nServer only, %d connections; resident memory and goroutines of one.\n\n| | just accepted | after a call | goroutines |\n|---|--:|--:|--:|\n", idleConns)
	for _, i := range all {
		if i.Error != "" {
			fmt.Fprintf(w, "| %s | failed: %s |\n", i.Name, i.Error)
			continue
		}
		fmt.Fprintf(w, "| %s | %.1f KiB | %.1f KiB | %.1f |\n", i.Name, i.Fresh/1024, i.RSS/1024, i.Goroutines)
	}
}
