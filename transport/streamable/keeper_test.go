package streamable

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A shelf is a Keeper in memory.
type shelf struct {
	mu       sync.Mutex // guards the fields below
	sessions map[string][]Kept
	refuse   int // number of events to refuse
	replays  int
}

func (s *shelf) Keep(_ context.Context, session string, e Kept) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		return errors.New("the shelf is full")
	}
	if s.sessions == nil {
		s.sessions = map[string][]Kept{}
	}
	e.Data = slices.Clone(e.Data)
	s.sessions[session] = append(s.sessions[session], e)
	return nil
}

func (s *shelf) Replay(_ context.Context, session string, stream, after uint64) iter.Seq2[Kept, error] {
	s.mu.Lock()
	all := slices.Clone(s.sessions[session])
	s.replays++
	s.mu.Unlock()
	return func(yield func(Kept, error) bool) {
		for _, e := range all {
			if e.Stream == stream && e.Place > after && !yield(e, nil) {
				return
			}
		}
	}
}

func (s *shelf) Forget(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
}

func (s *shelf) count() (sessions, replays int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions), s.replays
}

// TestKeeper breaks a stream repeatedly while it sends, with hardly any events in memory: no event
// is lost or repeated.
func TestKeeper(t *testing.T) {
	const events = 5000
	p := newProtocol()
	s, kept := p.server(), &shelf{}
	s.Keeper, s.MaxEvents = kept, 3
	web := serve(t, s)
	session := begin(t, web)
	stream := do(t, web, "POST", counting(events), session)
	breaks := 0
	for n := 1; n <= events; n++ {
		e := stream.next(t)
		if want := fmt.Sprintf("1-%d", n); e.ID != want || string(e.Data) != tick(n) {
			t.Fatalf("after %d breaks: got event %q %q, want %q", breaks, e.ID, e.Data, want)
		}
		if rand.IntN(200) == 0 {
			stream.hang()
			breaks++
			stream = do(t, web, "GET", "", session, "Last-Event-ID: "+e.ID)
		}
	}
	stream.want(t, fmt.Sprintf("1-%d", events+1), result("7", `"done"`))
	stream.wantEnd(t)
	if _, replays := kept.count(); breaks == 0 || replays == 0 {
		t.Errorf("%d breaks, %d replays", breaks, replays)
	}
	all := do(t, web, "GET", "", session, "Last-Event-ID: 1-0") // from its beginning, long after
	for n := 1; n <= events; n++ {
		all.want(t, fmt.Sprintf("1-%d", n), tick(n))
	}
	all.want(t, fmt.Sprintf("1-%d", events+1), result("7", `"done"`))
	all.wantEnd(t)
	if got := s.kept.Load(); got > 1000 {
		t.Errorf("%d bytes are in memory", got)
	}

	n := <-p.begun
	for i := range mostUnheard { // before a client listens
		if err := n.Voice().Notify(t.Context(), "tick", []int{i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	get := do(t, web, "GET", "", session)
	for i := range mostUnheard {
		get.want(t, fmt.Sprintf("0-%d", i+1), tick(i+1))
	}
	raw(t, web, post(counting(1), both, session))
	raw(t, web, request("DELETE", "", session))
	if sessions, _ := kept.count(); sessions != 0 {
		t.Error("the session is over, and its events are kept")
	}
}

// TestKeeperFails checks that an event that could not be stored is sent all the same, and that a
// client that reconnects for it, or for earlier events, gets an error.
func TestKeeperFails(t *testing.T) {
	p := newProtocol()
	s, kept := p.server(), &shelf{}
	s.Keeper, s.MaxEvents = kept, 1
	fail := make(chan struct{})
	p.Add("three", jsonrpc.PeerFunc(func(ctx context.Context, peer jsonrpc.Peer, _ struct{}) (string, error) {
		for n := range 3 {
			if n == 1 {
				kept.mu.Lock()
				kept.refuse = 1
				kept.mu.Unlock()
			}
			if err := peer.Notify(ctx, "tick", []int{n + 1}); err != nil {
				return "", err
			}
		}
		close(fail)
		return "done", nil
	}))
	web := serve(t, s)
	session := begin(t, web)
	got := raw(t, web, post(`{"jsonrpc":"2.0","method":"three","id":7}`, both, session))
	if !strings.Contains(got, tick(2)) || !strings.Contains(got, `"done"`) {
		t.Errorf("got %q", got)
	}
	<-fail
	for _, id := range []string{"1-0", "1-1"} {
		wantForgotten(t, web, session, id)
	}
	rest := do(t, web, "GET", "", session, "Last-Event-ID: 1-2")
	rest.want(t, "1-3", tick(3))
	rest.want(t, "1-4", result("7", `"done"`))
	rest.wantEnd(t)

	// The Keeper itself may drop events.
	kept.mu.Lock()
	for id, all := range kept.sessions {
		kept.sessions[id] = slices.DeleteFunc(all, func(e Kept) bool { return e.Place == 3 })
	}
	kept.mu.Unlock()
	if e := do(t, web, "GET", "", session, "Last-Event-ID: 1-2").next(t); e.Type != "error" {
		t.Errorf("forgotten: got %q %q", e.ID, e.Data)
	}
}

// TestKeeperBounds checks the bound on the responses of a session that can be replayed.
func TestKeeperBounds(t *testing.T) {
	p := newProtocol()
	s := p.server()
	s.Keeper = &shelf{}
	web := serve(t, s)
	session := begin(t, web)
	for range mostAnswered + 2 {
		raw(t, web, post(counting(1), both, session))
	}
	wantForgotten(t, web, session, "2-1")
	do(t, web, "GET", "", session, "Last-Event-ID: 3-1").want(t, "3-2", result("7", `"done"`))
	n := <-p.begun
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.logs) != mostAnswered+1 {
		t.Errorf("%d logs", len(n.logs))
	}
}

// TestKeeperAtOnce sends concurrently on several streams.
func TestKeeperAtOnce(t *testing.T) {
	p := newProtocol()
	s := p.server()
	s.Keeper, s.MaxEvents = &shelf{}, 10
	web := serve(t, s)
	session := begin(t, web)
	n := <-p.begun
	get := do(t, web, "GET", "", session)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 50 {
				if err := n.Voice().Notify(t.Context(), "tick", []int{1}); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			if got := raw(t, web, post(counting(20), both, session)); strings.Count(got, "tick") != 20 || !strings.Contains(got, `"done"`) {
				t.Errorf("got %q", got)
			}
		})
	}
	for i := range 1000 {
		get.want(t, fmt.Sprintf("0-%d", i+1), tick(1))
	}
	all.Wait()
}
