package gateway

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A cacheKey identifies equal calls.
type cacheKey struct {
	group     string
	method    string
	principal string // "" if all principals share results
	params    [sha256.Size]byte
}

// cacheKeyOf returns the key of a call. principal is "" if all principals share its results. It
// reports false if the params have no canonical form, because a name is doubled or the text is not
// valid UTF-8: such a call is sent, and not stored.
//
// The canonical form is that of RFC 8785, except that numbers keep their spelling: RFC 8785 rounds
// them to 64-bit floating point, and calls about 9007199254740992 and 9007199254740993 would be
// equal. Params that are absent differ from all others.
func cacheKeyOf(group, method, principal string, params jsonrpc.Raw) (cacheKey, bool) {
	k := cacheKey{group: group, method: method, principal: principal}
	if len(params) == 0 {
		return k, true
	}
	sum, ok := canonicalSum(params)
	k.params = sum
	return k, ok
}

// canonicalSum returns the SHA-256 of the canonical form of a JSON value, whose numbers keep their
// spelling. It reports false if there is no such form.
func canonicalSum(text jsonrpc.Raw) (sum [sha256.Size]byte, ok bool) {
	v := jsontext.Value(slices.Clone(text)) // Canonicalize changes it
	if v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		return sum, false
	}
	return sha256.Sum256(v), true
}

const (
	cacheBytes    = 64 << 20
	cacheLargest  = 4 // a result of more than 1/4 of all bytes is not stored
	cacheOverhead = 320
)

// A cacheUse is where a result came from.
type cacheUse uint8

const (
	cacheMiss   cacheUse = iota // from the upstream
	cacheHit                    // from the cache
	cacheShared                 // from the upstream, by a call of another caller
)

// String returns the label of metrics.
func (u cacheUse) String() string {
	switch u {
	case cacheHit:
		return "hit"
	case cacheShared:
		return "shared"
	default:
		return "miss"
	}
}

// A cache stores results for a time, up to a number of bytes; the least recently used results go
// first. It also joins equal calls in flight.
//
// do is all that a single call needs. For the members of an array there are get and store. close
// ends and awaits the shared calls. The methods are safe for concurrent use.
type cache struct {
	most   int64 // bytes
	report func(what string, err error)
	work   sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	ended   bool
	entries map[cacheKey]*cacheEntry
	flights map[cacheKey]*flight
	ring    cacheEntry // the least recently used entry is ring.next
	bytes   int64
	hits    uint64
	misses  uint64
	shared  uint64
}

type cacheEntry struct {
	key        cacheKey
	result     jsonrpc.Raw
	bytes      int64
	expires    time.Time
	prev, next *cacheEntry
}

// A flight is one upstream call for all callers that wait for it.
type flight struct {
	cancel  context.CancelCauseFunc
	callers int
	done    chan struct{} // closed when result and err are set
	result  jsonrpc.Raw
	err     error
}

// newCache makes a cache of most bytes, 64 MiB if most is not positive. report gets panics of
// shared calls.
func newCache(most int64, report func(what string, err error)) *cache {
	if most <= 0 {
		most = cacheBytes
	}
	c := &cache{most: most, report: report, entries: make(map[cacheKey]*cacheEntry), flights: make(map[cacheKey]*flight)}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

// do returns the stored result of a call, or runs call and stores its result for ttl. Errors are
// not stored. The bytes of a result must not be changed.
//
// With coalesce, equal calls that run at the same time share one: it runs with the values of the
// first caller's context, without its deadline and cancellation, and is cancelled when all callers
// have left. All of them get its result or its error. A caller whose ctx ends gets the cause of
// ctx.
func (c *cache) do(ctx context.Context, key cacheKey, ttl time.Duration, coalesce bool, call func(context.Context) (jsonrpc.Raw, error)) (jsonrpc.Raw, cacheUse, error) {
	c.mu.Lock()
	if e := c.findLocked(key); e != nil {
		c.hits++
		c.mu.Unlock()
		return e.result, cacheHit, nil
	}
	if !coalesce || c.ended {
		c.misses++
		c.mu.Unlock()
		result, err := call(ctx)
		if err == nil {
			c.store(key, result, ttl)
		}
		return result, cacheMiss, err
	}
	f, use := c.flights[key], cacheShared
	if f == nil {
		use = cacheMiss
		c.misses++
		f = c.beginLocked(ctx, key, ttl, call)
	} else {
		c.shared++
	}
	f.callers++
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.result, use, f.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.callers--; f.callers == 0 {
		c.endLocked(key, f) // the next caller must not join a call that is cancelled
		f.cancel(context.Cause(ctx))
	}
	return nil, use, context.Cause(ctx)
}

// get returns the stored result of a call. A result that is not there is not counted: do follows.
func (c *cache) get(key cacheKey) (jsonrpc.Raw, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.findLocked(key); e != nil {
		c.hits++
		return e.result, true
	}
	return nil, false
}

// beginLocked starts a shared call.
func (c *cache) beginLocked(ctx context.Context, key cacheKey, ttl time.Duration, call func(context.Context) (jsonrpc.Raw, error)) *flight {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f := &flight{cancel: cancel, done: make(chan struct{})}
	c.flights[key] = f
	c.work.Go(func() {
		defer cancel(nil)
		f.err = rescue.Call(c.report, func() (err error) {
			f.result, err = call(own)
			return err
		})
		if f.err == nil {
			c.store(key, f.result, ttl)
		}
		c.mu.Lock()
		c.endLocked(key, f)
		c.mu.Unlock()
		close(f.done)
	})
	return f
}

func (c *cache) endLocked(key cacheKey, f *flight) {
	if c.flights[key] == f {
		delete(c.flights, key)
	}
}

// close cancels the shared calls and waits for them. Later calls are not shared.
func (c *cache) close() {
	c.mu.Lock()
	c.ended = true
	for _, f := range c.flights {
		f.cancel(jsonrpc.ErrClosed)
	}
	c.mu.Unlock()
	c.work.Wait()
}

// A cacheStatus is a snapshot for metrics.
type cacheStatus struct {
	Entries              int
	Bytes                int64
	Hits, Misses, Shared uint64
}

func (c *cache) status() cacheStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cacheStatus{len(c.entries), c.bytes, c.hits, c.misses, c.shared}
}

// findLocked returns the entry of a key if it has not expired, and makes it the most recently
// used.
func (c *cache) findLocked(key cacheKey) *cacheEntry {
	e := c.entries[key]
	if e == nil {
		return nil
	}
	e.unlink()
	if !time.Now().Before(e.expires) {
		c.dropLocked(e)
		return nil
	}
	c.appendLocked(e)
	return e
}

// store adds a copy of a result, at the cost of the least recently used ones.
func (c *cache) store(key cacheKey, result jsonrpc.Raw, ttl time.Duration) {
	n := int64(len(result)) + int64(len(key.group)+len(key.method)+len(key.principal)) + cacheOverhead
	if ttl <= 0 || n > c.most/cacheLargest {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		e.unlink()
		c.dropLocked(e)
	}
	for c.bytes+n > c.most {
		e := c.ring.next
		e.unlink()
		c.dropLocked(e)
	}
	// A result may be a part of a larger buffer, whose bytes are not counted.
	e := &cacheEntry{key: key, result: slices.Clone(result), bytes: n, expires: time.Now().Add(ttl)}
	c.entries[key] = e
	c.bytes += n
	c.appendLocked(e)
}

// dropLocked forgets an entry that is in no list any more.
func (c *cache) dropLocked(e *cacheEntry) {
	delete(c.entries, e.key)
	c.bytes -= e.bytes
}

func (c *cache) appendLocked(e *cacheEntry) {
	e.prev, e.next = c.ring.prev, &c.ring
	e.prev.next, e.next.prev = e, e
}

func (e *cacheEntry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }
