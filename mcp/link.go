package mcp

import (
	"context"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file contains the interface for transports that are not connections, mainly for HTTP.
//
// Server side: the transport passes a modern request to a [jsonrpc.Answerer] that
// [Server.Configure] set up for the Server itself, with [Server.CheckHeaders] in [jsonrpc.Exchange]
// Check. It passes a legacy request to the Answerer of its session, set up for the [Session] that
// [Server.NewSession] returned, whose Voice is [jsonrpc.PeerOf] the session's own Asker and stream.
// [Envelope] distinguishes the two eras.
//
// Client side: the transport is a [Link]. It passes messages from the server to [Client.Handle],
// and calls [Client.Gone] when it is closed. [Client.Headers] returns the headers that a request
// needs.

// A Link transports the calls of one [Client]. A [*jsonrpc.Conn] is a Link. It is safe for
// concurrent use.
type Link interface {
	// Do sends one item and, if it is a call, waits for the response, as [jsonrpc.Conn.Do] does.
	// Params are a [jsonrpc.Raw]. On is called for notifications about the call: those that the
	// transport assigns to it, and those for which [Client.Related] returns its ID.
	Do(ctx context.Context, item *jsonrpc.Item) error

	// Close closes the link and ends all calls on it.
	Close() error
}

// Related returns the ID of the call that a notification from the server is about. It is meant for
// [jsonrpc.Conn].
func Related(req *jsonrpc.Request) (jsonrpc.ID, bool) {
	var text jsonrpc.Raw
	if req.Method == NotifyProgress {
		text = lastMember(req.Params, MetaProgressToken)
	} else {
		text = lastMember(lastMember(req.Params, "_meta"), MetaSubscriptionID)
	}
	if text == nil {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.ParseID(text)
	return id, err == nil && !id.IsNull()
}
