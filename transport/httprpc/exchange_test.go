package httprpc

import (
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

// TestAClientThatGoesAway ends the handler's context, plain and streamed, over both versions of HTTP.
func TestAClientThatGoesAway(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			best := time.Hour
			for range 5 { // the machine may be busy with other things
				if best = min(best, goAway(t, streamed, proto)); best <= 100*time.Millisecond {
					break
				}
			}
			if best > 100*time.Millisecond {
				t.Errorf("%s, streamed %t: the handler heard of it after %v", proto, streamed, best)
			}
		}
	}
}

// goAway leaves a handler in the middle, and returns how long that took to get through.
func goAway(t *testing.T, streamed bool, proto string) time.Duration {
	started, ended := make(chan struct{}), make(chan time.Time, 1)
	web := httptest.NewUnstartedServer(Handler(jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		if streamed {
			if err := req.Peer().Notify(ctx, "tick", nil); err != nil {
				t.Error(err)
			}
		}
		close(started)
		<-ctx.Done()
		ended <- time.Now()
		return nil, nil
	})))
	web.EnableHTTP2 = proto == "HTTP/2.0"
	web.StartTLS()
	defer web.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "POST", web.URL, strings.NewReader(callText))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	left := make(chan time.Time, 1)
	go func() {
		<-started
		left <- time.Now()
		cancel()
	}()
	if got, err := web.Client().Do(req); err == nil {
		_, _ = io.Copy(io.Discard, got.Body) // until it is cancelled
		got.Body.Close()
	}
	return (<-ended).Sub(<-left)
}

// TestNotifyAfterTheAnswer has a handler whose goroutine goes on when it has returned.
func TestNotifyAfterTheAnswer(t *testing.T) {
	for _, accept := range []string{"application/json", "application/json, text/event-stream", "text/event-stream"} {
		var late sync.WaitGroup
		released := make(chan struct{})
		web := serve(t, Handler(jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
			peer := req.Peer()
			late.Go(func() {
				<-released
				if err := peer.Notify(context.WithoutCancel(ctx), "late", nil); err == nil {
					t.Error("a notification went out after the answer")
				}
			})
			return 19, nil
		})))
		got := raw(t, web, post(callText, "Accept: "+accept))
		close(released)
		late.Wait()
		if !strings.Contains(got, answerText) || strings.Contains(got, "late") {
			t.Errorf("%s: got %q", accept, got)
		}
	}
}

// TestSinkAfterTheEnd is the same below the engine: a recorder may hand the Sink on.
func TestSinkAfterTheEnd(t *testing.T) {
	var sink jsonrpc.Sink
	web := serve(t, &Server{Answerer: answering(func(_ context.Context, dst, _ []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
		sink = x.Sink
		return append(dst, answerText...), nil
	})})
	for _, accept := range []string{"application/json, text/event-stream", "text/event-stream"} {
		_ = raw(t, web, post(callText, "Accept: "+accept)) // looked at elsewhere
		if err := sink.Send(t.Context(), []byte("{}")); !errors.Is(err, jsonrpc.ErrAnswered) && !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("%s: got %v, want ErrAnswered or ErrClosed", accept, err)
		}
	}
}

type answering func(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error)

func (f answering) Answer(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
	return f(ctx, dst, payload, x)
}

// TestAPanicBelowTheEngine must leave nobody behind who writes to the answer.
func TestAPanicBelowTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Answerer: answering(func(ctx context.Context, _, _ []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
			if err := x.Sink.Send(ctx, []byte("{}")); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		})}
		w := httptest.NewRecorder()
		func() {
			defer func() { _ = recover() }() // as net/http does
			r := httptest.NewRequest("POST", "/", strings.NewReader(callText))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			s.ServeHTTP(w, r)
		}()
		before := w.Body.Len()
		time.Sleep(time.Minute)
		if w.Body.Len() != before {
			t.Error("the keep-alive wrote into an answer that is over")
		}
	})
}

// TestKeepAliveWhileAHandlerIsSilent looks at the whole stream of a handler that takes 40 s.
func TestKeepAliveWhileAHandlerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Handler(jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
			time.Sleep(40 * time.Second)
			return 19, nil
		}))
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/", strings.NewReader(callText))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/event-stream")
		s.ServeHTTP(w, r)
		if want := ": keep-alive\n\n: keep-alive\n\ndata: " + answerText + "\n\n"; w.Body.String() != want {
			t.Errorf("got %q, want %q", w.Body, want)
		}
	})
}

// TestASlowReaderIsHungUpOn sends a long answer to a client that takes nothing.
func TestASlowReaderIsHungUpOn(t *testing.T) {
	ended := make(chan struct{})
	s := Handler(methods())
	s.MaxMessage = 64 << 20
	s.WriteTimeout = 50 * time.Millisecond
	web := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		s.ServeHTTP(w, r)
	}))
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"jsonrpc":"2.0","method":"echo","params":["` + strings.Repeat("x", 16<<20) + `"],"id":1}`
	_, _ = io.WriteString(conn, post(body))
	<-ended // the test's own deadline is the bound: without ours it never ends
}
