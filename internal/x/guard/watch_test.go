package guard

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A stuckWriter records its deadlines, and its writes block until a deadline.
type stuckWriter struct {
	http.ResponseWriter
	mu     sync.Mutex
	set    []time.Time
	change chan struct{}
}

func (w *stuckWriter) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set = append(w.set, at)
	if !at.IsZero() {
		close(w.change)
	}
	return nil
}

func (w *stuckWriter) Write([]byte) (int, error) {
	<-w.change
	return 0, os.ErrDeadlineExceeded
}

func TestWatchEndsAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watch Watch
		w := &stuckWriter{change: make(chan struct{})}
		for range 3 { // other operations start and end meanwhile
			go func() {
				time.Sleep(2500 * time.Millisecond)
				watch.Write(&stuckWriter{}, time.Second, func(*Watched) {})
			}()
		}
		start := time.Now()
		watch.Write(w, 10*time.Second, func(*Watched) {
			if _, err := w.Write(nil); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		})
		if took := time.Since(start); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("it was ended after %v, want 10s to 11s", took)
		}
		if len(w.set) != 2 || !w.set[1].IsZero() {
			t.Errorf("deadlines: %v, want one in the past and none at the end", w.set)
		}
		time.Sleep(3 * time.Second)
		watch.mu.Lock()
		if watch.armed || watch.first != nil {
			t.Error("it ticks with nothing to watch")
		}
		watch.mu.Unlock()
		quick := &stuckWriter{}
		watch.Write(quick, time.Second, func(*Watched) {}) // and begins again
		if len(quick.set) != 0 {
			t.Errorf("deadlines of a quick write: %v", quick.set)
		}
		time.Sleep(3 * time.Second)
	})
}

// TestWatchedBody covers bodies of which nothing arrives, one byte arrives, and everything arrives
// slowly.
func TestWatchedBody(t *testing.T) {
	tests := []struct {
		name        string
		parts       []string
		every       time.Duration
		want        string
		least, most time.Duration
	}{
		{"nothing", nil, 0, "408", 5 * time.Second, 6 * time.Second},
		{"a byte", []string{"{"}, time.Second, "408", 5 * time.Second, 6 * time.Second},
		{"a byte in time, and the rest", []string{"{", "}"}, 4 * time.Second, "200", 4 * time.Second, 4 * time.Second},
		{"at once", []string{"{}"}, 0, "200", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := newPipeListener()
				server := &http.Server{Handler: echo(&Body{Watch: new(Watch)})}
				go func() { _ = server.Serve(listener) }() // ends with Close
				defer time.Sleep(3 * time.Second)
				defer server.Close()
				conn := listener.dial()
				defer conn.Close()
				start := time.Now()
				go func() {
					_, _ = io.WriteString(conn, postHead+"Content-Length: 2\r\n\r\n")
					_, _ = io.WriteString(conn, strings.Join(tt.parts[:min(len(tt.parts), 1)], ""))
					time.Sleep(tt.every)
					// The connection may be closed.
					_, _ = io.WriteString(conn, strings.Join(tt.parts[min(len(tt.parts), 1):], ""))
				}()
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				if took := time.Since(start); !strings.HasPrefix(answer.Status, tt.want) || took < tt.least || took > tt.most {
					t.Errorf("got %s after %v, want %s after %v to %v", answer.Status, took, tt.want, tt.least, tt.most)
				}
			})
		})
	}
}
