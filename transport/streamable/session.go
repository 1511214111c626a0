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

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Session is one conversation of a [Server]: its two halves of JSON-RPC, and its events. Begin
// sets the fields, which must not change later, except Early and NoBatch of the Answerer, which
// Opened may set.
type Session struct {
	// ID identifies the session on the wire. While Begin and Opened run for a new session, it has
	// 130 random bits; then it is that of Server.NewID. It must not be changed.
	ID string

	// Answerer handles requests, and Asker tracks the calls that wait for the client's response.
	Answerer jsonrpc.Answerer
	Asker    jsonrpc.Asker

	// Cancellation defines the message that cancels a call of the server at the client. Without a
	// Method, the client is not notified.
	Cancellation jsonrpc.Cancellation

	// Early makes each stream begin with an event that has an ID and no data, so that its client
	// can reconnect even if nothing else has reached it, and [CloseStream] works.
	Early bool

	// Check, if not nil, is called with each request and the HTTP request that it arrived in,
	// before its handler. An error refuses the request as if the handler had returned it.
	Check func(*http.Request, *jsonrpc.Request) error

	// Status, if not nil, returns the HTTP status of a single error response, as in [Alone].
	Status func(e *jsonrpc.Error, refused bool) int

	// Opened is called after the first payload was handled, and reports whether the session is
	// open. If not, nothing is stored of it. If nil, the session is open.
	Opened func() bool

	// Ended is called once, when the session is over, whether it was opened or not. It may be nil.
	Ended func()

	server    *Server
	caller    string
	principal string
	began     time.Time
	gate      jsonrpc.Gate
	used      atomic.Int64 // POSTs and GETs after the first

	mu        sync.Mutex // guards the fields below
	posts     map[*turn]struct{}
	listening int // GETs under way
	// when the last HTTP request began or ended, since began; zero before the first
	heard    time.Duration
	ended    bool
	logs     map[uint64]*eventLog
	notifier *eventLog // number 0
	lastLog  uint64
	order    []*eventLog // of each stored event, oldest first
	bytes    int
	newest   time.Time // when the last event was added
	// closed to wake the goroutines that wait for room; nil without waiters
	room      chan struct{}
	questions map[jsonrpc.ID]*eventLog // the streams on which they were sent
	kept      bool                     // the Keeper may have events of this session
	// ended logs of which the Keeper may have events; oldest first
	answered []uint64
}

func (s *Server) newSession(caller string) *Session {
	n := &Session{ID: rand.Text(), server: s, caller: caller, began: time.Now(), gate: jsonrpc.Gate{Max: int64(orInt(s.MaxRunning, 256))}}
	n.notifier = n.makeLog(0, nil)
	n.logs = map[uint64]*eventLog{0: n.notifier}
	n.posts = map[*turn]struct{}{}
	n.Answerer.Gate = &n.gate
	n.Asker.Limits.Calls = mostQuestions
	n.Asker.Abandoned = n.abandoned
	return n
}

// mostQuestions bounds the calls of one session that wait for a response.
const mostQuestions = 1024

// Voice returns the client as a Peer for messages that the server initiates: they are sent on the
// stream of its GET. Without that stream, 64 messages wait for it, and further sends block.
func (n *Session) Voice() jsonrpc.Peer { return jsonrpc.PeerOf(&n.Asker, n.notifier) }

// newLog creates the log for the response to a POST, with its future reader.
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

// noteQuestion stores on which stream a call of the server is sent: its cancellation follows on the
// same one.
func (n *Session) noteQuestion(l *eventLog, payload []byte) {
	if n.Cancellation.Method == "" || !bytes.Contains(payload, idMember) {
		return
	}
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // payload was encoded here, so it is valid
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

// abandoned sends the client the cancellation of a call.
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
	// the session is over, or its client does not read: the client detects that itself
	_ = l.Send(ctx, text)
}

// enter counts an HTTP request under way: a POST, or nil for another method.
func (n *Session) enter(t *turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = time.Since(n.began)
	n.used.Add(1)
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

// quiet returns how long the client has been inactive. A running handler of a disconnected client
// does not count as activity.
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

// end ends everything that runs and waits in the session. It does not wait for handlers.
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
		_ = rescue.Run(nil, func() { n.server.Keeper.Forget(n.ID) }) // the session ends in any case
	}

	n.Asker.Fail(jsonrpc.ErrClosed)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.Answerer.Drain(over) // it only cancels
	if n.Ended != nil {
		_ = rescue.Run(nil, n.Ended) // it may run on the sweeper's goroutine
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

// tooQuiet is how long a session must be unused to make room for another of the same caller.
const tooQuiet = time.Minute

func (s *Server) tryReserve(caller string) (victim *Session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	if s.reserved >= orInt(s.MaxSessions, 10_000) {
		if victim = s.leastUsedLocked(); victim == nil {
			return nil, false
		}
		s.removeLocked(victim)
		if s.callers[caller] >= s.mostOf(caller) {
			return victim, false
		}
	}
	if victim == nil && s.callers[caller] >= s.mostOf(caller) {
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

// unusedFor is how long a session that only began must be unused to make room when all places are
// taken.
const unusedFor = 2 * time.Second

// leastUsedLocked returns the session that makes room when all places are taken: of the caller with
// the most sessions, one that was not used since it began, otherwise the one that has been quiet
// for longest, if that is more than a minute. A session with a request or a reader is never
// selected.
func (s *Server) leastUsedLocked() (victim *Session) {
	var most int
	var longest time.Duration
	var unused bool
	for _, n := range s.sessions {
		has := s.callers[n.caller]
		if victim != nil && has < most {
			continue
		}
		quiet, used := n.quiet(), n.used.Load() > handshakePosts
		if quiet < unusedFor || used && quiet < tooQuiet {
			continue
		}
		// an unused session is selected before a quiet one
		better := !used && !unused || !used == unused && quiet > longest
		if victim == nil || has > most || better {
			victim, most, longest, unused = n, has, quiet, !used
		}
	}
	return victim
}

// handshakePosts is how many POSTs the opening of a session needs after the first.
const handshakePosts = 1

// mostOf bounds the sessions of one caller. A caller on the same machine is often a proxy that all
// clients use.
func (s *Server) mostOf(caller string) int {
	if s.Caller == nil {
		if ip, err := netip.ParseAddr(caller); err != nil || ip.Unmap().IsLoopback() {
			return orInt(s.MaxSessions, 10_000)
		}
	}
	return orInt(s.MaxPerCaller, 100)
}

// unreserve reverses reserve.
func (s *Server) unreserve(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreserveLocked(caller)
}

// unreserveLocked reverses tryReserve.
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
	if s.Restore != nil {
		if s.ended == nil || len(s.ended) >= maxEnded {
			s.ended = map[string]struct{}{}
		}
		s.ended[n.ID] = struct{}{}
	}
	s.unreserveLocked(n.caller)
	return true
}

// publish makes a session available to find, unless the Server has closed meanwhile.
func (s *Server) publish(n *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.unreserveLocked(n.caller)
		return false
	}
	s.publishLocked(n)
	return true
}

func (s *Server) publishLocked(n *Session) {
	s.sessions[n.ID] = n
	if every := s.sweepEvery(); s.sweeper == nil {
		s.sweeper = time.AfterFunc(every, s.sweep)
	} else if len(s.sessions) == 1 {
		s.sweeper.Reset(every)
	}
}

func (s *Server) idle() time.Duration     { return orTime(s.Idle, 30*time.Minute) }
func (s *Server) lifetime() time.Duration { return orTime(s.Lifetime, 24*time.Hour) }

// sweepEvery returns the interval of the search for expired sessions.
func (s *Server) sweepEvery() time.Duration {
	every := time.Minute
	for _, d := range []time.Duration{s.idle(), s.lifetime()} {
		if d > 0 {
			every = min(every, max(d/4, time.Millisecond))
		}
	}
	return every
}

// sweep ends the expired sessions. It runs on the timer's goroutine while there are sessions.
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

// endAll ends sessions, several at once where a Keeper may be slow.
func (s *Server) endAll(all []*Session) {
	if s.Keeper == nil {
		for _, n := range all {
			n.end()
		}
		return
	}
	const atOnce = 32
	var done sync.WaitGroup
	done.Go(func() {
		for part := range slices.Chunk(all, atOnce) {
			var ends sync.WaitGroup
			for _, n := range part {
				ends.Go(n.end)
			}
			ends.Wait()
		}
	})
	grace.Wait(&done, grace.Time) // a Keeper that is slower continues in the background
}

// Sessions returns the number of sessions.
func (s *Server) Sessions() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.sessions)
}

// find returns the session that a request names, or the reason for a refusal. The caller of find is
// counted in turns.
func (s *Server) find(r *http.Request) (*Session, *Refusal) {
	ids := s.sessionIDs(r)
	switch len(ids) {
	case 1:
	case 0:
		return nil, unnamed
	default:
		return nil, namedTwice
	}
	s.mu.RLock()
	n := s.sessions[ids[0]]
	s.mu.RUnlock()
	switch {
	case n == nil && s.Restore != nil:
		return s.restore(ids[0], r)
	case n == nil,
		// It belongs to another caller: not found. Users' functions run without the lock.
		s.Caller != nil && n.caller != s.Caller(r),
		s.Principal != nil && n.principal != s.Principal(r):
		return nil, unknown
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.sessions[n.ID] != n {
		return nil, unknown // it has ended meanwhile
	}
	s.turns.Add(1)
	return n, nil
}

// maxEnded is the maximum number of IDs of ended sessions that are stored.
const maxEnded = 10_000

// restore continues a session that began at another Server. Its caller is counted in turns.
func (s *Server) restore(id string, r *http.Request) (*Session, *Refusal) {
	s.mu.RLock()
	_, over := s.ended[id]
	s.mu.RUnlock()
	if over || !s.Restore(id, r) {
		return nil, unknown
	}
	caller := s.caller(r)
	if !s.reserve(caller) {
		return nil, full
	}
	reserved := true
	defer func() {
		if reserved { // a user's function has panicked
			s.unreserve(caller)
		}
	}()
	n := s.newSession(caller)
	n.ID = id
	if s.Principal != nil {
		n.principal = s.Principal(r)
	}
	s.Begin(n, r)
	s.mu.Lock()
	reserved = false
	if other := s.sessions[id]; other != nil || s.closed { // a concurrent request was first
		s.unreserveLocked(caller)
		s.mu.Unlock()
		n.end()
		return s.find(r)
	}
	s.publishLocked(n)
	s.turns.Add(1)
	s.mu.Unlock()
	return n, nil
}

var (
	unnamed    = &Refusal{http.StatusBadRequest, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the session header is missing")}
	namedTwice = &Refusal{http.StatusBadRequest, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: duplicate session header")}
	unknown    = &Refusal{http.StatusNotFound, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: unknown session")}
	full       = &Refusal{http.StatusServiceUnavailable, jsonrpc.NewError(jsonrpc.CodeBusy, "Too many sessions").WithData(jsonrpc.FaultData{Reason: "busy", Retryable: true, RetryAfterMs: 5000})}
	stopping   = &Refusal{http.StatusServiceUnavailable, jsonrpc.NewError(jsonrpc.CodeShuttingDown, "Shutting down").WithData(jsonrpc.FaultData{Reason: "shutting_down", Retryable: true, RetryAfterMs: 1000})}
)

// Shutdown begins no more sessions, answers new requests of sessions with -31004, waits for running
// ones, and ends all sessions. If ctx ends first, the handlers' contexts end, and Shutdown returns
// ctx's cause.
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
	grace.Wait(&s.turns, grace.Time) // a handler that ignores its context continues
}
