//go:build race

package schema

// underRace reports whether the race detector is on, which makes validation ten times slower.
const underRace = true
