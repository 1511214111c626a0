package parley

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A fault is what a proxy does to one connection, after it has forwarded a number of bytes in one
// direction.
type fault uint8

const (
	noFault   fault = iota
	delayed         // every piece waits for up to 3 ms
	split           // one byte in each write
	stalled         // nothing is forwarded for a while, then all of it
	reset           // both connections end with RST
	halfClose       // one direction ends, the other continues
	blackHole       // data is dropped and the connection stays open
	faults          // the number of faults
)

var faultNames = [faults]string{"none", "delayed", "split", "stalled", "reset", "half-close", "black hole"}

// A faultPlan is the fault of one connection.
type faultPlan struct {
	fault fault
	after int64         // bytes of one direction
	up    bool          // from the client to the server
	pause time.Duration // for stalled
}

// planFault draws a random plan. Half of the connections have no fault, or one that only slows
// them.
func planFault(random *rand.Rand) faultPlan {
	p := faultPlan{up: random.IntN(2) == 0, pause: time.Duration(100+random.IntN(400)) * time.Millisecond}
	switch n := random.IntN(20); {
	case n < 7:
	case n < 9:
		p.fault = delayed
	case n < 11:
		p.fault = split
	case n < 13:
		p.fault = stalled
	case n < 16:
		p.fault = reset
	case n < 19:
		p.fault = halfClose
	default:
		p.fault = blackHole
	}
	p.after = int64(1) << random.IntN(16) // from one byte on, with a logarithmic distribution
	p.after += random.Int64N(p.after)
	return p
}

func (p faultPlan) String() string {
	return strings.Join([]string{strconv.Itoa(int(p.fault)), strconv.FormatInt(p.after, 10), strconv.FormatBool(p.up), p.pause.String()}, ",")
}

// parsePlan is the reverse of String, for a proxy that is a separate program.
func parsePlan(text string) (p faultPlan, err error) {
	fields := strings.Split(text, ",")
	if len(fields) != 4 {
		return p, errors.New("a plan has four fields")
	}
	number, err := strconv.Atoi(fields[0])
	p.fault = fault(number)
	if err == nil {
		p.after, err = strconv.ParseInt(fields[1], 10, 64)
	}
	if err == nil {
		p.up, err = strconv.ParseBool(fields[2])
	}
	if err == nil {
		p.pause, err = time.ParseDuration(fields[3])
	}
	return p, err
}

// A faultProxy forwards between clients and one server and gives each connection its own plan.
type faultProxy struct {
	listener net.Listener
	network  string
	to       string

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	open   map[net.Conn]struct{}
	closed bool
	healed bool           // no more faults
	count  [faults]int    // connections by fault
	wait   sync.WaitGroup // for all goroutines
}

// newFaultProxy listens on address, or on its own port if address is "", until the end of the test.
func newFaultProxy(t *testing.T, network, address, to string, seed uint64) *faultProxy {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{listener: listener, network: network, to: to, random: rand.New(rand.NewPCG(seed, 1)), open: map[net.Conn]struct{}{}}
	p.wait.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

func (p *faultProxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wait.Wait()
}

// heal forwards new connections without faults, and closes the existing ones.
func (p *faultProxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.healed = true
	for c := range p.open {
		_ = c.Close()
	}
}

// keep registers a connection, so that close ends it, and reports whether the proxy is still open.
func (p *faultProxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *faultProxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *faultProxy) plan() faultPlan {
	p.mu.Lock()
	defer p.mu.Unlock()
	plan := planFault(p.random)
	if p.healed {
		plan = faultPlan{}
	}
	p.count[plan.fault]++
	return plan
}

func (p *faultProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.keep(client) {
			return
		}
		p.wait.Go(func() {
			defer p.forget(client)
			server, err := net.Dial(p.network, p.to)
			if err != nil {
				return
			}
			if !p.keep(server) {
				return
			}
			defer p.forget(server)
			relay(p.plan(), client, client, server, server)
		})
	}
}

// relay forwards both directions until both have ended.
func relay(plan faultPlan, fromClient io.ReadCloser, toClient io.WriteCloser, fromServer io.ReadCloser, toServer io.WriteCloser) {
	cut := func() {
		for _, end := range []io.Closer{fromClient, toClient, fromServer, toServer} {
			if tcp, ok := end.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // RST instead of FIN
			}
			_ = end.Close()
		}
	}
	var both sync.WaitGroup
	both.Go(func() { pump(plan, plan.up, fromClient, toServer, cut) })
	both.Go(func() { pump(plan, !plan.up, fromServer, toClient, cut) })
	both.Wait()
}

// pump forwards one direction. hit reports whether the fault applies to this direction.
func pump(plan faultPlan, hit bool, from io.Reader, to io.WriteCloser, cut func()) {
	defer endWriting(to)
	piece := make([]byte, 4<<10)
	passed := int64(0)
	for {
		n, err := from.Read(piece)
		for text := piece[:n]; len(text) > 0; {
			part := text
			if hit {
				switch plan.fault {
				case delayed:
					time.Sleep(rand.N(3 * time.Millisecond)) // simulates a slow line
				case split:
					part = text[:1]
				case stalled, reset, halfClose, blackHole:
					if left := plan.after - passed; left > 0 {
						part = text[:min(left, int64(len(text)))]
						break
					}
					switch plan.fault {
					case stalled:
						time.Sleep(plan.pause) // simulates a stalled line
						plan.fault = noFault
					case reset:
						cut()
						return
					case halfClose:
						endWriting(to)
						_, _ = io.Copy(io.Discard, from) // the sender does not notice
						return
					case blackHole:
						_, _ = io.Copy(io.Discard, from)
						return
					}
				}
			}
			written, err := to.Write(part)
			passed += int64(written)
			if err != nil {
				_, _ = io.Copy(io.Discard, from) // as a kernel does whose reader is gone
				return
			}
			text = text[len(part):]
		}
		if err != nil {
			return
		}
	}
}

// endWriting ends one direction, or both if the connection cannot be half-closed.
func endWriting(to io.WriteCloser) {
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
}

// faultChild is the environment variable of a copy of the test program that relays its stdio to a
// server: its value is the plan and the address.
const faultChild = "PARLEY_TEST_FAULT_CHILD"

// serveFaultChild is the main function of the copy with faultChild.
func serveFaultChild(setting string) int {
	text, address, _ := strings.Cut(setting, "@")
	plan, err := parsePlan(text)
	if err != nil {
		return 2
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		return 3
	}
	go func() { // with a black hole only the end of the input ends this process
		time.Sleep(time.Minute) // maximum lifetime
		os.Exit(4)
	}()
	relay(plan, os.Stdin, os.Stdout, server, server)
	return 0
}
