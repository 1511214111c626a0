package store

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The kinds of errors, for [errors.Is].
var (
	ErrNotFound = errors.New("store: not found")
	ErrConflict = errors.New("store: somebody else was first") // a [*ConflictError]
	ErrTrimmed  = errors.New("store: not kept any more")       // a [*TrimmedError]
	ErrLimit    = errors.New("store: past a limit")            // a [*LimitError]
	ErrKey      = errors.New("store: not a key")
	ErrClosed   = errors.New("store: closed")
)

// A ConflictError says that the last event of a log, or the revision of a value, is not the expected one.
type ConflictError struct {
	Key        string
	Want, Have uint64 // 0 for a log or a value that is not there
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("store: %q is at %d, not at %d", e.Key, e.Have, e.Want)
}

// Is makes it an [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// A TrimmedError says that events somebody wants to read are gone.
type TrimmedError struct {
	Key   string
	First uint64 // the oldest event that is kept, or the number of the next one if none is
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("store: %q is kept from event %d on", e.Key, e.First)
}

// Is makes it an [ErrTrimmed].
func (e *TrimmedError) Is(target error) bool { return target == ErrTrimmed }

// A LimitError says which limit a write would pass.
type LimitError struct {
	What  string // such as "bytes of one event"
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("store: more than %d %s", e.Limit, e.What)
}

// Is makes it an [ErrLimit].
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// FaultCode is the JSON-RPC error code for a [Fault]. It lies outside the reserved range, like all of this module's own.
const FaultCode = -31009

// Why a store is in trouble: the Reason of a [Fault].
const (
	ReasonFull    = "storage_full"    // the disk has no room; writes go on when there is some again
	ReasonCorrupt = "storage_corrupt" // what was read is not what was written
	ReasonFailed  = "storage_failed"  // a read or write failed; the store takes no more writes until it is opened again
	ReasonInUse   = "storage_in_use"  // another process holds it
	ReasonNewer   = "storage_newer"   // it was written by a later version of this program
)

// A Fault is trouble of the store itself, not of what it was asked. Err has paths in it and is for the log; what may go out to
// a caller is what Public returns.
type Fault struct {
	Reason string
	Err    error
}

func (f *Fault) Error() string { return "store: " + f.Reason + ": " + f.Err.Error() }

func (f *Fault) Unwrap() error { return f.Err }

// Retryable reports whether the same call may succeed later without anybody's help.
func (f *Fault) Retryable() bool { return f.Reason == ReasonFull }

// retryAfter is when to try again after a full disk.
const retryAfter = time.Second

// Public returns the JSON-RPC error that stands for f: its code, its message and its data, an object as in all errors of this
// module.
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
