//go:build !unix

package playground_test

import "time"

var began = time.Now()

// spent is the time since the start, where nothing better is known.
func spent() time.Duration { return time.Since(began) }
