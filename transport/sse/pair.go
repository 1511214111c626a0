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

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Pair serves conversations over HTTP: a GET opens the stream of one, and POSTs are what its client says. A POST is answered
// 202 once its message is in line; what there is to answer comes on the stream.
//
// Who knows the address that a stream names first may speak in its conversation: it holds 128 random bits. A Pair is safe for
// concurrent use; its fields must not change once it serves. Serve is needed, all else has defaults.
type Pair struct {
	// Serve holds one conversation and returns when it is over; the stream ends with it. ctx is that of the GET, and
	// ends when the client goes away.
	Serve func(ctx context.Context, t jsonrpc.Transport, r *http.Request)

	// Messages is the path to POST to. Empty means the path that the GET came to, as the client wrote it.
	Messages string

	// MaxMessage bounds one message, in bytes. Zero means 4 MiB, negative means no bound. A longer one is answered 413,
	// and ends the conversation.
	MaxMessage int64

	// MaxStreams bounds the conversations at once, and MaxPerCaller those of one caller. Zero means 10,000 and 100. Past
	// them a GET is answered 503.
	MaxStreams, MaxPerCaller int

	// Caller names who makes a request. A POST from somebody else than the GET is answered as if there were no such stream.
	// Nil: callers are told apart by address, for counting only.
	Caller func(*http.Request) string

	// KeepAlive is how long a stream may be silent before a comment is sent. Zero means 15 s, negative means never.
	KeepAlive time.Duration

	// WriteTimeout bounds each write to a stream, and how long a POST waits for its place in line. Zero means 10 s.
	WriteTimeout time.Duration

	mu      sync.Mutex // guards what is below
	streams map[string]*serverSide
	callers map[string]int
}

// session is the query parameter that names a stream.
const session = "sessionId"

var (
	noStream = &guard.Refusal{Status: http.StatusNotFound, Text: "there is no such stream"}
	full     = &guard.Refusal{Status: http.StatusServiceUnavailable, Text: "too many streams are open", Name: "Retry-After", Value: "5"}
	slowTurn = &guard.Refusal{Status: http.StatusServiceUnavailable, Text: "too many messages are in line", Name: "Retry-After", Value: "1"}
)

// ServeHTTP opens a stream or takes a message.
func (p *Pair) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// open holds one conversation, on the goroutine of its GET.
func (p *Pair) open(w http.ResponseWriter, r *http.Request) {
	if q, _ := guard.Quality(r.Header["Accept"], ContentType); q == 0 {
		guard.NotAcceptable().Write(w, r)
		return
	}
	s := &serverSide{
		ctx:    r.Context(),
		caller: p.caller(r),
		events: NewWriter(w, &WriterOptions{KeepAlive: p.KeepAlive, Timeout: p.WriteTimeout}),
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
	if s.events.Send(r.Context(), Event{Type: "endpoint", Data: []byte(p.endpoint(r, id))}) != nil {
		return // the client is gone already
	}
	p.Serve(r.Context(), s, r)
}

// endpoint is where to POST, relative to where the GET went (MCP 2024-11-05, Base Protocol, Transports).
func (p *Pair) endpoint(r *http.Request, id string) string {
	path := p.Messages
	if path == "" {
		path = r.URL.EscapedPath()
		if asked, err := url.ParseRequestURI(r.RequestURI); err == nil {
			path = asked.EscapedPath() // a mux before us may have cut some of it off
		}
		path = "/" + strings.TrimLeft(path, "/") // two slashes would name another host
	}
	return path + "?" + session + "=" + id
}

// add makes room for a stream and gives it a name.
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

// find returns the stream that a POST is for. Another caller's does not exist for it.
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

// message puts what was posted in line, and answers unless it returns why not.
func (p *Pair) message(w http.ResponseWriter, r *http.Request) *guard.Refusal {
	s := p.find(r)
	if s == nil {
		return noStream
	}
	body := guard.Body{Max: p.MaxMessage}
	payload, f := body.Read(w, r, nil)
	if f != nil {
		if f.Status == http.StatusRequestEntityTooLarge {
			s.line.end(&jsonrpc.FrameError{Answer: jsonrpc.ErrInvalidRequest, Final: true, Err: jsonrpc.ErrTooLarge})
		}
		return f
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.writeTimeout())
	defer cancel()
	if err := s.line.put(ctx, payload); err != nil {
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
	_, _ = w.Write([]byte("Accepted\n")) // if the client is gone, the message is in line nevertheless
	return nil
}
