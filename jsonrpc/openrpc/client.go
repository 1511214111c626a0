package openrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ErrNoDocument says that the peer's answer to "rpc.discover" is no OpenRPC document.
var ErrNoDocument = errors.New("openrpc: the peer's answer is no OpenRPC document")

// Discover asks peer what it offers. Every OpenRPC document of version 1 is taken: what a later minor version adds is kept in
// the Extra of its place. A peer without discovery answers with [jsonrpc.ErrMethodNotFound].
//
// The document is the peer's word: texts may be long, hold control characters or lie, and references may lead nowhere. Nothing
// outside of it is ever fetched.
func Discover(ctx context.Context, peer jsonrpc.Peer) (*Document, error) {
	var text jsonrpc.Raw
	if err := peer.Call(ctx, MethodDiscover, nil, &text); err != nil {
		return nil, err
	}
	return Parse(text)
}

// Parse reads a document of any version 1 of the specification. It returns [ErrNoDocument], wrapped, for anything else.
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
