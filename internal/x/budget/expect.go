package budget

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Expected is the length of the responses that running handlers will probably make, in bytes.
var Expected atomic.Int64

// ExpectedHTTP is the same for handlers without a connection of messages, as over HTTP.
var ExpectedHTTP atomic.Int64

// LongResponse is the size in bytes from which a response is expected and counted while it is made.
const LongResponse = 16 << 10

// A Recent is about how long the recent responses of one method were: the length of a response is
// not known before its handler returns, and many handlers that run at once could make any number of
// long ones. It is safe for concurrent use.
type Recent struct {
	n atomic.Int64 // the length and 1; 0 before the first response

	// before the first response
	running atomic.Int32
	since   atomic.Int64 // when the first handler started, in nanoseconds since 1970
}

// Methods of the same hash share a Recent, so that the table has a bound. The seed differs between
// processes: a peer cannot choose methods that share one.
var (
	recents [512]Recent
	seed    = maphash.MakeSeed()
)

// RecentOf returns the Recent of a method.
func RecentOf(method string) *Recent {
	return &recents[maphash.String(seed, method)%uint64(len(recents))]
}

// Get returns the expected length of the next response, in bytes. It is 0 for short ones.
func (r *Recent) Get() int64 { return max(0, r.n.Load()-1) }

// Before the first response of a method, at most mostFirst of its handlers start within firstTime
// of the first one: most handlers return sooner, and then it is known how long the responses are.
const (
	mostFirst = 16
	firstTime = 50 * time.Millisecond
)

// IsNew reports whether there was no response yet.
func (r *Recent) IsNew() bool { return r.n.Load() == 0 }

// StartNew counts a handler that starts while IsNew, until EndNew, and returns zero. If too many
// have started, it counts nothing and returns how long the handler waits before it tries again.
func (r *Recent) StartNew() (wait time.Duration) {
	if r.since.Load() == 0 {
		r.since.CompareAndSwap(0, time.Now().UnixNano())
	}
	for {
		n := r.running.Load()
		if n >= mostFirst {
			if wait = r.firstLeft(); wait > 0 {
				return wait
			}
		}
		if r.running.CompareAndSwap(n, n+1) {
			return 0
		}
	}
}

// EndNew is called when a handler that StartNew counted has returned.
func (r *Recent) EndNew() { r.running.Add(-1) }

// WaitNew returns what StartNew would return, and counts nothing.
func (r *Recent) WaitNew() time.Duration {
	if r.running.Load() < mostFirst {
		return 0
	}
	return r.firstLeft()
}

// firstLeft returns how much of firstTime is left.
func (r *Recent) firstLeft() time.Duration {
	wait := firstTime - time.Duration(time.Now().UnixNano()-r.since.Load())
	if wait > firstTime { // the clock was set back
		return 0
	}
	return max(0, wait)
}

// Forget forgets all responses, for tests.
func (r *Recent) Forget() { r.n.Store(0); r.since.Store(0) }

// Note records the length of a response. A longer one counts at once; after that eight shorter ones
// count as much.
func (r *Recent) Note(n int) {
	stored := r.n.Load()
	old := max(0, stored-1)
	next := int64(n)
	if next < old {
		next = old - (old-next)/8
	}
	if next < LongResponse {
		next = 0
	}
	if next+1 != stored {
		r.n.Store(next + 1)
	}
}

// An Overdraft lets callers exceed a bound of the process together by 2 MiB per second, so that
// each of them goes on, and those that fill the memory have time to end. It is safe for concurrent
// use.
type Overdraft struct {
	next atomic.Int64 // when it is free again, in nanoseconds since 1970
}

// LongResponses is the Overdraft of responses that are made while too many are not read.
var LongResponses Overdraft

const (
	overdraftRate = 2 << 20 // bytes per second
	overdraftMost = 8 << 20 // bytes that one caller counts at most: others wait 4 s for it
)

// longestTurn is the longest time that one caller takes.
const longestTurn = overdraftMost * time.Second / overdraftRate

// Wait returns how long a caller must wait before it tries to take, or zero.
func (o *Overdraft) Wait() time.Duration { return waitUntil(o.next.Load(), time.Now()) }

func waitUntil(next int64, now time.Time) time.Duration {
	wait := time.Duration(next - now.UnixNano())
	if wait > longestTurn { // the clock was set back
		return 0
	}
	return max(wait, 0)
}

// Take counts n bytes beyond the bound and returns zero. If another caller was faster, it counts
// nothing and returns how long this one must wait before it tries again.
func (o *Overdraft) Take(n int64) (wait time.Duration) {
	turn := time.Duration(min(n, overdraftMost)) * time.Second / overdraftRate
	for {
		next, now := o.next.Load(), time.Now()
		if wait = waitUntil(next, now); wait > 0 {
			return wait
		}
		if o.next.CompareAndSwap(next, now.Add(turn).UnixNano()) {
			return 0
		}
	}
}

// Reset forgets what was taken, for tests.
func (o *Overdraft) Reset() { o.next.Store(0) }
