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
	"github.com/da1ed7bb/parley/transport/sse"
)

// Answering is the half of [jsonrpc.Answerer] that payloads in no session need. It is called from many goroutines at once.
type Answering interface {
	// Answer handles one payload and appends what is to be sent back, or nothing. The *Error is the one that went out, if
	// the payload was a single message and its answer is an error.
	Answer(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error)
}

// A Route is what becomes of a request. The zero Route is for the session that the request names.
type Route struct {
	Alone  *Alone   // not nil: it belongs to no session
	Begin  bool     // it begins a session
	Refuse *Refusal // not nil: it is turned away
}

// A Refusal is why a request is turned away: a status, and the JSON-RPC error in its body, with the id of the request if it can be read.
type Refusal struct {
	Status int
	Err    *jsonrpc.Error
}

// Alone says how payloads are answered that belong to no session.
type Alone struct {
	Answerer Answering // must be set

	// Check, if not nil, sees each request with the HTTP request that it came in, before its handler. An error refuses it as if the
	// handler had returned it.
	Check func(*http.Request, *jsonrpc.Request) error

	// Status, if not nil, chooses the HTTP status of a single error response; 0 leaves it as it would be; see [Server]. refused says that the
	// error is Check's. It is not asked for an answer that has become a stream.
	Status func(e *jsonrpc.Error, refused bool) int

	// Patient: a client that goes away does not cancel what it asked for.
	Patient bool

	// OmitID leaves the member id out of an answer to what has no id that can be read, where JSON-RPC 2.0, section 5, has null.
	OmitID bool
}

// A Server is the endpoint. Door is needed; Begin and SessionHeader where there are sessions. It does not look at the path, nor at who
// calls: a mux and a door stand before it. It is safe for concurrent use; its fields must not change once it serves.
//
// An error response in JSON has status 200, but 429 for -31001 (busy), 503 for -31004 (shutting down) and 502 for -31006 (nobody
// there to answer), unless the protocol wants others. What has no response has status 202. Statuses from 400 on with plain text are about
// the HTTP request and reach no handler.
type Server struct {
	// Door says what becomes of a POST, of which it gets the body, and of a GET or DELETE, with none. It must not keep the payload.
	Door func(r *http.Request, payload []byte) Route

	// SessionHeader is the header that names a session. Empty: there are none, and POST is all that is taken.
	SessionHeader string

	// Begin sets up a session before its first payload is answered. It sets at least the Handler of the Answerer.
	Begin func(s *Session, r *http.Request)

	// Caller names who makes a request. A session belongs to whoever began it, and for others it does not exist. Nil: callers are told
	// apart by address, for counting only.
	Caller func(*http.Request) string

	// MaxMessage bounds one body, in bytes. Zero means 4 MiB, negative means no bound. More is 413.
	MaxMessage int64

	// MaxSessions bounds the sessions at once, and MaxPerCaller those of one caller, but for a loopback address without Caller. Zero means
	// 10,000 and 100. A caller that has all of its own loses the one that it has not used for longest, if that is more than a
	// minute; otherwise the answer is 503.
	MaxSessions, MaxPerCaller int

	// MaxRunning bounds the requests of one session that run at once. Zero means 256. More are answered -31001. One whose handler waits for the
	// client does not count.
	MaxRunning int

	// Idle is how long a session lives of which nothing is heard: no request under way, and nobody at its streams. Lifetime is how long one
	// lives in any case. Zero means 30 min and 24 h, negative means no end.
	Idle, Lifetime time.Duration

	// Polling lets handlers call [CloseStream], which costs each request of a session a few microseconds.
	Polling bool

	// MaxEvents and MaxEventBytes bound what a session keeps for clients that come back. Zero means 1,000 and 4 MiB. The oldest goes first.
	// EventMemory bounds it for all sessions together. Zero means 256 MiB. The session whose newest event is oldest loses all.
	MaxEvents     int
	MaxEventBytes int
	EventMemory   int64

	// Keeper, if not nil, keeps the events of sessions in place of memory, which has then those on their way only: MaxEvents and MaxEventBytes
	// are 256 and 1 MiB by default, and bound no more what clients that come back can have. The answers to the last 1,000 POSTs of a
	// session can be had. The sessions themselves stay in memory, and end with the process.
	Keeper Keeper

	// KeepAlive is how long a stream may be silent before a comment is sent. Zero means 15 s, negative means never.
	KeepAlive time.Duration

	// WriteTimeout bounds each write. Zero means 10 s. A client that does not take its bytes in that time is hung up on.
	WriteTimeout time.Duration

	memory guard.Memory // bodies that are read or being answered: 512 MiB together, then the next ones wait
	watch  guard.Watch
	kept   atomic.Int64   // bytes of all events
	turns  sync.WaitGroup // of all sessions; grows under the lock below

	mu       sync.RWMutex // guards what follows
	closed   bool
	sessions map[string]*Session
	callers  map[string]int
	reserved int // sessions that there are, and that begin
	sweeper  *time.Timer
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// post takes one payload.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	body := guard.Body{Max: s.MaxMessage, Memory: &s.memory, Watch: &s.watch}
	if f := body.Check(r); f != nil {
		f.Write(w, r)
		return
	}
	wants := accepted(r.Header["Accept"])
	if wants == nothing {
		guard.NotAcceptable().Write(w, r)
		return
	}
	b := newBuffer()
	var f *guard.Refusal
	if b.in, f = body.Read(w, r, b.in[:0]); f != nil {
		b.release()
		f.Write(w, r)
		return
	}
	b.held = len(b.in)
	b.body = body
	defer b.release()
	route := s.Door(r, b.in)
	switch {
	case route.Refuse != nil:
		s.refuse(w, r, b.in, route.Refuse)
	case route.Alone != nil:
		s.alone(w, r, b, wants, route.Alone)
	case route.Begin:
		s.begin(w, r, b, wants)
	default:
		s.within(w, r, b, wants)
	}
}

// What a caller takes, by its Accept header.
type acceptance uint8

const (
	nothing acceptance = iota
	plain              // JSON, and no stream
	either             // JSON, and a stream once there is a reason
	stream             // a stream from the start
)

// accepted reads Accept (RFC 9110, section 12.5.1). Only a caller that spells the event stream out gets one beside JSON: "*/*" is
// said by many that could not read it. One that ranks it above JSON gets nothing else.
func accepted(accept []string) acceptance {
	if len(accept) == 0 {
		return plain
	}
	if len(accept) == 1 {
		switch accept[0] {
		case "application/json", "*/*":
			return plain
		case "application/json, text/event-stream":
			return either
		}
	}
	text, _ := guard.Quality(accept, "application/json")
	events, named := guard.Quality(accept, sse.ContentType)
	switch {
	case events > text && (named || text == 0):
		return stream
	case text == 0:
		return nothing
	case named && events > 0:
		return either
	}
	return plain
}

// caller names who makes a request, for counting.
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

func (s *Server) newWriter(w http.ResponseWriter) *sse.Writer {
	return sse.NewWriter(w, &sse.WriterOptions{KeepAlive: s.KeepAlive, Timeout: s.WriteTimeout})
}

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

// A buffer is the memory of one POST. A handler's params point into it, so it is free when Answer has returned and the answer is out: two
// goroutines may hold it.
type buffer struct {
	in, out []byte
	held    int // bytes of in that count in the Server's memory
	body    guard.Body
	holders atomic.Int32
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func newBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.holders.Store(1)
	return b
}

// keep is how much of a buffer is kept for the next POST.
const keep = 64 << 10

func (b *buffer) release() {
	if b.holders.Add(-1) > 0 {
		return
	}
	if b.held > 0 {
		b.body.Done(b.held)
	}
	b.held, b.body = 0, guard.Body{}
	if cap(b.in) > keep {
		b.in = nil
	}
	if cap(b.out) > keep {
		b.out = nil
	}
	buffers.Put(b)
}
