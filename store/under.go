package store

import (
	"context"
	"iter"
	"strings"
	"time"
)

// Under returns the part of s whose keys start with prefix, as a store whose keys do not contain
// the prefix. Use it to separate owners: a caller cannot reach another owner's entries through it.
// A prefix such as "alice/" should end with a byte that does not occur in an owner's name. The
// maximum key length is reduced by the length of the prefix. Close does nothing, because the caller
// of Under owns s.
func Under(s Store, prefix string) Store { return &under{s, prefix} }

type under struct {
	s      Store
	prefix string
}

// key returns the key in the whole store. An empty key remains empty and is therefore rejected.
func (u *under) key(key string) string {
	if key == "" {
		return ""
	}
	return u.prefix + key
}

// after returns the start of a page in the whole store.
func (u *under) after(after string) string {
	if after == "" {
		return ""
	}
	return u.prefix + after
}

func (u *under) Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
	seq, err := u.s.Append(ctx, u.key(key), after, events...)
	return seq, u.strip(err)
}

func (u *under) Read(ctx context.Context, key string, after uint64) iter.Seq2[Event, error] {
	return u.stripped(u.s.Read(ctx, u.key(key), after))
}

func (u *under) Tail(ctx context.Context, key string, after uint64) iter.Seq2[Event, error] {
	return u.stripped(u.s.Tail(ctx, u.key(key), after))
}

func (u *under) stripped(events iter.Seq2[Event, error]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range events {
			if !yield(e, u.strip(err)) {
				return
			}
		}
	}
}

// strip removes the prefix from errors that contain a key.
func (u *under) strip(err error) error {
	switch e := err.(type) { //nolint:errorlint // drivers return these unwrapped; a wrapped one keeps its text
	case *ConflictError:
		return &ConflictError{Key: strings.TrimPrefix(e.Key, u.prefix), Want: e.Want, Have: e.Have}
	case *TrimmedError:
		return &TrimmedError{Key: strings.TrimPrefix(e.Key, u.prefix), First: e.First}
	}
	return err
}

func (u *under) Head(ctx context.Context, key string) (Head, error) {
	h, err := u.s.Head(ctx, u.key(key))
	h.Key = strings.TrimPrefix(h.Key, u.prefix)
	return h, err
}

func (u *under) Heads(ctx context.Context, prefix, after string, n int) ([]Head, error) {
	heads, err := u.s.Heads(ctx, u.prefix+prefix, u.after(after), n)
	for i := range heads {
		heads[i].Key = strings.TrimPrefix(heads[i].Key, u.prefix)
	}
	return heads, err
}

func (u *under) Trim(ctx context.Context, key string, through uint64) error {
	return u.s.Trim(ctx, u.key(key), through)
}

func (u *under) Expire(ctx context.Context, key string, at time.Time) error {
	return u.s.Expire(ctx, u.key(key), at)
}

func (u *under) Drop(ctx context.Context, key string) error { return u.s.Drop(ctx, u.key(key)) }

func (u *under) Get(ctx context.Context, key string) (Value, error) {
	v, err := u.s.Get(ctx, u.key(key))
	v.Key = strings.TrimPrefix(v.Key, u.prefix)
	return v, err
}

func (u *under) Put(ctx context.Context, key string, rev uint64, data []byte, ttl time.Duration) (uint64, error) {
	rev, err := u.s.Put(ctx, u.key(key), rev, data, ttl)
	return rev, u.strip(err)
}

func (u *under) Delete(ctx context.Context, key string, rev uint64) error {
	return u.strip(u.s.Delete(ctx, u.key(key), rev))
}

func (u *under) List(ctx context.Context, prefix, after string, n int) ([]Value, error) {
	values, err := u.s.List(ctx, u.prefix+prefix, u.after(after), n)
	for i := range values {
		values[i].Key = strings.TrimPrefix(values[i].Key, u.prefix)
	}
	return values, err
}

func (u *under) Close() error { return nil }
