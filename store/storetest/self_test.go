package storetest

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A broken store is a correct one with one fault.
type broken struct {
	store.Store
	append  func(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error)
	read    func(ctx context.Context, key string, after uint64) iter.Seq2[store.Event, error]
	tail    func(ctx context.Context, key string, after uint64) iter.Seq2[store.Event, error]
	put     func(ctx context.Context, key string, rev uint64, data []byte, ttl time.Duration) (uint64, error)
	get     func(ctx context.Context, key string) (store.Value, error)
	list    func(ctx context.Context, prefix, after string, n int) ([]store.Value, error)
	heads   func(ctx context.Context, prefix, after string, n int) ([]store.Head, error)
	trim    func(ctx context.Context, key string, through uint64) error
	drop    func(ctx context.Context, key string) error
	expire  func(ctx context.Context, key string, at time.Time) error
	closing func() error
}

func (b *broken) Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
	return b.append(ctx, key, after, events...)
}
func (b *broken) Read(ctx context.Context, key string, after uint64) iter.Seq2[store.Event, error] {
	return b.read(ctx, key, after)
}
func (b *broken) Tail(ctx context.Context, key string, after uint64) iter.Seq2[store.Event, error] {
	return b.tail(ctx, key, after)
}
func (b *broken) Put(ctx context.Context, key string, rev uint64, data []byte, ttl time.Duration) (uint64, error) {
	return b.put(ctx, key, rev, data, ttl)
}
func (b *broken) Get(ctx context.Context, key string) (store.Value, error) { return b.get(ctx, key) }
func (b *broken) List(ctx context.Context, prefix, after string, n int) ([]store.Value, error) {
	return b.list(ctx, prefix, after, n)
}
func (b *broken) Heads(ctx context.Context, prefix, after string, n int) ([]store.Head, error) {
	return b.heads(ctx, prefix, after, n)
}
func (b *broken) Trim(ctx context.Context, key string, through uint64) error {
	return b.trim(ctx, key, through)
}
func (b *broken) Drop(ctx context.Context, key string) error { return b.drop(ctx, key) }
func (b *broken) Expire(ctx context.Context, key string, at time.Time) error {
	return b.expire(ctx, key, at)
}
func (b *broken) Close() error { return b.closing() }

// faults lists the most likely faults of a driver: a rule must detect each.
var faults = map[string]func(b *broken, s store.Store){
	"no fence": func(b *broken, s store.Store) {
		b.append = func(ctx context.Context, key string, _ uint64, events ...[]byte) (uint64, error) {
			return s.Append(ctx, key, store.Any, events...)
		}
	},
	"an append is lost now and then": func(b *broken, s store.Store) {
		var n atomic.Int64
		b.append = func(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
			if n.Add(1)%50 == 0 {
				h, err := s.Head(ctx, key)
				return h.Last + uint64(len(events)), err
			}
			return s.Append(ctx, key, after, events...)
		}
	},
	"an append is doubled now and then": func(b *broken, s store.Store) {
		var n atomic.Int64
		b.append = func(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
			seq, err := s.Append(ctx, key, after, events...)
			if err == nil && n.Add(1)%50 == 0 {
				_, err = s.Append(ctx, key, store.Any, events...)
			}
			return seq, err
		}
	},
	"part of an append stays": func(b *broken, s store.Store) {
		b.append = func(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
			last, err := s.Append(ctx, key, after)
			for _, e := range events {
				if err == nil {
					last, err = s.Append(ctx, key, last, e)
				}
			}
			return last, err
		}
	},
	"an ended context is not looked at": func(b *broken, s store.Store) {
		b.append = func(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
			return s.Append(context.WithoutCancel(ctx), key, after, events...)
		}
	},
	"reading goes on for ever": func(b *broken, s store.Store) { b.read = s.Tail },
	"reading skips what was trimmed": func(b *broken, s store.Store) {
		b.read = func(ctx context.Context, key string, after uint64) iter.Seq2[store.Event, error] {
			if h, err := s.Head(ctx, key); err == nil {
				after = max(after, h.First-1)
			}
			return s.Read(ctx, key, after)
		}
	},
	"a tail is only a read": func(b *broken, s store.Store) { b.tail = s.Read },
	"a tail begins anew when its log does": func(b *broken, s store.Store) {
		b.tail = func(ctx context.Context, key string, after uint64) iter.Seq2[store.Event, error] {
			return func(yield func(store.Event, error) bool) {
				for {
					again := false
					for e, err := range s.Tail(ctx, key, after) {
						if again = errors.Is(err, store.ErrNotFound); again {
							break
						}
						if !yield(e, err) {
							return
						}
						after = e.Seq
					}
					if !again {
						return
					}
				}
			}
		}
	},
	"revisions are not compared": func(b *broken, s store.Store) {
		b.put = func(ctx context.Context, key string, _ uint64, data []byte, ttl time.Duration) (uint64, error) {
			return s.Put(ctx, key, store.Any, data, ttl)
		}
	},
	"nothing expires": func(b *broken, s store.Store) {
		b.put = func(ctx context.Context, key string, rev uint64, data []byte, _ time.Duration) (uint64, error) {
			return s.Put(ctx, key, rev, data, 0)
		}
	},
	"logs do not expire": func(b *broken, _ store.Store) {
		b.expire = func(context.Context, string, time.Time) error { return nil }
	},
	"pages are not bounded": func(b *broken, s store.Store) {
		b.list = func(ctx context.Context, prefix, after string, _ int) ([]store.Value, error) {
			return s.List(ctx, prefix, after, 0)
		}
	},
	"the prefix of logs is not looked at": func(b *broken, s store.Store) {
		b.heads = func(ctx context.Context, _, after string, n int) ([]store.Head, error) {
			return s.Heads(ctx, "", after, n)
		}
	},
	"nothing is trimmed": func(b *broken, _ store.Store) { b.trim = func(context.Context, string, uint64) error { return nil } },
	"trimming drops everything": func(b *broken, s store.Store) {
		b.trim = func(ctx context.Context, key string, _ uint64) error { return s.Trim(ctx, key, 1<<62) }
	},
	"dropped logs go on counting": func(b *broken, s store.Store) {
		b.drop = func(ctx context.Context, key string) error { return s.Trim(ctx, key, 1<<62) }
	},
	"closing does nothing": func(b *broken, _ store.Store) { b.closing = func() error { return nil } },
}

func TestTheSuiteSeesFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T, l store.Limits) store.Store {
				s := store.NewMemory(l)
				b := &broken{
					Store: s, append: s.Append, read: s.Read, tail: s.Tail, put: s.Put, get: s.Get, list: s.List, heads: s.Heads,
					trim: s.Trim, drop: s.Drop, expire: s.Expire, closing: s.Close,
				}
				fault(b, s)
				t.Cleanup(func() { _ = s.Close() })
				return b
			}
			seen := 0
			for _, r := range rules() {
				if r.reopens {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					if err := judge(t, r, open, &Options{}); err != nil {
						seen++
						t.Logf("%s: %v", r.name, err)
					}
				})
			}
			if seen == 0 {
				t.Error("no rule sees it")
			}
		})
	}
}
