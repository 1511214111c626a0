package streamable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestEarly: with early events each stream begins with an id, and may be closed in the middle.
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

// TestResume breaks a stream again and again while it speaks: nothing is missed, nothing comes twice.
func TestResume(t *testing.T) {
	const events = 20_000
	p := newProtocol()
	s := p.server()
	s.MaxEvents, s.MaxEventBytes = 2*events, 64<<20 // the kernel takes in more than the client has read
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

// TestResumeKeepsApart: what is replayed is of that stream alone.
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

	const never = "event: error\ndata: {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"Invalid Request: what came after that event is not kept any more\"},\"id\":null}\n\n"
	for _, tt := range []struct{ name, session, id string }{
		{"another session's", other, "1-1"},
		{"not yet", session, "1-9"},
		{"no such stream", session, "9-1"},
		{"no event", session, "x"},
		{"a number too long", session, "1-99999999999999999999"},
		{"negative", session, "1--1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := short(raw(t, web, request("GET", "", "Accept: text/event-stream", tt.session, "Last-Event-ID: "+tt.id)))
			if got != streamHead+never {
				t.Errorf("got %q, want %q", got, streamHead+never)
			}
		})
	}
}

// TestTakeover: a client that comes back is heard although the server has not noticed that it was gone.
func TestTakeover(t *testing.T) {
	p := newProtocol()
	web := serve(t, p.server())
	session := begin(t, web)
	n := <-p.begun
	first := do(t, web, "GET", "", session)
	_ = n.Voice().Notify(t.Context(), "tick", []int{1})
	first.want(t, "0-1", tick(1))
	second := do(t, web, "GET", "", session, "Last-Event-ID: 0-1")
	_ = n.Voice().Notify(t.Context(), "tick", []int{2})
	second.want(t, "0-2", tick(2))
	if e, err := first.Next(); err == nil {
		t.Errorf("the first stream got %q too", e.Data)
	}
}

// TestKept: what is kept has bounds, and whoever comes too late is told.
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
	if got := do(t, web, "GET", "", session, "Last-Event-ID: 1-3").next(t); got.Type != "error" {
		t.Errorf("too late: got %q %q", got.ID, got.Data)
	}
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

// TestNothingIsLost sends 100,000 notifications on one answer, and as many unasked, to clients that read.
func TestNothingIsLost(t *testing.T) {
	const events = 100_000
	p := newProtocol()
	web := serve(t, p.server())
	session := begin(t, web)
	n := <-p.begun
	get := do(t, web, "GET", "", session)
	spoken := make(chan error, 1)
	go func() {
		voice := n.Voice()
		for i := range events {
			if err := voice.Notify(t.Context(), "tick", []int{i + 1}); err != nil {
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

// TestSlowReader: whoever does not read holds up its own handler for the time of one write, and nobody else; then it has to come back.
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
		for range 400 { // far more than the kernel takes in
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
	case <-time.After(20 * time.Second):
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
