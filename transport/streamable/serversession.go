package streamable

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// begin answers the POST that may begin a session.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, b *buffer, wants acceptance) {
	caller := s.caller(r)
	if !s.reserve(caller) {
		s.refuse(w, r, b.in, full)
		return
	}
	n := s.newSession(caller)
	s.Begin(n, r)
	t := &turn{session: n, r: r, buffer: b}
	t.Sink = drops{} // there is no stream before there is a session
	t.reply(r.Context())
	if n.Opened != nil && !n.Opened() {
		s.mu.Lock()
		s.unreserveLocked(caller)
		s.mu.Unlock()
		n.end()
		t.write(s, w, r)
		return
	}
	if !s.publish(n) {
		n.end()
		s.refuse(w, r, b.in, stopping)
		return
	}
	w.Header()[http.CanonicalHeaderKey(s.SessionHeader)] = []string{n.ID}
	if wants == stream {
		out := sse.NewWriter(w, &sse.WriterOptions{KeepAlive: -1, Timeout: s.WriteTimeout})
		_ = out.Finish(sse.Event{Data: t.text}) // if the client is gone the session will be over
		return
	}
	t.write(s, w, r)
}

// A turn is one POST within a session. It is the Sink of its own Exchange: the first message makes the answer a stream, which has a goroutine
// of its own, since the handler has that of the HTTP request. Where handlers may close the stream and go on, it is the other way round.
type turn struct {
	jsonrpc.Exchange
	answer
	session *Session
	w       http.ResponseWriter
	r       *http.Request
	buffer  *buffer
	early   bool // the stream begins with the handler
	refused atomic.Bool
	news    chan struct{} // of one: there is a stream, or the answer. Nil when the handler has the goroutine of the HTTP request

	mu       sync.Mutex // guards what follows
	log      *eventLog
	reader   *reader       // of log: the POST itself
	followed chan struct{} // closed when the goroutine of the stream has ended
	done     bool          // the answer is there
	gone     bool          // the client left before there was a stream that it could come back to
}

// within answers a POST of a session.
func (s *Server) within(w http.ResponseWriter, r *http.Request, b *buffer, wants acceptance) {
	n, f := s.find(r)
	if f != nil {
		s.refuse(w, r, b.in, f)
		return
	}
	defer s.turns.Done()
	t := &turn{session: n, w: w, r: r, buffer: b, early: wants == stream}
	n.enter(t)
	defer n.leave(t)
	ctx := context.WithoutCancel(r.Context())
	if wants == plain {
		t.Sink = drops{}
		t.reply(ctx)
		t.write(s, w, r)
		return
	}
	t.Sink, t.Asker = t, &n.Asker
	if s.Polling {
		t.apart(ctx)
		return
	}
	t.reply(ctx)
	if log := t.end(); log != nil {
		<-t.followed
		return
	}
	t.write(s, w, r)
}

// apart runs the handler on another goroutine, so that the HTTP request may end before it.
func (t *turn) apart(ctx context.Context) {
	s := t.session.server
	t.news = make(chan struct{}, 1)
	t.buffer.holders.Add(1)
	s.turns.Add(1) // find has counted us, so that it is not zero
	go func() {
		defer s.turns.Done()
		defer t.buffer.release()
		t.reply(context.WithValue(ctx, turnKey{}, t))
		t.end()
		t.tell()
	}()
	select {
	case <-t.news:
	case <-t.r.Context().Done():
		t.leave() // what it asked for goes on without it
		return
	}
	t.mu.Lock()
	log, rd := t.log, t.reader
	t.mu.Unlock()
	if log == nil {
		t.write(s, t.w, t.r)
		return
	}
	if log.begin(rd, s.newWriter(t.w)) {
		s.stream(t.r.Context(), log, rd, t.session.Early)
	}
}

// end is called when the answer is there. It returns the log if that is where it went.
func (t *turn) end() *eventLog {
	t.mu.Lock()
	t.done = true
	log := t.log
	t.mu.Unlock()
	if log != nil {
		log.finish(t.text)
	}
	return log
}

// stream writes a log to its reader, as the answer to an HTTP request. named: its first event is an id without data.
func (s *Server) stream(ctx context.Context, l *eventLog, r *reader, named bool) {
	var err error
	if named {
		err = r.out.Send(ctx, sse.Event{ID: l.id(l.place())})
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

// reply has the payload answered, and decides what goes with the answer.
func (t *turn) reply(ctx context.Context) {
	n := t.session
	if n.Check != nil || t.early {
		t.Check = t.check
	}
	b := t.buffer
	b.out, t.fault = n.Answerer.Answer(ctx, b.out[:0], b.in, &t.Exchange)
	t.text = b.out
	if t.fault != nil && n.Status != nil {
		t.status = n.Status(t.fault, t.refused.Load())
	}
}

func (t *turn) tell() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

func (t *turn) check(_ context.Context, req *jsonrpc.Request) error {
	if t.session.Check != nil {
		if err := t.session.Check(t.r, req); err != nil {
			t.refused.Store(true)
			return err
		}
	}
	if t.early && !req.IsNotification() {
		_ = t.open()
	}
	return nil
}

// open makes the answer a stream, and returns nil once the answer is out.
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
	rd.out = s.newWriter(t.w)
	followed := make(chan struct{})
	t.followed = followed
	go func() { // within waits for it
		defer close(followed)
		s.stream(t.r.Context(), log, rd, t.session.Early)
	}()
	return log
}

// leave is for a client that is gone before it has heard anything. It knows of no event behind which it could go on.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone = true; t.log != nil {
		t.log.detach(t.reader)
		t.log.finish(nil)
	}
}

// Send makes the answer a stream, if it is none yet, and sends payload as an event.
func (t *turn) Send(ctx context.Context, payload []byte) error {
	log := t.open()
	if log == nil {
		return jsonrpc.ErrAnswered
	}
	return log.Send(ctx, payload)
}

type turnKey struct{}

// CloseStream ends the HTTP answer in which a handler speaks, while the handler goes on: its client comes back after the given time
// and gets the rest. So a long request holds no connection (MCP 2025-11-25, Transports, Resumability and Redelivery). ctx is the
// handler's. It reports false, and does nothing, where the client could not come back: in no session, in one that is not Early, when it
// takes no streams, and where [Server] does not have Polling.
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
	n.retryAfter = wait
	log.pause = true
	log.wakeLocked()
	return true
}

// get opens the stream of what a session says unasked, or goes on with one that broke.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if q, _ := guard.Quality(r.Header["Accept"], sse.ContentType); q == 0 {
		guard.NotAcceptable().Write(w, r)
		return
	}
	n := s.named(w, r)
	if n == nil {
		return
	}
	defer s.turns.Done()
	n.enter(nil)
	defer n.leave(nil)
	rd := &reader{wake: make(chan struct{}, 1), out: s.newWriter(w)}
	last := r.Header[lastEventKey]
	if len(last) == 0 {
		n.mu.Lock()
		l := n.voice
		busy := l.reader != nil
		if !busy {
			l.attachLocked(rd, l.sent)
		}
		n.mu.Unlock()
		if busy {
			s.refuse(w, r, nil, taken)
			return
		}
		s.stream(r.Context(), l, rd, n.Early)
		return
	}
	number, place, ok := parseEventID(last[0])
	n.mu.Lock()
	l := n.logs[number]
	ok = ok && len(last) == 1 && l != nil && l.hasLocked(place)
	if ok {
		l.cutLocked() // the client left it, even if nobody has noticed
		l.attachLocked(rd, place)
	}
	n.mu.Unlock()
	if !ok {
		_ = rd.out.Finish(sse.Event{Type: "error", Data: lost}) // if the client is gone there is nobody to tell
		return
	}
	s.stream(r.Context(), l, rd, false) // it has an id
}

// lastEventKey is LastEventID as net/http keeps it.
var lastEventKey = http.CanonicalHeaderKey(LastEventID)

var (
	taken = &Refusal{http.StatusConflict, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the session has a stream already")}
	lost  = jsonrpc.AppendError(nil, jsonrpc.Version2, jsonrpc.NullID, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: what came after that event is not kept any more"))
)

// delete ends a session.
func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	n := s.named(w, r)
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
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	w.WriteHeader(http.StatusNoContent)
}

// named finds the session of a GET or DELETE, or answers. Without one there is only POST.
func (s *Server) named(w http.ResponseWriter, r *http.Request) *Session {
	route := s.Door(r, nil)
	if route.Refuse != nil {
		s.refuse(w, r, nil, route.Refuse)
		return nil
	}
	if route.Alone != nil || route.Begin || len(r.Header[http.CanonicalHeaderKey(s.SessionHeader)]) == 0 {
		guard.MethodOnly(http.MethodPost).Write(w, r)
		return nil
	}
	n, f := s.find(r)
	if f != nil {
		s.refuse(w, r, nil, f)
	}
	return n
}
