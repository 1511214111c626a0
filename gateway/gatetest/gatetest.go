// Package gatetest is a fake upstream with faults, for tests of package gateway.
//
// [HTTP] and [TCP] start an [Upstream] on a free port of this machine. It answers each call with
//
//	["NAME","METHOD",PARAMS]
//
// unless a [Step] was planned, and stores every byte that it received:
//
//	u := gatetest.HTTP(t, "a")
//	u.Next(gatetest.Step{Fault: gatetest.Cut}) // the next payload
//	u.Always(gatetest.Step{Fault: gatetest.Status, Status: 503})
//	… // calls to u.URL()
//	if n := u.Count("billing.pay"); n != 1 { … }
package gatetest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Fault is what an Upstream does wrong.
type Fault int

const (
	None     Fault = iota // answers
	Stall                 // never answers; the exchange ends with the client's connection or the test
	Cut                   // reads the payload and closes the connection
	CutHalf               // closes the connection in the middle of the answer
	Garbage               // sends text that is not JSON-RPC
	Status                // HTTP: responds with Step.Status and a body that is not JSON-RPC; TCP: like Garbage
	WrongID               // answers with another ID
	Twice                 // answers each call twice, the second time with another result
	Missing               // leaves out the answer to the last call of the payload
	NoArrays              // answers an array with one error -32600, and single calls as None
	Error                 // answers calls with the JSON-RPC error 7 "no such plan"
	Reversed              // answers the calls of an array in reverse order
)

// A Step is what an Upstream does with one payload. The zero value answers at once.
type Step struct {
	Fault      Fault
	After      time.Duration // waits before that
	Status     int           // of the fault Status; the default is 500
	RetryAfter string        // header of an HTTP response, with any fault
}

// A Payload is what arrived: the body of a POST, or a line.
type Payload struct {
	Text     []byte // byte for byte
	Header   http.Header
	Messages []Message
	Conn     int // number of the connection, from 1
}

// A Message is a valid message of a Payload.
type Message struct {
	Method string
	Params string // JSON text, "" for none
	ID     string // JSON text, "" for a notification
}

// An Upstream is a server that fails as planned. Its methods are safe for concurrent use.
type Upstream struct {
	name    string
	scheme  string
	address string
	tb      testing.TB
	ended   chan struct{} // closed at the end of the test
	work    sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	listener net.Listener
	server   *http.Server
	conns    map[net.Conn]int
	accepted int
	next     []Step
	always   Step
	by       func(*Payload) Step
	got      []*Payload
	running  int
	most     int
	arrived  chan struct{} // closed at the next payload
}

// HTTP starts an Upstream at an http:// address. It ends with the test.
func HTTP(tb testing.TB, name string) *Upstream { return start(tb, name, "http") }

// TCP starts an Upstream at a tcp:// address, one message or array per line. It ends with the test.
func TCP(tb testing.TB, name string) *Upstream { return start(tb, name, "tcp") }

func start(tb testing.TB, name, scheme string) *Upstream {
	u := &Upstream{name: name, scheme: scheme, tb: tb, ended: make(chan struct{}), conns: make(map[net.Conn]int), arrived: make(chan struct{})}
	if err := u.listen("127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		close(u.ended)
		u.Refuse()
		u.work.Wait()
	})
	return u
}

// URL returns the address, which stays the same after Refuse and Accept.
func (u *Upstream) URL() string {
	if u.scheme == "http" {
		return "http://" + u.address + "/rpc"
	}
	return "tcp://" + u.address
}

// Always determines what the Upstream does with all payloads for which nothing else is planned.
func (u *Upstream) Always(s Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.always = s
}

// Next determines what the Upstream does with the next payloads.
func (u *Upstream) Next(steps ...Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.next = append(u.next, steps...)
}

// By lets f determine what the Upstream does with each payload after those of Next.
func (u *Upstream) By(f func(*Payload) Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.by = f
}

// Refuse closes all connections and refuses new ones.
func (u *Upstream) Refuse() {
	u.mu.Lock()
	listener, server := u.listener, u.server
	u.listener, u.server = nil, nil
	conns := u.conns
	u.conns = make(map[net.Conn]int)
	u.mu.Unlock()
	if listener == nil {
		return
	}
	_ = listener.Close() // the test has ended, or continues without it
	if server != nil {
		_ = server.Close()
	}
	for c := range conns {
		_ = c.Close()
	}
}

// Accept ends Refuse.
func (u *Upstream) Accept() {
	u.tb.Helper()
	for range 100 { // the port may be in use for a moment
		err := u.listen(u.address)
		if err == nil {
			return
		}
		u.tb.Log(err)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-u.ended:
		}
	}
	u.tb.Fatal("the port is in use")
}

// Payloads returns what arrived so far.
func (u *Upstream) Payloads() []*Payload {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.got)
}

// Count returns how often a method arrived, also within arrays. "" counts all messages.
func (u *Upstream) Count(method string) (n int) {
	for _, p := range u.Payloads() {
		for _, m := range p.Messages {
			if method == "" || m.Method == method {
				n++
			}
		}
	}
	return n
}

// Connections returns how many connections were accepted.
func (u *Upstream) Connections() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.accepted
}

// Most returns how many payloads were handled at once at most.
func (u *Upstream) Most() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.most
}

// Await waits until n messages have arrived, and fails the test after 30 s.
func (u *Upstream) Await(n int) {
	u.tb.Helper()
	timeout := time.After(30 * time.Second)
	for {
		u.mu.Lock()
		arrived := u.arrived
		u.mu.Unlock()
		if u.Count("") >= n {
			return
		}
		select {
		case <-arrived:
		case <-timeout:
			u.tb.Fatalf("%s: %d messages arrived, want %d", u.name, u.Count(""), n)
		}
	}
}

func (u *Upstream) listen(address string) error {
	var config net.ListenConfig
	l, err := config.Listen(u.tb.Context(), "tcp", address)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.address, u.listener = l.Addr().String(), l
	if u.scheme == "http" {
		u.server = &http.Server{Handler: http.HandlerFunc(u.serveHTTP), ReadHeaderTimeout: time.Minute, ConnState: u.track}
		server := u.server
		u.work.Go(func() { _ = server.Serve(l) }) // ends with Refuse
		return nil
	}
	u.work.Go(func() { u.serveTCP(l) })
	return nil
}

// arrive stores a payload and returns what to do with it.
func (u *Upstream) arrive(p *Payload) Step {
	if bad := jsonrpc.Scan(p.Text, func(m *jsonrpc.Message) {
		if m.Bad != nil {
			return
		}
		p.Messages = append(p.Messages, Message{m.Method, string(m.Params), idOf(m)})
	}); bad != nil {
		u.tb.Logf("%s got %q: %v", u.name, p.Text, bad)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.got = append(u.got, p)
	close(u.arrived)
	u.arrived = make(chan struct{})
	switch {
	case len(u.next) > 0:
		s := u.next[0]
		u.next = u.next[1:]
		return s
	case u.by != nil:
		return u.by(p)
	}
	return u.always
}

// begin counts a payload that is handled until the returned function is called.
func (u *Upstream) begin() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running++
	u.most = max(u.most, u.running)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.running--
	}
}

// pass waits for the time of a step, and without end for a Stall. It reports whether the step goes
// on: gone is closed when the client has left.
func (u *Upstream) pass(s Step, gone <-chan struct{}) bool {
	var stalled <-chan time.Time
	if s.Fault != Stall {
		timer := time.NewTimer(s.After)
		defer timer.Stop()
		stalled = timer.C
	}
	select {
	case <-stalled:
		return true
	case <-gone:
	case <-u.ended:
	}
	return false
}

// answers returns the answer to a payload, nil for none.
func (u *Upstream) answers(p *Payload, f Fault) []byte {
	array := bytes.HasPrefix(bytes.TrimSpace(p.Text), []byte("["))
	if f == NoArrays && array {
		return []byte(`{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`)
	}
	var all []string
	for _, m := range p.Messages {
		if m.ID == "" {
			continue
		}
		id, params := m.ID, m.Params
		if params == "" {
			params = "null"
		}
		if f == WrongID {
			id = `"another"`
		}
		one := fmt.Sprintf(`{"jsonrpc":"2.0","result":[%q,%q,%s],"id":%s}`, u.name, m.Method, params, id)
		if f == Error {
			one = fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":7,"message":"no such plan","data":{"by":%q}},"id":%s}`, u.name, id)
		}
		all = append(all, one)
		if f == Twice {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","result":"again","id":%s}`, id))
		}
	}
	if f == Missing && len(all) > 0 {
		all = all[:len(all)-1]
	}
	if f == Reversed {
		slices.Reverse(all)
	}
	switch {
	case len(all) == 0:
		return nil
	case array:
		return []byte("[" + strings.Join(all, ",") + "]")
	}
	return []byte(strings.Join(all, "\n"))
}
