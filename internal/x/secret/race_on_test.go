//go:build race

package secret_test

// underRace reports whether the race detector is on, which multiplies time.
const underRace = true
