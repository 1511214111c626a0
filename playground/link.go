package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
)

// openTime bounds the time until a carrier is there, and each step of a handshake.
const openTime = 10 * time.Second

// errReplaced is why a connection ends that was opened anew.
var errReplaced = errors.New("opened anew")

// A way carries payloads as they are. Sending may be asked for from many goroutines.
type way interface {
	// send records a payload and writes it. It returns the number it was recorded under; over HTTP, which exchange it is too.
	send(ctx context.Context, l *link, o outgoing) (sentRef, error)

	// close ends it and waits for whatever it has started.
	close()
}

// An outgoing is what is to be sent.
type outgoing struct {
	payload []byte
	header  http.Header // beside those of the target; a nil value leaves one out
	asIs    bool        // newlines stay where they cut the message
}

// A sentRef is where something that was sent is in the recording.
type sentRef struct {
	seq  int64
	http int64
}

func (r sentRef) String() string { return capture.Ref{Seq: r.seq}.String() }

// A link is one open connection to a target.
type link struct {
	p       *Playground
	name    string // of the target
	spec    Target // when it was opened
	wire    *capture.Wire
	carrier string
	framing string
	line    bool // newlines divide messages
	way     way

	over  sync.Once
	done  chan struct{} // closed when the connection is over
	tasks sync.WaitGroup
	busy  chan struct{} // room for answers that are given without asking anybody

	mu      sync.Mutex // guards what is below
	next    int64      // the next id of ours
	waits   map[string]chan reply
	session string
	version string
	peer    *peerView
	hello   jsonrpc.Raw // the result of the handshake
}

// A reply is what became of a call of ours.
type reply struct {
	result jsonrpc.Raw
	fault  *jsonrpc.Error
	err    error
}

// dial opens the carrier of a target. Nothing is said yet.
func (p *Playground) dial(ctx context.Context, spec Target) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
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
		return nil, unavailable("%s is no address", spec.Address)
	}
	switch where.Scheme {
	case "http", "https":
		l.carrier = "http"
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
	l.carrier, _, _ = strings.Cut(where.Scheme, "+")
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

// open begins the recording of the connection.
func (l *link) open() {
	l.wire = l.p.rec.Wire(capture.WireInfo{Target: l.name, Carrier: l.carrier, Title: l.spec.Title, Peer: l.spec.show()})
}

func (l *link) frame(f stream.Framer) {
	l.line, l.framing = f == stream.Line, "line"
	if !l.line {
		l.framing = "header"
	}
}

// start runs the program of a target.
func (l *link) start(ctx context.Context) error {
	l.carrier = "stdio"
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
		l.p.options.Log(fmt.Sprintf("%s does not start: %v", l.name, err))
		return unavailable("%s does not start: %v", l.name, err)
	}
	l.p.options.Log(fmt.Sprintf("%s started (pid %d): %s", l.name, child.PID(), l.spec.show()))
	l.tasks.Go(func() {
		<-child.Exited()
		l.p.options.Log(fmt.Sprintf("%s ended (pid %d)", l.name, child.PID()))
	})
	l.run(child)
	return nil
}

// run begins to read from a carrier on which both sides speak.
func (l *link) run(t jsonrpc.Transport) {
	d := &duplex{t: t, turn: make(chan struct{}, 1)}
	l.way = d
	l.tasks.Go(func() { d.read(l) })
}

// reason is an error without what everybody knows.
func reason(err error) string {
	text := err.Error()
	for _, known := range []string{"connection refused", "no such host", "no such file or directory", "deadline exceeded"} {
		if strings.Contains(text, known) {
			return map[string]string{
				"connection refused": "nobody listens there (connection refused)", "no such host": "there is no such host",
				"no such file or directory": "there is no such socket", "deadline exceeded": "no answer in time",
			}[known]
		}
	}
	return text
}

// end says once why the connection is over, and lets go of everybody who waits. It does not wait.
func (l *link) end(why error) {
	l.over.Do(func() {
		close(l.done)
		l.wire.Close(why)
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

// close ends the connection and waits for all that belongs to it. Not for its own tasks.
func (l *link) close() {
	l.end(nil)
	if l.way != nil {
		l.way.close()
	}
	l.tasks.Wait()
}

// lost takes a link out of its target, if it is still there.
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
	p.questions = deleteFunc(p.questions, func(q *question) bool { return q.link == l })
	p.tellLocked()
}

// send sends bytes as they are.
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

// after looks at what was sent: ids that are taken, and questions that are answered.
func (l *link) after(payload []byte) {
	var answered []string
	l.mu.Lock()
	before := l.next
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // what is no message has neither
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
		l.p.tell()
	}
}

// receive looks at what has come: answers to calls of ours, and questions.
func (l *link) receive(payload []byte, seq int64) {
	batch := bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("["))
	member := 0
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // junk is on the wire for all to see
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

// deliver hands a response to the call of ours that waits for it.
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
	w <- r // room for one
}

// fail ends a call of ours without a response.
func (l *link) fail(id string, err error) {
	l.mu.Lock()
	w := l.waits[id]
	delete(l.waits, id)
	l.mu.Unlock()
	if w != nil {
		w <- reply{err: err}
	}
}

// call asks the server something in our own name, by the same way as everything else, and waits for the answer.
func (l *link) call(ctx context.Context, method string, params any) (jsonrpc.Raw, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
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
		return nil, fmt.Errorf("%s: no answer to %s in %v", l.name, method, openTime)
	}
}

// notify tells the server something in our own name.
func (l *link) notify(ctx context.Context, method string, params any) error {
	payload, err := jsonrpc.AppendNotification(nil, jsonrpc.Version2, method, params)
	if err != nil {
		return err
	}
	_, err = l.send(ctx, outgoing{payload: payload})
	return err
}

// A duplex is a way on which both sides speak.
type duplex struct {
	t    jsonrpc.Transport
	turn chan struct{} // holds a value while somebody writes
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
		seq := l.wire.Payload(capture.Out, piece) // before it is written: its answer must not come first
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

// oneLine is payload with blanks for line ends, which would cut it: they are white space in JSON.
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
			_ = d.t.Close() // err says why it ended
			return
		}
		l.receive(payload, l.wire.Payload(capture.In, payload))
	}
}

// ending is why a carrier ended, for people.
func ending(err error) string {
	if e, ok := errors.AsType[*stdio.ExitError](err); ok {
		return e.Error()
	}
	if err.Error() == "EOF" {
		return "it said all that it had to say"
	}
	return err.Error()
}

func (d *duplex) close() { _ = d.t.Close() } // nothing is to be saved here
