package bridge

import (
	"net/http"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// Manner returns how a message of another client is posted to an MCP server, with the headers h and
// those that its version requires: a modern message is self-contained, and any other belongs to
// the session, if there is one, of the given version. names computes the headers of the modern era;
// it needs no connection.
func Manner(names *mcp.Client, req *jsonrpc.Request, h http.Header, v mcp.Version) streamable.Manner {
	m := streamable.Manner{Header: h}
	modern := req.Method == mcp.MethodDiscover
	for _, f := range names.Headers(req.Method, req.Params) {
		h.Set(f.Name, f.Value)
		modern = true // messages without a version in the body have no such headers
	}
	switch {
	case modern:
	case req.Method == mcp.MethodInitialize:
		m.Bond = streamable.Opening
	default:
		m.Bond = streamable.Within
		for name, values := range StreamHeader(v) {
			h[name] = values
		}
	}
	return m
}

// StreamHeader returns the headers of the requests of a session of a version.
func StreamHeader(v mcp.Version) http.Header {
	h := make(http.Header)
	if v.HasVersionHeader() {
		h.Set(mcp.HeaderProtocolVersion, v.String())
	}
	return h
}
