package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// A webReplay asks an MCP server over Streamable HTTP as a recorded client did. The sessions are the new server's: each recorded one is
// begun by its own initialize, and the id that the server gives stands in place of the recorded one. It is a jsonrpc.Peer for one
// caller, who says before each message which of the recorded ones it is.
type webReplay struct {
	log    *capture.Log
	open   func(s *webSession) *streamable.Client
	fields map[int64]http.Header // of recorded requests, by exchange
	names  *mcp.Client           // never opened: it knows which headers a message of the modern era has

	mu   sync.Mutex // guards what is below
	row  capture.Row
	all  []*webSession
	each map[webKey]*webSession
}

// A webKey names a recorded conversation.
type webKey struct {
	conn    int64
	session string
}

// A webSession is a conversation with the new server.
type webSession struct {
	r      *webReplay
	client *streamable.Client

	mu      sync.Mutex // guards what is below
	version mcp.Version
}

// listenTime is how long the stream of a session may take to open before the replay goes on.
const listenTime = 500 * time.Millisecond

// isMCP reports whether a recording holds a conversation of MCP.
func isMCP(log *capture.Log) bool {
	for _, r := range log.Rows(capture.Ref{}, 0) {
		if mcp.ParseVersion(r.Version) != 0 {
			return true
		}
	}
	return false
}

func newWebReplay(log *capture.Log, target parley.Target, d *parley.Dialer, back jsonrpc.Handler, report func(string, error)) *webReplay {
	r := &webReplay{
		log: log, fields: make(map[int64]http.Header), each: make(map[webKey]*webSession),
		names: mcp.NewClient(presentation(), nil),
	}
	for _, row := range log.Rows(capture.Ref{}, 0) {
		if row.Kind != capture.RowHTTP {
			continue
		}
		if e, err := log.Event(row.Ref.Seq); err == nil {
			r.fields[row.Exchange] = e.Header
		}
	}
	r.open = func(s *webSession) *streamable.Client {
		o := &streamable.ClientOptions{
			TLS: d.TLS, Header: d.Header, Token: d.Token, MaxMessage: d.MaxMessage, CallTime: d.Limits.CallTime,
			Manner: s.manner, SessionHeader: mcp.HeaderSession, StreamHeader: s.streamHeader,
			Cancellation: mcp.Cancellation, Related: mcp.Related, Open: mcp.Open, Report: report,
		}
		if back != nil {
			o.Back = &jsonrpc.Answerer{Handler: back, Mode: mcp.Mode, Cancellation: mcp.Cancellation, Report: report}
		}
		return streamable.NewClient(target.URL(), o)
	}
	return r
}

// before tells which of the recorded messages comes next.
func (r *webReplay) before(ref capture.Ref) {
	row, _ := r.log.Row(ref) // it is in the log that it was taken from
	r.mu.Lock()
	defer r.mu.Unlock()
	r.row = row
}

// session is the conversation that the next message belongs to. A message of none that was begun goes to the newest, so that a recording
// which names no sessions has one after the other.
func (r *webReplay) session(begin bool) *webSession {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := webKey{r.row.Conn, r.row.Session}
	s := r.each[key]
	if s == nil && !begin && len(r.all) > 0 {
		s = r.all[len(r.all)-1]
	}
	if s == nil || begin {
		s = &webSession{r: r}
		s.client = r.open(s)
		r.all = append(r.all, s)
		r.each[key] = s
	}
	return s
}

// recorded are the headers of the protocol that the message had then, but for those that are the new server's matter.
func (r *webReplay) recorded() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := make(http.Header)
	for name, values := range r.fields[r.row.Exchange] {
		switch {
		case !strings.HasPrefix(http.CanonicalHeaderKey(name), "Mcp-"), strings.EqualFold(name, mcp.HeaderSession), strings.EqualFold(name, mcp.HeaderProtocolVersion):
		case len(values) > 0 && !strings.Contains(values[0], capture.Hidden):
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	return h
}

// manner tells how a message is carried: one of the modern era says all there is to know, any other belongs to the session.
func (s *webSession) manner(req *jsonrpc.Request) streamable.Manner {
	m := streamable.Manner{Header: s.r.recorded()}
	modern := req.Method == mcp.MethodDiscover
	for _, f := range s.r.names.Headers(req.Method, req.Params) {
		m.Header.Set(f.Name, f.Value)
		modern = true // what has no revision in its body has no such headers
	}
	switch {
	case modern:
	case req.Method == mcp.MethodInitialize:
		m.Bond = streamable.Opening
	default:
		m.Bond = streamable.Within
		for name, values := range s.streamHeader() {
			m.Header[name] = values
		}
	}
	return m
}

// streamHeader is what requests of the session have: the revision that was agreed on now.
func (s *webSession) streamHeader() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := make(http.Header)
	if s.version.HasVersionHeader() {
		h.Set(mcp.HeaderProtocolVersion, s.version.String())
	}
	return h
}

// Call implements jsonrpc.Peer.
func (r *webReplay) Call(ctx context.Context, method string, params, result any) error {
	s := r.session(method == mcp.MethodInitialize)
	var raw jsonrpc.Raw
	if err := s.client.Call(ctx, method, params, &raw); err != nil {
		return err
	}
	if method == mcp.MethodInitialize {
		var said struct {
			Version string `json:"protocolVersion"`
		}
		_ = raw.Decode(&said) // what cannot be read is no revision; the comparison tells
		s.mu.Lock()
		s.version = mcp.ParseVersion(said.Version)
		s.mu.Unlock()
	}
	return raw.Decode(result)
}

// Stream implements jsonrpc.Peer.
func (r *webReplay) Stream(ctx context.Context, method string, params, result any, on func(*jsonrpc.Request) error) error {
	return r.session(false).client.Stream(ctx, method, params, result, on)
}

// Notify implements jsonrpc.Peer. Behind the handshake the stream of the session is opened, on which the server asks.
func (r *webReplay) Notify(ctx context.Context, method string, params any) error {
	s := r.session(false)
	err := s.client.Notify(ctx, method, params)
	if err == nil && method == mcp.NotifyInitialized {
		listening, stop := context.WithTimeout(ctx, listenTime)
		defer stop()
		s.client.Listen(listening)
	}
	return err
}

// Close ends all sessions.
func (r *webReplay) Close() error {
	r.mu.Lock()
	all := r.all
	r.mu.Unlock()
	var err error
	for _, s := range all {
		err = errors.Join(err, s.client.Close())
	}
	return err
}
