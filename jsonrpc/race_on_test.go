//go:build race

package jsonrpc_test

// underRace reports whether the race detector is on, which multiplies time and memory.
const underRace = true
