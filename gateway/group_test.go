package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A fakeUpstream answers attempts after a time, in a way that a test can change.
type fakeUpstream struct {
	mu    sync.Mutex
	took  time.Duration
	kind  outcomeKind
	after time.Duration // retryAfter
	calls int
	cut   int // attempts whose context ended first
}

func (f *fakeUpstream) set(kind outcomeKind, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kind, f.took = kind, took
}

func (f *fakeUpstream) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

var errFake = errors.New("fake")

func attemptFake(ctx context.Context, m *member[*fakeUpstream]) outcome[string] {
	f := m.value
	f.mu.Lock()
	f.calls++
	o := outcome[string]{kind: f.kind, retryAfter: f.after}
	took := f.took
	f.mu.Unlock()
	if took > 0 {
		select {
		case <-time.After(took):
		case <-ctx.Done():
			f.mu.Lock()
			f.cut++
			f.mu.Unlock()
			return outcome[string]{kind: failed, err: context.Cause(ctx)}
		}
	}
	if o.kind == answered {
		o.value = m.name
	} else {
		o.err = errFake
	}
	return o
}

// fakeGroup makes a group of upstreams a, b, c, … without active checks.
func fakeGroup(t testing.TB, n int, b breakerOptions, q queueOptions) (*group[*fakeUpstream], []*fakeUpstream) {
	t.Helper()
	var members []*member[*fakeUpstream]
	var fakes []*fakeUpstream
	for i := range n {
		f := &fakeUpstream{}
		fakes = append(fakes, f)
		members = append(members, newMember(string(rune('a'+i)), f, newBreaker(b), newQueue(q), nil))
	}
	g, err := newGroup("g", members...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkIdle(t, g) })
	return g, fakes
}

// checkIdle checks that nothing of a group is in use any more.
func checkIdle[T any](t testing.TB, g *group[T]) {
	t.Helper()
	g.close()
	for _, m := range g.members {
		if s := m.status(); s.Pending != 0 || s.Queue.Inflight != 0 || s.Queue.Waiting != 0 {
			t.Errorf("%s is in use: %+v", m.name, s)
		}
	}
}

// reasonOf returns the reason of a callError, and the upstream that it names.
func reasonOf(err error) string {
	e, ok := errors.AsType[*callError](err)
	if !ok {
		return fmt.Sprint(err)
	}
	return e.reason + " " + e.upstream
}

// TestRetryOnlyWhereItIsSafe counts the attempts for each kind of outcome.
func TestRetryOnlyWhereItIsSafe(t *testing.T) {
	for _, c := range []struct {
		members    int
		kind       outcomeKind
		idempotent bool
		attempts   int // of the route
		want       int
		reason     string
	}{
		{1, answered, true, 3, 1, ""},
		{1, notSent, false, 3, 3, reasonUnreachable},
		{1, notSent, true, 3, 3, reasonUnreachable},
		{1, failed, false, 3, 1, reasonFailed},
		{1, failed, true, 3, 3, reasonFailed},
		{1, failed, true, 1, 1, reasonFailed},
		{1, failed, true, 0, 3, reasonFailed},
		{1, paused, false, 3, 1, reasonRateLimited},
		{1, paused, true, 3, 1, reasonRateLimited}, // the only member is paused
		{3, paused, false, 3, 1, reasonRateLimited},
		{3, paused, true, 3, 3, reasonRateLimited},
		{3, failed, false, 3, 1, reasonFailed},
		{3, failed, true, 2, 2, reasonFailed},
		{3, failed, true, 4, 4, reasonFailed},
		{1, notSent, false, 1, 1, reasonUnreachable},
		{2, notSent, false, 1, 2, reasonUnreachable}, // the other member is tried
		{5, notSent, false, 1, 3, reasonUnreachable}, // not all of a large group
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, fakes := fakeGroup(t, c.members, breakerOptions{}, queueOptions{})
				for _, f := range fakes {
					f.set(c.kind, time.Millisecond)
				}
				d, err := dispatch(t.Context(), g, &callRules{Timeout: time.Minute, Attempts: c.attempts}, callInfo{idempotent: c.idempotent}, attemptFake)
				total, used := 0, 0
				for _, f := range fakes {
					total += f.calls
					used += min(f.calls, 1)
				}
				if total != c.want || d.attempts != c.want || used != min(c.want, c.members) {
					t.Errorf("%d attempts at %d members, reported %d, want %d", total, used, d.attempts, c.want)
				}
				if c.reason == "" && (err != nil || d.upstream != "a" || d.value != "a") || c.reason != "" && !errors.Is(err, errFake) {
					t.Errorf("%+v, %v", d, err)
				}
				if e, ok := errors.AsType[*callError](err); ok && (e.reason != c.reason || e.upstream == "") {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

func TestRetryBackoffAndTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 1, breakerOptions{Off: true}, queueOptions{})
		fakes[0].set(notSent, 0)
		var at []time.Duration
		begin := time.Now()
		_, err := dispatch(t.Context(), g, &callRules{Timeout: time.Minute, Attempts: 5, Backoff: 100 * time.Millisecond}, callInfo{},
			func(ctx context.Context, m *member[*fakeUpstream]) outcome[string] {
				at = append(at, time.Since(begin))
				return attemptFake(ctx, m)
			})
		if len(at) != 5 || reasonOf(err) != "unreachable a" {
			t.Fatalf("%v, %v", at, err)
		}
		for i, want := range []time.Duration{100, 200, 400, 800} {
			within(t, fmt.Sprint("wait ", i+1), at[i+1]-at[i], want*time.Millisecond)
		}

		// an attempt that cannot begin in time is not waited for
		begin = time.Now()
		_, err = dispatch(t.Context(), g, &callRules{Timeout: time.Second, Attempts: 5, Backoff: 2 * time.Second}, callInfo{}, attemptFake)
		if reasonOf(err) != "unreachable a" || time.Since(begin) != 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}

		// a call that takes all the time is not sent again
		fakes[0].set(answered, time.Hour)
		before := fakes[0].count()
		_, err = dispatch(t.Context(), g, &callRules{Timeout: 3 * time.Second}, callInfo{idempotent: true}, attemptFake)
		if reasonOf(err) != "timeout a" || time.Since(begin) != 3*time.Second || fakes[0].count() != before+1 {
			t.Errorf("%v after %v, %d attempts", err, time.Since(begin), fakes[0].count()-before)
		}
		if s := g.members[0].status(); s.Failures != 7 {
			t.Errorf("%d failures", s.Failures)
		}
	})
}

// TestCancelledCallIsNotRetried: the caller gets its own cause, and the upstream has no failure.
func TestCancelledCallIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 2, breakerOptions{Failures: 1}, queueOptions{})
		for _, f := range fakes {
			f.set(answered, time.Hour)
		}
		why := errors.New("enough")
		for range 20 {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(why) })
			if _, err := dispatch(ctx, g, &callRules{Timeout: time.Minute}, callInfo{idempotent: true}, attemptFake); !errors.Is(err, why) {
				t.Fatal(err)
			}
		}
		if n := fakes[0].calls + fakes[1].calls; n != 20 {
			t.Errorf("%d attempts", n)
		}
		// a deadline of the engine is a time-out of the upstream
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(jsonrpc.ErrTimeout) })
		if _, err := dispatch(ctx, g, &callRules{Timeout: time.Minute}, callInfo{}, attemptFake); reasonOf(err)[:7] != reasonTimeout {
			t.Error(err)
		}
		open := 0
		for _, m := range g.members {
			if m.status().State == "open" {
				open++
			}
		}
		if open != 1 {
			t.Errorf("%d breakers opened, want that of the time-out", open)
		}
	})
}

func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 1, breakerOptions{Off: true}, queueOptions{Inflight: 10_000})
		fakes[0].set(failed, 0)
		rules := &callRules{Timeout: time.Minute, Backoff: time.Nanosecond}
		call := func(n int) int {
			before := fakes[0].count()
			for range n {
				if _, err := dispatch(t.Context(), g, rules, callInfo{idempotent: true}, attemptFake); err == nil {
					t.Fatal("no error")
				}
			}
			return fakes[0].count() - before
		}
		if got := call(1000); got < 1000+200 || got > 1000+200+10 {
			t.Errorf("1,000 calls were %d attempts, want 1,210", got)
		}
		time.Sleep(time.Hour)
		if got := call(10); got < 10+10 || got > 10+12 {
			t.Errorf("10 calls after an hour were %d attempts, want 20 to 22", got)
		}
		fakes[0].set(answered, 0)
		call2 := func() {
			if _, err := dispatch(t.Context(), g, rules, callInfo{}, attemptFake); err != nil {
				t.Fatal(err)
			}
		}
		for range 10_000 {
			call2()
		}
		fakes[0].set(failed, 0)
		if got := call(100); got > 100+100+20+10 {
			t.Errorf("100 calls after 10,000 good ones were %d attempts: more than 100 were retained", got)
		}
	})
}

// TestChoiceAvoidsSlowAndFailingMembers: calls one after the other, so that only latency counts.
func TestChoiceAvoidsSlowAndFailingMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 3, breakerOptions{Off: true}, queueOptions{})
		rules := &callRules{Timeout: 10 * time.Second, Attempts: 1}
		for i, took := range []time.Duration{2, 2, 50} {
			fakes[i].set(answered, took*time.Millisecond)
		}
		call := func(n int) {
			for range n {
				_, _ = dispatch(t.Context(), g, rules, callInfo{idempotent: true}, attemptFake) // errors are part of it
			}
		}
		call(1000)
		if fakes[2].calls > 50 || fakes[0].calls < 300 || fakes[1].calls < 300 {
			t.Errorf("calls: %d %d and %d for the slow one", fakes[0].calls, fakes[1].calls, fakes[2].calls)
		}
		// one that fails fast does not attract calls: its average rises with the time of its calls, so
		// that it gets a few at first
		fakes[0].set(failed, 0)
		before := fakes[0].calls
		call(1000)
		if n := fakes[0].calls - before; n > 60 {
			t.Errorf("a failing member got %d of 1,000 calls", n)
		}
		// after some time without calls it is tried again
		fakes[0].set(answered, time.Millisecond)
		time.Sleep(2 * time.Minute)
		before = fakes[0].calls
		call(1000)
		if n := fakes[0].calls - before; n < 300 {
			t.Errorf("after it recovered it got %d of 1,000 calls", n)
		}
	})
}

// TestChoiceSpreadsByCallsInFlight: members without a response yet do not get all calls.
func TestChoiceSpreadsByCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 4, breakerOptions{}, queueOptions{})
		var calls sync.WaitGroup
		for _, f := range fakes {
			f.set(answered, time.Second)
		}
		for range 400 {
			calls.Go(func() { _, _ = dispatch(t.Context(), g, &callRules{}, callInfo{}, attemptFake) })
			synctest.Wait()
		}
		for i, f := range fakes {
			if f.calls < 90 || f.calls > 110 {
				t.Errorf("member %d has %d of 400 calls", i, f.calls)
			}
		}
		calls.Wait()
	})
}

func TestChoiceExcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 4, breakerOptions{Failures: 1, Open: time.Hour, Max: time.Hour}, queueOptions{})
		g.members[0].breaker.cordon(true)
		fakes[1].set(failed, 0)
		for fakes[1].calls == 0 {
			_, _ = dispatch(t.Context(), g, &callRules{Attempts: 1}, callInfo{}, attemptFake)
		}
		h := newHealth(healthOptions{Probe: func(context.Context) error { return errFake }})
		h.start()
		g.members[2].health = h
		time.Sleep(12 * time.Second)
		calls := [4]int{}
		for i, f := range fakes {
			calls[i] = f.calls
		}
		for range 100 {
			if d, err := dispatch(t.Context(), g, &callRules{}, callInfo{}, attemptFake); err != nil || d.upstream != "d" {
				t.Fatal(d, err)
			}
		}
		for i, f := range fakes[:3] {
			if f.calls != calls[i] {
				t.Errorf("member %d got calls", i)
			}
		}
		var states []string
		for _, m := range g.members {
			states = append(states, m.status().State)
		}
		if want := []string{"cordoned", "open", "failed", "healthy"}; !slices.Equal(states, want) {
			t.Errorf("states %q, want %q", states, want)
		}
		for _, c := range []struct {
			end  func()
			want string
		}{
			{func() { g.members[3].breaker.pause(300*time.Millisecond, time.Now()) }, "rate_limited d"},
			{func() { g.members[3].retired.Store(true) }, "unreachable c"}, // it may be up again after a second
			{func() { g.members[2].retired.Store(true); g.members[3].retired.Store(true) }, "draining c"},
			{func() { g.members = g.members[:2] }, "breaker_open b"},
			{func() { g.members = g.members[:1] }, "cordoned a"},
		} {
			c.end()
			begin := time.Now()
			d, err := dispatch(t.Context(), g, &callRules{Timeout: time.Minute}, callInfo{idempotent: true}, attemptFake)
			if reasonOf(err) != c.want || d.attempts != 0 || time.Since(begin) != 0 {
				t.Errorf("%v after %v, want %s", err, time.Since(begin), c.want)
			}
		}
		h.close()
	})
}

// TestDownMemberIsCheckedWhenCallsNeedIt: a group without a usable member requests an active
// check.
func TestDownMemberIsCheckedWhenCallsNeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := fakeGroup(t, 1, breakerOptions{}, queueOptions{})
		bad := true
		h := newHealth(healthOptions{Every: time.Hour, Probe: func(context.Context) error {
			if bad {
				return errFake
			}
			return nil
		}})
		g.members[0].health = h
		h.start()
		defer h.close()
		synctest.Wait()
		h.kick()
		time.Sleep(2 * time.Second)
		if h.up() {
			t.Fatal("it is up")
		}
		bad = false
		if _, err := dispatch(t.Context(), g, &callRules{}, callInfo{}, attemptFake); reasonOf(err) != "unreachable a" {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := dispatch(t.Context(), g, &callRules{}, callInfo{}, attemptFake); err != nil {
			t.Error(err)
		}
	})
}

func TestHalfOpenMemberGetsItsTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 2, breakerOptions{Failures: 3}, queueOptions{})
		rules := &callRules{Timeout: time.Minute, Attempts: 1}
		fakes[0].set(failed, time.Millisecond)
		fakes[1].set(answered, time.Millisecond)
		for g.members[0].status().State != "open" {
			_, _ = dispatch(t.Context(), g, rules, callInfo{}, attemptFake)
			time.Sleep(time.Minute / 2) // so that its time-outs do not keep calls away
		}
		fakes[0].set(answered, time.Millisecond)
		opensFor(g.members[0].breaker)
		before := fakes[0].calls
		for range 2 {
			if d, err := dispatch(t.Context(), g, rules, callInfo{}, attemptFake); err != nil || d.upstream != "a" {
				t.Fatalf("no trial: %+v %v", d, err)
			}
		}
		for range 1000 {
			if _, err := dispatch(t.Context(), g, rules, callInfo{}, attemptFake); err != nil {
				t.Fatal(err)
			}
		}
		if n := fakes[0].calls - before; n < 300 || n > 700 {
			t.Errorf("it got %d of 1,002 calls after it was closed", n)
		}
	})
}

func TestStickySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 5, breakerOptions{}, queueOptions{})
		where := func(session string) string {
			d, err := dispatch(t.Context(), g, &callRules{}, callInfo{session: session}, attemptFake)
			if err != nil {
				t.Fatal(err)
			}
			return d.upstream
		}
		home := map[string]string{}
		for i := range 1000 {
			s := fmt.Sprint("session ", i)
			home[s] = where(s)
		}
		for i, f := range fakes {
			if f.calls < 150 || f.calls > 250 {
				t.Errorf("member %d has %d of 1,000 sessions", i, f.calls)
			}
		}
		g.members[2].breaker.cordon(true)
		moved := 0
		for s, h := range home {
			now := where(s)
			if h == "c" {
				moved++
				if now == "c" {
					t.Fatal("a cordoned member got a call")
				}
			} else if now != h {
				t.Fatalf("%s moved from %s to %s", s, h, now)
			}
		}
		g.members[2].breaker.cordon(false)
		for s, h := range home {
			if where(s) != h {
				t.Fatalf("%s did not return to %s", s, h)
			}
		}
		if moved == 0 {
			t.Error("no session was at the cordoned member")
		}
		// the order of the members in the file has no effect, and all replicas agree
		slices.Reverse(g.members)
		for s, h := range home {
			if where(s) != h {
				t.Fatalf("%s depends on the order of the file", s)
			}
		}
		// a retry goes to another member
		for _, f := range fakes {
			f.set(notSent, 0)
		}
		d, _ := dispatch(t.Context(), g, &callRules{Timeout: time.Minute}, callInfo{session: "x"}, attemptFake)
		if d.attempts != 3 {
			t.Errorf("%d attempts", d.attempts)
		}
	})
}

// TestGroupQueues: a member whose queue is full is passed over, and a breaker that opens while a
// call waits sends it elsewhere.
func TestGroupQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 2, breakerOptions{}, queueOptions{Inflight: 1, Queue: 1, Wait: time.Minute})
		for _, f := range fakes {
			f.set(answered, time.Second)
		}
		var calls sync.WaitGroup
		results := make([]string, 4)
		for i := range results {
			calls.Go(func() {
				d, err := dispatch(t.Context(), g, &callRules{Timeout: time.Minute}, callInfo{principal: fmt.Sprint(i)}, attemptFake)
				results[i] = fmt.Sprint(d.upstream, err)
			})
			synctest.Wait()
		}
		begin := time.Now()
		_, err := dispatch(t.Context(), g, &callRules{Timeout: time.Minute}, callInfo{}, attemptFake)
		if e, ok := errors.AsType[*callError](err); !ok || e.reason != reasonQueueFull || e.upstream == "" || e.retryAfter <= 0 || time.Since(begin) != 0 {
			t.Errorf("a fifth call: %v", err)
		}
		calls.Wait()
		slices.Sort(results)
		if want := []string{"a<nil>", "a<nil>", "b<nil>", "b<nil>"}; !slices.Equal(results, want) {
			t.Errorf("%q", results)
		}

		// one waits for b; b is cordoned meanwhile
		g.members[0].breaker.cordon(true)
		calls.Go(func() { _, _ = dispatch(t.Context(), g, &callRules{}, callInfo{}, attemptFake) })
		synctest.Wait()
		before := fakes[1].count()
		calls.Go(func() {
			d, err := dispatch(t.Context(), g, &callRules{}, callInfo{}, attemptFake)
			if err != nil || d.upstream != "a" {
				t.Errorf("%+v %v", d, err)
			}
		})
		synctest.Wait()
		g.members[0].breaker.cordon(false)
		g.members[1].breaker.cordon(true)
		calls.Wait()
		if fakes[1].count() != before {
			t.Error("a call was sent to a member that was cordoned while it waited")
		}
	})
}

func TestNewGroup(t *testing.T) {
	if _, err := newGroup[int]("g"); err == nil {
		t.Error("a group without members")
	}
	many := make([]*member[int], maxMembers+1)
	if _, err := newGroup("g", many...); err == nil {
		t.Error("a group with too many members")
	}
	g, err := newGroup("g", many[:maxMembers]...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.members {
		g.members[i] = newMember(fmt.Sprint(i), i, newBreaker(breakerOptions{}), newQueue(queueOptions{}), nil)
	}
	seen := map[int]bool{}
	for range 20_000 {
		d, err := dispatch(t.Context(), g, &callRules{}, callInfo{}, func(_ context.Context, m *member[int]) outcome[int] {
			return outcome[int]{value: m.value}
		})
		if err != nil {
			t.Fatal(err)
		}
		seen[d.value] = true
	}
	if len(seen) != maxMembers {
		t.Errorf("%d members got calls", len(seen))
	}
}

func TestQuantileAndAverage(t *testing.T) {
	sorted := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]time.Duration{0.01: 1, 0.1: 1, 0.11: 2, 0.5: 5, 0.95: 10, 1: 10} {
		if got := quantile(sorted, q); got != want*time.Microsecond {
			t.Errorf("quantile %v: %v", q, got)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	now := time.Now()
	var a average
	if a.at(now) != 0 {
		t.Error("an average of nothing")
	}
	a.add(100*time.Millisecond, now)
	if got := a.at(now); got != 1e8 {
		t.Errorf("first: %v", got)
	}
	if got := a.at(now.Add(10 * time.Second)); math.Abs(got-1e8/math.E) > 1 {
		t.Errorf("after 10 s: %v", got)
	}
	a.add(200*time.Millisecond, now.Add(10*time.Second))
	if got, want := a.at(now.Add(10*time.Second)), 1e8/math.E+2e8*(1-1/math.E); math.Abs(got-want) > 1 {
		t.Errorf("second: %v, want %v", got, want)
	}
}

// BenchmarkDispatch is the whole path around a call: choice, breaker, queue, statistics.
func BenchmarkDispatch(b *testing.B) {
	for _, n := range []int{1, 2, 5} {
		b.Run(fmt.Sprint(n, " members"), func(b *testing.B) {
			g, _ := fakeGroup(b, n, breakerOptions{}, queueOptions{})
			rules := &callRules{}
			info := callInfo{principal: "token:somebody", bytes: 200}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := dispatch(ctx, g, rules, info, attemptNothing); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// attemptNothing answers at once.
func attemptNothing(context.Context, *member[*fakeUpstream]) outcome[string] {
	return outcome[string]{}
}

// TestDispatchAllocatesNothing holds the hot path of a call.
func TestDispatchAllocatesNothing(t *testing.T) {
	g, _ := fakeGroup(t, 3, breakerOptions{}, queueOptions{})
	rules, info, ctx := &callRules{}, callInfo{principal: "p", session: ""}, t.Context()
	call := func() {
		if _, err := dispatch(ctx, g, rules, info, attemptNothing); err != nil {
			t.Fatal(err)
		}
	}
	call()
	for range 100 {
		call() // the rings of the members are made
	}
	if n := testing.AllocsPerRun(1000, call); n != 0 {
		t.Errorf("%v allocations for a call", n)
	}
}

// TestOpenBreakerEmptiesTheQueue: calls that wait when the breaker opens, or when a member is
// cordoned, go to another member or fail at once.
func TestOpenBreakerEmptiesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 2, breakerOptions{Open: time.Hour, Max: time.Hour}, queueOptions{Inflight: 5, Wait: time.Hour})
		for _, f := range fakes {
			f.set(failed, time.Second)
		}
		begin := time.Now()
		reasons := map[string]int{}
		var mu sync.Mutex
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				_, err := dispatch(t.Context(), g, &callRules{}, callInfo{}, attemptFake)
				mu.Lock()
				defer mu.Unlock()
				reason := "another"
				if e, ok := errors.AsType[*callError](err); ok {
					reason = e.reason
				}
				reasons[fmt.Sprint(reason, " ", time.Since(begin))]++
			})
			synctest.Wait()
		}
		calls.Wait()
		// as each of the first four fails, one that waits may get its place before the fifth fails
		if late := reasons["failed 2s"]; reasons["failed 1s"] != 10 || late > 8 || reasons["breaker_open 1s"] != 90-late {
			t.Errorf("%v", reasons)
		}
		for _, m := range g.members {
			m.breaker.cordon(true)
			m.breaker.cordon(false)
		}
		fakes[0].set(answered, time.Second)
		fakes[1].set(answered, time.Hour)
		for range 20 {
			calls.Go(func() {
				if d, err := dispatch(t.Context(), g, &callRules{}, callInfo{}, attemptFake); err != nil {
					t.Errorf("%+v %v", d, err)
				}
			})
			synctest.Wait()
		}
		running := fakes[1].count()
		g.members[1].breaker.cordon(true)
		synctest.Wait()
		if s := g.members[1].queue.status(); s.Waiting != 0 || s.Inflight != 5 || fakes[1].count() != running {
			t.Errorf("after the cordon: %+v", s)
		}
		calls.Wait()
	})
}
