//go:build !unix

package playground_test

import "time"

var began = time.Now()

// spent returns the time since the start, as an approximation of the processor time.
func spent() time.Duration { return time.Since(began) }
