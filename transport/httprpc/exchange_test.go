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

// TestAClientThatGoesAway checks that a lost client ends the handler's context, plain and streamed,
// over both versions of HTTP.
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

// goAway abandons a handler while it runs, and returns how long it took until the handler was
// cancelled.
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

// TestNotifyAfterTheAnswer has a handler whose goroutine continues after it has returned.
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

// TestSinkAfterTheEnd is the same below the engine: a recorder may pass the Sink on.
func TestSinkAfterTheEnd(t *testing.T) {
	var sink jsonrpc.Sink
	web := serve(t, &Server{Answerer: answering(func(_ context.Context, dst, _ []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
		sink = x.Sink
		return append(dst, answerText...), nil
	})})
	for _, accept := range []string{"application/json, text/event-stream", "text/event-stream"} {
		_ = raw(t, web, post(callText, "Accept: "+accept)) // checked elsewhere
		if err := sink.Send(t.Context(), []byte("{}")); !errors.Is(err, jsonrpc.ErrAnswered) && !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("%s: got %v, want ErrAnswered or ErrClosed", accept, err)
		}
	}
}

type answering func(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error)

func (f answering) Answer(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
	return f(ctx, dst, payload, x)
}

// TestAPanicBelowTheEngine checks that no goroutine still writes to the response after a panic.
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

// TestKeepAliveWhileAHandlerIsSilent checks the whole stream of a handler that takes 40 s.
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

// TestASlowReaderIsHungUpOn sends a long response to a client that reads nothing.
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
	<-ended // the test's own deadline is the bound: without the write timeout it never ends
}

// TestAbortOfAMethod checks that a method that panics with http.ErrAbortHandler is answered as
// after any other panic: a request of JSON-RPC always has a response, and the others of a batch are
// not aborted with it.
func TestAbortOfAMethod(t *testing.T) {
	m := new(jsonrpc.Mux)
	m.Add("abort", jsonrpc.Func(func(context.Context, struct{}) (any, error) { panic(http.ErrAbortHandler) }))
	m.Add("one", jsonrpc.Func(func(context.Context, struct{}) (int, error) { return 1, nil }))
	var reports []error
	a := &jsonrpc.Answerer{Handler: m, Mode: m.Mode, Report: func(_ string, err error) { reports = append(reports, err) }}
	s := &Server{Answerer: a}
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"abort"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"abort"},{"jsonrpc":"2.0","id":2,"method":"one"}]`,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/", strings.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(w, r)
		body := w.Body.String()
		if w.Code != 200 || !strings.Contains(body, `"code":-32603`) || strings.Contains(text, `"one"`) != strings.Contains(body, `"result":1`) {
			t.Errorf("%d %s", w.Code, body)
		}
	}
	for _, err := range reports {
		if p, ok := errors.AsType[*jsonrpc.PanicError](err); !ok || p.Value != http.ErrAbortHandler {
			t.Errorf("reported %v", err)
		}
	}
	if len(reports) != 2 {
		t.Errorf("%d reports", len(reports))
	}
}
