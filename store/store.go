package store

import (
	"context"
	"iter"
	"math"
	"time"
)

// Any, in place of a sequence number or a revision, says that the caller does not mind what is there.
const Any uint64 = math.MaxUint64

// A Store keeps logs and values, whose keys do not meet. It is safe for concurrent use.
//
// Keys are 1 to 256 bytes of UTF-8 without control characters; by custom their parts are joined by slashes, such as
// "acp/runs/ID/events". What belongs to somebody has that somebody in its key, so that nobody finds it by id alone.
//
// Every method may also return a [*Fault], when the store itself is in trouble, and the cause of ctx. A write whose ctx ends
// while it is under way may still happen.
type Store interface {
	Log
	Values

	// Close is final. What is under way is finished or fails, Tails end, and later calls return [ErrClosed].
	// It may be called more than once.
	Close() error
}

// A Log keeps events by key and number.
type Log interface {
	// Append adds events to the log with this key, all of them or none, and returns the number of the last one. after is the
	// number of the last event that the caller knows of, 0 for a log that does not exist; if another is the last,
	// nothing is added and the error is a [*ConflictError]. [Any] adds without asking. No events: nothing is
	// changed, but after is compared. What is past the [Limits] is refused with a [*LimitError], and nothing old goes for it.
	// The events are copied.
	Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error)

	// Read yields the events behind number after, in order, up to the one that is last now, and stops after an error.
	// A log that does not exist is empty. If the event behind after is not kept any more, the error is a [*TrimmedError].
	Read(ctx context.Context, key string, after uint64) iter.Seq2[Event, error]

	// Tail is Read, and then waits for more, without a gap or a double, until ctx ends; it yields an error last. It may begin
	// before its log does. It ends with [ErrNotFound] when its log is dropped or expires. A slow
	// reader holds up nobody, and skips nothing unless it is trimmed away meanwhile.
	Tail(ctx context.Context, key string, after uint64) iter.Seq2[Event, error]

	// Head tells what there is of a log, or returns [ErrNotFound].
	Head(ctx context.Context, key string) (Head, error)

	// Heads returns up to n logs whose keys begin with prefix and come behind after, in the order of their keys' bytes. After
	// the last page it returns none. n is at most 1,000, and 0 means that.
	Heads(ctx context.Context, prefix, after string, n int) ([]Head, error)

	// Trim drops the events of a log up to the one numbered through. The log stays, and goes on counting.
	// A log that does not exist has nothing to drop.
	Trim(ctx context.Context, key string, through uint64) error

	// Expire drops a log at a time to come; the zero time means never. It returns [ErrNotFound] if there is none.
	Expire(ctx context.Context, key string, at time.Time) error

	// Drop removes a log and its events, if it exists. One with the same key begins again at 1.
	Drop(ctx context.Context, key string) error
}

// Values keep bytes by key.
type Values interface {
	// Get returns the value of a key, or [ErrNotFound].
	Get(ctx context.Context, key string) (Value, error)

	// Put writes the value of a key and returns its revision. rev is the revision that the caller saw, 0 for none; if
	// another one is there, nothing is written and the error is a [*ConflictError]. [Any] writes without asking. ttl is how
	// long the value is kept from now on; 0 means for ever. What is past the [Limits] is refused with a [*LimitError].
	// data is copied.
	Put(ctx context.Context, key string, rev uint64, data []byte, ttl time.Duration) (uint64, error)

	// Delete removes a value. rev is as in Put, and a value that is not there has revision 0.
	Delete(ctx context.Context, key string, rev uint64) error

	// List returns up to n values whose keys begin with prefix and come behind after, in the order of their keys' bytes.
	// After the last page it returns none. n is at most 1,000, and 0 means that; a page also ends after 16 MiB of data,
	// but is never empty before the end.
	List(ctx context.Context, prefix, after string, n int) ([]Value, error)
}

// An Event is one entry of a log.
type Event struct {
	Seq  uint64    // 1 for the first of its log, and one more for each
	Time time.Time // when it was stored: UTC, in milliseconds
	Data []byte    // not to be changed
}

// A Head is what a log tells of itself.
type Head struct {
	Key         string
	First, Last uint64    // the numbers of the oldest and of the newest event that is kept; First is Last+1 when all are trimmed
	Bytes       int64     // of the data of all events that are kept
	Expires     time.Time // when it will be dropped; zero for never
}

// A Value is one revision of what a key holds.
type Value struct {
	Key     string
	Rev     uint64    // grows with every write of this key, also over a Delete, and is never 0; nothing else follows from it
	Data    []byte    // not to be changed
	Expires time.Time // when it will be gone; zero for never
}
