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
	"github.com/da1ed7bb/parley/internal/bridge"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// A webReplay sends the requests of a recorded client to an MCP server over Streamable HTTP. The
// sessions belong to the new server: each recorded session starts with its own initialize, and the
// ID that the server assigns replaces the recorded one. A webReplay is a jsonrpc.Peer for one
// caller, which calls before with the recorded message that it sends next.
type webReplay struct {
	log    *capture.Log
	open   func(s *webSession) *streamable.Client
	fields map[int64]http.Header // headers of recorded requests, by exchange
	// Never connected: it only computes the headers of modern-era messages
	names *mcp.Client

	mu   sync.Mutex // guards the fields below
	row  capture.Row
	all  []*webSession
	each map[webKey]*webSession
}

// A webKey identifies a recorded conversation.
type webKey struct {
	conn    int64
	session string
}

// A webSession is a session with the new server.
type webSession struct {
	r      *webReplay
	client *streamable.Client

	mu      sync.Mutex // guards the fields below
	version mcp.Version
}

// listenTime is how long the replay waits for a session's stream to open before it continues.
const listenTime = 500 * time.Millisecond

// isMCP reports whether a recording contains MCP messages.
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

// before sets the recorded message that is sent next.
func (r *webReplay) before(ref capture.Ref) {
	row, _ := r.log.Row(ref) // ref comes from this log
	r.mu.Lock()
	defer r.mu.Unlock()
	r.row = row
}

// session returns the session of the next message. A message whose session was not begun uses the
// newest session, so that a recording without session IDs replays its sessions one after another.
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

// recorded returns the protocol headers of the recorded message, except those that the new server
// determines.
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

func (s *webSession) manner(req *jsonrpc.Request) streamable.Manner {
	return bridge.Manner(s.r.names, req, s.r.recorded(), s.negotiated())
}

// streamHeader returns the headers of the session's requests.
func (s *webSession) streamHeader() http.Header { return bridge.StreamHeader(s.negotiated()) }

// negotiated returns the protocol version of the session, or 0.
func (s *webSession) negotiated() mcp.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Call implements jsonrpc.Peer.
func (r *webReplay) Call(ctx context.Context, method string, params, result any) error {
	s := r.session(method == mcp.MethodInitialize)
	var raw jsonrpc.Raw
	if err := s.client.Call(ctx, method, params, &raw); err != nil {
		return err
	}
	switch method {
	case mcp.MethodToolsList:
		r.names.LearnTools(raw) // for headers of calls that were recorded without HTTP
	case mcp.MethodInitialize:
		var said struct {
			Version string `json:"protocolVersion"`
		}
		// An unreadable result has no protocol version; the comparison reports it.
		_ = raw.Decode(&said)
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

// Notify implements jsonrpc.Peer. After the handshake it opens the stream of the session, on which
// the server sends requests.
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

// Close closes all sessions.
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
