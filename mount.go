package parley

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// A Mount is one more endpoint of an HTTP address, behind the same door as the main one: Host, Origin, token and the
// limits of connections are looked at before it sees a request.
type Mount struct {
	// Handler answers what is no WebSocket. Nil: that is 404.
	Handler http.Handler

	// Converse sets up each conversation at this path, before its first message: on a WebSocket, and on the event stream of
	// Messages. The function that it returns, if any, is called when the conversation is over. Nil: there are none.
	Converse func(*jsonrpc.Conn) (over func())

	// Messages makes the path an event stream: a GET opens a conversation, in which the client speaks by POSTs to the path
	// Messages (MCP 2024-11-05, Transports). It needs Converse. Empty: it is none.
	Messages string

	// Drain is called when the address stops, beside Handler: it refuses new work, ends what would go on by itself, such as
	// open streams, and waits for the rest until ctx ends. Nil: there is nothing to do.
	Drain func(ctx context.Context) error
}

// mount makes the listener's mounts ready to be found by path.
func (w *web) mount() error {
	w.mounts = make(map[string]http.Handler)
	for path, m := range w.listener.Mounts {
		handlers := map[string]http.Handler{path: m.Handler}
		switch {
		case m.Messages != "" && m.Converse == nil:
			return fmt.Errorf("parley: mount %s: Messages without Converse", path)
		case m.Messages != "":
			pair := &sse.Pair{Messages: m.Messages, MaxMessage: w.listener.MaxMessage, Serve: w.servePair(m.Converse)}
			handlers[path], handlers[m.Messages] = pair, pair
		case m.Converse != nil:
			handlers[path] = w.upgrading(m)
		}
		for path, h := range handlers {
			if !strings.HasPrefix(path, "/") || h == nil {
				return fmt.Errorf("parley: mount %q: a path begins with /, and something answers there", path)
			}
			if w.mounts[path] != nil || path == w.endpoint {
				return fmt.Errorf("parley: mount %s: the path is taken", path)
			}
			w.mounts[path] = h
		}
	}
	return nil
}

// upgrading answers WebSockets itself and leaves the rest to the mount's handler.
func (w *web) upgrading(m Mount) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case websocket.IsUpgrade(r) && !isPlainPost(r):
			w.serveUpgrade(rw, r, m.Converse)
		case m.Handler != nil:
			m.Handler.ServeHTTP(rw, r)
		default:
			http.NotFound(rw, r)
		}
	})
}

// drainMounts lets the mounts end what they have open.
func (w *web) drainMounts(ctx context.Context) error {
	errs := make(chan error, len(w.listener.Mounts))
	for _, m := range w.listener.Mounts {
		go func() {
			if m.Drain == nil {
				errs <- nil
				return
			}
			errs <- m.Drain(ctx)
		}()
	}
	var all error
	for range w.listener.Mounts {
		all = errors.Join(all, <-errs)
	}
	return all
}
