// Package lessons teaches JSON-RPC, and what is built on it, on a live server: each lesson is steps to do, with checks that see on
// the wire whether they were done.
//
// The lessons run on the demo services, or on any server that offers what they need; package playground shows them.
package lessons

import "github.com/da1ed7bb/parley/playground"

// All returns the lessons in order.
func All() []playground.Lesson { return nil }
