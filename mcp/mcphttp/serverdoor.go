package mcphttp

import (
	"bytes"
	"context"
	"net/http"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/sse"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// The headers as net/http keeps them.
var (
	versionKey = http.CanonicalHeaderKey(mcp.HeaderProtocolVersion)
	sessionKey = http.CanonicalHeaderKey(mcp.HeaderSession)
)

// door decides which era a request belongs to (MCP 2026-07-28, Versioning). Headers go first, since what stands between client and server sees
// nothing else; a body that says other than they do is found by the check of its era.
func (h *Handler) door(r *http.Request, payload []byte) streamable.Route {
	switch versions := r.Header[versionKey]; len(versions) {
	case 0:
	case 1:
		if !mcp.ParseVersion(versions[0]).HasHandshake() {
			return streamable.Route{Alone: &h.byItself} // modern, or unknown, which is for the modern era to say
		}
	default:
		return refuse(mcp.CodeHeaderMismatch, "Header mismatch: "+mcp.HeaderProtocolVersion+" comes twice")
	}
	if len(r.Header[sessionKey]) > 0 {
		return streamable.Route{}
	}
	return h.doorByBody(payload)
}

// doorByBody is for a request whose headers say nothing.
func (h *Handler) doorByBody(payload []byte) streamable.Route {
	modern, opening := false, false
	fault := jsonrpc.Scan(payload, func(m *jsonrpc.Message) {
		if !m.Request || m.Bad != nil || m.ID.IsZero() {
			return
		}
		_, described := mcp.Envelope(&jsonrpc.Request{ID: m.ID, Method: m.Method, Params: m.Params})
		switch {
		case described, m.Method == mcp.MethodDiscover, m.Method == mcp.MethodListen:
			modern = true
		case m.Method == mcp.MethodInitialize:
			opening = true
		}
	})
	batch := bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte{'['})
	switch {
	case fault != nil:
		return streamable.Route{Alone: &h.byOlder} // whichever it is, it cannot be read
	case modern:
		return streamable.Route{Alone: &h.byItself}
	case opening && !batch && h.opts.Sessions != SessionsNone:
		return streamable.Route{Begin: true}
	case h.opts.Sessions == SessionsRequired:
		return refuse(jsonrpc.CodeInvalidRequest, "Invalid Request: it names neither a session nor a version that needs none")
	}
	return streamable.Route{Alone: &h.byOlder}
}

func refuse(code int64, message string) streamable.Route {
	return streamable.Route{Refuse: &streamable.Refusal{Status: http.StatusBadRequest, Err: jsonrpc.NewError(code, message)}}
}

// checkModern holds the headers of a request against its body.
func (h *Handler) checkModern(r *http.Request, req *jsonrpc.Request) error {
	if req.IsNotification() {
		return nil // nothing is defined for them
	}
	if _, described := mcp.Envelope(req); !described {
		if versions := r.Header[versionKey]; len(versions) == 1 && mcp.ParseVersion(versions[0]) == 0 {
			return h.unsupported(r.Context(), versions[0])
		}
	}
	if err := h.server.CheckHeaders(req, r.Header.Values); err != nil {
		return err
	}
	if req.Method == mcp.MethodListen && !takesStream(r) {
		return errNeedsStream
	}
	return nil
}

// errNeedsStream is answered 406.
var errNeedsStream = jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the answer is an event stream, which Accept does not name")

// takesStream reports whether the answer may be an event stream. A wildcard is said by many that could not read one.
func takesStream(r *http.Request) bool {
	q, named := guard.Quality(r.Header["Accept"], sse.ContentType)
	text, _ := guard.Quality(r.Header["Accept"], "application/json")
	return q > 0 && (named || text == 0)
}

// checkLegacy finds requests of the modern era that came without its header.
func (h *Handler) checkLegacy(r *http.Request, req *jsonrpc.Request) error {
	if _, described := mcp.Envelope(req); described {
		return h.server.CheckHeaders(req, r.Header.Values)
	}
	return nil
}

// unsupported asks the server what it says to a version that it does not speak.
func (h *Handler) unsupported(ctx context.Context, version string) error {
	params, err := jsonrpc.AppendNotification(nil, jsonrpc.Version2, mcp.MethodDiscover, map[string]any{
		"_meta": map[string]string{mcp.MetaProtocolVersion: version},
	})
	if err != nil {
		return mcp.ErrUnsupportedVersion // the header is no text
	}
	ask := &jsonrpc.Request{ID: jsonrpc.NullID, Method: mcp.MethodDiscover}
	_ = jsonrpc.Scan(params, func(m *jsonrpc.Message) { ask.Params = m.Params.Clone() }) // we made it
	if _, err = h.server.Handle(ctx, ask); err == nil {
		return mcp.ErrUnsupportedVersion
	}
	return err
}

// modernStatus maps an error (MCP 2026-07-28, Transports, Streamable HTTP). What a handler says about params is an answer like any other.
func modernStatus(e *jsonrpc.Error, refused bool) int {
	if e == errNeedsStream {
		return http.StatusNotAcceptable
	}
	switch e.Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInternalError:
		return http.StatusInternalServerError
	}
	if refused {
		return http.StatusBadRequest
	}
	return 0
}

// legacyStatus maps an error. Clients of those revisions read no body of another status than 200.
func legacyStatus(e *jsonrpc.Error, refused bool) int {
	switch e.Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, mcp.CodeHeaderMismatch, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	if refused {
		return http.StatusBadRequest
	}
	return 0
}
