package guard

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// request returns a POST request of a connection.
func request(from string, body io.Reader, announced int64) *http.Request {
	r := httptest.NewRequest("POST", "/", body)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength, r.RemoteAddr = announced, from
	return r
}

// TestBodiesShareMemory checks the accounted bytes of a body while it is read and afterwards.
func TestBodiesShareMemory(t *testing.T) {
	m := &Memory{Max: 8 << 20}
	for _, tt := range []struct {
		size    int
		chunked bool
		held    int64
		status  int
	}{
		{100, false, 200 + 2048, 200},
		{64 << 10, false, 128<<10 + 2048, 200},
		{1 << 20, false, 2<<20 + 2048, 200},
		{100, true, 200 + 2048, 200},
		{200 << 10, true, 400<<10 + 2048, 200},
		{1<<20 + 1, true, 0, 413},
	} {
		b := &Body{Memory: m, Max: 1 << 20}
		announced := int64(tt.size)
		if tt.chunked {
			announced = -1
		}
		body, f := b.Read(plainWriter{t}, request("127.0.0.1:1", bytes.NewReader(make([]byte, tt.size)), announced), nil)
		if status(f) != tt.status || m.get().accounts.Pool.Used() != tt.held || f == nil && len(body) != tt.size {
			t.Errorf("%d bytes, chunked %t: got %v, %d bytes held, want %d and %d", tt.size, tt.chunked, f, m.get().accounts.Pool.Used(), tt.status, tt.held)
		}
		b.Writing(2 << 20)
		b.Done()
		b.Done()
		if m.get().accounts.Pool.Used() != 0 || m.get().accounts.Len() != 0 {
			t.Fatalf("%d bytes and %d owners are left after Done", m.get().accounts.Pool.Used(), m.get().accounts.Len())
		}
	}
}

// drip is a body that announces much and sends little.
type drip struct{ left int }

func (d *drip) Read(p []byte) (int, error) {
	if d.left == 0 {
		time.Sleep(time.Hour) // in a synctest bubble
		return 0, io.ErrUnexpectedEOF
	}
	d.left--
	p[0] = ' '
	time.Sleep(500 * time.Millisecond) // in a synctest bubble
	return 1, nil
}

// TestAnnouncedLengthsTakeNoRoom checks that many clients that announce 4 MiB and send almost
// nothing do not block others.
func TestAnnouncedLengthsTakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{Max: 64 << 20}
		for i := range 256 {
			go func() {
				b := &Body{Memory: m}
				_, _ = b.Read(plainWriter{t}, request(fmt.Sprintf("127.0.0.1:%d", i), &drip{100}, 4<<20), nil)
			}()
		}
		time.Sleep(5 * time.Second)
		if used := m.get().accounts.Pool.Used(); used > 256*(131<<10) {
			t.Errorf("%d bytes are taken for bodies that have not come", used)
		}
		start := time.Now()
		b := &Body{Memory: m}
		if _, f := b.Read(plainWriter{t}, request("127.0.0.1:999", bytes.NewReader(make([]byte, 100<<10)), 100<<10), nil); f != nil || time.Since(start) > 0 {
			t.Errorf("a body of 100 KiB: %v after %v", f, time.Since(start))
		}
		b.Done()
		time.Sleep(2 * time.Hour)
	})
}

// steady is a body that arrives at 100 KiB per second.
type steady struct{ left int }

func (s *steady) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(100 * time.Millisecond) // in a synctest bubble
	n := min(10<<10, len(p), s.left)
	s.left -= n
	return n, nil
}

// TestAllBodiesArrive sends far more bodies at once than fit. Each waits for room, and none is late
// or rejected.
func TestAllBodiesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{Max: 16 << 20}
		done := make(chan *Refusal)
		const most = 40
		for i := range most {
			go func() {
				b := &Body{Memory: m}
				_, f := b.Read(plainWriter{t}, request(fmt.Sprintf("127.0.0.1:%d", i), &steady{1 << 20}, 1<<20), nil)
				if used := m.get().accounts.Pool.Used(); used > 16<<20+2<<20 {
					t.Errorf("%d bytes are held", used)
				}
				b.Done()
				done <- f
			}()
		}
		for range most {
			if f := <-done; f != nil {
				t.Errorf("a body is rejected: %v", f)
			}
		}
	})
}

// TestNoRoom checks that a body without room for a minute gets 503 with Retry-After.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{Max: 1 << 20}
		first := &Body{Memory: m}
		if _, f := first.Read(plainWriter{t}, request("127.0.0.1:1", bytes.NewReader(make([]byte, 600<<10)), 600<<10), nil); f != nil {
			t.Fatal(f)
		}
		start := time.Now()
		_, f := (&Body{Memory: m}).Read(plainWriter{t}, request("127.0.0.1:2", bytes.NewReader(make([]byte, 60<<10)), 60<<10), nil)
		if status(f) != http.StatusServiceUnavailable || f.Name != "Retry-After" || time.Since(start) != roomTime {
			t.Errorf("no room: got %v after %v, want 503 after %v", f, time.Since(start), roomTime)
		}
		first.Done()
	})
}

// TestUnreadResponsesOfAConnection checks that no more requests are read from an HTTP/2 connection
// that does not read its responses.
func TestUnreadResponsesOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		read := func() *Body {
			b := &Body{Memory: m}
			r := request("127.0.0.1:1", bytes.NewReader(make([]byte, 1000)), 1000)
			r.ProtoMajor = 2
			if _, f := b.Read(plainWriter{t}, r, nil); f != nil {
				t.Error(f)
			}
			return b
		}
		first := read()
		first.Writing(2 << 20)
		done := make(chan *Body)
		go func() { done <- read() }()
		synctest.Wait()
		select {
		case <-done:
			t.Error("a second request is read")
		default:
		}
		first.Done()
		(<-done).Done()
	})
}

// TestKeyOf checks which account a request is charged to.
func TestKeyOf(t *testing.T) {
	for from, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1:80", "[::1]:80": "[::1]:80", "192.0.2.1:80": "192.0.2.1", "@": "@",
		"[2001:db8::1]:80": "2001:db8::/64",
	} {
		if got := KeyOf(&http.Request{RemoteAddr: from}); got != want {
			t.Errorf("KeyOf(%q) = %q, want %q", from, got, want)
		}
	}
}

// TestALongBodyTakesItsSize checks that a long body is not charged twice its size.
func TestALongBodyTakesItsSize(t *testing.T) {
	const size = 3 << 20
	body, f := new(Body).Read(plainWriter{t}, request("127.0.0.1:1", bytes.NewReader(make([]byte, size)), size), nil)
	if f != nil || len(body) != size || cap(body) > size {
		t.Errorf("got %d of %d bytes, %v; want exactly %d", len(body), cap(body), f, size)
	}
}

// TestWaitForRoomOverHTTP2 checks that a wait for room does not count as slowness over HTTP/2,
// where a read deadline that passes ends the body for good.
func TestWaitForRoomOverHTTP2(t *testing.T) {
	const size, room = 3 << 20, 16 << 20 // more than a stream buffers
	// On a busy machine the sender may rest for a second.
	const slow = 4 * time.Second
	m := &Memory{Max: room}
	pool := m.get().accounts.Pool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &Body{Memory: m, Time: slow}
		body, f := b.Read(w, r, nil)
		defer b.Done()
		if f != nil {
			f.Write(w, r)
			return
		}
		_, _ = fmt.Fprint(w, "version ", r.ProtoMajor, ", length ", len(body)) // the client checks it
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	other := m.get().accounts.Enter("other")
	older := other.Begin(0) // the oldest message would not wait
	body, sender := io.Pipe()
	go func() {
		_, _ = sender.Write(make([]byte, 10<<10))
		for pool.Used() == 0 { // until the body has begun
			time.Sleep(time.Millisecond)
		}
		other.Force(room)
		time.AfterFunc(slow+time.Second, func() { other.Give(room) })
		_, _ = sender.Write(make([]byte, size-10<<10))
		_ = sender.Close() // the length of the body shows it
	}()
	answer, err := server.Client().Post(server.URL, "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); string(text) != fmt.Sprint("version 2, length ", size) {
		t.Errorf("got %s %q", answer.Status, text)
	}
	older.End()
}
