package bridge

import (
	"bytes"
	"net/http"
	"sync"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// Endpoint is the endpoint for POST, GET and DELETE: plain JSON-RPC, and MCP of all versions over
// Streamable HTTP. Each session is a client. Requests without a session are one client together,
// because they cannot be told apart.
func (b *Bridge) Endpoint() *parley.Mount {
	return &parley.Mount{Handler: b.web, Drain: b.web.Shutdown}
}

func (b *Bridge) newWeb() *streamable.Server {
	var once sync.Once
	var plain, modern streamable.Alone
	// The client of all requests without a session is created with the first of them.
	prepare := func() {
		c := b.newClient(nil)
		for _, a := range []*streamable.Alone{&plain, &modern} {
			a.Answerer = &jsonrpc.Answerer{Handler: c, Mode: anyMode, Gate: &jsonrpc.Gate{Max: maxRunning}, Report: b.opts.Report}
		}
		modern.Status, modern.OmitID = modernStatus, true
	}
	return &streamable.Server{
		Door: func(r *http.Request, payload []byte) streamable.Route {
			kind := kindOf(r, payload)
			if kind == inSession {
				return streamable.Route{}
			}
			if kind == beginsSession {
				return streamable.Route{Begin: true}
			}
			once.Do(prepare)
			if kind == isModern {
				return streamable.Route{Alone: &modern}
			}
			return streamable.Route{Alone: &plain}
		},
		SessionHeader: mcp.HeaderSession,
		Begin: func(s *streamable.Session, _ *http.Request) {
			c := b.newClient(s.Voice())
			s.Answerer.Handler, s.Answerer.Mode, s.Answerer.Cancellation = c, anyMode, mcp.Cancellation
			s.Answerer.Report = b.opts.Report
			s.Asker.Open = func(string) bool { return true }
			s.Cancellation = mcp.Cancellation
			s.Opened = c.link.isGreeted
			s.Ended = c.leave
		},
	}
}

// maxRunning bounds the requests without a session that run at once.
const maxRunning = 4096

// A kind is how a request belongs to a session.
type kind uint8

const (
	isPlain kind = iota
	isModern
	beginsSession
	inSession
)

// kindOf returns the kind of a request. A GET or DELETE is for a session.
func kindOf(r *http.Request, payload []byte) kind {
	versions := r.Header.Values(mcp.HeaderProtocolVersion)
	if len(versions) == 1 && !mcp.ParseVersion(versions[0]).HasHandshake() {
		return isModern
	}
	if r.Method != http.MethodPost || r.Header.Get(mcp.HeaderSession) != "" {
		return inSession
	}
	k := isPlain
	batch := bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte{'['})
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // what is wrong is answered later
		req := &jsonrpc.Request{ID: m.ID, Method: m.Method, Params: m.Params}
		switch {
		case !m.Request || m.Bad != nil || m.ID.IsZero() || !isMCP(req):
		case m.Method != mcp.MethodInitialize:
			k = isModern
		case !batch:
			k = beginsSession
		}
	})
	return k
}

// isGreeted reports whether initialize had a result.
func (l *link) isGreeted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hello.result != nil
}

// modernStatus returns the HTTP status of an error (MCP 2026-07-28, Transports, Streamable HTTP).
func modernStatus(e *jsonrpc.Error, _ bool) int {
	switch e.Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return 0
}
