package a2a

import "github.com/da1ed7bb/parley/jsonrpc"

// EventTo03 and EventOf03 are the translation that a carrier never sees.
func EventTo03(e Event) jsonrpc.Raw { return mustEncode(eventTo03(e)) }

// EventOf03 is its other direction.
func EventOf03(raw jsonrpc.Raw) (Event, error) { return eventOf03(raw) }
