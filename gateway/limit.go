package gateway

import (
	"math"
	"sync"
	"time"
)

// A limitRate is a number of tokens in a time, with a burst. Count and Per must be positive.
type limitRate struct {
	Count int
	Per   time.Duration

	// Burst is how many tokens may be used at once after a pause. The default is Count.
	Burst int
}

// A charge is one token of a bucket.
type charge struct {
	rule    int    // index of the rule in newLimiter
	subject string // the principal, or the server if the rule is for each server
	name    string // the method or tool if the rule is for methods or tools, otherwise ""
}

const (
	limitBuckets  = 100_000 // in all
	limitPerOwner = 1_000   // of one subject; above it, the names of a rule share one bucket
	limitSearch   = 32      // buckets that are looked at to find an idle one
)

// A limiter has token buckets by rule, subject and name. A bucket is full at first. At most
// 100,000 buckets exist: a new one replaces one that is full again, or else the least recently
// used one. One subject has at most 1,000: further names share a bucket for each rule, so that a
// caller cannot replace its empty buckets by calling under many names.
//
// take is called for each call, or each member of a batch, with all rules that apply. It is safe
// for concurrent use.
type limiter struct {
	rules []limitRule
	start time.Time

	mu      sync.Mutex // guards the fields below
	buckets map[charge]*bucket
	owners  map[string]int // buckets of each subject
	ring    bucket         // the least recently used bucket is ring.next
	refused uint64
	most    int // buckets
}

// A limitRule is a rate in the form that take needs.
type limitRule struct {
	each  int64 // nanoseconds of one token
	burst int64 // nanoseconds of all tokens of a full bucket
}

// A bucket is a token bucket as one time: when it is full again. It holds the tokens that would
// arrive until its rule's burst before that.
type bucket struct {
	key        charge
	full       int64 // in nanoseconds since the start of the limiter
	prev, next *bucket
}

// newLimiter makes a limiter with the given rules. Rates and bursts are divided by the number of
// replicas; a burst stays at least 1.
func newLimiter(rates []limitRate, replicas int) *limiter {
	l := &limiter{buckets: make(map[charge]*bucket), owners: make(map[string]int), most: limitBuckets, start: time.Now()}
	l.ring.prev, l.ring.next = &l.ring, &l.ring
	n := float64(max(replicas, 1))
	for _, r := range rates {
		burst := r.Burst
		if burst <= 0 {
			burst = r.Count
		}
		each := float64(r.Per) / float64(max(r.Count, 1)) * n
		tokens := max(math.Floor(float64(burst)/n), 1)
		l.rules = append(l.rules, limitRule{each: int64(math.Ceil(each)), burst: int64(math.Ceil(each)) * int64(tokens)})
	}
	return l
}

// take uses one token of each charge's bucket, or none at all. If a bucket is empty, it returns
// the index of that charge and the time after which take succeeds if no other call uses a token;
// otherwise -1. The time is exact: retryAfterMs is it in milliseconds, rounded up.
func (l *limiter) take(charges []charge, now time.Time) (retryAfter time.Duration, over int) {
	if len(charges) == 0 {
		return 0, -1
	}
	at := int64(now.Sub(l.start))
	over = -1
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range charges {
		r := l.rules[c.rule]
		if b := l.findLocked(c); b != nil {
			if wait := max(b.full, at) + r.each - r.burst - at; wait > int64(retryAfter) {
				retryAfter, over = time.Duration(wait), i
			}
		}
	}
	if over >= 0 {
		l.refused++
		return retryAfter, over
	}
	for _, c := range charges {
		b := l.findLocked(c)
		if b == nil {
			b = l.addLocked(c, at)
		}
		b.full = max(b.full, at) + l.rules[c.rule].each
		b.unlink()
		l.appendLocked(b)
	}
	return 0, -1
}

// findLocked returns the bucket of a charge, or the one that names share, or nil.
func (l *limiter) findLocked(c charge) *bucket {
	b := l.buckets[c]
	if b == nil && l.owners[c.subject] >= limitPerOwner {
		c.name = sharedName
		b = l.buckets[c]
	}
	return b
}

// sharedName is the name of the bucket that the names above the bound share. It is no name of a
// method or tool, because those are valid UTF-8.
const sharedName = "\xff"

func (l *limiter) addLocked(c charge, at int64) *bucket {
	if l.owners[c.subject] >= limitPerOwner {
		c.name = sharedName
	}
	if len(l.buckets) >= l.most {
		l.dropLocked(at)
	}
	b := &bucket{key: c, full: at}
	l.buckets[c] = b
	l.owners[c.subject]++
	l.appendLocked(b)
	return b
}

// dropLocked removes a bucket that is full again, or else the least recently used one.
func (l *limiter) dropLocked(at int64) {
	b := l.ring.next
	for n, idle := 0, b; n < limitSearch && idle != &l.ring; n, idle = n+1, idle.next {
		if idle.full <= at {
			b = idle
			break
		}
	}
	b.unlink()
	delete(l.buckets, b.key)
	if l.owners[b.key.subject]--; l.owners[b.key.subject] == 0 {
		delete(l.owners, b.key.subject)
	}
}

func (l *limiter) appendLocked(b *bucket) {
	b.prev, b.next = l.ring.prev, &l.ring
	b.prev.next, b.next.prev = b, b
}

func (b *bucket) unlink() { b.prev.next, b.next.prev = b.next, b.prev }

// A limiterStatus is a snapshot for metrics.
type limiterStatus struct {
	Buckets int
	Refused uint64
}

func (l *limiter) status() limiterStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return limiterStatus{len(l.buckets), l.refused}
}

// retryMs is a time in milliseconds, rounded up, for retryAfterMs.
func retryMs(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}
