//go:build race

package main

// underRace reports whether the race detector is on, which multiplies time and memory.
const underRace = true
