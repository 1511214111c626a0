// Package race tells tests whether the race detector is on, which multiplies time and memory.
package race
