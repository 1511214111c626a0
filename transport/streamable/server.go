package streamable

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// Answering is the half of [jsonrpc.Answerer] that payloads without a session need. It is called
// from many goroutines at once.
type Answering interface {
	// Answer handles one payload and appends the response, if any. The *Error is the one that is
	// sent, if the payload was a single message and its response is an error.
	Answer(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error)
}

// A Route selects how a request is handled. With the zero Route the session that the request names
// handles it.
type Route struct {
	Alone  *Alone   // if not nil, it belongs to no session
	Begin  bool     // it begins a session
	Refuse *Refusal // if not nil, it is refused
}

// A Refusal is the reason why a request is refused: a status, and the JSON-RPC error in the body,
// with the ID of the request if it can be parsed.
type Refusal struct {
	Status int
	Err    *jsonrpc.Error
}

// Alone configures the handling of payloads that belong to no session.
type Alone struct {
	Answerer Answering // must be set

	// Check, if not nil, is called with each request and the HTTP request that it arrived in,
	// before its handler. An error refuses the request as if the handler had returned it.
	Check func(*http.Request, *jsonrpc.Request) error

	// Status, if not nil, returns the HTTP status of a single error response; 0 selects the
	// default; see [Server]. refused reports that the error is Check's. Status is not called for a
	// response that has become a stream.
	Status func(e *jsonrpc.Error, refused bool) int

	// Patient disables cancellation by a disconnect: the handlers of a client that disconnects
	// continue.
	Patient bool

	// OmitID omits the member id from a response to a request whose ID cannot be parsed, where
	// JSON-RPC 2.0, section 5, requires null.
	OmitID bool
}

// A Server is the endpoint. Door is required; Begin and SessionHeader are required for sessions. It
// checks neither the path nor the caller: put a mux and access checks before it. It is safe for
// concurrent use; its fields must not change once it serves.
//
// An error response in JSON has status 200, except 429 for -31001 (busy), 503 for -31004 (shutting
// down) and 502 for -31006 (no backend), unless the protocol selects others. A payload without a
// response gets status 202. Statuses from 400 on with plain text are about the HTTP request and
// reach no handler.
type Server struct {
	// Door returns the Route of a POST, with its body, and of a GET or DELETE, without one. It must
	// not retain the payload.
	Door func(r *http.Request, payload []byte) Route

	// SessionHeader is the header with the session ID. If empty, there are no sessions, and only
	// POST is accepted.
	SessionHeader string

	// Begin sets up a session before its first payload is handled. It sets at least the Handler of
	// the Answerer.
	Begin func(s *Session, r *http.Request)

	// NewID, if not nil, returns the ID of a session that was opened; the response to its first
	// payload carries it. It must be unique, and cannot be guessed; it consists of visible ASCII
	// characters, 1,024 at most. If nil, or if it returns "", the ID has 130 random bits.
	NewID func(s *Session) string

	// Restore, if not nil, reports whether a session with an ID that this Server does not know
	// continues here: it began at another Server with the same NewID, and its state is in the ID.
	// Begin then sets it up; Opened is not called. A session that ended here is not restored: its ID
	// is remembered, up to 10,000 of them.
	Restore func(id string, r *http.Request) bool

	// Caller identifies the caller of a request. A session belongs to the caller that began it; for
	// other callers it is not found. If nil, callers are identified by address, for counting only.
	Caller func(*http.Request) string

	// Principal, if not nil, returns the authenticated principal, or "" without one. A session
	// belongs to the principal that began it; for others it is not found.
	Principal func(*http.Request) string

	// MaxMessage bounds one body, in bytes. Zero means 4 MiB, negative means no bound. A longer
	// body gets status 413.
	MaxMessage int64

	// MaxSessions bounds the concurrent sessions, and MaxPerCaller the sessions of one caller,
	// except a loopback address without Caller. Zero means 10,000 and 100. If a caller has reached
	// its bound, its least recently used session is ended if it was not used for more than a
	// minute; otherwise the response is 503. If all places are taken, the caller with the most
	// sessions loses one without a request and a stream: one that has not been used since it began,
	// for more than two seconds, or otherwise the one that has been quiet for longest, for more
	// than a minute.
	MaxSessions, MaxPerCaller int

	// MaxRunning bounds the concurrent requests of one session. Zero means 256. Requests above it
	// get -31001. A request whose handler waits for the client does not count.
	MaxRunning int

	// Idle is how long a session exists without activity: no request under way, and no reader of
	// its streams. Lifetime is how long a session exists in any case. Zero means 30 min and 24 h,
	// negative means no limit.
	Idle, Lifetime time.Duration

	// Polling lets handlers call [CloseStream], which costs each request of a session a few
	// microseconds.
	Polling bool

	// MaxEvents and MaxEventBytes bound the events that a session stores for clients that
	// reconnect. Zero means 1,000 and 4 MiB. The oldest is dropped first. EventMemory bounds them
	// for all sessions together. Zero means 256 MiB. Above it, the session whose newest event is
	// the oldest loses all its events.
	MaxEvents     int
	MaxEventBytes int
	EventMemory   int64

	// Keeper, if not nil, stores the events of sessions instead of memory. Memory then has only the
	// events on their way: MaxEvents and MaxEventBytes are 256 and 1 MiB by default, and do not
	// bound what clients that reconnect can get. The responses to the last 1,000 POSTs of a session
	// are available. The sessions themselves are stored in memory, and end with the process.
	Keeper Keeper

	// KeepAlive is how long a stream may be silent before a comment is sent. Zero means 15 s,
	// negative means never.
	KeepAlive time.Duration

	// WriteTimeout bounds the time in which a client takes nothing, of each 64 KiB that are written.
	// Zero means 10 s. After it the connection is closed.
	WriteTimeout time.Duration

	setup      sync.Once // of the next two fields
	posts      httprpc.Server
	sessionKey string         // SessionHeader in the spelling of http.Header; empty without sessions
	kept       atomic.Int64   // bytes of all events
	turns      sync.WaitGroup // of all sessions; grows under the lock below

	mu       sync.RWMutex // guards the fields below
	closed   bool
	sessions map[string]*Session
	callers  map[string]int
	reserved int                 // sessions that exist or are being opened
	ended    map[string]struct{} // IDs that Restore must not revive
	sweeper  *time.Timer
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	switch {
	case r.Method == http.MethodPost:
		s.post(w, r)
	case s.SessionHeader == "":
		guard.MethodOnly(http.MethodPost).Write(w, r)
	case r.Method == http.MethodGet:
		s.get(w, r)
	case r.Method == http.MethodDelete:
		s.delete(w, r)
	default:
		guard.MethodOnly("GET, POST, DELETE").Write(w, r)
	}
}

// post handles one payload.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	var x *httprpc.Response
	var t *turn
	if len(s.sessionIDs(r)) > 0 {
		both := new(turnResponse)
		x, t = &both.response, &both.turn
	} else {
		x = new(httprpc.Response)
	}
	s.respond(x, w, r)
	b := newBuffer(x)
	defer b.release()
	var ok bool
	if b.in, ok = x.Receive(); !ok {
		return
	}
	route := s.Door(r, b.in)
	switch {
	case route.Refuse != nil:
		refuse(x, b.in, route.Refuse)
	case route.Alone != nil:
		s.alone(r, b, route.Alone)
	case route.Begin:
		s.begin(w, r, b)
	default:
		s.within(w, r, b, t)
	}
}

// caller identifies the caller of a request, for counting.
func (s *Server) caller(r *http.Request) string {
	if s.Caller != nil {
		return s.Caller(r)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (s *Server) writeTimeout() time.Duration { return orTime(s.WriteTimeout, 10*time.Second) }

func orInt(n, standard int) int {
	if n <= 0 {
		return standard
	}
	return n
}

func orTime(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return d
}

// A buffer is the memory of one POST. A handler's params point into it, so it is free when Answer
// has returned and the response is sent: two goroutines may hold it.
type buffer struct {
	response *httprpc.Response
	in       []byte
	checks   checks
	holders  atomic.Int32
}

var buffers = sync.Pool{New: func() any {
	b := new(buffer)
	b.checks.form = httprpc.Form{Empty: form.Empty, Check: b.checks.check}
	return b
}}

func newBuffer(x *httprpc.Response) *buffer {
	b := buffers.Get().(*buffer)
	b.response = x
	b.holders.Store(1)
	return b
}

func (b *buffer) release() {
	if b.holders.Add(-1) > 0 {
		return
	}
	b.response.Close()
	b.response, b.in = nil, nil
	b.checks.release()
	buffers.Put(b)
}
