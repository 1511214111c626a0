package mcphttp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// Limits of the stored events of one session, in events and in bytes. Beyond either limit the older
// half is deleted. The size is checked after lookEvents events or lookBytes bytes.
const (
	keptEvents    = 4096
	keptBytes     = 8 << 20
	lookEvents    = 256
	lookBytes     = 1 << 20
	forgetTimeout = 10 * time.Second
)

// eventKeeper stores the events of each session in its own log under mcp/events/. A session ID is a
// secret, so the key contains only its digest. An entry consists of the event ID, a line feed and
// the event.
type eventKeeper struct {
	log      store.Log
	lifetime time.Duration // of a log to which nothing is added
	report   func(what string, err error)

	mu   sync.Mutex // guards the fields below
	news map[string]*unseen
}

// unseen counts what was added to a log since its size was checked.
type unseen struct {
	events int
	bytes  int
}

func newEventKeeper(o *Options) *eventKeeper {
	k := &eventKeeper{log: o.Events, lifetime: o.Lifetime, report: o.Report, news: map[string]*unseen{}}
	if k.lifetime <= 0 {
		k.lifetime = 24 * time.Hour
	}
	if k.report == nil {
		k.report = func(string, error) {}
	}
	return k
}

func eventKey(session string) string {
	sum := sha256.Sum256([]byte(session))
	return "mcp/events/" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Keep implements [streamable.Keeper].
func (k *eventKeeper) Keep(ctx context.Context, session string, e streamable.Kept) error {
	entry := make([]byte, 0, len(e.Data)+24)
	entry = append(strconv.AppendUint(entry, e.Stream, 10), '-')
	entry = append(strconv.AppendUint(entry, e.Place, 10), '\n')
	entry = append(entry, e.Data...)
	key := eventKey(session)
	last, err := k.log.Append(ctx, key, store.Any, entry)
	// deletes from this log, which may make enough room
	if errors.Is(err, store.ErrLimit) && k.halve(ctx, key) == nil {
		last, err = k.log.Append(ctx, key, store.Any, entry)
	}
	if err == nil {
		err = k.tidy(ctx, key, last, len(entry))
	} else {
		k.report(ReportEvents, fmt.Errorf("mcphttp: %s: %w", key, err))
		return err
	}
	if err != nil {
		k.report(ReportEvents, fmt.Errorf("mcphttp: %s: %w", key, err)) // the event is stored
	}
	return nil
}

// tidy limits the size of a log that has grown.
func (k *eventKeeper) tidy(ctx context.Context, key string, last uint64, size int) error {
	k.mu.Lock()
	n := k.news[key]
	if n == nil {
		n = &unseen{}
		k.news[key] = n
	}
	n.events++
	n.bytes += size
	look := last == 1 || n.events >= lookEvents || n.bytes >= lookBytes
	if look {
		*n = unseen{}
	}
	k.mu.Unlock()
	if !look {
		return nil
	}
	// After a crash the log remains; the expiry removes it.
	if err := k.log.Expire(ctx, key, time.Now().Add(k.lifetime)); err != nil {
		return err
	}
	for {
		head, err := k.log.Head(ctx, key)
		if err != nil {
			return err
		}
		if head.Last-head.First < keptEvents && head.Bytes <= keptBytes || head.First >= head.Last {
			return nil
		}
		if err := k.halve(ctx, key); err != nil {
			return err
		}
	}
}

// halve deletes the older half of a log.
func (k *eventKeeper) halve(ctx context.Context, key string) error {
	head, err := k.log.Head(ctx, key)
	if err != nil {
		return err
	}
	return k.log.Trim(ctx, key, head.First+(head.Last-head.First)/2)
}

// Replay implements [streamable.Keeper].
func (k *eventKeeper) Replay(ctx context.Context, session string, stream, after uint64) iter.Seq2[streamable.Kept, error] {
	return func(yield func(streamable.Kept, error) bool) {
		key := eventKey(session)
		head, err := k.log.Head(ctx, key)
		if err != nil {
			yield(streamable.Kept{}, err)
			return
		}
		for from, again := head.First-1, true; again; {
			again = false
			for event, err := range k.log.Read(ctx, key, from) {
				// trimmed meanwhile; the remaining events may be sufficient
				if trimmed, ok := errors.AsType[*store.TrimmedError](err); ok {
					from, again = trimmed.First-1, true
					break
				}
				var e streamable.Kept
				if err == nil {
					e, err = parseEntry(event.Data)
				}
				if err != nil {
					k.report(ReportEvents, fmt.Errorf("mcphttp: %s: %w", key, err))
					yield(e, err)
					return
				}
				if e.Stream != stream || e.Place <= after {
					continue
				}
				if after = e.Place; !yield(e, nil) {
					return
				}
			}
		}
	}
}

func parseEntry(entry []byte) (streamable.Kept, error) {
	id, data, ok := bytes.Cut(entry, []byte{'\n'})
	a, b, cut := bytes.Cut(id, []byte{'-'})
	stream, err1 := strconv.ParseUint(string(a), 10, 64)
	place, err2 := strconv.ParseUint(string(b), 10, 64)
	if !ok || !cut || err1 != nil || err2 != nil {
		return streamable.Kept{}, errors.New("not an event")
	}
	return streamable.Kept{Stream: stream, Place: place, Data: data}, nil
}

// Forget implements [streamable.Keeper].
func (k *eventKeeper) Forget(session string) {
	key := eventKey(session)
	k.mu.Lock()
	delete(k.news, key)
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), forgetTimeout)
	defer cancel()
	if err := k.log.Drop(ctx, key); err != nil && !errors.Is(err, store.ErrNotFound) {
		k.report(ReportEvents, fmt.Errorf("mcphttp: %s: %w", key, err))
	}
}
