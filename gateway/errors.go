package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// Reasons in the data of errors that the gateway itself responds with.
const (
	reasonBadAnswer   = "bad_answer"   // the upstream's reply is not a response to the call
	reasonCrashed     = "crashed"      // the upstream is a program that ended
	reasonDraining    = "draining"     // the gateway stops
	reasonNotApproved = "not_approved" // a program that is new in the file
	reasonQueueFull   = "queue_full"   // too many calls wait for the upstream
	reasonRateLimited = "rate_limited" // by the gateway or by the upstream
	reasonTimeout     = "timeout"      // the time of the route has passed
	reasonTooLarge    = "too_large"    // the response is longer than the limit
	reasonUnreachable = "unreachable"  // no connection, or it ended

	reasonCallLost         = "call_lost"          // an MCP call that waits for answers is not here, or waits no longer
	reasonSessionLost      = "session_lost"       // the upstream has lost a session twice
	reasonTooManyCalls     = "too_many_calls"     // too many MCP calls wait for answers
	reasonTooManyProcesses = "too_many_processes" // the programs that may run at once are all in use
)

// A fault is an error of the gateway before it is encoded.
type fault struct {
	code    int64
	message string
	data    faultData
}

// faultData is the data of an error of the gateway.
type faultData struct {
	jsonrpc.FaultData

	Exit   *int   `json:"exit,omitempty"`   // of a program that ended
	Signal string `json:"signal,omitempty"` // that ended it
}

func (f *fault) error() *jsonrpc.Error {
	return jsonrpc.NewError(f.code, f.message).WithData(f.data)
}

// newFault returns a fault about the upstream of this name; it may be empty.
func newFault(code int64, message, reason, upstream string, retryable bool) *fault {
	f := &fault{code: code, message: message}
	f.data.Reason, f.data.Upstream, f.data.Retryable = reason, upstream, retryable
	return f
}

func unavailable(reason, upstream string, retryable bool) *fault {
	return newFault(jsonrpc.CodeUnavailable, "Upstream unavailable", reason, upstream, retryable)
}

// fault returns what the client gets in place of a response of the upstream.
func (e *callError) fault() *fault {
	switch e.reason {
	case reasonFailed:
		return faultOf(e.upstream, e.err)
	case reasonTimeout:
		return newFault(jsonrpc.CodeDeadline, "Deadline exceeded", reasonTimeout, e.upstream, true)
	case reasonQueueFull, reasonRateLimited:
		f := newFault(jsonrpc.CodeBusy, "Busy", e.reason, e.upstream, true)
		f.data.RetryAfterMs = retryMs(e.retryAfter)
		return f
	case reasonDraining:
		f := newFault(jsonrpc.CodeShuttingDown, "Shutting down", reasonDraining, e.upstream, true)
		f.data.RetryAfterMs = retryMs(e.retryAfter)
		return f
	case reasonUnreachable:
		if f := faultOfCredentials(e.upstream, e.err); f != nil {
			return f
		}
		if exit, ok := errors.AsType[*stdio.ExitError](e.err); ok {
			return crashed(e.upstream, exit, true)
		}
		if errors.Is(e.err, errNotApproved) {
			return unavailable(reasonNotApproved, e.upstream, false)
		}
	}
	f := unavailable(e.reason, e.upstream, true)
	f.data.RetryAfterMs = retryMs(e.retryAfter)
	return f
}

// faultOf returns the error for a call that may have run on the upstream and has no response.
func faultOf(upstream string, err error) *fault {
	if f := faultOfCredentials(upstream, err); f != nil {
		return f
	}
	if exit, ok := errors.AsType[*stdio.ExitError](err); ok {
		return crashed(upstream, exit, false)
	}
	if status, ok := errors.AsType[*httprpc.StatusError](err); ok {
		switch status.Status {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			f := unavailable(reasonUnreachable, upstream, true)
			f.data.RetryAfterMs = retryAfter(status.Header, time.Now()).Milliseconds()
			return f
		}
		return unavailable(reasonBadAnswer, upstream, false)
	}
	switch {
	case errors.Is(err, jsonrpc.ErrTimeout):
		return newFault(jsonrpc.CodeDeadline, "Deadline exceeded", reasonTimeout, upstream, true)
	case errors.Is(err, jsonrpc.ErrTooLarge):
		return newFault(jsonrpc.CodeResponseTooLarge, "Response too large", reasonTooLarge, upstream, false)
	case errors.Is(err, jsonrpc.ErrBadResponse), errors.Is(err, jsonrpc.ErrGarbage):
		return unavailable(reasonBadAnswer, upstream, false)
	}
	return unavailable(reasonUnreachable, upstream, jsonrpc.NotSent(err))
}

func crashed(upstream string, exit *stdio.ExitError, retryable bool) *fault {
	f := unavailable(reasonCrashed, upstream, retryable)
	if f.data.Signal = exit.Signal; exit.Signal == "" {
		f.data.Exit = &exit.Code
	}
	return f
}

// longestRetryAfter bounds what a Retry-After header can ask for.
const longestRetryAfter = 5 * time.Minute

// retryAfter returns the wait that the headers of a response ask for, 0 for none (RFC 9110, section
// 10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, longestRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), longestRetryAfter)
	}
	return 0
}
