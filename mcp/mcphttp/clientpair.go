package mcphttp

import (
	"context"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/sse"
)

// connectPair connects over HTTP+SSE: an event stream from the server, and POST requests to it. If
// the server has already rejected a modern request, no modern request is sent again.
func connectPair(ctx context.Context, address string, info mcp.Implementation, o *ClientOptions, refused bool) (*mcp.Client, error) {
	own := o.Client
	if refused {
		versions := own.Versions
		if versions == nil {
			versions = mcp.Versions()
		}
		if old := slices.DeleteFunc(slices.Clone(versions), mcp.Version.Modern); len(old) > 0 {
			own.Versions = old
		}
	}
	if o.CallTime != 0 && own.Limits.CallTime == 0 {
		own.Limits.CallTime = o.CallTime
	}
	t, err := sse.Dial(ctx, address, &sse.Options{HTTP: o.HTTP, TLS: o.TLS, Header: o.Header, Token: o.Token, MaxMessage: o.MaxMessage})
	if err != nil {
		return nil, err
	}
	if o.Tap != nil {
		t = tapped{t, o.Tap}
	}
	return mcp.Connect(ctx, t, info, &own)
}

// A tapped transport passes all payloads to tap.
type tapped struct {
	jsonrpc.Transport
	tap func(out bool, payload []byte)
}

func (t tapped) Read() ([]byte, bool, error) {
	payload, more, err := t.Transport.Read()
	if err == nil {
		t.tap(false, payload)
	}
	return payload, more, err
}

// TryWrite sends nothing, so that Write passes all payloads to tap.
func (t tapped) TryWrite(jsonrpc.Burst) bool { return false }

func (t tapped) Write(b jsonrpc.Burst) error {
	for payload := range b.All() {
		t.tap(true, payload)
	}
	return t.Transport.Write(b)
}
