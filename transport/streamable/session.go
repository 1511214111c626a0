package streamable

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Session is one conversation of a [Server]: its two halves of JSON-RPC, and what it has said. The fields are for Begin to set and not
// to change later, but for Early and NoBatch of the Answerer, which Opened may set.
type Session struct {
	// ID names the session on the wire. It holds 130 random bits.
	ID string

	// Answerer answers, and Asker keeps the questions that wait for the client's answer.
	Answerer jsonrpc.Answerer
	Asker    jsonrpc.Asker

	// Cancellation is how the client is told that a question of ours is not waited for any more. Without a Method it is not told.
	Cancellation jsonrpc.Cancellation

	// Early: each stream begins with an event that has an id and no data, so that its client can come back even if nothing else has
	// reached it, and [CloseStream] works.
	Early bool

	// Check, if not nil, sees each request with the HTTP request that it came in, before its handler. An error refuses it as if the
	// handler had returned it.
	Check func(*http.Request, *jsonrpc.Request) error

	// Status, if not nil, chooses the HTTP status of a single error response, as in [Alone].
	Status func(e *jsonrpc.Error, refused bool) int

	// Opened is asked once the first payload is answered whether there is a session now. If not, nothing is kept of it. Nil: there is.
	Opened func() bool

	// Ended is called once, when the session is over, whether it was opened or not. Nil: nothing.
	Ended func()

	server *Server
	caller string
	began  time.Time
	gate   jsonrpc.Gate

	mu         sync.Mutex // guards what follows
	posts      map[*turn]struct{}
	listening  int           // GETs under way
	heard      time.Duration // when the last HTTP request began or ended, since began; zero before there is one
	ended      bool
	logs       map[uint64]*eventLog
	voice      *eventLog // number 0
	lastLog    uint64
	order      []*eventLog // of each event that is kept, oldest first
	bytes      int
	newest     time.Time     // when the last event came
	room       chan struct{} // closed when those who wait may look again; nil while nobody waits
	retryAfter time.Duration
	questions  map[jsonrpc.ID]*eventLog // where they went out
	kept       bool                     // the Keeper has something
	answered   []uint64                 // logs that are at their end, of which the Keeper may have something; oldest first
}

func (s *Server) newSession(caller string) *Session {
	n := &Session{ID: rand.Text(), server: s, caller: caller, began: time.Now(), gate: jsonrpc.Gate{Max: int64(orInt(s.MaxRunning, 256))}}
	n.voice = n.makeLog(0, nil)
	n.logs = map[uint64]*eventLog{0: n.voice}
	n.posts = map[*turn]struct{}{}
	n.Answerer.Gate = &n.gate
	n.Asker.Limits.Calls = mostQuestions
	n.Asker.Abandoned = n.abandoned
	return n
}

// mostQuestions bounds the questions of one session that wait for an answer.
const mostQuestions = 1024

// Voice is the client as seen from the server when nobody has asked: what is sent goes to the stream of its GET. While there is none, 64 messages
// wait for it, and then whoever has more to say.
func (n *Session) Voice() jsonrpc.Peer { return jsonrpc.PeerOf(&n.Asker, n.voice) }

// newLog makes the log for the answer to a POST, with the reader that it will have.
func (n *Session) newLog(r *reader) *eventLog {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastLog++
	l := n.makeLog(n.lastLog, r)
	if !n.ended {
		n.logs[l.number] = l
	}
	return l
}

var idMember = []byte(`"id":`)

// noteQuestion remembers on which stream a question goes out: the word that nobody waits for it follows on the same one.
func (n *Session) noteQuestion(l *eventLog, payload []byte) {
	if n.Cancellation.Method == "" || !bytes.Contains(payload, idMember) {
		return
	}
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // we made it
		if !m.Request || m.ID.IsZero() {
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.questions) > 2*mostQuestions {
			n.forgetAnsweredLocked()
		}
		if n.questions == nil {
			n.questions = map[jsonrpc.ID]*eventLog{}
		}
		n.questions[m.ID] = l
	})
}

func (n *Session) forgetAnsweredLocked() {
	waiting := n.Asker.Pending()
	for id := range n.questions {
		if !slices.Contains(waiting, id) {
			delete(n.questions, id)
		}
	}
}

// abandoned tells the client that nobody waits for its answer.
func (n *Session) abandoned(id jsonrpc.ID) {
	n.mu.Lock()
	l := n.questions[id]
	delete(n.questions, id)
	n.mu.Unlock()
	if l == nil {
		return
	}
	params := append([]byte{'{', '"'}, n.Cancellation.Member...)
	params = append(id.Append(append(params, `":`...)), '}')
	text, err := jsonrpc.AppendNotification(nil, jsonrpc.Version2, n.Cancellation.Method, jsonrpc.Raw(params))
	if err != nil {
		return // the names are constants of a protocol
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.server.writeTimeout())
	defer cancel()
	_ = l.Send(ctx, text) // the session is over, or its client does not read: it finds out by itself
}

// enter counts an HTTP request under way: a POST, or nil for another.
func (n *Session) enter(t *turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = time.Since(n.began)
	if t == nil {
		n.listening++
	} else {
		n.posts[t] = struct{}{}
	}
}

func (n *Session) leave(t *turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = time.Since(n.began)
	if t == nil {
		n.listening--
	} else {
		delete(n.posts, t)
	}
}

// quiet is how long nothing was heard of the client. A handler that runs for a client that is gone is no sign of it.
func (n *Session) quiet() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listening > 0 {
		return 0
	}
	for t := range n.posts {
		if t.r.Context().Err() == nil {
			return 0
		}
	}
	return time.Since(n.began) - n.heard
}

// end ends what runs and waits of the session. It does not wait for handlers.
func (n *Session) end() {
	n.mu.Lock()
	if n.ended {
		n.mu.Unlock()
		return
	}
	n.ended = true
	for _, l := range n.logs {
		l.closed = true
		l.events = nil
		l.wakeLocked()
	}
	n.goOnLocked()
	n.server.kept.Add(-int64(n.bytes))
	n.order, n.bytes, n.logs, n.questions = nil, 0, nil, nil
	kept := n.kept
	n.mu.Unlock()
	if kept {
		n.server.Keeper.Forget(n.ID)
	}

	n.Asker.Fail(jsonrpc.ErrClosed)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.Answerer.Drain(over) // it only cancels
	if n.Ended != nil {
		n.Ended()
	}
}

// reserve makes room for a session of a caller.
func (s *Server) reserve(caller string) bool {
	victim, ok := s.tryReserve(caller)
	if victim != nil {
		victim.end()
	}
	return ok
}

// tooQuiet is how long a session must not have been used to make room for another of the same caller.
const tooQuiet = time.Minute

func (s *Server) tryReserve(caller string) (victim *Session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.reserved >= orInt(s.MaxSessions, 10_000) {
		return nil, false
	}
	if s.callers[caller] >= s.mostOf(caller) {
		longest := tooQuiet
		for _, n := range s.sessions {
			if q := n.quiet(); n.caller == caller && q > longest {
				victim, longest = n, q
			}
		}
		if victim == nil {
			return nil, false
		}
		s.removeLocked(victim)
	}
	if s.callers == nil {
		s.callers, s.sessions = map[string]int{}, map[string]*Session{}
	}
	s.reserved++
	s.callers[caller]++
	return victim, true
}

// mostOf bounds the sessions of one caller. On the own machine it is often a proxy, through which everybody comes.
func (s *Server) mostOf(caller string) int {
	if s.Caller == nil {
		if ip, err := netip.ParseAddr(caller); err != nil || ip.Unmap().IsLoopback() {
			return orInt(s.MaxSessions, 10_000)
		}
	}
	return orInt(s.MaxPerCaller, 100)
}

// unreserveLocked is the other half of tryReserve.
func (s *Server) unreserveLocked(caller string) {
	s.reserved--
	if s.callers[caller]--; s.callers[caller] == 0 {
		delete(s.callers, caller)
	}
}

func (s *Server) removeLocked(n *Session) bool {
	if s.sessions[n.ID] != n {
		return false
	}
	delete(s.sessions, n.ID)
	s.unreserveLocked(n.caller)
	return true
}

// publish makes a session findable, unless the Server has closed meanwhile.
func (s *Server) publish(n *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.unreserveLocked(n.caller)
		return false
	}
	s.sessions[n.ID] = n
	if every := s.sweepEvery(); s.sweeper == nil {
		s.sweeper = time.AfterFunc(every, s.sweep)
	} else if len(s.sessions) == 1 {
		s.sweeper.Reset(every)
	}
	return true
}

func (s *Server) idle() time.Duration     { return orTime(s.Idle, 30*time.Minute) }
func (s *Server) lifetime() time.Duration { return orTime(s.Lifetime, 24*time.Hour) }

// sweepEvery is how often sessions are looked at that may be over.
func (s *Server) sweepEvery() time.Duration {
	every := time.Minute
	for _, d := range []time.Duration{s.idle(), s.lifetime()} {
		if d > 0 {
			every = min(every, max(d/4, time.Millisecond))
		}
	}
	return every
}

// sweep ends the sessions whose time is over. It runs on the timer's goroutine while there are any.
func (s *Server) sweep() {
	var over []*Session
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.turns.Add(1)
	defer s.turns.Done()
	for _, n := range s.sessions {
		if s.idle() > 0 && n.quiet() > s.idle() || s.lifetime() > 0 && time.Since(n.began) > s.lifetime() {
			over = append(over, n)
		}
	}
	for _, n := range over {
		s.removeLocked(n)
	}
	if len(s.sessions) > 0 {
		s.sweeper.Reset(s.sweepEvery())
	}
	s.mu.Unlock()
	s.endAll(over)
}

// endAll ends sessions, several at once where a Keeper may take its time.
func (s *Server) endAll(all []*Session) {
	if s.Keeper == nil {
		for _, n := range all {
			n.end()
		}
		return
	}
	const atOnce = 32
	for part := range slices.Chunk(all, atOnce) {
		var ends sync.WaitGroup
		for _, n := range part {
			ends.Go(n.end)
		}
		ends.Wait()
	}
}

// Sessions returns how many sessions there are.
func (s *Server) Sessions() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.sessions)
}

// find returns the session that a request names, or why not. Whoever got one counts in turns.
func (s *Server) find(r *http.Request) (*Session, *Refusal) {
	ids := r.Header[http.CanonicalHeaderKey(s.SessionHeader)]
	switch len(ids) {
	case 1:
	case 0:
		return nil, unnamed
	default:
		return nil, namedTwice
	}
	s.mu.RLock()
	n := s.sessions[ids[0]]
	if n != nil && s.Caller != nil && n.caller != s.Caller(r) {
		n = nil // of somebody else: it does not exist
	}
	if n != nil {
		s.turns.Add(1)
	}
	s.mu.RUnlock()
	if n == nil {
		return nil, unknown
	}
	return n, nil
}

var (
	unnamed    = &Refusal{http.StatusBadRequest, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the header that names the session is missing")}
	namedTwice = &Refusal{http.StatusBadRequest, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: two sessions are named")}
	unknown    = &Refusal{http.StatusNotFound, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: there is no such session")}
	full       = &Refusal{http.StatusServiceUnavailable, jsonrpc.NewError(jsonrpc.CodeBusy, "Too many sessions").WithData(jsonrpc.FaultData{Reason: "busy", Retryable: true, RetryAfterMs: 5000})}
	stopping   = &Refusal{http.StatusServiceUnavailable, jsonrpc.NewError(jsonrpc.CodeShuttingDown, "Shutting down").WithData(jsonrpc.FaultData{Reason: "shutting_down", Retryable: true, RetryAfterMs: 1000})}
)

// Shutdown lets no session begin any more, answers new requests of sessions with -31004, waits for those that run, and ends all sessions. When
// ctx ends first, the handlers' contexts end, and Shutdown returns ctx's cause.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := make([]*Session, 0, len(s.sessions))
	for _, n := range s.sessions {
		all = append(all, n)
	}
	s.mu.Unlock()
	var drains sync.WaitGroup
	var failed atomic.Bool
	for _, n := range all {
		drains.Go(func() {
			if n.Answerer.Drain(ctx) != nil {
				failed.Store(true)
			}
		})
	}
	drains.Wait()
	s.Close()
	if failed.Load() {
		return context.Cause(ctx)
	}
	return nil
}

// Close ends all sessions, and waits for their handlers and streams.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	all := make([]*Session, 0, len(s.sessions))
	for _, n := range s.sessions {
		all = append(all, n)
		s.removeLocked(n)
	}
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
	s.mu.Unlock()
	s.endAll(all)
	s.turns.Wait()
}
