package streamable

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ask makes a request without a network, and returns the status and body of the response.
func ask(s *Server, method, body string, headers ...string) *httptest.ResponseRecorder {
	return askIn(context.Background(), s, method, body, headers...)
}

func askIn(ctx context.Context, s *Server, method, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "/x", strings.NewReader(body))
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "From" {
			r.RemoteAddr = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// open begins a session without a network.
func open(t *testing.T, s *Server, headers ...string) string {
	t.Helper()
	w := ask(s, "POST", helloText, headers...)
	if w.Code != http.StatusOK || w.Header().Get(sessionHeader) == "" {
		t.Fatalf("hello was answered %d %q", w.Code, w.Body)
	}
	return sessionHeader + ": " + w.Header().Get(sessionHeader)
}

// places returns how many sessions exist or are being opened, and how many callers they have.
func places(s *Server) (reserved, callers int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.reserved, len(s.callers)
}

// TestExpiry checks that an inactive session ends, that one that is used or listened to continues,
// and that none exceeds its Lifetime.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocol()
		s := p.server()
		defer s.Close()
		silent, used, heard := open(t, s), open(t, s), open(t, s)
		n := <-p.begun
		ended := 0
		n.Ended = func() { ended++ }
		stopped := make(chan struct{})
		ctx, hang := context.WithCancel(t.Context())
		go func() {
			askIn(ctx, s, "GET", "", heard)
			close(stopped)
		}()
		for range 3 {
			time.Sleep(15 * time.Minute)
			ask(s, "POST", echo("1", "[1]"), used)
		}
		synctest.Wait()
		for _, tt := range []struct {
			name, session string
			want          int
		}{{"silent", silent, 404}, {"used", used, 200}, {"heard", heard, 200}} {
			if got := ask(s, "POST", echo("1", "[1]"), tt.session).Code; got != tt.want {
				t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
			}
		}
		if reserved, _ := places(s); ended != 1 || s.Sessions() != 2 || reserved != 2 {
			t.Errorf("%d ended, %d sessions, %d reserved", ended, s.Sessions(), reserved)
		}
		time.Sleep(24*time.Hour - 40*time.Minute)
		synctest.Wait()
		<-stopped // the stream ended with its session
		hang()
		if s.Sessions() != 0 {
			t.Errorf("after a day there are %d sessions", s.Sessions())
		}
	})
}

// TestExpiryOfASilentCall checks that a running handler does not count as activity of its client.
func TestExpiryOfASilentCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocol()
		s := p.server()
		defer s.Close()
		cause := make(chan error, 1)
		p.Add("wait", jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}), jsonrpc.Open)
		session := open(t, s)
		ctx, hang := context.WithCancel(t.Context())
		go askIn(ctx, s, "POST", `{"jsonrpc":"2.0","method":"wait","id":1}`, session)
		time.Sleep(time.Second)
		hang()
		synctest.Wait()
		select {
		case err := <-cause:
			t.Fatalf("the client went away, and the handler ended: %v", err)
		default:
		}
		time.Sleep(32 * time.Minute)
		synctest.Wait()
		if err := <-cause; err == nil {
			t.Error("the handler's context ended without a cause")
		}
	})
}

// TestSessionLimits checks the bounds for all and for each caller, and that a caller at its bound
// loses a session that it left.
func TestSessionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newProtocol().server()
		defer s.Close()
		s.MaxSessions, s.MaxPerCaller = 5, 2
		const a, b = "From: 192.0.2.1:1", "From: 192.0.2.2:1"
		first, second := open(t, s, a), open(t, s, a)
		refused := func(name string, w *httptest.ResponseRecorder) {
			t.Helper()
			if w.Code != 503 || w.Header().Get("Retry-After") != "5" || !strings.Contains(w.Body.String(), `"code":-31001`) {
				t.Errorf("%s: got %d %q", name, w.Code, w.Body)
			}
		}
		refused("a third of the same caller", ask(s, "POST", helloText, a))
		open(t, s, b)
		time.Sleep(50 * time.Second)
		ask(s, "POST", echo("1", "[1]"), first)
		time.Sleep(20 * time.Second)
		third := open(t, s, a)
		for session, want := range map[string]int{first: 200, second: 404, third: 200} {
			if got := ask(s, "POST", echo("1", "[1]"), session).Code; got != want {
				t.Errorf("session %q: got %d, want %d", session, got, want)
			}
		}
		open(t, s, "From: 127.0.0.1:1")
		open(t, s, "From: [::1]:1")
		open(t, s, "From: 192.0.2.3:1") // in the place of the one that was never used
		refused("the seventh of all", ask(s, "POST", helloText, "From: 192.0.2.4:1"))
	})
}

// TestCaller checks that a session of another caller is not found.
func TestCaller(t *testing.T) {
	s := newProtocol().server()
	defer s.Close()
	s.Caller = func(r *http.Request) string { return r.Header.Get("Who") }
	session := open(t, s, "Who: anna")
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if got := ask(s, method, echo("1", "[1]"), session, "Who: bert").Code; got != 404 {
			t.Errorf("%s by another: got %d, want 404", method, got)
		}
	}
	if got := ask(s, "POST", echo("1", "[1]"), session, "Who: anna").Code; got != 200 {
		t.Errorf("by its owner: got %d", got)
	}
}

// TestBusy checks that requests above the bound are refused, that responses are not, and that a
// handler that waits for its client does not count.
func TestBusy(t *testing.T) {
	p := newProtocol()
	s := p.server()
	s.MaxRunning = 1
	web := serve(t, s)
	started, leave := make(chan struct{}), make(chan struct{})
	p.Add("wait", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		close(started)
		<-leave
		return "waited", nil
	}))
	session := begin(t, web)
	asking := do(t, web, "POST", `{"jsonrpc":"2.0","method":"ask","id":1}`, session)
	asking.want(t, "1-1", `{"jsonrpc":"2.0","method":"question","id":1}`)
	waited := make(chan string, 1)
	go func() { waited <- raw(t, web, post(`{"jsonrpc":"2.0","method":"wait","id":2}`, both, session)) }()
	<-started
	if got := raw(t, web, post(echo("3", "[1]"), both, session)); !strings.HasPrefix(got, "HTTP/1.0 429 ") || !strings.Contains(got, "-31001") {
		t.Errorf("one too many: got %q", got)
	}
	raw(t, web, post(result("1", "1"), both, session))
	asking.want(t, "1-2", result("1", "1"))
	close(leave)
	if got := <-waited; !strings.HasSuffix(got, result("2", `"waited"`)) {
		t.Errorf("got %q", got)
	}
}

// TestShutdown checks that running requests get their response, that new ones are refused, and that
// all streams end then.
func TestShutdown(t *testing.T) {
	p := newProtocol()
	s := p.server()
	web := serve(t, s)
	started, leave := make(chan struct{}), make(chan struct{})
	p.Add("wait", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		close(started)
		<-leave
		return "waited", nil
	}))
	session := begin(t, web)
	get := do(t, web, "GET", "", session)
	waited := make(chan string, 1)
	go func() { waited <- raw(t, web, post(`{"jsonrpc":"2.0","method":"wait","id":2}`, both, session)) }()
	<-started
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	for refused := false; !refused; {
		got := raw(t, web, post(echo("3", "[1]"), both, session))
		refused = strings.HasPrefix(got, "HTTP/1.0 503 ") && strings.Contains(got, "-31004")
	}
	if got := raw(t, web, post(helloText, both)); !strings.HasPrefix(got, "HTTP/1.0 503 ") {
		t.Errorf("a new session: got %q", got)
	}
	close(leave)
	if got := <-waited; !strings.HasSuffix(got, result("2", `"waited"`)) {
		t.Errorf("got %q", got)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	get.wantEnd(t)
}

// TestShutdownInTime checks that the context of a handler that does not end is cancelled.
func TestShutdownInTime(t *testing.T) {
	p := newProtocol()
	s := p.server()
	web := serve(t, s)
	started := make(chan struct{})
	p.Add("wait", jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}))
	session := begin(t, web)
	waited := make(chan string, 1)
	go func() { waited <- raw(t, web, post(`{"jsonrpc":"2.0","method":"wait","id":2}`, both, session)) }()
	<-started
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if err := s.Shutdown(ctx); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if got := <-waited; !strings.HasPrefix(got, "HTTP/1.0 503 ") || !strings.Contains(got, "-31004") {
		t.Errorf("got %q", got)
	}
}

// TestVanished checks that clients that begin a session, listen, call and vanish leave nothing
// behind after their time is over. See the benchmark for what each costs.
func TestVanished(t *testing.T) {
	const sessions = 300
	p := newProtocol()
	p.begun = nil
	var ended sync.WaitGroup
	p.ended = ended.Done
	s := p.server()
	s.Idle = time.Second
	web := serve(t, s)
	vanish := func() {
		ended.Add(sessions)
		for range sessions {
			session := begin(t, web)
			glance(t, web, request("GET", "", "Accept: text/event-stream", session), "event-stream")
			glance(t, web, post(counting(20), both, session), "id: 1-1")
		}
		ended.Wait()
	}
	vanish()
	vanish() // now maps and pools have their final size
	before := heap()
	vanish()
	if after := heap(); after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if reserved, callers := places(s); reserved != 0 || callers != 0 || s.kept.Load() != 0 {
		t.Errorf("%d reserved, %d callers, %d bytes of events", reserved, callers, s.kept.Load())
	}
}

// glance makes a request and hangs up as soon as text has arrived.
func glance(t *testing.T, web *httptest.Server, request, text string) {
	t.Helper()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for b := make([]byte, 1024); !bytes.Contains(got, []byte(text)); {
		n, err := conn.Read(b)
		if got = append(got, b[:n]...); err != nil {
			t.Fatalf("%q: %v, after %q", text, err, got)
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkSession measures the cost of a silent session.
func BenchmarkSession(b *testing.B) {
	p := newProtocol()
	p.begun = nil
	s := p.server()
	s.MaxSessions = 1 << 30
	defer s.Close()
	before := heap()
	for b.Loop() {
		if w := ask(s, "POST", helloText, "From: 127.0.0.1:1"); w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "heap-B/session")
}

// BenchmarkPost measures the cost of a response within a session and alone, without a network.
func BenchmarkPost(b *testing.B) {
	for _, kind := range []string{"session", "alone"} {
		b.Run(kind, func(b *testing.B) {
			p := newProtocol()
			p.begun = nil
			s := p.server()
			defer s.Close()
			header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			if kind == "alone" {
				header.Set("Alone", "yes")
			} else {
				header.Set(sessionHeader, ask(s, "POST", helloText).Header().Get(sessionHeader))
			}
			text := echo("1", "[1]")
			b.ReportAllocs()
			for b.Loop() {
				r := &http.Request{Method: "POST", Header: header, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), ProtoMajor: 1, ProtoMinor: 1}
				w := &blank{h: http.Header{}}
				s.ServeHTTP(w, r)
				if w.n == 0 {
					b.Fatal("no answer")
				}
			}
		})
	}
}

type blank struct {
	h http.Header
	n int
}

func (w *blank) Header() http.Header         { return w.h }
func (w *blank) WriteHeader(int)             {}
func (w *blank) Write(p []byte) (int, error) { w.n += len(p); return len(p), nil }

// TestGone checks that nothing is stored of a response whose client disconnected before it received
// an event: it has no event ID with which it could resume.
func TestGone(t *testing.T) {
	for _, polling := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newProtocol()
			s := p.server()
			s.Polling = polling
			defer s.Close()
			said := make(chan error, 1)
			p.Add("late", jsonrpc.PeerFunc(func(ctx context.Context, peer jsonrpc.Peer, _ struct{}) (string, error) {
				time.Sleep(time.Minute)
				err := peer.Notify(ctx, "tick", nil)
				said <- err
				return "", err
			}), jsonrpc.Open)
			session := open(t, s)
			n := <-p.begun
			ctx, hang := context.WithCancel(t.Context())
			go askIn(ctx, s, "POST", `{"jsonrpc":"2.0","method":"late","id":1}`, session)
			time.Sleep(time.Second)
			hang()
			if err := <-said; !errors.Is(err, jsonrpc.ErrAnswered) {
				t.Errorf("polling %t: the handler was told %v", polling, err)
			}
			synctest.Wait()
			n.mu.Lock()
			defer n.mu.Unlock()
			if len(n.logs) != 1 || len(n.order) != 0 || len(n.posts) != 0 {
				t.Errorf("polling %t: %d logs, %d events, %d posts are kept", polling, len(n.logs), len(n.order), len(n.posts))
			}
		})
	}
}

// TestFloodOfSessions checks that sessions that are begun on the same machine and never used again
// make room for new ones when all places are taken; those that are used, or have a stream, remain.
func TestFloodOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{MaxSessions: 100, SessionHeader: sessionHeader}
		defer s.Close()
		session := func(caller string, posts int64) *Session {
			t.Helper()
			if !s.reserve(caller) {
				return nil
			}
			n := s.newSession(caller)
			n.used.Add(posts)
			if !s.publish(n) {
				t.Fatal("closed")
			}
			return n
		}
		used := session("127.0.0.1", 5)
		other := session("10.0.0.1", 1)
		listening := session("127.0.0.1", 1)
		listening.enter(nil)
		for range 97 {
			session("127.0.0.1", 1)
		}
		if session("127.0.0.1", 1) != nil {
			t.Error("a session made room at once")
		}
		time.Sleep(3 * time.Second)
		for range 50 {
			if session("127.0.0.1", 1) == nil {
				t.Fatal("turned away")
			}
		}
		if session("10.0.0.2", 1) == nil {
			t.Error("another caller is turned away")
		}
		for name, n := range map[string]*Session{"used": used, "of another": other, "with a stream": listening} {
			if s.sessions[n.ID] != n {
				t.Errorf("the session %s is gone", name)
			}
		}
		if len(s.sessions) != 100 || s.reserved != 100 {
			t.Errorf("%d sessions, %d places", len(s.sessions), s.reserved)
		}
	})
}

// TestRestoredSession checks that a session continues at another Server by its ID alone, once for
// concurrent requests, and not after it has ended or for an ID that Restore rejects.
func TestRestoredSession(t *testing.T) {
	replica := func() (*protocol, *Server) {
		p := newProtocol()
		s := p.server()
		s.NewID = func(n *Session) string { return "sealed-" + n.ID }
		s.Restore = func(id string, _ *http.Request) bool { return strings.HasPrefix(id, "sealed-") }
		return p, s
	}
	_, first := replica()
	defer first.Close()
	id := open(t, first)
	if !strings.HasPrefix(id, sessionHeader+": sealed-") {
		t.Fatalf("the ID is %s", id)
	}
	q, second := replica()
	defer second.Close()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if w := ask(second, "POST", `{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}`, id); w.Code != http.StatusOK {
				t.Errorf("a request at another Server: %d %s", w.Code, w.Body)
			}
		})
	}
	wg.Wait()
	if n, callers := places(second); n != 1 || callers != 1 {
		t.Errorf("%d sessions of %d callers", n, callers)
	}
	begun := <-q.begun
	if begun.ID != strings.TrimPrefix(id, sessionHeader+": ") {
		t.Errorf("it began with the ID %s", begun.ID)
	}
	if w := ask(second, "POST", `{"jsonrpc":"2.0","id":1,"method":"echo"}`, sessionHeader+": other"); w.Code != http.StatusNotFound {
		t.Errorf("an ID that Restore rejects: %d", w.Code)
	}
	if w := ask(second, "DELETE", "", id); w.Code/100 != 2 {
		t.Fatalf("DELETE: %d", w.Code)
	}
	if w := ask(second, "POST", `{"jsonrpc":"2.0","id":1,"method":"echo"}`, id); w.Code != http.StatusNotFound {
		t.Errorf("after DELETE: %d", w.Code)
	}
	if n, _ := places(second); n != 0 {
		t.Errorf("%d sessions remain", n)
	}
}

// TestPanicsOfUsersFunctions checks that a function of the user that panics for one request, which
// net/http recovers, leaves no lock and no place of a session behind.
func TestPanicsOfUsersFunctions(t *testing.T) {
	p := newProtocol()
	s := p.server()
	defer s.Close()
	planted := ""
	at := func(name string) {
		if planted == name {
			planted = ""
			panic("planted")
		}
	}
	s.Caller = func(*http.Request) string { at("Caller"); return "somebody" }
	s.Principal = func(*http.Request) string { at("Principal"); return "" }
	begin := s.Begin
	s.Begin = func(n *Session, r *http.Request) {
		begin(n, r)
		at("Begin")
		n.Opened = func() bool { at("Opened"); return true }
	}
	s.NewID = func(*Session) string { at("NewID"); return "" }
	s.Restore = func(id string, _ *http.Request) bool { at("Restore"); return strings.HasPrefix(id, "other") }
	session := open(t, s)
	for _, tt := range []struct {
		name    string
		headers []string
	}{
		{"Caller", []string{session}}, {"Principal", []string{session}}, {"Caller", nil}, {"Principal", nil}, {"Begin", nil}, {"Opened", nil}, {"NewID", nil},
		{"Restore", []string{sessionHeader + ": other1"}}, {"Principal", []string{sessionHeader + ": other2"}}, {"Begin", []string{sessionHeader + ": other3"}},
	} {
		planted = tt.name
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s with %q did not panic", tt.name, tt.headers)
				}
			}()
			ask(s, "POST", helloText, tt.headers...)
		}()
		if !s.mu.TryLock() {
			t.Fatalf("after a panic of %s with %q the Server is locked", tt.name, tt.headers)
		}
		s.mu.Unlock()
		if reserved, _ := places(s); reserved != s.Sessions() {
			t.Errorf("after a panic of %s with %q: %d places for %d sessions", tt.name, tt.headers, reserved, s.Sessions())
		}
	}
	open(t, s)
}
