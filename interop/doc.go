// Package interop contains tests of our JSON-RPC programs against those of other projects.
//
// Their clients call `parley demo`, which is built once, and our client calls their servers. The
// peers come from the Go module proxy (go.mod), from npm (node/) and from Debian (python/); `make
// setup` installs them, and a missing peer fails its test. If a peer and we disagree, the
// specification decides. Where a peer deviates from the specification, a comment beside the omitted
// check describes it.
package interop
