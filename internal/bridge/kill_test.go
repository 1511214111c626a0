//go:build unix

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/bridge"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A subject is a client of TestKill.
type subject struct {
	c     *parley.Client
	pid   atomic.Int64
	calls atomic.Int64
	hit   atomic.Bool // its server was killed since the last call that succeeded
	gone  atomic.Bool // it was killed itself

	// closed when a call that began with the kill, and takes a second on another server, is answered
	late atomic.Pointer[chan struct{}]
}

// isLate reports whether a second has passed since the kill of the server, for this machine under
// its load.
func (s *subject) isLate() bool {
	late := s.late.Load()
	if late == nil {
		return false
	}
	select {
	case <-*late:
		return true
	default:
		return false
	}
}

// work calls until stop is closed, and checks each response.
func (s *subject) work(t *testing.T, i int, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		want := fmt.Sprintf(`["client %d, call %d"]`, i, n)
		wasHit := s.hit.Load()
		var got jsonrpc.Raw
		err := s.c.Call(t.Context(), "echo", jsonrpc.Raw(want), &got)
		switch {
		case s.gone.Load():
			return
		case err == nil && string(got) != want:
			t.Errorf("client %d got %s, want %s", i, got, want)
		case err == nil:
			s.calls.Add(1)
			if wasHit { // the server is a new one
				pid, err := jsonrpc.Call[int64](t.Context(), s.c, "pid", nil)
				if err == nil && pid != s.pid.Load() {
					s.pid.Store(pid)
					s.hit.Store(false)
				}
			}
		case !s.hit.Load():
			t.Errorf("client %d: %v, but nothing of it was killed", i, err)
			return
		case !errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeUnavailable}):
			t.Errorf("client %d, whose server was killed: %v", i, err)
			return
		case s.isLate():
			t.Errorf("client %d learned after more than a second that its server was killed", i)
		}
	}
}

// TestKill has fifty clients at once while clients and servers are killed at random. No client gets
// another's response, none that was not killed misses one, and no process is left. A call whose
// server is killed fails before a call on another server that then begins, and takes a second.
// PARLEY_KILLS is the number of kills; the default is 10.
func TestKill(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("PARLEY_KILLS"))
	if err != nil {
		kills = 10
	}
	const clients = 50
	b := bridgeTo(t, bridge.Options{MaxServers: 3 * clients}, "tcp://127.0.0.1:0")
	var pids sync.Map // of all servers
	begin := func() *subject {
		s := &subject{c: dial(t, nil, b)}
		s.pid.Store(int64(call[int](t, s.c, "pid", nil)))
		pids.Store(s.pid.Load(), true)
		return s
	}
	stop := make(chan struct{})
	var working sync.WaitGroup
	subjects := make([]*subject, clients)
	for i := range subjects {
		s := begin()
		subjects[i] = s
		working.Go(func() { s.work(t, i, stop) })
	}
	control := dial(t, nil, b)
	order := rand.Perm(clients) // a client whose server ends five times in a minute has to wait
	for n := range kills {
		i := order[n/2%clients]
		if n%2 == 1 {
			i = rand.IntN(clients)
		}
		s := subjects[i]
		before := s.calls.Load()
		await(t, func() bool { return s.calls.Load() > before || t.Failed() }) // it is at work
		if t.Failed() {
			break
		}
		if n%2 == 0 {
			s.hit.Store(true)
			pids.Store(s.pid.Load(), true)
			late := make(chan struct{})
			s.late.Store(&late)
			if err := syscall.Kill(int(s.pid.Load()), syscall.SIGKILL); err != nil {
				t.Errorf("kill: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			working.Go(func() {
				if control.Call(ctx, "second", nil, nil) == nil {
					close(late)
				}
			})
			await(t, func() bool { return !s.hit.Load() || t.Failed() }) // it has a new one
			cancel()
			pids.Store(s.pid.Load(), true)
			continue
		}
		s.gone.Store(true)
		_ = s.c.Close() // in the middle of its call
		next := begin()
		subjects[i] = next
		working.Go(func() { next.work(t, i, stop) })
	}
	for _, s := range subjects { // each gets its responses until the end
		before := s.calls.Load()
		await(t, func() bool { return s.calls.Load() > before || t.Failed() })
	}
	close(stop)
	working.Wait()
	b.end()
	pids.Range(func(pid, _ any) bool {
		if err := syscall.Kill(int(pid.(int64)), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left", pid)
		}
		return true
	})
}
