package playground

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
)

// openTime limits the time to connect to a target, and each step of a handshake.
const openTime = 10 * time.Second

// errReplaced is the reason for closing a connection that was reopened.
var errReplaced = errors.New("reopened")

// A way transports payloads unchanged. Its send is safe for concurrent use.
type way interface {
	// send records a payload and writes it. It returns its number in the recording and, over HTTP,
	// that of its exchange.
	send(ctx context.Context, l *link, o outgoing) (sentRef, error)

	// close closes the connection and waits for everything that it started.
	close()
}

// An outgoing is a payload to send.
type outgoing struct {
	payload []byte
	header  http.Header // in addition to the target's headers; a nil value removes one
	asIs    bool        // newlines are sent even where they split the message
}

// A sentRef is the position of a sent payload in the recording.
type sentRef struct {
	seq  int64
	http int64
}

func (r sentRef) String() string { return capture.Ref{Seq: r.seq}.String() }

// A link is one open connection to a target.
type link struct {
	p         *Playground
	name      string // name of the target
	spec      Target // as it was when the connection was opened
	wire      *capture.Wire
	transport string
	framing   string
	line      bool // newlines separate messages
	way       way

	over  sync.Once
	done  chan struct{} // closed when the connection is closed
	tasks sync.WaitGroup
	busy  chan struct{} // limits automatic responses

	mu      sync.Mutex // guards the fields below
	page    string     // the tab that was last to send something
	next    int64      // the next ID for our own requests
	waits   map[string]chan reply
	session string
	version string
	peer    *peerView
	hello   jsonrpc.Raw // the result of the handshake
	trial   *trial      // the call of a suite that runs, or nil
}

// setPage records the tab that sends something.
func (l *link) setPage(page string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.page = page
}

// lastPage returns the tab that was last to send something.
func (l *link) lastPage() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.page
}

// A reply is the result of one of our own calls.
type reply struct {
	result jsonrpc.Raw
	fault  *jsonrpc.Error
	err    error
}

// dial opens the transport of a target. It sends no message.
func (p *Playground) dial(ctx context.Context, spec Target) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, p.openLimit())
	defer cancel()
	l := &link{p: p, name: spec.Name, spec: spec, done: make(chan struct{}), busy: make(chan struct{}, 16), next: 1, waits: make(map[string]chan reply)}
	if len(spec.Command) > 0 {
		return l, l.start(ctx)
	}
	where, err := parley.ParseTarget(spec.Address)
	if err != nil {
		return nil, unavailable("%v", err)
	}
	if isExec(where) {
		return nil, unavailable("%s is not an address", spec.Address)
	}
	switch where.Scheme {
	case "http", "https":
		l.transport = "http"
		l.open()
		l.way = newPost(l, where)
		return l, nil
	}
	dialer := parley.Dialer{TLS: p.options.TLS, Header: spec.Header, MaxMessage: maxMessage}
	if where.Scheme != "tcp" && where.Scheme != "tls" {
		dialer.Token = spec.Token
	}
	transport, err := dialer.Open(ctx, where)
	if err != nil {
		return nil, unavailable("%s: %s", spec.show(), reason(err))
	}
	l.transport, _, _ = strings.Cut(where.Scheme, "+")
	if where.Scheme == "tcp" || where.Scheme == "tls" || where.Scheme == "unix" {
		l.frame(where.Framing)
	}
	l.open()
	l.run(transport)
	if dialer.Token == "" && spec.Token != "" {
		if _, err := l.call(ctx, parley.MethodAuthenticate, map[string]string{"token": spec.Token}); err != nil {
			l.close()
			return nil, unavailable("%s: %v", spec.show(), err)
		}
	}
	return l, nil
}

// open starts recording the connection.
func (l *link) open() {
	l.wire = l.p.rec.Wire(capture.WireInfo{Target: l.name, Carrier: l.transport, Title: l.spec.Title, Peer: l.spec.show()})
}

func (l *link) frame(f stream.Framer) {
	l.line, l.framing = f == stream.Line, "line"
	if !l.line {
		l.framing = "header"
	}
}

// start runs the program of a target.
func (l *link) start(ctx context.Context) error {
	l.transport = "stdio"
	l.frame(l.spec.Framing)
	l.open()
	child, err := stdio.Start(ctx, l.spec.Command, &stdio.Options{
		Options: stream.Options{MaxMessage: maxMessage},
		Framing: l.spec.Framing,
		Dir:     l.spec.Dir,
		Env:     l.spec.Env,
		Stderr:  func(line string) { l.wire.Stderr([]byte(line)) },
	})
	if err != nil {
		l.wire.Close(err)
		l.p.options.Log(fmt.Sprintf("cannot start %s: %v", l.name, err))
		return unavailable("cannot start %s: %v", l.name, err)
	}
	l.p.options.Log(fmt.Sprintf("%s started (pid %d): %s", l.name, child.PID(), l.spec.show()))
	l.tasks.Go(func() {
		<-child.Exited()
		l.p.options.Log(fmt.Sprintf("%s ended (pid %d)", l.name, child.PID()))
	})
	l.run(child)
	return nil
}

// run starts reading from a bidirectional transport.
func (l *link) run(t jsonrpc.Transport) {
	d := &duplex{t: t, turn: make(chan struct{}, 1)}
	l.way = d
	l.tasks.Go(func() { d.read(l) })
}

// reason returns the text of an error without redundant parts.
func reason(err error) string {
	text := err.Error()
	for _, known := range []string{"connection refused", "no such host", "no such file or directory", "deadline exceeded"} {
		if strings.Contains(text, known) {
			return map[string]string{
				"connection refused": "no server is listening there (connection refused)", "no such host": "host not found",
				"no such file or directory": "socket not found", "deadline exceeded": "no response in time",
			}[known]
		}
	}
	return text
}

// end closes the connection with a reason and unblocks every waiting call. Only the first call has
// an effect. It does not wait.
func (l *link) end(why error) {
	l.over.Do(func() {
		close(l.done)
		l.wire.Close(cmp.Or(why, capture.ErrHungUp))
		l.mu.Lock()
		waits := l.waits
		l.waits = nil
		l.mu.Unlock()
		for _, w := range waits {
			w <- reply{err: errors.New("the connection was closed")}
		}
		l.p.lost(l, why)
	})
}

// close closes the connection and waits for everything that belongs to it. Its own tasks must not
// call it.
func (l *link) close() {
	l.end(nil)
	if l.way != nil {
		l.way.close()
	}
	grace.Wait(&l.tasks, grace.Time)
}

// lost removes a link from its target, if it is still the current one.
func (p *Playground) lost(l *link, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[l.name]
	if t != nil && t.link == l {
		t.link, t.since = nil, time.Now()
		t.state, t.why = stateClosed, ""
		if why != nil {
			t.state, t.why = stateLost, why.Error()
		}
	}
	p.questions.remove(l, func(*question) bool { return true })
	p.changes.signal()
}

// send sends bytes unchanged.
func (l *link) send(ctx context.Context, o outgoing) (sentRef, error) {
	select {
	case <-l.done:
		return sentRef{}, unavailable("%s is closed", l.name)
	default:
	}
	ref, err := l.way.send(ctx, l, o)
	if err != nil {
		return ref, unavailable("%s: %s", l.name, reason(err))
	}
	l.after(o.payload)
	return ref, nil
}

// after examines what was sent: which IDs are in use, and which questions are answered.
func (l *link) after(payload []byte) {
	var answered []string
	l.mu.Lock()
	before := l.next
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // invalid messages contain neither
		switch {
		case !m.Request:
			answered = append(answered, m.ID.String())
		case m.Bad == nil:
			if n, ok := m.ID.Int(); ok && n >= l.next && n < 1<<52 {
				l.next = n + 1
			}
		}
	})
	moved := l.next != before
	l.mu.Unlock()
	if len(answered) > 0 {
		l.p.answered(l, answered)
	}
	if moved {
		l.p.changes.signal()
	}
}

// receive examines what was received: responses to our own calls, and questions.
func (l *link) receive(payload []byte, seq int64) {
	l.collect(seq, payload)
	batch := bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("["))
	member := 0
	// Invalid input is shown in the recorded traffic.
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) {
		ref := capture.Ref{Seq: seq}
		if batch {
			member++
			ref.Member = member
		}
		switch {
		case !m.Request:
			l.deliver(m)
		case m.Bad != nil:
		case m.ID.IsZero():
			l.notified(m)
		default:
			l.asked(m, ref)
		}
	})
}

// deliver passes a response to the waiting call of ours.
func (l *link) deliver(m *jsonrpc.Message) {
	l.mu.Lock()
	w := l.waits[m.ID.String()]
	delete(l.waits, m.ID.String())
	l.mu.Unlock()
	if w == nil {
		return
	}
	r := reply{result: m.Result.Clone()}
	if err := m.Decode(nil); err != nil {
		r.err = err
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
			r.fault, r.err = &jsonrpc.Error{Code: e.Code, Message: strings.Clone(e.Message), Data: e.Data.Clone()}, nil
		}
	}
	w <- r // has capacity 1
}

// fail completes one of our own calls without a response.
func (l *link) fail(id string, err error) {
	l.mu.Lock()
	w := l.waits[id]
	delete(l.waits, id)
	l.mu.Unlock()
	if w != nil {
		w <- reply{err: err}
	}
}

// call sends a request of our own over the same connection as everything else, and waits for the
// response.
func (l *link) call(ctx context.Context, method string, params any) (jsonrpc.Raw, error) {
	ctx, cancel := context.WithTimeout(ctx, l.p.openLimit())
	defer cancel()
	w := make(chan reply, 1)
	l.mu.Lock()
	if l.waits == nil {
		l.mu.Unlock()
		return nil, unavailable("%s is closed", l.name)
	}
	id := jsonrpc.IntID(l.next)
	l.next++
	l.waits[id.String()] = w
	l.mu.Unlock()
	defer l.fail(id.String(), nil)

	payload, err := jsonrpc.AppendRequest(nil, jsonrpc.Version2, id, method, params)
	if err != nil {
		return nil, err
	}
	if _, err := l.send(ctx, outgoing{payload: payload}); err != nil {
		return nil, err
	}
	select {
	case r := <-w:
		if r.fault != nil {
			return nil, r.fault
		}
		return r.result, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: no response to %s in %v", l.name, method, l.p.openLimit())
	}
}

// notify sends a notification of our own to the server.
func (l *link) notify(ctx context.Context, method string, params any) error {
	payload, err := jsonrpc.AppendNotification(nil, jsonrpc.Version2, method, params)
	if err != nil {
		return err
	}
	_, err = l.send(ctx, outgoing{payload: payload})
	return err
}

// A duplex is a bidirectional way: both sides send messages.
type duplex struct {
	t    jsonrpc.Transport
	turn chan struct{} // holds a value while a writer is active
}

func (d *duplex) send(ctx context.Context, l *link, o outgoing) (sentRef, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return sentRef{}, context.Cause(ctx)
	}
	pieces := [][]byte{o.payload}
	if l.line {
		if o.asIs {
			pieces = bytes.Split(o.payload, []byte("\n"))
		} else {
			pieces[0] = oneLine(o.payload)
		}
	}
	var b jsonrpc.Burst
	var ref sentRef
	for _, piece := range pieces {
		// The payload is recorded before the write, so that its response is not recorded first.
		seq := l.wire.Payload(capture.Out, piece)
		if ref.seq == 0 {
			ref.seq = seq
		}
		b.Add(piece)
	}
	if err := d.t.Write(b); err != nil {
		l.end(err)
		return ref, err
	}
	return ref, nil
}

// oneLine replaces line ends in payload, which would split it, by blanks. Both are white space in
// JSON.
func oneLine(payload []byte) []byte {
	if bytes.IndexByte(payload, '\n') < 0 {
		return payload
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(payload, []byte("\r\n"), []byte("  ")), []byte("\n"), []byte(" "))
}

func (d *duplex) read(l *link) {
	for {
		payload, _, err := d.t.Read()
		if fault, ok := errors.AsType[*jsonrpc.FrameError](err); ok && !fault.Final {
			l.wire.Junk(capture.In, nil, fault.Error())
			continue
		}
		if err != nil {
			l.end(fmt.Errorf("%s closed the connection: %s", l.name, ending(err)))
			_ = d.t.Close() // err has the cause
			return
		}
		l.receive(payload, l.wire.Payload(capture.In, payload))
	}
}

// ending returns the reason why a transport closed, as text for people.
func ending(err error) string {
	if e, ok := errors.AsType[*stdio.ExitError](err); ok {
		return e.Error()
	}
	if err.Error() == "EOF" {
		return "end of stream"
	}
	return err.Error()
}

func (d *duplex) close() { _ = d.t.Close() } // nothing to flush
