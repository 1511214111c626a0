package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/tap"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// This file implements `go run . -tap`: the cost of a tap and of a recording on each transport.
// Both are compared with the same pair without them, in turns of a few milliseconds, so that
// variations of the machine affect both. A relay that only copies is measured, too: it shows the
// cost of forwarding. What the tap costs in addition is the cost of parsing and recording.

// A fare is one way that a call can take.
type fare struct {
	name string
	base int // index of the fare in its table that it is compared with
	open func() (*Session, error)
}

// A fareTable is a transport with the ways over it. The first one is the bare pair.
type fareTable struct {
	transport string
	fares     []fare
}

func fareTables() []fareTable {
	p := newParleyUse(false, false)
	bare := half{serve: p.serve, ask: p.ask}.on(Unix, TCP)
	recorded := half{serve: p.serve, ask: p.askRecorded}.on(Unix, TCP)
	over := func(c Transport) []fare {
		return []fare{
			{"bare", 0, bare[c]},
			{"relay that copies", 0, func() (*Session, error) { return p.between(c, copyRelay) }},
			{"tap", 0, func() (*Session, error) { return p.tapped(c) }},
			{"recorded by the client", 0, recorded[c]},
		}
	}
	return []fareTable{
		{"stdio", []fare{
			{"bare", 0, func() (*Session, error) { return p.child(nil) }},
			{"relay that copies", 0, func() (*Session, error) { return p.child(copyChild) }},
			{"tap", 0, p.tappedChild},
		}},
		{"Unix socket", over(Unix)},
		{"TCP", over(TCP)},
		{"HTTP", []fare{
			{"bare", 0, p.overHTTP},
			{"relay that copies", 0, func() (*Session, error) { return p.copiedWeb(p.handler(), p.webSession) }},
			{"tap", 0, p.tappedHTTP},
			{"bare, net/http's client", 3, func() (*Session, error) {
				url, stop, err := serveHTTP(p.handler())
				if err != nil {
					return nil, err
				}
				return p.withClient(url, httpClient(), stop), nil
			}},
			{"the same, recorded", 3, p.recordedHTTP},
		}},
		{"WebSocket", []fare{
			{"bare", 0, p.overWebSocket},
			{"relay that copies", 0, func() (*Session, error) { return p.copiedWeb(p.socketServer(), p.socketSession) }},
			{"tap", 0, p.tappedWebSocket},
			{"recorded by the client", 0, p.recordedWebSocket},
		}},
	}
}

// webSession sends requests by HTTP to an address.
func (p parleyUse) webSession(url string, stop func()) (*Session, error) {
	c := httprpc.NewClient(url, nil)
	return p.session(c, func() { c.Close(); stop() }), nil
}

// socketServer responds on WebSockets until their clients disconnect.
func (p parleyUse) socketServer() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, err := websocket.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		p.serveOn(t)
	})
}

func (p parleyUse) socketSession(url string, stop func()) (*Session, error) {
	t, err := websocket.Dial(context.Background(), strings.Replace(url, "http", "ws", 1), nil)
	if err != nil {
		return nil, err
	}
	return alsoClosing(p.asking(t), stop), nil
}

func (p parleyUse) recordedWebSocket() (*Session, error) {
	rec, err := capture.New(nil)
	if err != nil {
		return nil, err
	}
	url, stop, err := serveHTTP(p.socketServer())
	if err != nil {
		return nil, err
	}
	t, err := websocket.Dial(context.Background(), strings.Replace(url, "http", "ws", 1), nil)
	if err != nil {
		return nil, err
	}
	s := flushing(p.asking(rec.Wire(capture.WireInfo{Target: "bench"}).Transport(t)), rec)
	return alsoClosing(s, func() {
		stop()
		_ = rec.Close() // a temporary file
	}), nil
}

func (p parleyUse) tappedWebSocket() (*Session, error) {
	r := &tap.Relay{Carrier: tap.HTTP}
	s, err := p.web(p.socketServer(), p.socketSession, func(address string, l net.Listener) (func(), error) {
		r.Host, r.Names = address, []string{l.Addr().String()}
		r.Dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
		return relay(r, l)
	})
	if err != nil {
		return nil, err
	}
	return flushing(s, r.Record), nil
}

// web puts something between a server and its client, which connects to the listener.
func (p parleyUse) web(h http.Handler, open func(url string, stop func()) (*Session, error), put func(address string, l net.Listener) (func(), error)) (*Session, error) {
	url, stopServing, err := serveHTTP(h)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	stop, err := put(strings.TrimPrefix(url, "http://"), l)
	if err != nil {
		return nil, err
	}
	return open("http://"+l.Addr().String(), func() {
		stop()
		stopServing()
	})
}

func (p parleyUse) copiedWeb(h http.Handler, open func(url string, stop func()) (*Session, error)) (*Session, error) {
	return p.web(h, open, func(address string, l net.Listener) (func(), error) {
		var all sync.WaitGroup
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				server, err := net.Dial("tcp", address)
				if err != nil {
					_ = c.Close() // the client detects the end
					continue
				}
				all.Go(func() { copyBoth(c, server) })
			}
		})
		return func() {
			_ = l.Close() // the connections end with their clients
			all.Wait()
		}, nil
	})
}

// copyBoth copies in both directions until one of them ends.
func copyBoth(a, b net.Conn) {
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		ways.Go(func() {
			copyOnly(way[0], way[1])
			_, _ = way[0].Close(), way[1].Close() // the end of one direction ends both
		})
	}
	ways.Wait()
}

// copyOnly copies as a tap does, but without parsing. It avoids splice, because parsed bytes must
// be in memory.
func copyOnly(dst io.Writer, src io.Reader) {
	// It returns at the end of input, with or without an error.
	_, _ = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 64<<10))
}

func copyRelay(client, server net.Conn) (stop func(), err error) {
	var done sync.WaitGroup
	done.Go(func() { copyBoth(client, server) })
	return done.Wait, nil
}

// between puts something between the two ends of a connection. The client's end is closed before
// stop is called.
func (p parleyUse) between(c Transport, put func(client, server net.Conn) (stop func(), err error)) (*Session, error) {
	server, behind, err := connect(c)
	if err != nil {
		return nil, err
	}
	stopServing, err := p.serve(server)
	if err != nil {
		return nil, err
	}
	before, client, err := connect(c)
	if err != nil {
		return nil, err
	}
	stop, err := put(before, behind)
	if err != nil {
		return nil, err
	}
	s, err := p.ask(client)
	if err != nil {
		return nil, err
	}
	return alsoClosing(s, func() {
		client.Close()
		stop()
		stopServing()
	}), nil
}

// stdioServer is the variable that makes this program a server on stdio.
const stdioServer = "PARLEY_BENCH_STDIO"

// serveStdio serves requests on stdin and stdout until the end of input.
func serveStdio() {
	newParleyUse(false, false).serveOn(stream.New(pipes{os.Stdin, os.Stdout}, stream.Line, nil))
}

// serveOn serves requests on t until its client disconnects.
func (p parleyUse) serveOn(t jsonrpc.Transport) {
	c := jsonrpc.NewConn(t)
	c.Handler, c.Mode, c.Cancellation = p.mux, p.mux.Mode, jsonrpc.CancelRequest
	_ = c.Serve(context.Background()) // returns at the end of input
}

// pipes are the two files of a connection.
type pipes struct{ r, w *os.File }

func (p pipes) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p pipes) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p pipes) Close() error                { return errors.Join(p.w.Close(), p.r.Close()) }

// child is a pair whose server is a process. If run is not nil, it runs the process with something
// in between.
func (p parleyUse) child(run func(argv []string, in, out *os.File) error) (*Session, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	theirs, ourW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourR, theirW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if run == nil {
		run = bareChild
	}
	var done sync.WaitGroup
	done.Go(func() {
		if err := run([]string{self}, theirs, theirW); err != nil {
			fmt.Fprintln(os.Stderr, "bench: the child:", err)
		}
		_, _ = theirs.Close(), theirW.Close() // the child has exited
	})
	s := p.asking(stream.New(pipes{ourR, ourW}, stream.Line, &stream.Options{MaxMessage: 16 << 20}))
	return alsoClosing(s, done.Wait), nil
}

func stdioCommand(argv []string) *exec.Cmd {
	cmd := exec.Command(argv[0])
	cmd.Env = append(os.Environ(), stdioServer+"=1")
	return cmd
}

func bareChild(argv []string, in, out *os.File) error {
	cmd := stdioCommand(argv)
	cmd.Stdin, cmd.Stdout = in, out
	return cmd.Run()
}

func copyChild(argv []string, in, out *os.File) error {
	cmd := stdioCommand(argv)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		copyOnly(stdin, in)
		_ = stdin.Close() // half-close
	}()
	copyOnly(out, stdout)
	return cmd.Wait()
}

// tappedChild is a pair whose server is a process behind a tap.
func (p parleyUse) tappedChild() (*Session, error) {
	rec, err := capture.New(nil)
	if err != nil {
		return nil, err
	}
	s, err := p.child(func(argv []string, in, out *os.File) error {
		_, err := (&tap.Child{Argv: argv, Env: append(os.Environ(), stdioServer+"=1"), Stdin: in, Stdout: out, Framing: tap.Line, Record: rec}).Run(context.Background())
		return err
	})
	if err != nil {
		_ = rec.Close() // a temporary file
		return nil, err
	}
	return alsoClosing(flushing(s, rec), func() { _ = rec.Close() }), nil // a temporary file
}

// A fareResult is the measured cost of a way.
type fareResult struct {
	p50, cpu, cpu50, rate      float64 // ns; ns; ns; calls per second
	added                      float64 // ns of the p50: the median of the turns' differences
	p50Ratio, cpuRatio, toRate float64 // relative to its base: the median of the turns' ratios
}

// measure runs all ways in turns, and compares them turn by turn.
func (t fareTable) measure(rounds, calls int) ([]fareResult, error) {
	sessions := make([]*Session, len(t.fares))
	for i, f := range t.fares {
		s, err := f.open()
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", t.transport, f.name, err)
		}
		defer s.Close()
		sessions[i] = s
	}
	type turn struct{ p50, cpu, cpu50, rate float64 }
	turns := make([][]turn, len(sessions))
	for round := range rounds + 1 {
		for k := range sessions {
			i := (k + round) % len(sessions)
			one, err := oneCaller(sessions[i], calls)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", t.transport, t.fares[i].name, err)
			}
			many, err := manyCallers(sessions[i], 50, 10*calls)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", t.transport, t.fares[i].name, err)
			}
			if round > 0 { // the first round warms up
				turns[i] = append(turns[i], turn{one[0], one[1], many[1], many[0]})
			}
		}
	}
	of := func(i int, f func(turn) float64) float64 {
		var values []float64
		for _, x := range turns[i] {
			values = append(values, f(x))
		}
		return median(values)
	}
	against := func(i int, f func(turn) float64) float64 {
		var values []float64
		for round, x := range turns[i] {
			values = append(values, f(x)/f(turns[t.fares[i].base][round]))
		}
		return median(values)
	}
	results := make([]fareResult, len(sessions))
	for i := range results {
		p50, cpu := func(x turn) float64 { return x.p50 }, func(x turn) float64 { return x.cpu }
		rate := func(x turn) float64 { return x.rate }
		var added []float64
		for round, x := range turns[i] {
			added = append(added, x.p50-turns[t.fares[i].base][round].p50)
		}
		results[i] = fareResult{
			of(i, p50), of(i, cpu), of(i, func(x turn) float64 { return x.cpu50 }), of(i, rate), median(added),
			against(i, p50), against(i, cpu), against(i, rate),
		}
	}
	return results, nil
}

// oneCaller returns the median latency, and the CPU time of a call.
func oneCaller(s *Session, calls int) (out [2]float64, err error) {
	times := make([]time.Duration, calls)
	before := processTime()
	for i := range times {
		begin := time.Now()
		if err := s.Call(context.Background()); err != nil {
			return out, err
		}
		times[i] = time.Since(begin)
	}
	if err := s.settle(); err != nil {
		return out, err
	}
	out[1] = float64(processTime()-before) / float64(calls)
	slices.SortFunc(times, cmp.Compare)
	out[0] = float64(times[calls/2])
	return out, nil
}

// manyCallers returns the calls per second, and the CPU time of a call.
func manyCallers(s *Session, callers, calls int) (out [2]float64, err error) {
	errs := make([]error, callers)
	var all sync.WaitGroup
	before, begin := processTime(), time.Now()
	for i := range callers {
		all.Go(func() {
			for range calls / callers {
				if errs[i] = s.Call(context.Background()); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	errs = append(errs, s.settle())
	done := float64(calls / callers * callers)
	return [2]float64{done / time.Since(begin).Seconds(), float64(processTime()-before) / done}, errors.Join(errs...)
}

// tapCost writes the tables.
func tapCost(w io.Writer, rounds, calls int) error {
	fmt.Fprint(w, "| transport | | p50, 1 caller | added | x p50 | CPU a call | x CPU | calls/s, 50 callers | x calls/s | CPU a call |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, t := range fareTables() {
		fmt.Fprintln(os.Stderr, t.transport)
		results, err := t.measure(rounds, calls)
		if err != nil {
			return err
		}
		for i, r := range results {
			base := t.fares[i].base
			added, x, xCPU, xRate := "", "", "", ""
			if i != base {
				added = fmt.Sprintf("%+.2f us", r.added/1000)
				x, xCPU, xRate = fmt.Sprintf("%.2f", r.p50Ratio), fmt.Sprintf("%.2f", r.cpuRatio), fmt.Sprintf("%.2f", r.toRate)
			}
			fmt.Fprintf(w, "| %s | %s | %.1f us | %s | %s | %.1f us | %s | %.0f | %s | %.1f us |\n", t.transport, t.fares[i].name, r.p50/1000, added, x, r.cpu/1000, xCPU, r.rate, xRate, r.cpu50/1000)
		}
	}
	return nil
}
