// Package conformance checks `parley demo` against the sentences of its specifications, as bytes on
// the wire.
//
// A [Rule] is one requirement of one sentence: what is sent, and what must be received. Rules about
// a payload run over every transport, the others over the transports that they apply to. Nothing
// here uses parley as a library: requests are written byte by byte, and responses are parsed by a
// separate parser that is as strict as RFC 8259 permits.
//
// A source is a specification with its section, or a document of this project: Decisions (what a
// specification leaves open), Bad input (the response to each kind), Limits, Times, Shutdown, Reach
// (who may call), and Demo (what its methods do).
//
//	go test -v -run Conformance ./conformance     runs all rules and prints how many passed, by source
//	go run ./conformance/list                     prints the rules as a Markdown table, for docs/specs.md
//
// The test builds ./cmd/parley; the environment variable PARLEY names a program to test instead.
package conformance
