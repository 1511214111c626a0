package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func keyOf(t *testing.T, principal, params string) cacheKey {
	t.Helper()
	k, ok := cacheKeyOf("g", "m", principal, jsonrpc.Raw(params))
	if !ok {
		t.Fatalf("%s has no key", params)
	}
	return k
}

func TestCacheKey(t *testing.T) {
	same := [][]string{
		{`{"a":1,"b":[true,null]}`, ` { "b" : [ true , null ] , "a" : 1 } `, `{"\u0061":1,"b":[true,null]}`},
		{`["é\n\/"]`, `["\u00e9\u000a/"]`},
		{`{"a":{"x":1,"y":2}}`, `{"a":{"y":2,"x":1}}`},
	}
	for _, texts := range same {
		for _, text := range texts[1:] {
			if keyOf(t, "", texts[0]) != keyOf(t, "", text) {
				t.Errorf("%s and %s differ", texts[0], text)
			}
		}
	}
	different := []string{
		"", `{}`, `[]`, `null`, `[1]`, `["1"]`, `[1,2]`, `[2,1]`, `{"a":1}`, `{"A":1}`, `{"a":null}`, `[[]]`,
		`[9007199254740992]`, `[9007199254740993]`, `[1e400]`, `[1e401]`, `[0.1]`, `[0.1000000000000000055]`,
	}
	for i, a := range different {
		for _, b := range different[i+1:] {
			if keyOf(t, "", a) == keyOf(t, "", b) {
				t.Errorf("%s and %s are equal", a, b)
			}
		}
	}
	if keyOf(t, "a", `{}`) == keyOf(t, "b", `{}`) {
		t.Error("two principals share a key")
	}
	for _, text := range []string{`{"a":1,"a":2}`, "[\"\xff\"]", `{"a":1,"\u0061":2}`} {
		if _, ok := cacheKeyOf("g", "m", "", jsonrpc.Raw(text)); ok {
			t.Errorf("%q has a key", text)
		}
	}
	text := []byte(`{"b":1, "a":2}`)
	cacheKeyOf("g", "m", "", text)
	if string(text) != `{"b":1, "a":2}` {
		t.Errorf("the params were changed: %s", text)
	}
}

// counted returns a call that counts its runs and returns the count.
func counted(n *int) func(context.Context) (jsonrpc.Raw, error) {
	return func(context.Context) (jsonrpc.Raw, error) {
		*n++
		return jsonrpc.Raw(fmt.Sprint(*n)), nil
	}
}

func TestCacheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, coalesce := range []bool{false, true} {
			c := newCache(0, nil)
			n := 0
			get := func() string {
				r, use, err := c.do(t.Context(), keyOf(t, "", "[1]"), 30*time.Second, coalesce, counted(&n))
				return fmt.Sprint(string(r), " ", use, " ", err)
			}
			for _, want := range []string{"1 miss <nil>", "1 hit <nil>"} {
				if got := get(); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
			time.Sleep(30*time.Second - 1)
			if got := get(); got != "1 hit <nil>" {
				t.Errorf("before the end: %s", got)
			}
			time.Sleep(time.Nanosecond)
			if got := get(); got != "2 miss <nil>" {
				t.Errorf("after the end: %s", got)
			}
			if s := c.status(); s.Entries != 1 || s.Hits != 2 || s.Misses != 2 {
				t.Errorf("%+v", s)
			}
			c.close()
		}
	})
}

func TestCacheStoresNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(0, nil)
		n := 0
		for range 3 {
			_, use, err := c.do(t.Context(), keyOf(t, "", "[1]"), time.Hour, true, func(context.Context) (jsonrpc.Raw, error) {
				n++
				return nil, &jsonrpc.Error{Code: -32602, Message: "no"}
			})
			if !errors.Is(err, jsonrpc.ErrInvalidParams) || use != cacheMiss {
				t.Errorf("%v %v", use, err)
			}
		}
		if s := c.status(); n != 3 || s.Entries != 0 || s.Bytes != 0 {
			t.Errorf("%d calls, %+v", n, s)
		}
	})
}

func TestCacheIsBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(1<<20, nil)
		put := func(i, size int) {
			c.store(keyOf(t, "", fmt.Sprint("[", i, "]")), jsonrpc.Raw(strings.Repeat("x", size)), time.Hour)
		}
		has := func(i int) bool { return c.entries[keyOf(t, "", fmt.Sprint("[", i, "]"))] != nil }
		for i := range 10 {
			put(i, 100_000)
		}
		if s := c.status(); s.Entries != 10 || s.Bytes != 10*(100_000+2+cacheOverhead) {
			t.Fatalf("%+v", s)
		}
		if _, use, _ := c.do(t.Context(), keyOf(t, "", "[0]"), time.Hour, false, nil); use != cacheHit {
			t.Fatal("no hit")
		}
		put(10, 100_000)
		if !has(0) || has(1) || !has(2) || !has(10) {
			t.Error("it was not the least recently used one that went")
		}
		put(11, 300_000) // over a quarter
		if has(11) || c.status().Entries != 10 {
			t.Error("a result over a quarter of all bytes was stored")
		}
		put(10, 10) // replaces the other
		if s := c.status(); s.Bytes != 9*(100_000+2+cacheOverhead)+10+2+cacheOverhead {
			t.Errorf("%+v", s)
		}
		for i := range 20_000 {
			put(i, 1)
		}
		if s := c.status(); s.Bytes > 1<<20 || s.Entries != len(c.entries) || s.Entries < 3000 {
			t.Errorf("%+v", s)
		}
	})
}

// TestCacheOwnsItsBytes: a stored result is not a part of the buffer that it came in.
func TestCacheOwnsItsBytes(t *testing.T) {
	c := newCache(0, nil)
	buffer := []byte(`{"a":1}`)
	c.store(keyOf(t, "", "[]"), buffer, time.Hour)
	buffer[2] = 'b'
	r, _, _ := c.do(t.Context(), keyOf(t, "", "[]"), time.Hour, false, nil)
	if string(r) != `{"a":1}` {
		t.Errorf("%s", r)
	}
}

func TestCacheCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(0, nil)
		defer c.close()
		n, ended := 0, ""
		call := func(ctx context.Context) (jsonrpc.Raw, error) {
			n++
			select {
			case <-time.After(time.Second):
				return jsonrpc.Raw(`"ok"`), nil
			case <-ctx.Done():
				ended = context.Cause(ctx).Error()
				return nil, context.Cause(ctx)
			}
		}
		var callers sync.WaitGroup
		uses := map[string]int{}
		var mu sync.Mutex
		begin := func(ctx context.Context, principal, params string, ttl time.Duration) {
			callers.Go(func() {
				r, use, err := c.do(ctx, keyOf(t, principal, params), ttl, true, call)
				mu.Lock()
				uses[fmt.Sprint(use, " ", string(r), " ", err)]++
				mu.Unlock()
			})
			synctest.Wait()
		}
		// the first caller leaves: the others still get the result
		first, leave := context.WithCancelCause(t.Context())
		begin(first, "a", "[1]", 0)
		for range 9 {
			begin(t.Context(), "a", "[1]", 0)
		}
		begin(t.Context(), "b", "[1]", 0) // another principal, if private
		leave(errors.New("left"))
		callers.Wait()
		if n != 2 || uses["miss  left"] != 1 || uses[`shared "ok" <nil>`] != 9 || uses[`miss "ok" <nil>`] != 1 || ended != "" {
			t.Errorf("%d calls, %v, ended %q", n, uses, ended)
		}
		// all leave: the call is cancelled, and the next caller begins a new one
		n, uses = 0, map[string]int{}
		ctx, cancel := context.WithCancelCause(t.Context())
		for range 5 {
			begin(ctx, "a", "[2]", 0)
		}
		cancel(errors.New("all left"))
		synctest.Wait()
		begin(t.Context(), "a", "[2]", 0)
		callers.Wait()
		if n != 2 || ended != "all left" || uses[`miss "ok" <nil>`] != 1 || uses["shared  all left"] != 4 {
			t.Errorf("%d calls, %v, ended %q", n, uses, ended)
		}
		if s := c.status(); len(c.flights) != 0 || s.Entries != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestCacheCoalescedErrorsAreShared also covers a call that panics.
func TestCacheCoalescedErrorsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := 0
		c := newCache(0, func(string, error) { reports++ })
		defer c.close()
		var callers sync.WaitGroup
		var failed atomic.Int64
		for range 10 {
			callers.Go(func() {
				if _, _, err := c.do(t.Context(), keyOf(t, "", "[1]"), time.Hour, true, func(context.Context) (jsonrpc.Raw, error) {
					time.Sleep(time.Second)
					panic("x")
				}); err != nil {
					failed.Add(1)
				}
			})
			synctest.Wait()
		}
		callers.Wait()
		if failed.Load() != 10 || reports != 1 || c.status().Entries != 0 {
			t.Errorf("%d failed, %d reports", failed.Load(), reports)
		}
	})
}

// TestCacheDeadlineOfTheFirstCaller: the shared call outlives the deadline of one caller, and has
// the values of its context.
func TestCacheDeadlineOfTheFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(0, nil)
		defer c.close()
		type key struct{}
		short, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Second)
		defer cancel()
		call := func(ctx context.Context) (jsonrpc.Raw, error) {
			if _, ok := ctx.Deadline(); ok || ctx.Value(key{}) != "trace" {
				t.Error("the context is not that of the first caller without its end")
			}
			time.Sleep(2 * time.Second)
			return jsonrpc.Raw("1"), ctx.Err()
		}
		done := make(chan string, 1)
		go func() {
			synctest.Wait()
			r, use, err := c.do(t.Context(), keyOf(t, "", ""), time.Hour, true, call)
			done <- fmt.Sprint(string(r), " ", use, " ", err)
		}()
		if _, _, err := c.do(short, keyOf(t, "", ""), time.Hour, true, call); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if got := <-done; got != "1 shared <nil>" {
			t.Error(got)
		}
	})
}

func BenchmarkCacheHit(b *testing.B) {
	c := newCache(0, nil)
	params := jsonrpc.Raw(`{"plan":"gold","customer":{"id":4711,"name":"A. Customer"}}`)
	k, _ := cacheKeyOf("billing", "billing.getPlan", "token:somebody", params)
	c.store(k, jsonrpc.Raw(`{"price":1}`), time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		k, _ := cacheKeyOf("billing", "billing.getPlan", "token:somebody", params)
		if _, use, _ := c.do(b.Context(), k, time.Hour, true, nil); use != cacheHit {
			b.Fatal(use)
		}
	}
}
