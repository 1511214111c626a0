//go:build race

package stream

// poison overwrites buffers when they are given back, so that who reads a payload too late reads garbage.
const poison = true
