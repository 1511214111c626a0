package streamable

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// begin handles the POST that may begin a session.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, b *buffer) {
	caller, x := s.caller(r), b.response
	if !s.reserve(caller) {
		refuse(x, b.in, full)
		return
	}
	reserved := true
	giveBack := func() {
		if reserved {
			reserved = false
			s.unreserve(caller)
		}
	}
	defer giveBack() // also if a user's function panics
	n := s.newSession(caller)
	if s.Principal != nil {
		n.principal = s.Principal(r)
	}
	s.Begin(n, r)
	t := &turn{session: n, w: w, r: r, buffer: b}
	b.checks.set(x, r, n.Check, nil)
	streams := x.Stream
	x.Stream = false // the headers are sent when the session exists
	x.Sink = drops{} // there is no stream before there is a session
	t.reply(r.Context())
	if t.late {
		giveBack()
		n.end()
		return
	}
	if n.Opened != nil && !n.Opened() {
		giveBack()
		n.end()
		t.write()
		return
	}
	if s.NewID != nil {
		if id := s.NewID(n); id != "" {
			n.ID = id
		}
	}
	reserved = false // the session has it
	if !s.publish(n) {
		n.end()
		refuse(x, b.in, stopping)
		return
	}
	w.Header()[http.CanonicalHeaderKey(s.SessionHeader)] = []string{n.ID}
	x.Stream = streams
	t.write()
}

// A turn is one POST within a session. It is the Sink of its Response: the first message turns
// the response into a stream with a separate goroutine, since the handler runs on the goroutine of
// the HTTP request. If handlers may close the stream and continue, it is the reverse.
type turn struct {
	text    []byte         // the response
	fault   *jsonrpc.Error // the error in text, if it is one error response
	session *Session
	w       http.ResponseWriter
	r       *http.Request
	buffer  *buffer
	late    bool // SendLate has sent the response
	// capacity 1; signals a stream or the response. Nil if the handler runs on the goroutine of the
	// HTTP request
	news chan struct{}

	mu       sync.Mutex // guards the fields below
	log      *eventLog
	reader   *reader       // of log: the POST itself
	followed chan struct{} // closed when the goroutine of the stream has ended
	done     bool          // the response is complete
	gone     bool          // the client disconnected before there was a stream that it could resume
}

// A turnResponse is a turn with its Response, which are one allocation. Both may outlive the POST,
// by a Peer that a handler has retained.
type turnResponse struct {
	turn
	response httprpc.Response
}

// within handles a POST of a session. t is zero; it is nil if the POST names no session.
func (s *Server) within(w http.ResponseWriter, r *http.Request, b *buffer, t *turn) {
	n, f := s.find(r)
	x := b.response
	if f != nil {
		refuse(x, b.in, f)
		return
	}
	defer s.turns.Done()
	t.session, t.w, t.r, t.buffer = n, w, r, b
	var early *turn // the stream begins with the handler
	if x.Stream {
		early = t
	}
	b.checks.set(x, r, n.Check, early)
	x.Stream = false // the events of a session are written by its logs
	n.enter(t)
	defer n.leave(t)
	ctx := context.WithoutCancel(r.Context())
	if x.Sink == nil {
		x.Sink = drops{}
		t.reply(ctx)
		t.writeOnce()
		return
	}
	x.Sink, x.Asker = t, &n.Asker
	if s.Polling {
		t.apart(ctx)
		return
	}
	t.reply(ctx)
	if log := t.end(); log != nil {
		<-t.followed
		return
	}
	t.writeOnce()
}

// write sends the response, which is in no log.
func (t *turn) write() { t.buffer.response.Finish(t.text, t.fault) }

// writeOnce sends the response on the handler's goroutine, unless SendLate has sent it.
func (t *turn) writeOnce() {
	if !t.late {
		t.write()
	}
}

// apart runs the handler on another goroutine, so that the HTTP request may end first.
func (t *turn) apart(ctx context.Context) {
	s := t.session.server
	t.news = make(chan struct{}, 1)
	t.buffer.holders.Add(1)
	s.turns.Add(1) // find has counted this turn, so that it is not zero
	go func() {
		defer s.turns.Done()
		defer t.buffer.release()
		defer rescue.Catch(nil, func(error) { t.end(); t.tell() }) // of an EventStore
		t.reply(context.WithValue(ctx, turnKey{}, t))
		t.end()
		t.tell()
	}()
	select {
	case <-t.news:
	case <-t.r.Context().Done():
		t.leave() // its request continues
		return
	}
	t.mu.Lock()
	log, rd := t.log, t.reader
	t.mu.Unlock()
	if log == nil {
		t.write()
		return
	}
	if log.begin(rd, t.buffer.response.NewStream()) {
		s.stream(t.r.Context(), log, rd, t.session.Early)
	}
}

// end is called when the response is complete. It returns the log if the response was added to one.
func (t *turn) end() *eventLog {
	t.mu.Lock()
	again := t.done
	t.done = true
	log := t.log
	t.mu.Unlock()
	if log != nil && !again {
		log.finish(t.text)
	}
	return log
}

// SendLate sends the response while a handler still runs. It appends it to the log if there is one,
// and otherwise ends the connection.
func (t *turn) SendLate(out []byte) {
	t.late = true // read after Answer has returned
	t.text = out
	if log := t.end(); t.news != nil {
		t.tell()
	} else if log == nil {
		guard.Late(t.w, http.StatusOK, "application/json", out)
	} else {
		<-t.followed
		guard.Late(t.w, 0, "", nil)
	}
}

// stream writes a log to its reader, as the response to an HTTP request. named reports that its
// first event is an ID without data.
func (s *Server) stream(ctx context.Context, l *eventLog, r *reader, named bool) {
	var err error
	if named {
		err = r.out.Send(ctx, eventstream.Event{ID: l.id(l.place())})
	} else {
		err = r.out.Open(ctx)
	}
	if err != nil {
		l.detach(r)
		_ = r.out.Finish() // it failed already
		return
	}
	l.follow(ctx, r)
}

// reply handles the payload, and sets the headers and status of the response.
func (t *turn) reply(ctx context.Context) {
	n := t.session
	x := t.buffer.response
	x.Late = t
	out, fault := x.Answer(ctx, &n.Answerer, t.buffer.in)
	if t.late {
		return
	}
	t.text, t.fault = out, fault
	if t.fault != nil && n.Status != nil {
		x.Status = n.Status(t.fault, t.buffer.checks.refused.Load())
	}
}

func (t *turn) tell() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// open turns the response into a stream, and returns nil after the response was sent.
func (t *turn) open() *eventLog {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done || t.gone {
		return nil
	}
	if t.log != nil {
		return t.log
	}
	if t.news == nil && t.r.Context().Err() != nil {
		t.gone = true
		return nil
	}
	t.reader = &reader{wake: make(chan struct{}, 1)}
	log := t.session.newLog(t.reader)
	t.log = log
	if t.news != nil {
		t.tell()
		return log
	}
	rd, s := t.reader, t.session.server
	rd.out = t.buffer.response.NewStream()
	followed := make(chan struct{})
	t.followed = followed
	go func() { // within waits for it
		defer close(followed)
		defer rescue.Catch(nil, nil) // of an EventStore, or an http.ResponseWriter
		s.stream(t.r.Context(), log, rd, t.session.Early)
	}()
	return log
}

// leave handles a client that disconnected before it received an event. It has no event ID with
// which it could resume.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone = true; t.log != nil {
		t.log.detach(t.reader)
		t.log.finish(nil)
	}
}

// Send turns the response into a stream, if it is not one yet, and sends payload as an event.
func (t *turn) Send(ctx context.Context, payload []byte) error {
	log := t.open()
	if log == nil {
		return jsonrpc.ErrAnswered
	}
	return log.Send(ctx, payload)
}

type turnKey struct{}

// CloseStream ends the HTTP response of a handler while the handler continues: its client
// reconnects after the given time and gets the rest. So a long request holds no connection (MCP
// 2025-11-25, Transports, Resumability and Redelivery). ctx is the handler's. CloseStream returns
// false, and does nothing, if the client could not reconnect: without a session, in a session that
// is not Early, if the client accepts no streams, and if [Server] does not have Polling.
func CloseStream(ctx context.Context, wait time.Duration) bool {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok || !t.session.Early {
		return false
	}
	log := t.open()
	if log == nil {
		return false
	}
	n := t.session
	n.mu.Lock()
	defer n.mu.Unlock()
	log.pause, log.retryAfter = true, wait
	log.wakeLocked()
	return true
}

// get opens the stream of the messages that the server initiates, or resumes one that broke. A
// stream with a reader is taken over only by a client that names an event which that reader was
// sent: the ID of the first event can be guessed.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if q, _ := guard.Quality(r.Header["Accept"], eventstream.ContentType); q == 0 {
		guard.NotAcceptable().Write(w, r)
		return
	}
	x := s.response(w, r)
	defer x.Close()
	n := s.named(x, w, r)
	if n == nil {
		return
	}
	defer s.turns.Done()
	n.enter(nil)
	defer n.leave(nil)
	rd := &reader{wake: make(chan struct{}, 1), out: x.NewStream()}
	last := r.Header[lastEventKey]
	if len(last) == 0 {
		n.mu.Lock()
		l := n.notifier
		busy := l.reader != nil
		if !busy {
			l.attachLocked(rd, l.sent)
		}
		n.mu.Unlock()
		if busy {
			refuse(x, nil, taken)
			return
		}
		s.stream(r.Context(), l, rd, n.Early)
		return
	}
	number, place, ok := parseEventID(last[0])
	n.mu.Lock()
	l := n.logs[number]
	ok = ok && len(last) == 1 && l != nil && l.hasLocked(place)
	busy := ok && l.reader != nil && !l.wasSentLocked(place)
	if ok && !busy {
		l.cutLocked() // the client left it, even if the server has not noticed
		l.attachLocked(rd, place)
	}
	n.mu.Unlock()
	switch {
	case !ok:
		refuse(x, nil, forgotten)
		return
	case busy:
		refuse(x, nil, taken)
		return
	}
	s.stream(r.Context(), l, rd, false) // it has an ID
}

// lastEventKey is LastEventID in canonical form.
var lastEventKey = http.CanonicalHeaderKey(LastEventID)

var (
	taken     = &Refusal{http.StatusConflict, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the session already has a stream")}
	forgotten = &Refusal{http.StatusBadRequest, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: this session cannot be resumed after Last-Event-ID")}
	lost      = jsonrpc.AppendError(nil, jsonrpc.Version2, jsonrpc.NullID, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the events after Last-Event-ID are no longer stored"))
)

// delete ends a session.
func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	x := s.response(w, r)
	defer x.Close()
	n := s.named(x, w, r)
	if n == nil {
		return
	}
	s.mu.Lock()
	mine := s.removeLocked(n)
	s.mu.Unlock()
	if mine {
		n.end()
	}
	s.turns.Done()
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNoContent)
}

// named returns the session of a GET or DELETE, or sends an error response. Without SessionHeader
// only POST is supported.
func (s *Server) named(x *httprpc.Response, w http.ResponseWriter, r *http.Request) *Session {
	route := s.Door(r, nil)
	if route.Refuse != nil {
		refuse(x, nil, route.Refuse)
		return nil
	}
	if route.Alone != nil || route.Begin || len(s.sessionIDs(r)) == 0 {
		guard.MethodOnly(http.MethodPost).Write(w, r)
		return nil
	}
	n, f := s.find(r)
	if f != nil {
		refuse(x, nil, f)
	}
	return n
}
