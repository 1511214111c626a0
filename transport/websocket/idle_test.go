package websocket

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestIdle checks that an idle connection is one goroutine and at most 8 KB on each side,
// goroutine, socket and Transport together, also after it has transferred a long message.
func TestIdle(t *testing.T) {
	const conns, perEnd = 300, 8000
	limit := uint64(perEnd)
	if poison {
		limit *= 2 // for the race detector itself
	}
	servers := make(chan *Transport, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tr, err := Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		servers <- tr // to another goroutine, so that net/http releases its own
	}))
	t.Cleanup(s.Close)
	address := "ws" + strings.TrimPrefix(s.URL, "http")

	got, done := make(chan struct{}), make(chan struct{})
	read := func(tr *Transport) {
		defer func() { done <- struct{}{} }()
		for {
			if _, _, err := tr.Read(); err != nil {
				tr.Close()
				return
			}
			got <- struct{}{}
		}
	}
	ends := make([]*Transport, 0, 2*conns)
	before, running := inUse(), runtime.NumGoroutine()
	for range conns {
		client, err := Dial(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		server := <-servers
		ends = append(ends, client, server)
		go read(client)
		go read(server)
		long := burst(strings.Repeat("x", 20_000))
		for _, tr := range []*Transport{client, server} {
			if err := tr.Write(long); err != nil {
				t.Fatal(err)
			}
			<-got
		}
	}
	// The last goroutines may not be back in Read yet, and a pool retains buffers for two
	// collections.
	var used uint64
	for start := time.Now(); time.Since(start) < time.Minute; {
		if used = (inUse() - before) / (2 * conns); used <= limit && runtime.NumGoroutine()-running <= 2*conns {
			break
		}
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine() - running; n > 2*conns {
		t.Errorf("%d goroutines for %d ends", n, 2*conns)
	}
	if used > limit {
		t.Errorf("%d bytes for each end of an idle connection, want at most %d", used, limit)
	}
	t.Logf("%d bytes for each end of an idle connection", used)

	for _, tr := range ends {
		tr.Close()
		<-done
	}
}

// inUse returns the memory of heap and stacks.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
