// Package lessons teaches JSON-RPC and the protocols based on it on a live server. Each lesson
// consists of steps, with checks that inspect the messages on the wire to detect whether a step was
// completed.
//
// The lessons run on the demo services, or on any server with the same features; package playground
// displays them.
package lessons

import "github.com/da1ed7bb/parley/playground"

// Names of the demo services that the lessons use.
const (
	demo   = "@demo"
	duplex = "@demo-tcp"
	old    = "@demo-1.0"
	header = "@demo-lsp"
	table  = "@table"
	scribe = "@scribe"
)

// All returns the lessons in order. Each call returns new values.
func All() []playground.Lesson {
	return []playground.Lesson{
		request(), params(), notification(), errors(), batch(), order(), roles(), progress(), cancellation(), sessions(),
		handshake(), modern(), agentRun(), versions(), rest(), framing(),
	}
}
