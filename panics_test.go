package parley

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestPanicsOfAListenersFunctions: a Converse, the end of one, or a Drain that panics ends its
// connection or its wait, and the server serves the others. A handler of HTTP panics as in
// net/http: http.ErrAbortHandler ends its connection without a report.
func TestPanicsOfAListenersFunctions(t *testing.T) {
	var mu sync.Mutex
	var reports []string
	var once sync.Once
	setUps := 0
	l := &Listener{
		Handler: testMux(nil),
		Converse: func(*jsonrpc.Conn) func() {
			mu.Lock()
			defer mu.Unlock()
			if setUps++; setUps == 1 {
				panic("in Converse")
			}
			return func() { panic("at its end") }
		},
		Mounts: map[string]Mount{"/abort": {
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
			Drain:   func(context.Context) error { once.Do(func() { panic("in Drain") }); return nil },
		}},
		Report: func(what string, err error) {
			mu.Lock()
			reports = append(reports, what+": "+err.Error())
			mu.Unlock()
			panic("in Report")
		},
	}
	s := serve(t, l, "tcp://127.0.0.1:0", "http://127.0.0.1:0")
	tcp, web := s.Targets()[0], s.Targets()[1]
	first := dial(t, new(Dialer), tcp)
	if err := first.Call(t.Context(), "add", []int{1}, nil); err == nil {
		t.Error("the connection whose set-up panicked has a result")
	}
	for range 2 {
		c := dial(t, new(Dialer), tcp)
		if got, err := jsonrpc.Call[int](t.Context(), c, "add", []int{1, 2}); got != 3 || err != nil {
			t.Errorf("add = %d, %v", got, err)
		}
		_ = c.Close()
	}
	if answer, err := http.Get("http://" + web.Address + "/abort"); err == nil {
		_ = answer.Body.Close()
		t.Errorf("the aborted request has status %d", answer.StatusCode)
	}
	mu.Lock()
	if text := strings.Join(reports, "\n"); strings.Contains(text, "abort") {
		t.Errorf("reported %s", text)
	}
	mu.Unlock()
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "in Drain") {
		t.Errorf("Close = %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	text := strings.Join(reports, "\n")
	for _, want := range []string{"in Converse", "at its end", "in Drain"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not reported: %.500s", want, text)
		}
	}
}
