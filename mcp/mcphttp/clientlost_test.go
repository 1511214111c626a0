package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// TestSessionLost checks that a session lost by the server is reopened once for all calls that
// detect it, and that no call is lost.
func TestSessionLost(t *testing.T) {
	sessions := 0
	legacy := legacyWeb("2025-11-25", &sessions)
	w := &scriptedWeb{answer: legacy}
	c, err := connectTo(t.Context(), w, mcp.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetLogLevel(t.Context(), mcp.LevelWarning); err != nil {
		t.Fatal(err)
	}
	listening, stop := context.WithCancel(t.Context())
	subscribed, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.Listen(listening, mcp.Filter{ResourceSubscriptions: []string{"test://a"}}, func(mcp.Change) error { close(subscribed); return nil })
	}()
	<-subscribed
	w.mu.Lock()
	sessions = 7 // S1 is lost; the next session is S8
	w.all = nil
	w.mu.Unlock()
	results := make(chan string)
	for range 10 {
		go func() {
			r, err := c.CallTool(t.Context(), "who", nil, nil)
			if err != nil {
				results <- err.Error()
				return
			}
			results <- r.Text()
		}()
	}
	for range 10 {
		if got := <-results; got != "S8" {
			t.Errorf("got %s, want an answer in S8", got)
		}
	}
	counts := map[string]int{}
	for _, a := range w.asked() {
		counts[a]++
	}
	for what, want := range map[string]int{"POST initialize": 1, "POST notifications/initialized": 1, "POST logging/setLevel": 1, "POST resources/subscribe": 1} {
		if counts[what] != want {
			t.Errorf("%s came %d times, want %d; all: %v", what, counts[what], want, counts)
		}
	}
	if got := w.find(mcp.MethodResourcesSubscribe).body; !strings.Contains(got, `"params":{"uri":"test://a"}`) {
		t.Errorf("subscribed again by %s", got)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestSessionLostLate checks that a call that detects the loss after a new session has been opened
// does not open a third one.
func TestSessionLostLate(t *testing.T) {
	sessions := 0
	w := &scriptedWeb{answer: legacyWeb("2025-11-25", &sessions)}
	held := &heldAnswer{next: w, holds: make(chan struct{}), release: make(chan struct{})}
	c, err := connectTo(t.Context(), held, mcp.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w.mu.Lock()
	sessions = 7
	w.mu.Unlock()
	late := make(chan string, 1)
	go func() {
		r, err := c.CallTool(t.Context(), "late", nil, nil)
		late <- fmt.Sprint(r.Text(), err)
	}()
	<-held.holds
	if r, err := c.CallTool(t.Context(), "who", nil, nil); err != nil || r.Text() != "S8" {
		t.Errorf("got %+v, %v", r, err)
	}
	close(held.release)
	if got := <-late; got != "S8<nil>" {
		t.Errorf("the late one got %s", got)
	}
}

// A heldAnswer holds the first response to the tool "late" until it is released.
type heldAnswer struct {
	next           http.RoundTripper
	holds, release chan struct{}
	once           sync.Once
}

func (h *heldAnswer) RoundTrip(req *http.Request) (*http.Response, error) {
	name := ""
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			text, _ := io.ReadAll(body) // from memory
			name = string(text)
		}
	}
	answer, err := h.next.RoundTrip(req)
	if strings.Contains(name, `"late"`) {
		h.once.Do(func() {
			close(h.holds)
			<-h.release
		})
	}
	return answer, err
}

// TestSessionLostForGood checks that the call returns an error if the server does not open a new
// session either.
func TestSessionLostForGood(t *testing.T) {
	sessions, dead := 0, false
	legacy := legacyWeb("2025-11-25", &sessions)
	w := &scriptedWeb{answer: func(r *scriptedRequest) scriptedAnswer {
		if dead && r.method == mcp.MethodInitialize {
			return scriptedAnswer{status: http.StatusServiceUnavailable}
		}
		return legacy(r)
	}}
	c, err := connectTo(t.Context(), w, mcp.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w.mu.Lock()
	sessions, dead = 2, true
	w.mu.Unlock()
	_, err = c.CallTool(t.Context(), "who", nil, nil)
	if s, ok := errors.AsType[*mcphttp.StatusError](err); !ok || s.Status != http.StatusServiceUnavailable {
		t.Errorf("got %v", err)
	}
}
