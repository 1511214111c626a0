package eventstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestAppendEvent(t *testing.T) {
	tests := []struct {
		name string
		e    Event
		want string
	}{
		{"plain", Event{Data: []byte(`{"a":1}`)}, "data: {\"a\":1}\n\n"},
		{"all", Event{Type: "x", ID: "7", Data: []byte("a")}, "event: x\nid: 7\ndata: a\n\n"},
		{"nothing", Event{}, "data: \n\n"},
		{"lines", Event{Data: []byte("a\nb\r\nc\rd")}, "data: a\ndata: b\ndata: c\ndata: d\n\n"},
		{"line ends at the edges", Event{Data: []byte("\na\n\n")}, "data: \ndata: a\ndata: \ndata: \n\n"},
		{"a line that looks like a field", Event{Data: []byte("a\nid: 1\n\ndata: b")}, "data: a\ndata: id: 1\ndata: \ndata: data: b\n\n"},
		{"leading space", Event{Data: []byte(" a")}, "data:  a\n\n"},
	}
	for _, tt := range tests {
		got, err := AppendEvent([]byte("before"), tt.e)
		if err != nil || string(got) != "before"+tt.want {
			t.Errorf("%s: got %q, %v; want %q", tt.name, got, err, "before"+tt.want)
		}
	}
	for _, e := range []Event{{Type: "a\nb"}, {Type: "a\r"}, {ID: "\n"}, {ID: "a\x00"}} {
		if got, err := AppendEvent([]byte("before"), e); err == nil || string(got) != "before" {
			t.Errorf("%+v: got %q, %v; want an error and nothing written", e, got, err)
		}
	}
}

func TestWriter(t *testing.T) {
	w := httptest.NewRecorder()
	s := NewWriter(w, nil)
	for _, step := range []error{
		s.Open(t.Context()),
		s.Send(t.Context(), Event{Data: []byte("a")}, Event{Type: "x", Data: []byte("b")}),
		s.SetRetry(t.Context(), 2500*time.Millisecond),
		s.Finish(Event{Data: []byte("c")}),
	} {
		if step != nil {
			t.Error(step)
		}
	}
	if err := s.Send(t.Context(), Event{}); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("Send after Finish: %v, want ErrClosed", err)
	}
	const want = "data: a\n\nevent: x\ndata: b\n\nretry: 2500\n\ndata: c\n\n"
	if w.Body.String() != want || w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v %q, want %q", w.Code, w.Header(), w.Body, want)
	}
}

// A slowWriter is a ResponseWriter whose writes wait, and fail when the deadline is in the past.
type slowWriter struct {
	http.ResponseWriter
	mu       sync.Mutex
	deadline time.Time
	change   chan struct{}
}

func (w *slowWriter) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = at
	close(w.change)
	w.change = make(chan struct{})
	return nil
}

func (w *slowWriter) Write([]byte) (int, error) {
	for {
		w.mu.Lock()
		at, change := w.deadline, w.change
		w.mu.Unlock()
		select {
		case <-time.After(time.Until(at)):
			return 0, errors.New("late")
		case <-change:
		}
	}
}

func newSlowWriter() *slowWriter {
	return &slowWriter{ResponseWriter: httptest.NewRecorder(), change: make(chan struct{})}
}

func TestWriterTimes(t *testing.T) {
	t.Run("a write ends after 10 s", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := NewWriter(newSlowWriter(), nil)
			start := time.Now()
			if err := s.Send(t.Context(), Event{}); err == nil {
				t.Error("the write went through")
			}
			if took := time.Since(start); took != 10*time.Second {
				t.Errorf("it took %v, want 10s", took)
			}
			if err := s.Send(t.Context(), Event{}); err == nil || time.Since(start) != 10*time.Second {
				t.Errorf("the stream goes on: %v after %v", err, time.Since(start))
			}
			_ = s.Finish() // fails as well
		})
	})
	t.Run("Stop interrupts a write", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := NewWriter(newSlowWriter(), nil)
			start := time.Now()
			time.AfterFunc(3*time.Second, s.Stop)
			if err := s.Send(t.Context(), Event{}); err == nil || time.Since(start) != 3*time.Second {
				t.Errorf("got %v after %v, want an error after 3s", err, time.Since(start))
			}
			_ = s.Finish() // fails as well
		})
	})
	t.Run("waiting for a turn ends with ctx", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := NewWriter(newSlowWriter(), nil)
			var first sync.WaitGroup
			first.Go(func() { _ = s.Send(t.Context(), Event{}) }) // late, as above
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if err := s.Send(ctx, Event{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("got %v after %v, want the deadline after 1s", err, time.Since(start))
			}
			first.Wait()
			_ = s.Finish() // fails as well
		})
	})
}

// TestKeepAlive checks a silent stream over a whole minute.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &stamped{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
		s := NewWriter(w, nil)
		if err := s.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if err := s.Send(t.Context(), Event{Data: []byte("a")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		if err := s.Finish(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // nothing more arrives
		const want = "15s : keep-alive|20s data: a|35s : keep-alive|50s : keep-alive"
		if got := strings.Join(w.log, "|"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// stamped records the time and content of each write.
type stamped struct {
	*httptest.ResponseRecorder
	start time.Time
	log   []string
}

func (w *stamped) Write(b []byte) (int, error) {
	w.log = append(w.log, time.Since(w.start).String()+" "+string(bytes.TrimSpace(b)))
	return len(b), nil
}

// TestSilentStream checks that a deadline for a write does not end a stream that is silent
// afterwards.
func TestSilentStream(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			waited := make(chan struct{})
			web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s := NewWriter(w, &WriterOptions{Timeout: 50 * time.Millisecond, KeepAlive: -1})
				if err := s.Send(r.Context(), Event{Data: []byte(r.Proto)}); err != nil {
					t.Error(err)
				}
				// real time: the test checks a deadline of the connection
				<-time.After(150 * time.Millisecond)
				if err := s.Finish(Event{Data: []byte("last")}); err != nil {
					t.Error(err)
				}
				close(waited)
			}))
			web.EnableHTTP2 = proto == "HTTP/2.0"
			web.StartTLS()
			defer web.Close()
			answer, err := web.Client().Get(web.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			got, err := readAll(NewReader(answer.Body, 0))
			if err != io.EOF || len(got) != 2 || got[0].Data != proto || got[1].Data != "last" {
				t.Errorf("got %q, %v", got, err)
			}
			<-waited
		})
	}
}

// TestEachEventIsOneWrite counts what a raw client receives at once.
func TestEachEventIsOneWrite(t *testing.T) {
	step := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := NewWriter(w, nil)
		for _, data := range []string{"a", "b\nc"} {
			if err := s.Send(r.Context(), Event{Data: []byte(data)}); err != nil {
				t.Error(err)
			}
			<-step
		}
		_ = s.Finish(Event{Data: []byte("last")}) // checked below
	}))
	defer web.Close()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	reader := bufio.NewReader(conn)
	head, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer head.Body.Close()
	for i, want := range []string{"9\r\ndata: a\n\n\r\n", "11\r\ndata: b\ndata: c\n\n\r\n", "c\r\ndata: last\n\n\r\n0\r\n\r\n"} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(reader, got); err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		if i < 2 {
			step <- struct{}{}
		}
	}
}
