package parley

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// A Mount is one more endpoint of an HTTP address, behind the same door as the main one: Host, Origin, token and the
// limits of connections are looked at before it sees a request.
type Mount struct {
	// Handler answers what is no WebSocket. Nil: that is 404.
	Handler http.Handler

	// Converse sets up each conversation on a WebSocket at this path, before its first message. The function that it returns,
	// if any, is called when the conversation is over. Nil: there are no WebSockets.
	Converse func(*jsonrpc.Conn) (over func())

	// Drain is called when the address stops, beside Handler: it refuses new work, ends what would go on by itself, such as
	// open streams, and waits for the rest until ctx ends. Nil: there is nothing to do.
	Drain func(ctx context.Context) error
}

// mount makes the listener's mounts ready to be found by path.
func (w *web) mount() error {
	w.mounts = make(map[string]http.Handler)
	for path, m := range w.listener.Mounts {
		switch {
		case !strings.HasPrefix(path, "/") || m.Handler == nil && m.Converse == nil:
			return fmt.Errorf("parley: mount %q: a path begins with /, and something answers there", path)
		case path == w.endpoint, path == "/":
			return fmt.Errorf("parley: mount %s: the path is taken", path)
		case m.Converse != nil:
			w.mounts[path] = w.upgrading(m)
		default:
			w.mounts[path] = m.Handler
		}
	}
	return nil
}

// mounted is what answers at path: the mount of that name, or the longest of those that end in a slash and begin it. Nil: none does.
func (w *web) mounted(path string) http.Handler {
	if m := w.mounts[path]; m != nil {
		return m
	}
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if m := w.mounts[path[:i+1]]; m != nil {
			return m
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
