package bridge

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A hello is the handshake of MCP, which is repeated for a server that replaces another.
type hello struct {
	params   jsonrpc.Raw // of initialize; nil before the response
	result   jsonrpc.Raw
	version  mcp.Version
	done     bool          // notifications/initialized was sent
	underway chan struct{} // closed when an initialize that others wait for has its response
}

// helloTime bounds the handshake with a server that replaces another.
const helloTime = 30 * time.Second

// isMCP reports whether a request shows that its client speaks MCP: initialize with a version that
// is text (in other protocols it is absent, or a number), or the envelope of the modern era.
func isMCP(req *jsonrpc.Request) bool {
	switch req.Method {
	case mcp.MethodInitialize:
		for key, value := range req.Params.Members() {
			if string(key) == "protocolVersion" {
				return len(value) > 0 && value[0] == '"'
			}
		}
		return false
	case mcp.MethodDiscover:
		return true
	}
	_, modern := mcp.Envelope(req)
	return modern
}

// initialize passes the first request of an MCP client on. Of the clients that share a server, the
// first one greets it, and the others get the same response.
func (c *client) initialize(ctx context.Context, req *jsonrpc.Request) (jsonrpc.Raw, error) {
	l := c.link
	for !l.exclusive {
		l.mu.Lock()
		result, underway := l.hello.result, l.hello.underway
		if result == nil && underway == nil {
			underway = make(chan struct{})
			l.hello.underway = underway
			l.mu.Unlock()
			defer func() {
				l.mu.Lock()
				l.hello.underway = nil
				l.mu.Unlock()
				close(underway)
			}()
			break
		}
		l.mu.Unlock()
		if result != nil {
			return result, nil
		}
		select {
		case <-underway:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s, err := l.server(ctx, false)
	if err != nil {
		return nil, jsonrpc.AsNotSent(err)
	}
	result, err := c.send(ctx, s, req)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.hello.params, l.hello.result, l.hello.done = req.Params.Clone(), result.Clone(), false
	l.hello.version = versionOf(result)
	l.mu.Unlock()
	return result, nil
}

func versionOf(result jsonrpc.Raw) mcp.Version {
	for key, value := range result.Members() {
		var text string
		if string(key) == "protocolVersion" && value.Decode(&text) == nil {
			return mcp.ParseVersion(text)
		}
	}
	return 0
}

// initialized reports whether a notification that the handshake is done is passed on: only the
// first one is.
func (l *link) initialized() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.exclusive || !l.hello.done
	l.hello.done = true
	return first
}

// greet repeats the handshake for a new server, if there was one.
func (l *link) greet(s *server) error {
	l.mu.Lock()
	h := l.hello
	l.mu.Unlock()
	if h.result == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, helloTime)
	defer cancel()
	item := &jsonrpc.Item{Method: mcp.MethodInitialize, Params: h.params, ID: jsonrpc.StringID("parley-hello")}
	if err := s.Do(ctx, item); err != nil {
		return err
	}
	if !h.done {
		return nil
	}
	return s.Do(ctx, &jsonrpc.Item{Method: mcp.NotifyInitialized, Notify: true})
}

// version returns the version of the handshake.
func (l *link) version() mcp.Version {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hello.version
}
