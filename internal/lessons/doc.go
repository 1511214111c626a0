// Package lessons teaches JSON-RPC, and what is built on it, on a live server: each lesson is steps to do, with checks that see on
// the wire whether they were done.
//
// The lessons run on the demo services, or on any server that offers what they need; package playground shows them.
package lessons

import "github.com/da1ed7bb/parley/playground"

// Names of the demo services that lessons run on.
const (
	demo   = "@demo"
	duplex = "@demo-tcp"
	old    = "@demo-1.0"
	header = "@demo-lsp"
	table  = "@table"
	scribe = "@scribe"
)

// All returns the lessons in order. They are new with each call.
func All() []playground.Lesson {
	return []playground.Lesson{
		request(), params(), notification(), errors(), batch(), order(), roles(), progress(), cancellation(), sessions(),
		handshake(), modern(), agentRun(), versions(), rest(), framing(),
	}
}
