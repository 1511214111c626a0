package httprpc

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// Answering is the half of [jsonrpc.Answerer] that a Server needs, so that a recorder or a protocol's mapping can stand
// before it. It is called from many goroutines at once.
type Answering interface {
	// Answer handles one payload and appends what is to be sent back, or nothing. The *Error is the one that went out, if
	// the payload was a single message and its answer is an error.
	Answer(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error)
}

// A Server answers each POST by itself. The zero value refuses every method. It is safe for concurrent use; its fields must not
// change once it serves.
//
// It does not look at the path, nor at who calls: a mux and a door stand before it. A client that goes away ends the
// contexts of its handlers.
type Server struct {
	// Answerer answers. Nil: every method is unknown.
	Answerer Answering

	// MaxMessage bounds the body of one request, in bytes. Zero means 4 MiB, negative means no bound. More is 413.
	MaxMessage int64

	// ContentTypes are media types that a protocol names beside application/json, in lower case.
	ContentTypes []string

	// Check, if not nil, sees each request with the HTTP request that it came in, before its handler: the place to hold
	// headers against the body. An error refuses it as if the handler had returned it.
	Check func(*http.Request, *jsonrpc.Request) error

	// Status, if not nil, chooses the HTTP status of a single error response; 0 leaves it as it would be: 429 for
	// -31001 (busy), 503 for -31004 (shutting down), 502 for -31006 (nobody there to answer), and 200 for all others. It is not
	// asked for an answer that has become a stream.
	Status func(*jsonrpc.Error) int

	// NoStream keeps answers plain: handlers cannot notify.
	NoStream bool

	// KeepAlive is how long a stream may be silent before a comment is sent. Zero means 15 s, negative means never.
	KeepAlive time.Duration

	// WriteTimeout bounds each write, exact to a second. Zero means 10 s. A client that does not take its bytes in that
	// time is hung up on.
	WriteTimeout time.Duration

	memory guard.Memory // bodies that are read or being answered: 512 MiB together, then the next ones wait
	watch  guard.Watch
}

// Handler returns a Server that h answers for, by the modes of its methods if it is a Mux. For limits and everything else about the
// answers make a [jsonrpc.Answerer] and set it instead.
func Handler(h jsonrpc.Handler) *Server {
	a := &jsonrpc.Answerer{Handler: h}
	if mux, ok := h.(*jsonrpc.Mux); ok {
		a.Mode = mux.Mode
	}
	return &Server{Answerer: a}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		guard.MethodOnly(http.MethodPost).Write(w, r)
		return
	}
	body := guard.Body{Max: s.MaxMessage, Types: s.ContentTypes, Memory: &s.memory, Watch: &s.watch}
	if f := body.Check(r); f != nil {
		f.Write(w, r)
		return
	}
	wants := s.accepted(r.Header["Accept"])
	if wants == nothing {
		guard.NotAcceptable().Write(w, r)
		return
	}
	b := buffers.Get().(*buffer)
	defer b.free()
	var f *guard.Refusal
	if b.in, f = body.Read(w, r, b.in[:0]); f != nil {
		f.Write(w, r)
		return
	}
	defer body.Done(len(b.in))
	x := &exchange{server: s, w: w, r: r}
	defer x.events.Abandon() // does nothing after finish
	x.prepare(r.Context(), wants, b.in)
	var fault *jsonrpc.Error
	b.out, fault = s.answer(r.Context(), b.out[:0], b.in, &x.Exchange)
	x.finish(wants, b.out, fault)
}

func (s *Server) answer(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
	switch {
	case len(payload) == 0:
		return jsonrpc.AppendError(dst, jsonrpc.Version2, jsonrpc.NullID, jsonrpc.ErrParseError), jsonrpc.ErrParseError
	case s.Answerer == nil:
		return new(jsonrpc.Answerer).Answer(ctx, dst, payload, x)
	}
	return s.Answerer.Answer(ctx, dst, payload, x)
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
func (s *Server) accepted(accept []string) acceptance {
	if len(accept) == 0 {
		return plain
	}
	if len(accept) == 1 {
		switch accept[0] {
		case "application/json", "*/*":
			return plain
		case "application/json, text/event-stream":
			if !s.NoStream {
				return either
			}
		}
	}
	text, _ := guard.Quality(accept, "application/json")
	events, named := guard.Quality(accept, sse.ContentType)
	if s.NoStream {
		events = 0
	}
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

// The values of headers, made once. net/http and other handlers do not write into them.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
)

// writePlain answers with one JSON text, or with 204 for none.
func (s *Server) writePlain(x *exchange, out []byte, fault *jsonrpc.Error) {
	h := x.w.Header()
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	if len(out) == 0 {
		x.w.WriteHeader(http.StatusNoContent)
		return
	}
	h["Content-Type"] = jsonType
	x.length[0] = strconv.Itoa(len(out))
	h["Content-Length"] = x.length[:]

	status := http.StatusOK
	if fault != nil {
		status = s.status(x.r, h, fault)
	}
	if x.r.ProtoMajor != 1 {
		// A frame of its own for the end of the stream would cost more than the deadline.
		_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(s.writeTimeout()))
		x.write(status, out)
		return
	}
	s.watch.Write(x.w, s.writeTimeout(), func(control *http.ResponseController) {
		x.write(status, out)
		_ = control.Flush() // now, while it is watched
	})
}

// write sends headers and body. If the client is gone there is nobody to tell.
func (x *exchange) write(status int, out []byte) {
	if status != http.StatusOK {
		x.w.WriteHeader(status)
	}
	_, _ = x.w.Write(out)
}

func (s *Server) writeTimeout() time.Duration {
	if s.WriteTimeout <= 0 {
		return 10 * time.Second
	}
	return s.WriteTimeout
}

// status maps an error response, and sets the headers that go with the status.
func (s *Server) status(r *http.Request, h http.Header, e *jsonrpc.Error) int {
	status := 0
	if s.Status != nil {
		status = s.Status(e)
	}
	switch e.Code {
	case jsonrpc.CodeBusy:
		h.Set("Retry-After", retryAfter(e))
		status = orStatus(status, http.StatusTooManyRequests)
	case jsonrpc.CodeShuttingDown:
		h.Set("Retry-After", "1")
		if r.ProtoMajor == 1 {
			h.Set("Connection", "close")
		}
		status = orStatus(status, http.StatusServiceUnavailable)
	case jsonrpc.CodeUnavailable:
		status = orStatus(status, http.StatusBadGateway)
	}
	return orStatus(status, http.StatusOK)
}

func orStatus(status, standard int) int {
	if status == 0 {
		return standard
	}
	return status
}

// retryAfter is the wait that the error names, in whole seconds, at least one (RFC 9110, section 10.2.3).
func retryAfter(e *jsonrpc.Error) string {
	var data jsonrpc.FaultData
	if len(e.Data) == 0 || e.Data.Decode(&data) != nil {
		return "1"
	}
	seconds := math.Ceil(float64(data.RetryAfterMs) / 1000)
	return strconv.Itoa(int(min(max(seconds, 1), 3600)))
}

// A buffer is the memory of one exchange. A handler's params point into it, so it is free when Answer has returned.
type buffer struct{ in, out []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// keep is how much of a buffer is kept for the next exchange.
const keep = 64 << 10

func (b *buffer) free() {
	if cap(b.in) > keep {
		b.in = nil
	}
	if cap(b.out) > keep {
		b.out = nil
	}
	buffers.Put(b)
}

// wantsAnswer reports whether a payload has at least one good request with an id.
func wantsAnswer(payload []byte) bool {
	wants := false
	fault := jsonrpc.ScanVersion(jsonrpc.Version1, payload, func(m *jsonrpc.Message) {
		wants = wants || m.Request && m.Bad == nil && !m.ID.IsZero()
	})
	return fault == nil && wants
}
