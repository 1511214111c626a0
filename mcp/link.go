package mcp

import (
	"context"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// What a carrier that is no connection needs of this package, HTTP above all.
//
// Server side: a modern request goes to an [jsonrpc.Answerer] that [Server.Configure] set up for the Server itself, with
// [Server.CheckHeaders] in [jsonrpc.Exchange] Check; a legacy one to the Answerer of its session, set up for the [Session] that
// [Server.NewSession] made, whose Voice is [jsonrpc.PeerOf] the session's own Asker and stream. [Envelope] tells the two eras apart.
//
// Client side: the carrier is a [Link], and gives what comes from the server to [Client.Handle], and tells by [Client.Gone]
// that it has ended. [Client.Headers] says which headers
// a request needs.

// A Link carries the calls of one [Client]. A [*jsonrpc.Conn] is one. It is safe for concurrent use.
type Link interface {
	// Do sends one item and waits, if it is a call, as [jsonrpc.Conn.Do] does. Params are a [jsonrpc.Raw]. On gets the notifications about
	// the call: those that the carrier knows to be about it, and those for which [Client.Related] returns its ID.
	Do(ctx context.Context, item *jsonrpc.Item) error

	// Close ends the link and all calls on it.
	Close() error
}

// Related tells which call a notification from the server is about. It goes into [jsonrpc.Conn].
func Related(req *jsonrpc.Request) (jsonrpc.ID, bool) {
	var text jsonrpc.Raw
	if req.Method == NotifyProgress {
		text = member(req.Params, MetaProgressToken)
	} else {
		text = member(member(req.Params, "_meta"), MetaSubscriptionID)
	}
	if text == nil {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.ParseID(text)
	return id, err == nil && !id.IsNull()
}
