package httprpc

import (
	"context"
	"net/http"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Answering is the half of [jsonrpc.Answerer] that a Server needs, so that a recorder or the
// mapping of a protocol can be placed before it. It is called from many goroutines at once.
type Answering interface {
	// Answer handles one payload and appends the response, if any. The *Error is the one that is
	// sent, if the payload was a single message and its response is an error.
	Answer(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error)
}

// A Server handles each POST separately. The zero value refuses every method. It is safe for
// concurrent use; its fields must not change once it serves.
//
// It checks neither the path nor the caller: put a mux and access checks before it. If a client
// disconnects, the contexts of its handlers end.
type Server struct {
	// Answerer handles the requests. If nil, every method is unknown.
	Answerer Answering

	// MaxMessage bounds the body of one request, in bytes. Zero means 4 MiB, negative means no
	// bound. A longer body gets status 413.
	MaxMessage int64

	// ContentTypes are media types that a protocol defines in addition to application/json, in
	// lower case.
	ContentTypes []string

	// Check, if not nil, is called with each request and the HTTP request that it arrived in,
	// before its handler: use it to compare headers with the body. An error refuses the request as
	// if the handler had returned it.
	Check func(*http.Request, *jsonrpc.Request) error

	// Status, if not nil, returns the HTTP status of a single error response; 0 selects the
	// default: 429 for -31001 (busy), 503 for -31004 (shutting down), 502 for -31006 (no backend),
	// and 200 for all others. It is not called for a response that has become a stream.
	Status func(*jsonrpc.Error) int

	// NoStream forces plain responses: handlers cannot notify.
	NoStream bool

	// KeepAlive is how long a stream may be silent before a comment is sent. Zero means 15 s,
	// negative means never.
	KeepAlive time.Duration

	// WriteTimeout bounds the time in which a client takes nothing, of each 64 KiB that are written,
	// with a precision of one second. Zero means 10 s. After it the connection is closed.
	WriteTimeout time.Duration

	// bodies that are being read or handled: up to 192 MiB in the process, then the next ones wait
	memory guard.Memory
	watch  guard.Watch
}

// Handler returns a Server that passes requests to h, with the modes of its methods if h is a Mux.
// For limits and other settings create a [jsonrpc.Answerer] and set it as the Answerer of a Server.
func Handler(h jsonrpc.Handler) *Server {
	a := &jsonrpc.Answerer{Handler: h}
	if mux, ok := h.(*jsonrpc.Mux); ok {
		a.Mode = mux.Mode
	}
	return &Server{Answerer: a}
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	x := s.Begin(w, r)
	defer x.Close()
	if payload, ok := x.Receive(); ok {
		x.Finish(x.Answer(r.Context(), s.Answerer, payload))
	}
}

type acceptance = guard.Acceptance

const (
	nothing = guard.AcceptsNothing
	plain   = guard.AcceptsPlain
	either  = guard.AcceptsEither
	stream  = guard.AcceptsStream
)

// accepted evaluates Accept headers.
func (s *Server) accepted(accept []string) acceptance { return guard.Accepted(accept, s.NoStream) }

func (s *Server) writeTimeout() time.Duration {
	if s.WriteTimeout <= 0 {
		return 10 * time.Second
	}
	return s.WriteTimeout
}
