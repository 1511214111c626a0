package gateway

import (
	"fmt"
	"time"
)

// Reasons of a callError, beside those in errors.go.
const (
	reasonBreakerOpen = "breaker_open" // too many calls failed
	reasonCordoned    = "cordoned"     // by an operator
	reasonFailed      = "failed"       // as the attempt's error describes; not for clients
)

// A callError is why a call has no response of an upstream: queue_full, rate_limited (the upstream
// responded with HTTP 429 or Retry-After), breaker_open, cordoned, draining, unreachable, timeout
// or failed.
type callError struct {
	reason     string
	upstream   string        // the name of the upstream, or "" if there was none
	retryAfter time.Duration // when to try again; 0 if that is unknown
	err        error         // of the last attempt, or nil if none was made
}

func (e *callError) Error() string {
	text := e.reason
	if e.upstream != "" {
		text = fmt.Sprintf("upstream %s: %s", e.upstream, e.reason)
	}
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *callError) Unwrap() error { return e.err }
