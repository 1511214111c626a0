package openrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ErrNoDocument reports that the response to "rpc.discover" is not an OpenRPC document.
var ErrNoDocument = errors.New("openrpc: the peer's response is not an OpenRPC document")

// Discover requests the document of peer. Every OpenRPC document of version 1 is accepted; members
// added by later minor versions are stored in Extra. A peer without discovery responds with
// [jsonrpc.ErrMethodNotFound].
//
// The document is untrusted: texts may be long, contain control characters or be false, and
// references may be invalid. Nothing outside of the document is ever fetched.
func Discover(ctx context.Context, peer jsonrpc.Peer) (*Document, error) {
	var text jsonrpc.Raw
	if err := peer.Call(ctx, MethodDiscover, nil, &text); err != nil {
		return nil, err
	}
	return Parse(text)
}

// Parse parses a document of any version 1 of the specification. For anything else it returns an
// error that wraps [ErrNoDocument].
func Parse(text []byte) (*Document, error) {
	d := new(Document)
	if err := decode(text, d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDocument, err)
	}
	if !strings.HasPrefix(d.OpenRPC, "1.") {
		return nil, fmt.Errorf("%w: its version is %.40q", ErrNoDocument, d.OpenRPC)
	}
	return d, nil
}
