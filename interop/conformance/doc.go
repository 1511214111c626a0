// Package conformance holds `parley demo` against the sentences of its specifications, as bytes on the wire.
//
// A [Rule] is one thing that one sentence asks for: what is sent, what must come back. Rules about a payload run over every
// carrier, the others over the carriers that they are about. Nothing here uses parley as a library: requests are written
// byte by byte, and answers are read by a reader of our own that is as strict as RFC 8259 lets one be.
//
// A source is a specification with its section, or what this project has laid down for itself: Decisions (what a specification
// leaves open), Bad input (the answer to each kind), Limits, Times, Shutdown, Reach (who may call), and Demo (what its methods do).
//
//	go test -v -run Conformance ./conformance     runs all rules and prints how many passed, by source
//	go run ./conformance/list                     prints the rules as a Markdown table, for docs/specs.md
//
// The test builds ./cmd/parley; the environment variable PARLEY names a program to test instead.
package conformance
