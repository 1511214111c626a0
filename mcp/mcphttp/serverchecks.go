package mcphttp

import (
	"bytes"
	"context"
	"net/http"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// The header names in canonical form.
var (
	versionKey = http.CanonicalHeaderKey(mcp.HeaderProtocolVersion)
	sessionKey = http.CanonicalHeaderKey(mcp.HeaderSession)
)

// door determines the era of a request (MCP 2026-07-28, Versioning). Headers take precedence,
// because intermediaries see only them. If the body contradicts the headers, the check of that era
// detects it.
func (h *Handler) door(r *http.Request, payload []byte) streamable.Route {
	switch versions := r.Header[versionKey]; len(versions) {
	case 0:
	case 1:
		if !mcp.ParseVersion(versions[0]).HasHandshake() {
			// modern, or unknown; the modern era rejects unknown versions
			return streamable.Route{Alone: &h.byItself}
		}
	default:
		return refuse(mcp.CodeHeaderMismatch, "Header mismatch: "+mcp.HeaderProtocolVersion+" is duplicated")
	}
	if len(r.Header[sessionKey]) > 0 {
		return streamable.Route{}
	}
	return h.doorByBody(payload)
}

// doorByBody determines the era of a request without a version or session header.
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
		// the era is unknown because the body is malformed
		return streamable.Route{Alone: &h.byOlder}
	case modern:
		return streamable.Route{Alone: &h.byItself}
	case opening && !batch && h.opts.Sessions != SessionsNone:
		return streamable.Route{Begin: true}
	case h.opts.Sessions == SessionsRequired:
		return refuse(jsonrpc.CodeInvalidRequest, "Invalid Request: Mcp-Session-Id is missing, and MCP-Protocol-Version is not 2026-07-28 or later")
	}
	return streamable.Route{Alone: &h.byOlder}
}

func refuse(code int64, message string) streamable.Route {
	return streamable.Route{Refuse: &streamable.Refusal{Status: http.StatusBadRequest, Err: jsonrpc.NewError(code, message)}}
}

// checkModern checks the headers of a request against its body.
func (h *Handler) checkModern(r *http.Request, req *jsonrpc.Request) error {
	if req.IsNotification() {
		return nil // no rules are defined for notifications
	}
	if versions := r.Header[versionKey]; len(versions) == 1 && mcp.ParseVersion(versions[0]) == 0 {
		if _, described := mcp.Envelope(req); !described {
			return h.unsupported(r.Context(), versions[0])
		}
	}
	if err := h.server.CheckHeadersFor(r.Context(), req, r.Header.Values); err != nil {
		return err
	}
	if req.Method == mcp.MethodListen && !takesStream(r) {
		return errNeedsStream
	}
	return nil
}

// errNeedsStream is sent with status 406.
var errNeedsStream = jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the response is an event stream, which Accept does not allow")

// takesStream reports whether the client accepts an event stream as the response. A wildcard counts
// only if the client does not accept JSON: many clients send one but cannot read a stream.
func takesStream(r *http.Request) bool {
	q, named := guard.Quality(r.Header["Accept"], eventstream.ContentType)
	text, _ := guard.Quality(r.Header["Accept"], "application/json")
	return q > 0 && (named || text == 0)
}

// checkLegacy checks modern requests that arrived without the version header.
func (h *Handler) checkLegacy(r *http.Request, req *jsonrpc.Request) error {
	if _, described := mcp.Envelope(req); described {
		return h.server.CheckHeadersFor(r.Context(), req, r.Header.Values)
	}
	return nil
}

// unsupported returns the server's error for an unsupported version.
func (h *Handler) unsupported(ctx context.Context, version string) error {
	params, err := jsonrpc.AppendNotification(nil, jsonrpc.Version2, mcp.MethodDiscover, map[string]any{
		"_meta": map[string]string{mcp.MetaProtocolVersion: version},
	})
	if err != nil {
		return mcp.ErrUnsupportedVersion // the header is not valid text
	}
	ask := &jsonrpc.Request{ID: jsonrpc.NullID, Method: mcp.MethodDiscover}
	// the message is our own and valid
	_ = jsonrpc.Scan(params, func(m *jsonrpc.Message) { ask.Params = m.Params.Clone() })
	if _, err = h.server.Handle(ctx, ask); err == nil {
		return mcp.ErrUnsupportedVersion
	}
	return err
}

// modernStatus returns the HTTP status of an error (MCP 2026-07-28, Transports, Streamable HTTP).
// An invalid-params error of a handler has status 200.
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

// legacyStatus returns the HTTP status of an error. Clients of the legacy versions read a response
// body only with status 200.
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
