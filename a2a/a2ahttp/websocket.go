package a2ahttp

import (
	"net/http"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// Subprotocol is the WebSocket subprotocol of [a2a.BindingStream]. A client that requests no
// subprotocol is accepted too.
const Subprotocol = "a2a"

// WebSocket returns a handler for [a2a.BindingStream] at any path: many calls and streams on one
// connection. The caller is authenticated once, by the request that opens the connection.
func (s *Server) WebSocket() http.Handler {
	return s.guarded(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsUpgrade(r) {
			(&guard.Refusal{Status: http.StatusUpgradeRequired, Text: "this address is for WebSocket", Name: "Upgrade", Value: "websocket"}).Write(w, r)
			return
		}
		principal, denied := s.admit(r)
		if denied != nil {
			denied.refusal().Write(w, r)
			return
		}
		o := &websocket.Options{MaxMessage: s.MaxMessage, WriteTimeout: s.WriteTimeout, Subprotocols: []string{Subprotocol}}
		if s.door != nil {
			o.CheckOrigin = func(*http.Request) bool { return true } // guarded has checked it
		}
		t, err := websocket.Upgrade(w, r, o)
		if err != nil {
			return // the response has been written
		}
		conn := jsonrpc.NewConn(t)
		conn.Limits = s.Limits
		// the error is the peer's
		_ = s.A2A.ServeConn(a2a.WithPrincipal(r.Context(), principal), conn)
	})
}
