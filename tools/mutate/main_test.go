package main

import (
	"testing"
	"time"
)

// TestAllowedTime checks that slow tests have a multiple of their time, and quick ones enough for a
// busy machine.
func TestAllowedTime(t *testing.T) {
	for _, row := range []struct {
		took, want time.Duration
		factor     float64
	}{{2 * time.Second, leastTime, 4}, {2 * time.Minute, 8 * time.Minute, 4}, {time.Minute, 90 * time.Second, 1.5}} {
		if got := allowed(row.took, row.factor); got != row.want {
			t.Errorf("tests that take %v may take %v with a change, want %v", row.took, got, row.want)
		}
	}
}
