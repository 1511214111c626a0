package store

import (
	"context"
	"iter"
	"math"
	"time"
)

// Any, in place of a sequence number or a revision, disables the comparison.
const Any uint64 = math.MaxUint64

// A Store stores logs and values, whose keys are separate. It is safe for concurrent use.
//
// Keys are 1 to 256 bytes of UTF-8 without control characters. By convention their parts are joined
// by slashes, such as "acp/runs/ID/events". The key of an entry with an owner contains the owner,
// so that the entry cannot be found by its ID alone.
//
// Every method may also return a [*Fault] if the store itself has a problem, or the cause of ctx. A
// write whose ctx ends while it is running may still take effect.
type Store interface {
	Log
	Values

	// Close closes the store permanently. Running operations finish or fail, Tails end, and later
	// calls return [ErrClosed]. Close may be called more than once.
	Close() error
}

// A Log stores events by key and number.
type Log interface {
	// Append adds events to the log with this key, all or none, and returns the number of the last
	// one. after is the number of the last event that the caller expects, 0 for a log that does not
	// exist. If the last event has another number, Append adds nothing and returns a
	// [*ConflictError]; [Any] disables this check. Without events, Append changes nothing but still
	// compares after. Events that exceed the [Limits] are rejected with a [*LimitError]; old events
	// are never removed to make room. The events are copied.
	Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error)

	// Read yields the events after number after, in order, up to the event that is the last one
	// now. It stops after an error. A log that does not exist is empty. If the next event has been
	// trimmed, the error is a [*TrimmedError].
	Read(ctx context.Context, key string, after uint64) iter.Seq2[Event, error]

	// Tail is like Read but then waits for more events, without gaps or duplicates, until ctx ends;
	// it yields an error last. It may start before its log exists. It ends with [ErrNotFound] when
	// its log is dropped or expires. A slow reader does not delay others, and misses no events
	// unless they are trimmed meanwhile.
	Tail(ctx context.Context, key string, after uint64) iter.Seq2[Event, error]

	// Head returns the Head of a log, or [ErrNotFound].
	Head(ctx context.Context, key string) (Head, error)

	// Heads returns up to n logs whose keys start with prefix and are greater than after, in byte
	// order of their keys. After the last page it returns no logs. n is at most 1,000; 0 means
	// 1,000.
	Heads(ctx context.Context, prefix, after string, n int) ([]Head, error)

	// Trim removes the events of a log up to the one numbered through. The log remains and its
	// numbering continues. For a log that does not exist, Trim does nothing.
	Trim(ctx context.Context, key string, through uint64) error

	// Expire sets the time at which a log is dropped; the zero time means never. It returns
	// [ErrNotFound] if the log does not exist.
	Expire(ctx context.Context, key string, at time.Time) error

	// Drop removes a log and its events, if it exists. A new log with the same key starts again at
	// 1.
	Drop(ctx context.Context, key string) error
}

// Values stores bytes by key.
type Values interface {
	// Get returns the value of a key, or [ErrNotFound].
	Get(ctx context.Context, key string) (Value, error)

	// Put writes the value of a key and returns its revision. rev is the revision that the caller
	// expects, 0 for no value. If the revision differs, Put writes nothing and returns a
	// [*ConflictError]; [Any] disables this check. ttl is how long the value is stored from now on;
	// 0 means without expiry. Data that exceeds the [Limits] is rejected with a [*LimitError]. data
	// is copied.
	Put(ctx context.Context, key string, rev uint64, data []byte, ttl time.Duration) (uint64, error)

	// Delete removes a value. rev is as in Put; a value that does not exist has revision 0.
	Delete(ctx context.Context, key string, rev uint64) error

	// List returns up to n values whose keys start with prefix and are greater than after, in byte
	// order of their keys. After the last page it returns no values. n is at most 1,000; 0 means
	// 1,000. A page also ends after 16 MiB of data, but is never empty before the end.
	List(ctx context.Context, prefix, after string, n int) ([]Value, error)
}

// An Event is one entry of a log.
type Event struct {
	Seq  uint64    // 1 for the first event of its log, then increasing by one
	Time time.Time // when it was stored: UTC, in milliseconds
	Data []byte    // must not be changed
}

// A Head describes a log.
type Head struct {
	Key string
	// First and Last are the numbers of the oldest and newest stored event. First is Last+1 if all
	// are trimmed.
	First, Last uint64
	Bytes       int64     // data of all stored events
	Expires     time.Time // when it will be dropped; zero means never
}

// A Value is one revision of a value.
type Value struct {
	Key string
	// Rev increases with every write of this key, also after a Delete. It is never 0 and has no
	// other meaning.
	Rev     uint64
	Data    []byte    // must not be changed
	Expires time.Time // when it will be removed; zero means never
}
