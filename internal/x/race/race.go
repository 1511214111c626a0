// Package race says whether the race detector is on, which multiplies time and memory of tests.
package race
