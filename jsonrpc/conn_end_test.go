package jsonrpc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// scripted is a Transport that returns prepared input.
type scripted struct {
	reads   chan scriptedRead
	written chan string
	closed  chan struct{}
	once    sync.Once
}

type scriptedRead struct {
	payload string
	err     error
}

func newScripted() *scripted {
	return &scripted{reads: make(chan scriptedRead, 100), written: make(chan string, 1000), closed: make(chan struct{})}
}

func (s *scripted) Read() ([]byte, bool, error) {
	select {
	case r := <-s.reads:
		return []byte(r.payload), len(s.reads) > 0, r.err
	case <-s.closed:
		return nil, false, net.ErrClosed
	}
}

func (s *scripted) Write(b Burst) error {
	for payload := range b.All() {
		select {
		case s.written <- string(payload):
		case <-s.closed:
			return net.ErrClosed
		}
	}
	return nil
}

func (s *scripted) TryWrite(Burst) bool { return false }

func (s *scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func TestWhatRunsWhenThePeerHangsUpIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := muxOf(map[string]Handler{"slow": Func(func(ctx context.Context, _ struct{}) (string, error) {
			select {
			case <-time.After(5 * time.Second):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})})
		for _, tt := range []struct {
			grace time.Duration
			want  int
		}{{15 * time.Second, 1}, {time.Second, 0}, {0, 0}} {
			s := newScripted()
			c := NewConn(s)
			serving(m)(c)
			c.Grace = tt.grace
			s.reads <- scriptedRead{payload: `{"jsonrpc":"2.0","method":"slow","id":1}`}
			s.reads <- scriptedRead{err: io.EOF}
			start := time.Now()
			if err := c.Serve(t.Context()); err != nil {
				t.Errorf("Serve = %v", err)
			}
			if len(s.written) != tt.want || time.Since(start) > 5*time.Second {
				t.Errorf("grace %v: %d answers after %v", tt.grace, len(s.written), time.Since(start))
			}
		}
	})
}

func TestQuickAnswersGoOutBeforeTheEnd(t *testing.T) {
	s := newScripted()
	c := NewConn(s)
	c.Handler, c.Mode = specMux(), func(string) Mode { return Quick }
	for range 3 {
		s.reads <- scriptedRead{payload: `{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}`}
	}
	s.reads <- scriptedRead{err: io.EOF}
	if err := c.Serve(t.Context()); err != nil || len(s.written) != 3 {
		t.Errorf("%v, %d answers", err, len(s.written))
	}
}

func TestFrameErrors(t *testing.T) {
	s := newScripted()
	c := NewConn(s)
	// makes the responses arrive in order
	c.Handler, c.Mode = specMux(), func(string) Mode { return Quick }
	s.reads <- scriptedRead{err: &FrameError{Answer: ErrInvalidRequest, Err: ErrTooLarge}}
	s.reads <- scriptedRead{payload: `{"jsonrpc":"2.0","method":"sum","params":[1],"id":1}`}
	c.Start(t.Context())
	for _, want := range []string{invalid, `{"jsonrpc":"2.0","result":1,"id":1}`} {
		if got := <-s.written; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	s.reads <- scriptedRead{err: &FrameError{Answer: ErrParseError, Final: true, Err: errors.New("no length")}}
	if got := <-s.written; got != parseError {
		t.Errorf("got %s", got)
	}
	<-s.closed
	_ = c.Close()
	if err := c.Err(); err == nil || errors.Is(err, ErrClosed) {
		t.Errorf("Err = %v", err)
	}
}

func TestAQuietConnDoesNotAnswerGarbage(t *testing.T) {
	s := newScripted()
	c := NewConn(s)
	c.Quiet = true
	reports := 0
	c.Report = func(string, error) { reports++ }
	s.reads = make(chan scriptedRead, 300)
	for i := range 200 {
		text := "warning: something"
		if i == 60 { // a valid message in between: the count restarts
			text = `{"jsonrpc":"2.0","method":"log"}`
		}
		s.reads <- scriptedRead{payload: text}
	}
	if err := c.Serve(t.Context()); !errors.Is(err, ErrGarbage) {
		t.Errorf("Serve = %v", err)
	}
	if len(s.written) != 0 || reports != 160 {
		t.Errorf("%d written, %d reports", len(s.written), reports)
	}
}

// TestUnreadableFramesAreGarbageToo checks that lines over the limit are counted like readable
// garbage lines.
func TestUnreadableFramesAreGarbageToo(t *testing.T) {
	s := newScripted()
	c := NewConn(s)
	c.Quiet = true
	s.reads = make(chan scriptedRead, 300)
	for range 200 {
		s.reads <- scriptedRead{err: &FrameError{Err: ErrTooLarge, Answer: ErrInvalidRequest}}
	}
	if err := c.Serve(t.Context()); !errors.Is(err, ErrGarbage) || len(s.reads) != 100 {
		t.Errorf("Serve = %v, %d of 200 not read", err, len(s.reads))
	}
}

// TestSlowPeer checks that a peer that does not read is closed after OutWait, that the reader
// continues meanwhile, and that all callers get the reason.
func TestSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.written = make(chan string) // never read
		c := NewConn(s)
		m := new(Mux)
		m.Add("spill", PeerFunc(func(ctx context.Context, p Peer, _ struct{}) (any, error) {
			for {
				if err := p.Notify(ctx, "drop", []string{strings.Repeat("x", 1000)}); err != nil {
					return nil, err
				}
			}
		}))
		serving(m)(c)
		c.Start(t.Context())
		start := time.Now()
		s.reads <- scriptedRead{payload: `{"jsonrpc":"2.0","method":"spill","id":1}`}
		<-s.closed
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("closed after %v", took)
		}
		_ = c.Close()
		if err := c.Err(); !errors.Is(err, ErrSlowPeer) {
			t.Errorf("Err = %v", err)
		}
		if err := c.Call(t.Context(), "x", nil, nil); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrSlowPeer) {
			t.Errorf("Call = %v", err)
		}
	})
}

// TestCallToASlowPeerHearsItsContext checks that a call to a peer that does not read returns when
// its context ends.
func TestCallToASlowPeerHearsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.written = make(chan string)
		c := NewConn(s)
		c.Limits.OutMessages = 1
		c.Start(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		var wait sync.WaitGroup
		for range 10 {
			wait.Go(func() {
				if err := c.Call(ctx, "x", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Call = %v", err)
				}
			})
		}
		start := time.Now()
		wait.Wait()
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("took %v", took)
		}
		_ = c.Close()
	})
}

func TestTooManyNotificationsEndTheConversation(t *testing.T) {
	block := make(chan struct{})
	m := muxOf(map[string]Handler{"log": Func(func(context.Context, Raw) (any, error) { <-block; return nil, nil })})
	w, c := serveWire(t, func(c *Conn) {
		serving(m)(c)
		c.Limits.NotifyBytes = 10_000
	})
	line := `{"jsonrpc":"2.0","method":"log","params":["` + strings.Repeat("x", 1000) + `"]}`
	for range 20 {
		if _, err := io.WriteString(w.c, line+"\n"); err != nil {
			break // the connection is closed
		}
	}
	if _, err := w.r.ReadString('\n'); err == nil {
		t.Error("the conversation goes on")
	}
	close(block)
	_ = c.Close()
	if err := c.Err(); !errors.Is(err, ErrBusy) {
		t.Errorf("Err = %v", err)
	}
}

func TestCallsFailWhenThePeerHangsUp(t *testing.T) {
	client, server := pair(t, nil, serving(muxOf(map[string]Handler{
		"wait": Func(func(ctx context.Context, _ struct{}) (any, error) { <-ctx.Done(); return nil, ctx.Err() }),
	})))
	done := make(chan error)
	go func() { done <- client.Call(context.Background(), "wait", nil, nil) }()
	for len(client.Pending()) == 0 {
		_ = client.Notify(t.Context(), "x", nil)
	}
	_ = server.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("Call = %v", err)
	}
	if err := client.Call(t.Context(), "wait", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a later Call = %v", err)
	}
}

func TestHangupFromAHandler(t *testing.T) {
	m := new(Mux)
	var conn *Conn
	why := errors.New("protocol broken")
	m.Add("bye", Func(func(context.Context, struct{}) (any, error) { conn.Hangup(why); return nil, nil }))
	var said error
	w, c := serveWire(t, func(c *Conn) {
		serving(m)(c)
		c.Ending = func(cause error) { said = cause }
	})
	conn = c
	w.send(`{"jsonrpc":"2.0","method":"bye","id":1}`)
	if line, err := w.r.ReadString('\n'); err == nil {
		t.Errorf("got %s", line)
	}
	_ = c.Close()
	if !errors.Is(c.Err(), why) || !errors.Is(said, why) {
		t.Errorf("Err = %v, Ending got %v", c.Err(), said)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	s := newScripted()
	c := NewConn(s)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- c.Serve(ctx) }()
	why := errors.New("enough")
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("Serve = %v", err)
	}
}

func TestShutdownGivesUpOnHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := muxOf(map[string]Handler{"wait": Func(func(ctx context.Context, _ struct{}) (any, error) { <-ctx.Done(); return nil, ctx.Err() })})
		s := newScripted()
		c := NewConn(s)
		serving(m)(c)
		c.Start(t.Context())
		s.reads <- scriptedRead{payload: `{"jsonrpc":"2.0","method":"wait","id":1}`}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if err := c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown = %v", err)
		}
		want := `{"jsonrpc":"2.0","error":{"code":-31004,"message":"Shutting down","data":{"reason":"shutting_down","retryable":true,"retryAfterMs":1000}},"id":1}`
		if len(s.written) != 1 || <-s.written != want {
			t.Error("the request that was cut was not told so")
		}
	})
}

func TestStreamGetsItsOwnNotifications(t *testing.T) {
	m := new(Mux)
	m.Add("run", HandlerFunc(func(ctx context.Context, req *Request) (any, error) {
		for i := range 200 {
			if err := req.Peer().Notify(ctx, "event", map[string]any{"run": req.ID, "n": i}); err != nil {
				return nil, err
			}
		}
		return "done", nil
	}))
	client, _ := pair(t, func(c *Conn) {
		c.Related = func(req *Request) (ID, bool) {
			var in struct {
				Run ID `json:"run"`
			}
			return in.Run, req.Method == "event" && req.Params.Decode(&in) == nil
		}
	}, serving(m))
	client.Related(&Request{Method: "event", Params: Raw(`{"run":1}`)})
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			next := 0
			var result string
			err := client.Stream(t.Context(), "run", nil, &result, func(req *Request) error {
				var in struct {
					N int `json:"n"`
				}
				if err := req.Params.Decode(&in); err != nil || in.N != next {
					return fmt.Errorf("event %d, want %d: %v", in.N, next, err)
				}
				next++
				return nil
			})
			if err != nil && !errors.Is(err, ErrLagging) || err == nil && (next != 200 || result != "done") {
				t.Errorf("%d events, %q, %v", next, result, err)
			}
		})
	}
	wait.Wait()
}

func TestStreamThatLags(t *testing.T) {
	a, b := memoryPipe()
	c := NewConn(newLine(a))
	c.Related = func(req *Request) (ID, bool) { return IntID(1), true }
	c.Start(t.Context())
	defer c.Close()
	var events strings.Builder
	for range 600 { // 256 may wait, and the first call may have taken as many
		events.WriteString(`{"jsonrpc":"2.0","method":"e"}` + "\n")
	}
	peer := bufio.NewReader(b)
	go func() {
		_, _ = peer.ReadString('\n')
		_, _ = io.WriteString(b, events.String())
	}()
	first := make(chan struct{})
	err := c.Stream(t.Context(), "x", nil, nil, func(*Request) error {
		select {
		case <-first:
		default:
			close(first)
			for len(c.Pending()) > 0 { // until the call was given up
				_ = c.Notify(t.Context(), "turn", nil)
			}
		}
		return nil
	})
	if !errors.Is(err, ErrLagging) {
		t.Errorf("Stream = %v", err)
	}
}

func TestItemsWithTheirOwnID(t *testing.T) {
	w, c := serveWire(t, serving(specMux()))
	done := make(chan error)
	item := &Item{Method: "x", ID: StringID("mine")}
	go func() { done <- c.Do(context.Background(), item) }()
	w.want(`{"jsonrpc":"2.0","method":"x","id":"mine"}`)
	if err := c.Do(t.Context(), &Item{Method: "x", ID: StringID("mine")}); err == nil {
		t.Error("the same id twice")
	}
	w.send(`{"jsonrpc":"2.0","result":1,"id":"other"}`, `{"jsonrpc":"2.0","result":1,"id":"mine"}`)
	if err := <-done; err != nil {
		t.Error(err)
	}
	go func() { done <- c.Do(context.Background(), &Item{Method: "x", ID: StringID("ä🌍")}) }()
	w.want(`{"jsonrpc":"2.0","method":"x","id":"ä🌍"}`)
	// as Python's json.dumps writes it
	w.send(`{"jsonrpc":"2.0","result":1,"id":"\u00e4\ud83c\udf0d"}`)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := c.Do(t.Context(), &Item{Method: "n", Notify: true}); err != nil {
		t.Error(err)
	}
	w.want(`{"jsonrpc":"2.0","method":"n"}`)
}

func TestSpoiltResponses(t *testing.T) {
	for _, response := range []string{
		`{"jsonrpc":"2.0","result":1,"error":{"code":1,"message":"x"},"id":1}`,
		`{"jsonrpc":"2.0","id":1}`,
		`{"result":1,"id":1}`,
		`{"jsonrpc":"2.0","error":{"code":1.5,"message":"x"},"id":1}`,
		`{"jsonrpc":"2.0","error":{"code":"1","message":"x"},"id":1}`,
		`{"jsonrpc":"2.0","error":{"code":1},"id":1}`,
		`{"jsonrpc":"2.0","error":null,"id":1}`,
		`{"jsonrpc":"2.0","error":"x","id":1}`,
		`{"jsonrpc":"2.0","result":1,"result":2,"id":1}`,
	} {
		w, c := serveWire(t, serving(specMux()))
		done := make(chan error)
		go func() { done <- c.Call(context.Background(), "x", nil, nil) }()
		w.want(`{"jsonrpc":"2.0","method":"x","id":1}`)
		w.send(response)
		if err := <-done; !errors.Is(err, ErrBadResponse) {
			t.Errorf("%s: %v", response, err)
		}
	}
}

func TestErrorFromThePeer(t *testing.T) {
	w, c := serveWire(t, serving(specMux()))
	done := make(chan error)
	go func() { done <- c.Call(context.Background(), "x", nil, nil) }()
	w.want(`{"jsonrpc":"2.0","method":"x","id":1}`)
	w.send(`{"jsonrpc":"2.0","error":{"code":-9223372036854775808,"message":"half \ud83d","data":null,"more":1},"id":1}`)
	e, ok := errors.AsType[*Error](<-done)
	if !ok || e.Code != -1<<63 || e.Message != "half \ufffd" || string(e.Data) != "null" {
		t.Errorf("%#v", e)
	}
}

// TestErrorForNobodyInParticular checks that an error with id null, which is about a request that
// the peer could not read, ends the only call in flight.
func TestErrorForNobodyInParticular(t *testing.T) {
	w, c := serveWire(t, serving(specMux()))
	done := make(chan error, 2)
	call := func(method string) { done <- c.Call(context.Background(), method, nil, nil) }
	go call("a")
	w.want(`{"jsonrpc":"2.0","method":"a","id":1}`)
	w.send(invalid)
	if err := <-done; !errors.Is(err, ErrInvalidRequest) {
		t.Errorf("a: %v", err)
	}
	go call("b")
	w.want(`{"jsonrpc":"2.0","method":"b","id":2}`)
	go call("c")
	w.want(`{"jsonrpc":"2.0","method":"c","id":3}`)
	w.send(invalid, `{"jsonrpc":"2.0","result":1,"id":3}`, `{"jsonrpc":"2.0","result":1,"id":2}`)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestShutdownWaitsForHeldAnswers checks that a held response of a quick method counts as a payload
// in progress: a Shutdown meanwhile does not lose it.
func TestShutdownWaitsForHeldAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		c := NewConn(s)
		m := new(Mux)
		m.Add("quick", Func(func(context.Context, struct{}) (int, error) { return 1, nil }), Quick)
		m.Add("gate", Func(func(context.Context, struct{}) (int, error) {
			go func() { _ = c.Shutdown(context.Background()) }()
			time.Sleep(time.Second) // on the reader goroutine: nothing more is read meanwhile
			return 2, nil
		}), Quick)
		c.Handler, c.Mode = m, m.Mode
		s.reads <- scriptedRead{payload: `{"jsonrpc":"2.0","method":"quick","id":1}`}
		s.reads <- scriptedRead{payload: `{"jsonrpc":"2.0","method":"gate","id":2}`}
		if err := c.Serve(t.Context()); err != nil {
			t.Error(err)
		}
		if len(s.written) != 2 {
			t.Errorf("%d answers, want 2", len(s.written))
		}
	})
}
