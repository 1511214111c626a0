//go:build race

package websocket

// poison clears buffers when they are given back, so that who reads a payload too late does not find it.
const poison = true
