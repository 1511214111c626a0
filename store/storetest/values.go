package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/store"
)

func valueRules() []rule {
	return []rule{
		{name: "a value is written, read and replaced by revision", check: putAndGet},
		{name: "a write with another revision is a conflict and changes nothing", check: valueConflict},
		{name: "of many writers with the same revision one wins", check: valueRace},
		{name: "a value is deleted by revision", check: deleteValue},
		{name: "a revision never comes back", check: noOldRevision},
		{name: "a value expires", check: valueExpires},
		{name: "a lease is kept by renewing it, and taken over when it ends", check: lease},
		{name: "values are listed by prefix in pages", check: list},
		{name: "a page of large values ends early, and none is left out", limits: store.Limits{ValueBytes: 8 << 20}, check: largePages},
		{name: "values are bounded", limits: store.Limits{ValueBytes: 10, Values: 2}, check: valueBounds},
		{name: "everything together is bounded", limits: store.Limits{Bytes: 10_000}, check: totalBound},
	}
}

func (e *env) wantValue(key string, rev uint64, want string) error {
	v, err := e.Get(e.ctx, key)
	if err != nil || v.Rev != rev || string(v.Data) != want || v.Key != key {
		return fmt.Errorf("Get(%q) = %q of revision %d, %v, want %q of %d", key, v.Data, v.Rev, err, want, rev)
	}
	return nil
}

func putAndGet(e *env) error {
	if _, err := e.Get(e.ctx, "key"); !errors.Is(err, store.ErrNotFound) {
		return wantErr("Get", err, store.ErrNotFound)
	}
	rev := uint64(0)
	for _, data := range []string{"one", "", "three"} {
		next, err := e.Put(e.ctx, "key", rev, []byte(data), 0)
		if err != nil || next <= rev || next == store.Any {
			return fmt.Errorf("Put(%d) = %d, %v", rev, next, err)
		}
		rev = next
		if err := e.wantValue("key", rev, data); err != nil {
			return err
		}
	}
	next, err := e.Put(e.ctx, "key", store.Any, []byte("four"), 0)
	if err != nil || next <= rev {
		return fmt.Errorf("Put(Any) = %d after %d, %v", next, rev, err)
	}
	if err := e.wantValue("key", next, "four"); err != nil {
		return err
	}
	v, err := e.Get(e.ctx, "key")
	if err != nil || !v.Expires.IsZero() {
		return fmt.Errorf("a value without an expiry expires at %v, %v", v.Expires, err)
	}
	return nil
}

func valueConflict(e *env) error {
	rev, err := e.Put(e.ctx, "key", 0, []byte("old"), 0)
	if err != nil {
		return err
	}
	for _, other := range []uint64{0, rev - 1, rev + 1, store.Any - 1} {
		if other == rev {
			continue
		}
		_, err := e.Put(e.ctx, "key", other, []byte("new"), 0)
		if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Want != other || c.Have != rev || c.Key != "key" {
			return fmt.Errorf("Put(%d): %v, want a conflict with %d", other, err, rev)
		}
		if err := wantErr("Delete", e.Delete(e.ctx, "key", other), store.ErrConflict); err != nil {
			return err
		}
	}
	if _, err := e.Put(e.ctx, "none", rev, nil, 0); !errors.Is(err, store.ErrConflict) {
		return wantErr("Put over nothing", err, store.ErrConflict)
	}
	if _, err := e.Get(e.ctx, "none"); !errors.Is(err, store.ErrNotFound) {
		return wantErr("Get", err, store.ErrNotFound)
	}
	return e.wantValue("key", rev, "old")
}

func valueRace(e *env) error {
	rev, err := e.Put(e.ctx, "key", 0, nil, 0)
	if err != nil {
		return err
	}
	const writers = 16
	var wg sync.WaitGroup
	errs, revs := make([]error, writers), make([]uint64, writers)
	for i := range writers {
		wg.Go(func() { revs[i], errs[i] = e.Put(e.ctx, "key", rev, fmt.Append(nil, i), 0) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			return fmt.Errorf("writers %d and %d both won", winner, i)
		case !errors.Is(err, store.ErrConflict):
			return err
		}
	}
	if winner < 0 {
		return errors.New("no writer won")
	}
	return e.wantValue("key", revs[winner], fmt.Sprint(winner))
}

func deleteValue(e *env) error {
	if err := e.Delete(e.ctx, "key", store.Any); err != nil {
		return err
	}
	if err := e.Delete(e.ctx, "key", 0); err != nil {
		return err
	}
	if err := wantErr("Delete of nothing with a revision", e.Delete(e.ctx, "key", 5), store.ErrConflict); err != nil {
		return err
	}
	for _, blind := range []bool{false, true} {
		rev, err := e.Put(e.ctx, "key", 0, []byte("x"), 0)
		if err != nil {
			return err
		}
		if err := wantErr("Delete of something as nothing", e.Delete(e.ctx, "key", 0), store.ErrConflict); err != nil {
			return err
		}
		if blind {
			rev = store.Any
		}
		if err := e.Delete(e.ctx, "key", rev); err != nil {
			return err
		}
		if _, err := e.Get(e.ctx, "key"); !errors.Is(err, store.ErrNotFound) {
			return wantErr("Get", err, store.ErrNotFound)
		}
	}
	return nil
}

func noOldRevision(e *env) error {
	last := uint64(0)
	for range 5 {
		rev, err := e.Put(e.ctx, "key", 0, []byte("x"), 0)
		if err != nil {
			return err
		}
		if rev <= last {
			return fmt.Errorf("revision %d after %d", rev, last)
		}
		last = rev
		if err := e.Delete(e.ctx, "key", rev); err != nil {
			return err
		}
		if e.o.Reopen != nil {
			e.reopen()
		}
	}
	return nil
}

func valueExpires(e *env) error {
	begin := time.Now()
	rev, err := e.Put(e.ctx, "key", 0, []byte("x"), e.short())
	if err != nil {
		return err
	}
	v, err := e.Get(e.ctx, "key")
	if err != nil || v.Expires.Before(begin.Add(e.short())) {
		return fmt.Errorf("Get = %+v, %v, want it to expire %v from now", v, err, e.short())
	}
	e.sleep(e.short() * 9 / 10)
	if !e.o.RealTime {
		if err := e.wantValue("key", rev, "x"); err != nil {
			return err
		}
	}
	e.sleep(e.short())
	if _, err := e.Get(e.ctx, "key"); !errors.Is(err, store.ErrNotFound) {
		return wantErr("Get", err, store.ErrNotFound)
	}
	if all, err := e.List(e.ctx, "", "", 0); err != nil || len(all) != 0 {
		return fmt.Errorf("List = %v, %v", all, err)
	}
	if _, err := e.Put(e.ctx, "key", rev, []byte("y"), 0); !errors.Is(err, store.ErrConflict) {
		return wantErr("Put over what has expired", err, store.ErrConflict)
	}
	next, err := e.Put(e.ctx, "key", 0, []byte("y"), 0)
	if err != nil || next <= rev {
		return fmt.Errorf("Put = %d after %d, %v", next, rev, err)
	}
	e.sleep(2 * e.short())
	return e.wantValue("key", next, "y")
}

func lease(e *env) error {
	mine, err := e.Put(e.ctx, "lease", 0, []byte("me"), e.short())
	if err != nil {
		return err
	}
	for range 4 {
		e.sleep(e.short() / 2)
		if _, err := e.Put(e.ctx, "lease", 0, []byte("you"), e.short()); !errors.Is(err, store.ErrConflict) {
			return wantErr("taking a lease that is held", err, store.ErrConflict)
		}
		if mine, err = e.Put(e.ctx, "lease", mine, []byte("me"), e.short()); err != nil {
			return err
		}
	}
	e.sleep(2 * e.short())
	if _, err := e.Put(e.ctx, "lease", 0, []byte("you"), e.short()); err != nil {
		return err
	}
	_, err = e.Put(e.ctx, "lease", mine, []byte("me"), e.short())
	return wantErr("renewing a lease that was lost", err, store.ErrConflict)
}

func list(e *env) error {
	for i, key := range []string{"b/2", "a/1", "b/1", "b/10", "b", "c", "b0", "B/1", "b/é"} {
		if _, err := e.Put(e.ctx, key, 0, fmt.Append(nil, i), 0); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		prefix, after string
		n             int
		want          string
	}{
		{"", "", 0, "B/1=7 a/1=1 b=4 b/1=2 b/10=3 b/2=0 b/é=8 b0=6 c=5"},
		{"b/", "", 2, "b/1=2 b/10=3"},
		{"b/", "b/10", 2, "b/2=0 b/é=8"},
		{"b/", "b/é", 2, ""},
		{"b/", "a", 1, "b/1=2"},
		{"b/1", "", -1, "b/1=2 b/10=3"},
		{"%", "", 0, ""},
	} {
		values, err := e.List(e.ctx, c.prefix, c.after, c.n)
		var got []string
		for _, v := range values {
			got = append(got, v.Key+"="+string(v.Data))
		}
		if err != nil || strings.Join(got, " ") != c.want {
			return fmt.Errorf("List(%q, %q, %d) = %q, %v, want %q", c.prefix, c.after, c.n, got, err, c.want)
		}
	}
	return nil
}

func largePages(e *env) error {
	const n = 6
	for i := range n {
		if _, err := e.Put(e.ctx, fmt.Sprint("key", i), 0, make([]byte, 6<<20), 0); err != nil {
			return err
		}
	}
	after, seen := "", 0
	for {
		page, err := e.List(e.ctx, "", after, 0)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		if len(page) > 3 {
			return fmt.Errorf("a page of %d times 6 MiB", len(page))
		}
		for _, v := range page {
			if v.Key != fmt.Sprint("key", seen) {
				return fmt.Errorf("%q in place %d", v.Key, seen)
			}
			seen++
			after = v.Key
		}
	}
	if seen != n {
		return fmt.Errorf("%d values in pages, want %d", seen, n)
	}
	return nil
}

func valueBounds(e *env) error {
	_, err := e.Put(e.ctx, "1", 0, make([]byte, 11), 0)
	if l, ok := errors.AsType[*store.LimitError](err); !ok || l.Limit != 10 {
		return fmt.Errorf("Put of 11 bytes: %v, want the limit of 10", err)
	}
	for _, key := range []string{"1", "2", "1"} {
		if _, err := e.Put(e.ctx, key, store.Any, make([]byte, 10), 0); err != nil {
			return err
		}
	}
	if _, err = e.Put(e.ctx, "3", 0, nil, 0); !errors.Is(err, store.ErrLimit) {
		return wantErr("Put of a third value", err, store.ErrLimit)
	}
	if _, err := e.Put(e.ctx, "1", store.Any, nil, e.short()); err != nil {
		return err
	}
	e.sleep(e.short() + 2*time.Second) // expired entries free their space after a second at most
	_, err = e.Put(e.ctx, "3", 0, nil, 0)
	return err
}

func totalBound(e *env) error {
	if _, err := e.Put(e.ctx, "value", 0, make([]byte, 5000), 0); err != nil {
		return err
	}
	if _, err := e.Append(e.ctx, "log", 0, make([]byte, 4000)); err != nil {
		return err
	}
	_, err := e.Append(e.ctx, "log", 1, make([]byte, 1000))
	if err := wantErr("Append past the bound", err, store.ErrLimit); err != nil {
		return err
	}
	_, err = e.Put(e.ctx, "more", 0, make([]byte, 1000), 0)
	if err := wantErr("Put past the bound", err, store.ErrLimit); err != nil {
		return err
	}
	// Less than before.
	if _, err := e.Put(e.ctx, "value", store.Any, make([]byte, 100), 0); err != nil {
		return err
	}
	if _, err := e.Append(e.ctx, "log", 1, make([]byte, 4000)); err != nil {
		return err
	}
	if err := errors.Join(e.Drop(e.ctx, "log"), e.Delete(e.ctx, "value", store.Any)); err != nil {
		return err
	}
	_, err = e.Append(e.ctx, "log", 0, make([]byte, 9000))
	if err != nil {
		return fmt.Errorf("what was dropped still counts: %v", err)
	}
	if err := e.Trim(e.ctx, "log", 1); err != nil {
		return err
	}
	if _, err = e.Append(e.ctx, "log", 1, make([]byte, 9000)); err != nil {
		return fmt.Errorf("what was trimmed still counts: %v", err)
	}
	return nil
}
