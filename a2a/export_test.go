package a2a

import "github.com/da1ed7bb/parley/jsonrpc"

// EventTo03 exports the conversion to v0.3 for tests.
func EventTo03(e Event) jsonrpc.Raw { return mustEncode(eventTo03(e)) }

// EventOf03 exports the conversion from v0.3 for tests.
func EventOf03(raw jsonrpc.Raw) (Event, error) { return eventOf03(raw) }

// Held returns the number of counted bytes.
func (s *Server) Held() int64 { return s.held.Load() }
