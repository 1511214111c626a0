// Package openrpc describes the methods of a [jsonrpc.Mux] as an OpenRPC document, and reads the
// documents of other servers.
//
// The document is derived from the Go types of the handlers: parameters, their order and whether
// they are required match what [jsonrpc.Func] accepts, and schemas match what the codec reads and
// writes, so the document is always correct. What types cannot express (summaries, examples,
// errors) is added with [Discovery.Describe]. Peers request the document by calling "rpc.discover".
//
//	d := openrpc.New(mux, openrpc.Info{Title: "Arithmetic", Version: "1.0.0"})
//	d.Describe("subtract", openrpc.Doc{Summary: "One number less another."})
//	d.Register() // adds rpc.discover to mux
//
// The package follows the OpenRPC Specification 1.3.2 and 1.4.1, whose schemas are JSON Schema
// draft-07. [Discover] also reads documents of 1.0 to 1.2: the members are the same, and unknown
// ones are preserved.
package openrpc
