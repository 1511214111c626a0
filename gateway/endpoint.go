package gateway

import (
	"net/http"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// newEndpoint returns the handler of /s/NAME: nil for a server that has none.
func (g *Gateway) newEndpoint(u *upstream) (http.Handler, error) {
	prefix := "/s/" + u.entry.Name
	switch {
	case u.entry.Protocol == config.JSONRPC:
		r := newRoute(config.Route{Method: []string{"*"}, To: u.entry.Name}, u.alone)
		answerer := &jsonrpc.Answerer{Handler: router{gateway: g, only: r}, Mode: anyMode, Gate: g.gate, Report: g.report}
		return only(prefix, &httprpc.Server{Answerer: answerer, Status: status}), nil
	case u.isHTTP:
		return newPass(g, u, prefix)
	case u.entry.Protocol == config.MCP:
		return only(prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.mcp.serveOne(u.entry.Name, w, r) })), nil
	}
	return nil, nil
}

// only serves path, and responds 404 for all paths below it.
func only(path string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}
