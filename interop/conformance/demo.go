package conformance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// patience is the timeout for a response that should arrive at once. On two busy cores, with 32
// rules at a time, 20 MiB through a pipe take more than ten seconds now and then.
const patience = time.Minute

// A Demo is a running `parley demo` on all addresses, with the open connections to it.
type Demo struct {
	program string
	process *exec.Cmd
	ended   chan struct{} // closed when its stderr is closed
	log     syncBuffer

	web, web1, tcp, tcpHeader, tcp1, unix string // host and port, or a path

	probes atomic.Int64
	mu     sync.Mutex // guards idle
	idle   map[string][]idleWire
}

// A syncBuffer stores the output of a program, and signals when there is more.
type syncBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
	more chan struct{} // may be nil
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

var addressLine = regexp.MustCompile(`\bcall '?((?:https?|tcp|wss?|unix):[^\s']+)`)

// Start runs the demo of program, with its socket in dir.
func Start(ctx context.Context, program, dir string, more ...string) (*Demo, error) {
	d := &Demo{program: program, ended: make(chan struct{}), unix: filepath.Join(dir, "demo.sock"), idle: make(map[string][]idleWire)}
	targets := []string{"http://127.0.0.1:0", "http://127.0.0.1:0/rpc?jsonrpc=1.0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0?framing=header", "tcp://127.0.0.1:0?jsonrpc=1.0", "unix:" + d.unix}
	args := append([]string{"demo"}, more...)
	for _, target := range targets {
		args = append(args, "--listen", target)
	}
	d.process = exec.CommandContext(ctx, program, args...)
	stderr, err := d.process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.process.Start(); err != nil {
		return nil, err
	}
	found := make(chan string, 100)
	go func() {
		defer close(d.ended)
		lines := bufio.NewScanner(io.TeeReader(stderr, &d.log))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if m := addressLine.FindStringSubmatch(lines.Text()); m != nil && !strings.HasPrefix(m[1], "ws:") {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
	}()
	for _, to := range []*string{&d.web, &d.web1, &d.tcp, &d.tcpHeader, &d.tcp1, &d.unix} {
		select {
		case address := <-found:
			_, rest, _ := strings.Cut(address, ":")
			rest = strings.TrimPrefix(rest, "//")
			rest, _, _ = strings.Cut(rest, "?")
			*to = strings.TrimSuffix(rest, "/rpc")
		case <-d.ended:
			return nil, fmt.Errorf("parley demo ended: %s", d.log.String())
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("parley demo does not say where it listens: %s", d.log.String())
		}
	}
	return d, nil
}

// Alive reports whether the process still runs.
func (d *Demo) Alive() bool {
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// Stop stops the demo with a signal and returns an error if it did not exit cleanly.
func (d *Demo) Stop() error {
	d.mu.Lock()
	idle := d.idle
	d.idle = nil
	d.mu.Unlock()
	for _, wires := range idle {
		for _, wire := range wires {
			wire.Close()
		}
	}
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		_ = d.process.Process.Kill()
		return errors.New("parley demo did not end within 30 s of SIGTERM")
	}
	return d.process.Wait()
}

// A Wire is one duplex connection for whole messages.
type Wire interface {
	Send(message []byte) error
	Recv() ([]byte, error) // io.EOF after a clean end, *CloseError after a close frame
	Close()
}

// wire returns a connection that is not in use.
func (d *Demo) wire(carrier string) (Wire, error) {
	if wire := d.takeIdle(carrier); wire != nil {
		return wire, nil
	}
	return d.dial(carrier)
}

// An idleWire is a connection that no rule uses.
type idleWire struct {
	Wire
	since time.Time
}

// takeIdle returns a connection that an earlier rule has used, or nil. The demo closes idle
// connections over HTTP, and WebSockets without responses to its pings, so old ones are not used.
func (d *Demo) takeIdle(carrier string) Wire {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := len(d.idle[carrier]); n > 0; n-- {
		last := d.idle[carrier][n-1]
		d.idle[carrier] = d.idle[carrier][:n-1]
		if carrier != HTTP && carrier != WebSocket || time.Since(last.since) < 20*time.Second {
			return last.Wire
		}
		last.Close()
	}
	return nil
}

func (d *Demo) giveBack(carrier string, wire Wire) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.idle == nil {
		wire.Close()
		return
	}
	d.idle[carrier] = append(d.idle[carrier], idleWire{wire, time.Now()})
}

// dial opens a new connection.
func (d *Demo) dial(carrier string) (Wire, error) {
	if carrier == WebSocket {
		return d.dialWebSocket(d.web)
	}
	s, err := d.stream(carrier)
	if err != nil {
		return nil, err
	}
	return newStreamWire(s, carrier == Header || carrier == TCPHeader), nil
}

// A Stream is a byte stream. CloseWrite closes our side only.
type Stream interface {
	io.ReadWriteCloser
	CloseWrite() error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// stream opens the byte stream below a transport.
func (d *Demo) stream(carrier string) (Stream, error) {
	switch carrier {
	case TCP:
		return dialStream("tcp", d.tcp)
	case TCPHeader:
		return dialStream("tcp", d.tcpHeader)
	case Unix:
		return dialStream("unix", d.unix)
	case Stdio:
		return d.child("demo", "--stdio")
	case Header:
		return d.child("demo", "--stdio", "--framing", "header")
	case HTTP, WebSocket:
		return dialStream("tcp", d.web)
	}
	return nil, fmt.Errorf("no transport %q", carrier)
}

func dialStream(network, address string) (Stream, error) {
	c, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return nil, err
	}
	return c.(Stream), nil
}

// A childStream is a demo on stdin and stdout.
type childStream struct {
	out, in *os.File
	process *exec.Cmd
	once    sync.Once
	exit    error
	log     syncBuffer
}

func (d *Demo) child(args ...string) (*childStream, error) {
	c := &childStream{process: exec.Command(d.program, args...)}
	c.log.more = make(chan struct{}, 1)
	in, err := c.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.process.Stderr = &c.log
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	c.in = in.(*os.File)
	c.out = out.(*os.File)
	return c, nil
}

func (c *childStream) Read(p []byte) (int, error)         { return c.out.Read(p) }
func (c *childStream) Write(p []byte) (int, error)        { return c.in.Write(p) }
func (c *childStream) SetReadDeadline(t time.Time) error  { return c.out.SetReadDeadline(t) }
func (c *childStream) CloseWrite() error                  { return c.in.Close() }
func (c *childStream) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }

// Close stops the child: by closing its input, then by force.
func (c *childStream) Close() error {
	c.once.Do(func() {
		_ = c.in.Close()
		killed := time.AfterFunc(5*time.Second, func() { _ = c.process.Process.Kill() })
		_, _ = io.Copy(io.Discard, c.out)
		c.exit = c.process.Wait()
		killed.Stop()
	})
	return c.exit
}
