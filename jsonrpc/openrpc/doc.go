// Package openrpc describes the methods of a [jsonrpc.Mux] as an OpenRPC document, and reads the documents of others.
//
// The document follows from the Go types of the handlers: parameters, their order and whether they are required are
// what [jsonrpc.Func] accepts, and schemas say what the codec reads and writes, so that discovery never lies. What no type
// can tell (summaries, examples, errors) comes from [Discovery.Describe]. Peers get it by calling "rpc.discover".
//
//	d := openrpc.New(mux, openrpc.Info{Title: "Arithmetic", Version: "1.0.0"})
//	d.Describe("subtract", openrpc.Doc{Summary: "One number less another."})
//	d.Register() // adds rpc.discover to mux
//
// It follows the OpenRPC Specification 1.3.2 and 1.4.1, whose schemas are JSON Schema draft-07. [Discover] also reads documents
// of 1.0 to 1.2: the members are the same, and unknown ones are kept.
package openrpc
