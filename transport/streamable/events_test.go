package streamable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestEarly checks that with early events each stream begins with an ID, and may be closed in the
// middle.
func TestEarly(t *testing.T) {
	p := newProtocol()
	p.early = true
	back := make(chan struct{})
	p.Add("later", jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		if !CloseStream(ctx, 250*time.Millisecond) {
			return nil, jsonrpc.NewError(1, "not closed")
		}
		<-back
		return "later", nil
	}))
	s := p.server()
	s.Polling = true
	web := serve(t, s)
	session := begin(t, web)
	const first = "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	if got, want := short(raw(t, web, post(counting(1), both, session))), first+"id: 1-0\ndata: \n\nid: 1-1\ndata: "+tick(1)+"\n\nid: 1-2\ndata: "+result("7", `"done"`)+"\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := short(raw(t, web, post(`{"jsonrpc":"2.0","method":"later","id":1}`, both, session))), first+"id: 2-0\ndata: \n\nretry: 250\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	resumed := do(t, web, "GET", "", session, "Last-Event-ID: 2-0")
	close(back)
	resumed.want(t, "2-1", result("1", `"later"`))
	resumed.wantEnd(t)
	if got, want := short(raw(t, web, request("GET", "", "Accept: text/event-stream", session, "Last-Event-ID: 1-1"))), first+"id: 1-2\ndata: "+result("7", `"done"`)+"\n\n"; got != want {
		t.Errorf("an answer that is over: got %q, want %q", got, want)
	}
	if got := raw(t, web, post(`{"jsonrpc":"2.0","method":"later","id":1}`, session)); !strings.Contains(got, "not closed") {
		t.Errorf("without a stream: got %q", got)
	}
}

// TestClosedStreamsHaveTheirOwnTimes checks that handlers of one session that close their streams
// at the same time tell their own clients when to reconnect.
func TestClosedStreamsHaveTheirOwnTimes(t *testing.T) {
	p := newProtocol()
	p.early = true
	release := make(chan struct{})
	p.Add("later", jsonrpc.Func(func(ctx context.Context, in struct {
		Wait int `json:"wait"`
	}) (string, error) {
		CloseStream(ctx, time.Duration(in.Wait)*time.Millisecond)
		<-release
		return "later", nil
	}))
	s := p.server()
	s.Polling = true
	web := serve(t, s)
	session := begin(t, web)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			got := raw(t, web, post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"later","params":{"wait":%d},"id":%d}`, 1000+i, i), both, session))
			if want := fmt.Sprintf("\nretry: %d\n", 1000+i); !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		})
	}
	all.Wait()
	close(release)
}

// TestResume breaks a stream repeatedly while it sends: no event is lost or repeated.
func TestResume(t *testing.T) {
	const events = 20_000
	p := newProtocol()
	s := p.server()
	// the kernel buffers more than the client has read
	s.MaxEvents, s.MaxEventBytes = 2*events, 64<<20
	web := serve(t, s)
	session := begin(t, web)
	stream := do(t, web, "POST", counting(events), session)
	last, breaks := "", 0
	for n := 1; n <= events; n++ {
		e := stream.next(t)
		if want := fmt.Sprintf("1-%d", n); e.ID != want || string(e.Data) != tick(n) {
			t.Fatalf("after %d breaks: got event %q %q, want %q", breaks, e.ID, e.Data, want)
		}
		last = e.ID
		if rand.IntN(500) == 0 {
			stream.hang()
			breaks++
			stream = do(t, web, "GET", "", session, "Last-Event-ID: "+last)
			if stream.answer.StatusCode != http.StatusOK {
				t.Fatalf("status %d", stream.answer.StatusCode)
			}
		}
	}
	stream.want(t, fmt.Sprintf("1-%d", events+1), result("7", `"done"`))
	stream.wantEnd(t)
	if breaks == 0 {
		t.Error("the stream was never broken")
	}
}

// TestResumeKeepsApart checks that only events of the resumed stream are replayed.
func TestResumeKeepsApart(t *testing.T) {
	p := newProtocol()
	web := serve(t, p.server())
	session, other := begin(t, web), begin(t, web)
	raw(t, web, post(counting(2), both, session))
	raw(t, web, post(counting(1), both, session))
	n := <-p.begun
	if err := n.Voice().Notify(t.Context(), "unasked", nil); err != nil {
		t.Fatal(err)
	}
	get := do(t, web, "GET", "", session, "Last-Event-ID: 1-1")
	get.want(t, "1-2", tick(2))
	get.want(t, "1-3", result("7", `"done"`))
	get.wantEnd(t)
	do(t, web, "GET", "", session, "Last-Event-ID: 0-0").want(t, "0-1", `{"jsonrpc":"2.0","method":"unasked"}`)

	for _, tt := range []struct{ name, session, id string }{
		{"another session's", other, "1-1"},
		{"not yet", session, "1-9"},
		{"no such stream", session, "9-1"},
		{"no event", session, "x"},
		{"a number too long", session, "1-99999999999999999999"},
		{"negative", session, "1--1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantForgotten(t, web, tt.session, tt.id)
		})
	}
}

// wantForgotten requests the events after an event whose successors are not stored: the response is
// not a stream.
func wantForgotten(t *testing.T, web *httptest.Server, session, id string) {
	t.Helper()
	got := raw(t, web, request("GET", "", "Accept: text/event-stream", session, "Last-Event-ID: "+id))
	if !strings.HasPrefix(got, "HTTP/1.0 400 ") || !strings.HasSuffix(got, `"message":"Invalid Request: this session cannot be resumed after Last-Event-ID"},"id":null}`) {
		t.Errorf("behind %s: got %q", id, got)
	}
}

// TestTakeoverOfAnAnswer checks that the response to a POST is not taken over, or sent twice, by a
// client that was sent no part of it.
func TestTakeoverOfAnAnswer(t *testing.T) {
	p := newProtocol()
	p.early = true
	web := serve(t, p.server())
	session := begin(t, web)
	first := do(t, web, "POST", `{"jsonrpc":"2.0","method":"ask","id":1}`, session)
	if e := first.next(t); e.ID != "1-0" && e.ID != "1-1" {
		t.Fatalf("got %q", e.ID)
	}
	if got := raw(t, web, request("GET", "", "Accept: text/event-stream", session, "Last-Event-ID: 1-0")); !strings.HasPrefix(got, "HTTP/1.0 409") {
		t.Errorf("got %q", got)
	}
	first.hang()
}

// TestTakeover checks that a client that reconnects gets the stream although the server has not
// noticed that its connection was lost.
func TestTakeover(t *testing.T) {
	p := newProtocol()
	web := serve(t, p.server())
	session := begin(t, web)
	n := <-p.begun
	first := do(t, web, "GET", "", session)
	_ = n.Voice().Notify(t.Context(), "tick", []int{1})
	first.want(t, "0-1", tick(1))
	for _, id := range []string{"0-0", "0-2", "0-9"} { // which the reader was not sent
		want := "HTTP/1.0 409"
		if id != "0-0" {
			want = "HTTP/1.0 400"
		}
		if got := raw(t, web, request("GET", "", "Accept: text/event-stream", session, "Last-Event-ID: "+id)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %s", id, got, want)
		}
	}
	second := do(t, web, "GET", "", session, "Last-Event-ID: 0-1")
	_ = n.Voice().Notify(t.Context(), "tick", []int{2})
	second.want(t, "0-2", tick(2))
	if e, err := first.Next(); err == nil {
		t.Errorf("the first stream got %q too", e.Data)
	}
}

// TestKept checks the bounds of stored events, and the response to a client that reconnects too
// late.
func TestKept(t *testing.T) {
	p := newProtocol()
	s := p.server()
	s.MaxEvents, s.MaxEventBytes = 10, 1000
	web := serve(t, s)
	session := begin(t, web)
	raw(t, web, post(counting(30), both, session))
	n := <-p.begun
	held := func() (int, int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.order), n.bytes
	}
	if events, size := held(); events == 0 || events > 10 || size > 1000 || int64(size) != s.kept.Load() {
		t.Errorf("%d events of %d bytes are kept, %d by the server", events, size, s.kept.Load())
	}
	wantForgotten(t, web, session, "1-3")
	get := do(t, web, "GET", "", session, "Last-Event-ID: 1-30")
	get.want(t, "1-31", result("7", `"done"`))

	t.Run("all sessions together", func(t *testing.T) {
		s.EventMemory = 600
		other := begin(t, web)
		raw(t, web, post(counting(5), both, other))
		if got := s.kept.Load(); got > 600 {
			t.Errorf("%d bytes are kept", got)
		}
		if events, _ := held(); events != 0 {
			t.Errorf("the older session keeps %d events", events)
		}
	})
	t.Run("a session that is over keeps nothing", func(t *testing.T) {
		raw(t, web, post(counting(1), both, begin(t, web)))
		if s.kept.Load() == 0 {
			t.Fatal("nothing is kept")
		}
		s.Close()
		if got := s.kept.Load(); got != 0 {
			t.Errorf("%d bytes are kept", got)
		}
	})
}

// TestNothingIsLost sends 100,000 notifications in one response, and as many on the stream of the
// GET, to clients that read.
func TestNothingIsLost(t *testing.T) {
	const events = 100_000
	p := newProtocol()
	web := serve(t, p.server())
	session := begin(t, web)
	n := <-p.begun
	get := do(t, web, "GET", "", session)
	spoken := make(chan error, 1)
	go func() {
		notifier := n.Voice()
		for i := range events {
			if err := notifier.Notify(t.Context(), "tick", []int{i + 1}); err != nil {
				spoken <- err
				return
			}
		}
		spoken <- nil
	}()
	read := func(from *listener) error {
		for i := range events {
			e, err := from.Next()
			if err != nil || string(e.Data) != tick(i+1) {
				return fmt.Errorf("event %d: %q, %w", i+1, e.Data, err)
			}
		}
		return nil
	}
	heard := make(chan error, 1)
	go func() { heard <- read(get) }()
	call := do(t, web, "POST", counting(events), session)
	if err := read(call); err != nil {
		t.Error("answer:", err)
	}
	call.want(t, fmt.Sprintf("1-%d", events+1), result("7", `"done"`))
	if err := <-spoken; err != nil {
		t.Error("speak:", err)
	}
	if err := <-heard; err != nil {
		t.Error("unasked:", err)
	}
}

func FuzzEventID(f *testing.F) {
	for _, seed := range []string{"0-0", "1-17", "", "-", "1", "1-", "-1", "01-2", "1-2-3", "18446744073709551615-18446744073709551615", "18446744073709551616-1", "+1-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		number, place, ok := parseEventID(text)
		if !ok {
			return
		}
		l := &eventLog{number: number}
		again, place2, ok := parseEventID(l.id(place))
		if !ok || again != number || place2 != place {
			t.Errorf("%q is %d and %d, and again %d and %d", text, number, place, again, place2)
		}
	})
}

// TestSlowReader checks that a client that does not read delays its own handler for the time of one
// write, and no others; then it has to reconnect.
func TestSlowReader(t *testing.T) {
	p := newProtocol()
	s := p.server()
	s.WriteTimeout = 300 * time.Millisecond
	s.MaxEventBytes = 100_000
	spoken := make(chan error, 1)
	var n *Session
	most := 0
	p.Add("shout", jsonrpc.PeerFunc(func(ctx context.Context, peer jsonrpc.Peer, _ struct{}) (string, error) {
		text := []string{strings.Repeat("x", 100_000)}
		for range 400 { // far more than the kernel buffers
			if err := peer.Notify(ctx, "tick", text); err != nil {
				spoken <- err
				return "", err
			}
			n.mu.Lock()
			most = max(most, n.bytes)
			n.mu.Unlock()
		}
		spoken <- nil
		return "done", nil
	}))
	web := serve(t, s)
	session := begin(t, web)
	n = <-p.begun
	slow := do(t, web, "POST", `{"jsonrpc":"2.0","method":"shout","id":1}`, session)
	for i := range 20 {
		if got := raw(t, web, post(echo("1", "[1]"), both, session)); !strings.HasPrefix(got, "HTTP/1.0 200 ") {
			t.Fatalf("request %d beside it: got %q", i, got)
		}
	}
	select {
	case err := <-spoken:
		if err != nil {
			t.Errorf("the handler: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the handler is held up for ever")
	}
	if most > 350_000 {
		t.Errorf("up to %d bytes were kept", most)
	}
	last, read := "", 0
	for {
		e, err := slow.Next()
		if err != nil {
			break
		}
		last = e.ID
		read++
	}
	if read == 0 || read > 399 {
		t.Errorf("%d events came, the last is %q", read, last)
	}
}

// TestWrittenEventsAreReleased checks that a stream whose client has read everything holds no event
// that its session has dropped.
func TestWrittenEventsAreReleased(t *testing.T) {
	const streams, size = 32, 256 << 10
	synctest.Test(t, func(t *testing.T) {
		p := newProtocol()
		s := p.server()
		s.MaxEventBytes = 1
		defer s.Close()
		text := []string{strings.Repeat("x", size)}
		p.Add("shout", jsonrpc.PeerFunc(func(ctx context.Context, peer jsonrpc.Peer, _ struct{}) (string, error) {
			if err := peer.Notify(ctx, "tick", text); err != nil {
				return "", err
			}
			<-ctx.Done()
			return "", nil
		}), jsonrpc.Open)
		session := open(t, s)
		before := heap()
		ctx, hangUp := context.WithCancel(t.Context())
		var hold sync.WaitGroup
		for i := range streams {
			r := httptest.NewRequestWithContext(ctx, "POST", "/x", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","method":"shout","id":%d}`, i)))
			r.Header.Set("Accept", strings.TrimPrefix(both, "Accept: "))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(sessionHeader, strings.TrimPrefix(session, sessionHeader+": "))
			hold.Go(func() { s.ServeHTTP(unrecorded{http.Header{}}, r) })
		}
		synctest.Wait()
		if n := s.kept.Load(); n > 2*size {
			t.Fatalf("%d bytes of events are stored", n)
		}
		// besides the last event: each handler may hold the buffer of a message
		if grown := int64(heap()) - int64(before); grown > streams*size/2 {
			t.Errorf("%d streams hold %d bytes", streams, grown)
		}
		hangUp()
		hold.Wait()
	})
}

// unrecorded is an HTTP response that is thrown away.
type unrecorded struct{ header http.Header }

func (u unrecorded) Header() http.Header            { return u.header }
func (unrecorded) WriteHeader(int)                  {}
func (unrecorded) Write(b []byte) (int, error)      { return len(b), nil }
func (unrecorded) Flush()                           {}
func (unrecorded) SetWriteDeadline(time.Time) error { return nil }
