// Package interop holds nothing but tests: other people's JSON-RPC programs against ours.
//
// Their clients are driven against `parley demo`, which is built once, and our client is driven against their servers. The
// peers come from the Go module proxy (go.mod), from npm (node/) and from Debian (python/); `make setup` installs them, and a
// peer that is missing fails its test. When a peer and we disagree, the specification decides. What a peer does otherwise
// than the specification says stands as a comment beside the check that leaves it out.
package interop
