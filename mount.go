package parley

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// A Mount is an additional endpoint of an HTTP address, with the same access checks as the main
// one: Host, Origin, token and the limits of connections are checked before it receives a request.
type Mount struct {
	// Handler handles requests that are not a WebSocket. If nil, they get 404.
	Handler http.Handler

	// Converse sets up each connection on a WebSocket at this path, before its first message. The
	// returned function, if not nil, is called when the connection is closed. If nil, WebSockets
	// are not accepted.
	Converse func(*jsonrpc.Conn) (over func())

	// Drain is called when the address stops, concurrently with Handler: it rejects new work, ends
	// what would continue by itself, such as open streams, and waits for the rest until ctx ends.
	// It may be nil.
	Drain func(ctx context.Context) error
}

// mount prepares the listener's mounts for lookup by path.
func (w *web) mount() error {
	w.mounts = make(map[string]http.Handler)
	for path, m := range w.listener.Mounts {
		switch {
		case !strings.HasPrefix(path, "/") || m.Handler == nil && m.Converse == nil:
			return fmt.Errorf("parley: mount %q: the path must start with /, and the handler must not be nil", path)
		case path == w.endpoint, path == "/":
			return fmt.Errorf("parley: mount %s: the path is already in use", path)
		case m.Converse != nil:
			w.mounts[path] = w.upgrading(m)
		default:
			w.mounts[path] = m.Handler
		}
	}
	return nil
}

// mounted returns the handler for path: the mount of that name, or the one with the longest prefix
// that ends in a slash. It returns nil without a match.
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

// upgrading handles WebSockets itself and passes the rest to the mount's handler.
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

// drainMounts calls Drain of all mounts.
func (w *web) drainMounts(ctx context.Context) error {
	mounts := slices.Collect(maps.Values(w.listener.Mounts))
	if w.listener.Endpoint != nil {
		mounts = append(mounts, *w.listener.Endpoint)
	}
	errs := make(chan error, len(mounts))
	for _, m := range mounts {
		go func() {
			if m.Drain == nil {
				errs <- nil
				return
			}
			errs <- rescue.Call(w.listener.Report, func() error { return m.Drain(ctx) })
		}()
	}
	stuck, release := grace.After(ctx, drainTimeout)
	defer release()
	var all error
	for range mounts {
		select {
		case err := <-errs:
			all = errors.Join(all, err)
		case <-stuck: // a Drain that ignores its context
			return errors.Join(all, context.Cause(ctx))
		}
	}
	return all
}
