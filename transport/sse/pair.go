package sse

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Pair serves conversations over HTTP: a GET opens the stream of a conversation, and its client
// sends messages by POST. A POST gets 202 once its message is queued; the responses are sent on the
// stream.
//
// Anyone who knows the address in the first event of a stream may send messages in its
// conversation: the address contains 128 random bits. A Pair is safe for concurrent use; its fields
// must not change once it serves. Serve is required, all other fields have defaults.
type Pair struct {
	// Serve runs one conversation and returns when it is over; the stream ends with it. ctx is the
	// context of the GET, and ends when the client disconnects.
	Serve func(ctx context.Context, t jsonrpc.Transport, r *http.Request)

	// Messages is the path for POSTs. If empty, it is the path of the GET, as the client wrote it.
	Messages string

	// MaxMessage bounds one message, in bytes. Zero means 4 MiB, negative means no bound. A longer
	// one gets 413, and ends the conversation.
	MaxMessage int64

	// MaxStreams bounds the concurrent conversations, and MaxPerCaller those of one caller. Zero
	// means 10,000 and 100. Above them a GET gets 503.
	MaxStreams, MaxPerCaller int

	// Caller identifies the caller of a request. A POST from a different caller than the GET gets
	// the same response as for an unknown stream. If nil, callers are identified by address, for
	// counting only.
	Caller func(*http.Request) string

	// KeepAlive is how long a stream may be silent before a comment is sent. Zero means 15 s,
	// negative means never.
	KeepAlive time.Duration

	// WriteTimeout bounds the time in which a client takes nothing, of each 64 KiB that are written
	// to its stream, and the wait of a POST for its place in the queue. Zero means 10 s.
	WriteTimeout time.Duration

	memory guard.Memory // bodies that are being read or wait in line

	mu      sync.Mutex // guards the fields below
	streams map[string]*serverSide
	callers map[string]int
}

// session is the query parameter that identifies a stream.
const session = "sessionId"

var (
	noStream = &guard.Refusal{Status: http.StatusNotFound, Text: "unknown stream"}
	full     = &guard.Refusal{Status: http.StatusServiceUnavailable, Text: "too many streams are open", Name: "Retry-After", Value: "5"}
	slowTurn = &guard.Refusal{Status: http.StatusServiceUnavailable, Text: "too many messages are queued", Name: "Retry-After", Value: "1"}
)

// ServeHTTP opens a stream or accepts a message.
func (p *Pair) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	switch r.Method {
	case http.MethodGet:
		p.open(w, r)
	case http.MethodPost:
		if f := p.message(w, r); f != nil {
			f.Write(w, r)
		}
	default:
		guard.MethodOnly("GET, POST").Write(w, r)
	}
}

func (p *Pair) writeTimeout() time.Duration {
	if p.WriteTimeout <= 0 {
		return 10 * time.Second
	}
	return p.WriteTimeout
}

func (p *Pair) caller(r *http.Request) string {
	if p.Caller != nil {
		return p.Caller(r)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// open serves one conversation, on the goroutine of its GET.
func (p *Pair) open(w http.ResponseWriter, r *http.Request) {
	if q, _ := guard.Quality(r.Header["Accept"], ContentType); q == 0 {
		guard.NotAcceptable().Write(w, r)
		return
	}
	s := &serverSide{
		ctx:    r.Context(),
		caller: p.caller(r),
		events: eventstream.NewWriter(w, &eventstream.WriterOptions{KeepAlive: p.KeepAlive, Timeout: p.WriteTimeout}),
		line:   newLine(),
	}
	id, ok := p.add(s)
	if !ok {
		full.Write(w, r)
		return
	}
	defer func() {
		p.remove(id, s)
		_ = s.Close()
		_ = s.events.Finish()
	}()
	if s.events.Send(r.Context(), eventstream.Event{Type: "endpoint", Data: []byte(p.endpoint(r, id))}) != nil {
		return // the client is gone already
	}
	p.Serve(r.Context(), s, r)
}

// endpoint returns the address for POSTs, relative to the address of the GET (MCP 2024-11-05, Base
// Protocol, Transports).
func (p *Pair) endpoint(r *http.Request, id string) string {
	path := p.Messages
	if path == "" {
		path = r.URL.EscapedPath()
		if asked, err := url.ParseRequestURI(r.RequestURI); err == nil {
			path = asked.EscapedPath() // a mux before this handler may have removed a prefix
		}
		path = "/" + strings.TrimLeft(path, "/") // two slashes would be another host
	}
	return path + "?" + session + "=" + id
}

// add registers a stream and returns its ID, or false if the bounds are reached.
func (p *Pair) add(s *serverSide) (string, bool) {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails, and ends the program if it would
	id := hex.EncodeToString(bits[:])

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams == nil {
		p.streams, p.callers = make(map[string]*serverSide), make(map[string]int)
	}
	if len(p.streams) >= orInt(p.MaxStreams, 10_000) || p.callers[s.caller] >= orInt(p.MaxPerCaller, 100) {
		return "", false
	}
	p.streams[id] = s
	p.callers[s.caller]++
	return id, true
}

func (p *Pair) remove(id string, s *serverSide) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, id)
	if p.callers[s.caller]--; p.callers[s.caller] == 0 {
		delete(p.callers, s.caller)
	}
}

func orInt(n, standard int) int {
	if n == 0 {
		return standard
	}
	return n
}

// find returns the stream of a POST. The stream of another caller is not found.
func (p *Pair) find(r *http.Request) *serverSide {
	ids := r.URL.Query()[session]
	if len(ids) != 1 {
		return nil
	}
	p.mu.Lock()
	s := p.streams[ids[0]]
	p.mu.Unlock()
	if s != nil && p.Caller != nil && p.Caller(r) != s.caller {
		return nil
	}
	return s
}

// message queues the posted message and responds, or returns the reason for a refusal.
func (p *Pair) message(w http.ResponseWriter, r *http.Request) *guard.Refusal {
	s := p.find(r)
	if s == nil {
		return noStream
	}
	body := &guard.Body{Max: p.MaxMessage, Memory: &p.memory}
	payload, f := body.Read(w, r, nil)
	if f != nil {
		if f.Status == http.StatusRequestEntityTooLarge {
			s.line.end(&jsonrpc.FrameError{Answer: jsonrpc.ErrInvalidRequest, Final: true, Err: jsonrpc.ErrTooLarge})
		}
		return f
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.writeTimeout())
	defer cancel()
	if err := s.line.put(ctx, payload, body.Done); err != nil {
		body.Done()
		if ctx.Err() != nil {
			return slowTurn
		}
		return noStream
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusAccepted)
	// if the client is gone, the message is queued nevertheless
	_, _ = w.Write([]byte("Accepted\n"))
	return nil
}
