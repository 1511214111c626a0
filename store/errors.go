package store

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The kinds of errors, for use with [errors.Is].
var (
	ErrNotFound = errors.New("store: not found")
	ErrConflict = errors.New("store: changed by another writer") // a [*ConflictError]
	ErrTrimmed  = errors.New("store: no longer stored")          // a [*TrimmedError]
	ErrLimit    = errors.New("store: limit exceeded")            // a [*LimitError]
	ErrKey      = errors.New("store: not a key")
	ErrClosed   = errors.New("store: closed")
)

// A ConflictError reports that the last event of a log, or the revision of a value, is not the
// expected one.
type ConflictError struct {
	Key        string
	Want, Have uint64 // 0 for a log or a value that does not exist
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("store: %q is at %d, not at %d", e.Key, e.Have, e.Want)
}

// Is reports whether target is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// A TrimmedError reports that requested events have been removed.
type TrimmedError struct {
	Key   string
	First uint64 // the oldest remaining event, or the number of the next one if there are no events
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("store: %q is stored from event %d on", e.Key, e.First)
}

// Is reports whether target is [ErrTrimmed].
func (e *TrimmedError) Is(target error) bool { return target == ErrTrimmed }

// A LimitError reports which limit a write would exceed.
type LimitError struct {
	What  string // such as "bytes of one event"
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("store: more than %d %s", e.Limit, e.What)
}

// Is reports whether target is [ErrLimit].
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// FaultCode is the JSON-RPC error code for a [Fault]. It is outside the reserved range, like all
// error codes of this module.
const FaultCode = -31009

// The values of the Reason of a [Fault].
const (
	ReasonFull    = "storage_full"    // the disk is full; writes succeed again when there is space
	ReasonCorrupt = "storage_corrupt" // the data read differs from the data written
	// ReasonFailed: a read or write failed. The store rejects writes until it is opened again.
	ReasonFailed = "storage_failed"
	ReasonInUse  = "storage_in_use" // another process has it open
	ReasonNewer  = "storage_newer"  // it was written by a newer version of this program
)

// A Fault reports a problem of the store itself, not of a request. Err contains paths and is for
// the log; use Public for what may be sent to a caller.
type Fault struct {
	Reason string
	Err    error
}

func (f *Fault) Error() string { return "store: " + f.Reason + ": " + f.Err.Error() }

func (f *Fault) Unwrap() error { return f.Err }

// Retryable reports whether the same call may succeed later without intervention.
func (f *Fault) Retryable() bool { return f.Reason == ReasonFull }

// retryAfter is the suggested delay before a retry after a full disk.
const retryAfter = time.Second

// Public returns the JSON-RPC error for f: its code, message and data. The data is an object, as in
// all errors of this module.
func (f *Fault) Public() (code int64, message string, data []byte) {
	data = append(data, `{"reason":`...)
	data = strconv.AppendQuote(data, f.Reason)
	data = append(data, `,"retryable":`...)
	data = strconv.AppendBool(data, f.Retryable())
	if f.Retryable() {
		data = append(data, `,"retryAfterMs":`...)
		data = strconv.AppendInt(data, retryAfter.Milliseconds(), 10)
	}
	return FaultCode, "Storage unavailable", append(data, '}')
}
