package parley

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
)

func TestDialRefuses(t *testing.T) {
	for _, text := range []string{"", "nowhere", "gopher://h:1", "nats://h:1"} {
		if c, err := Dial(t.Context(), text); !isTargetError(err) {
			t.Errorf("Dial(%q) = %v, %v, want a *TargetError", text, c, err)
		}
	}
	only := Schemes{"here": {Listen: listenSocket}, "there": {Dial: dialSocket}}
	if _, err := (&Dialer{Schemes: only}).Dial(t.Context(), Target{Scheme: "here"}); !isTargetError(err) {
		t.Errorf("Dial of what can only be served = %v", err)
	}
	if _, err := (&Dialer{Schemes: only}).Open(t.Context(), Target{Scheme: "there"}); !isTargetError(err) {
		t.Errorf("Open of what has no carrier = %v", err)
	}
	if _, err := (&Listener{Schemes: only}).Listen(t.Context(), Target{Scheme: "there"}); !isTargetError(err) {
		t.Errorf("Listen on what can only be dialled = %v", err)
	}
	if _, err := new(Listener).Listen(t.Context()); err == nil {
		t.Error("Listen on nothing = nil")
	}
}

func isTargetError(err error) bool { _, ok := errors.AsType[*TargetError](err); return ok }

// TestPending checks that the IDs of waiting calls are reported.
func TestPending(t *testing.T) {
	waiting := make(chan struct{}, 2)
	mux := testMux(waiting)
	at := serve(t, &Listener{Handler: mux, Mode: mux.Mode}, "tcp://127.0.0.1:0").Targets()[0]
	c, err := Dial(t.Context(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, id := range []jsonrpc.ID{jsonrpc.StringID("x"), jsonrpc.IntID(7)} {
		// it is cancelled below
		wg.Go(func() { _ = c.Do(ctx, &jsonrpc.Item{Method: "wait", ID: id}) })
		<-waiting
	}
	var got []string
	for _, id := range c.Pending() {
		got = append(got, id.String())
	}
	if want := []string{`"x"`, "7"}; !cmp.Equal(got, want) {
		t.Errorf("Pending = %q, want %q", got, want)
	}
	cancel()
	wg.Wait()
	if left := c.Pending(); len(left) != 0 {
		t.Errorf("after the calls are over, Pending = %v", left)
	}
	if err := errors.Join(c.Drain(t.Context()), c.Shutdown(t.Context()), c.Close()); err != nil {
		t.Error(err)
	}
}

// child returns a Target that runs this test binary as a server on stdio.
func child(t *testing.T, mode string) Target {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childVariable, mode)
	return Command(self)
}

// TestChild calls a program that serves on its stdin and stdout, in both framings and versions.
func TestChild(t *testing.T) {
	for _, mode := range []string{"stdio:", "stdio:?framing=header", "stdio:?jsonrpc=1.0"} {
		t.Run(mode, func(t *testing.T) {
			target := child(t, mode)
			shape, err := ParseTarget(mode)
			if err != nil {
				t.Fatal(err)
			}
			target.Framing, target.Version = shape.Framing, shape.Version
			var mu sync.Mutex // guards said
			var said []string
			c := dial(t, &Dialer{Stderr: func(line string) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, line)
			}}, target)
			if got, err := jsonrpc.Call[int](t.Context(), c, "add", []int{40, 2}); got != 42 || err != nil {
				t.Errorf("add = %d, %v", got, err)
			}
			if target.Version == jsonrpc.Version2 {
				testStream(t, c)
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(said, "child: "+mode) {
				t.Errorf("stderr of the child is %q", said)
			}
		})
	}
}

// TestChildThatEnds checks that calls return the exit code of the child.
func TestChildThatEnds(t *testing.T) {
	c, err := new(Dialer).Dial(t.Context(), child(t, "no target"))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Call(t.Context(), "add", []int{1}, nil)
	if exit, ok := errors.AsType[*stdio.ExitError](err); !ok || exit.Code != 3 {
		t.Errorf("a call to a child that ends with code 3 = %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := new(Dialer).Dial(t.Context(), Command("no-such-program-here")); err == nil {
		t.Error("Dial of a program that does not exist = nil")
	}
}

// TestOpen checks that bytes that are not a message reach the server unchanged.
func TestOpen(t *testing.T) {
	at := serve(t, &Listener{Handler: testMux(nil)}, "tcp://127.0.0.1:0?framing=header").Targets()[0]
	if at.Framing != stream.Header {
		t.Fatalf("the target is %s", at)
	}
	var out []string
	transport, err := (&Dialer{Tap: func(f Frame) {
		if f.Out {
			out = append(out, string(f.Payload))
		}
	}}).Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	var b jsonrpc.Burst
	b.Add([]byte("{no json"))
	if err := transport.Write(b); err != nil {
		t.Fatal(err)
	}
	payload, _, err := transport.Read()
	if err != nil || !strings.Contains(string(payload), "-32700") || len(out) != 1 || out[0] != "{no json" {
		t.Errorf("Read = %s, %v; the tap saw %q", payload, err, out)
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.1.2.3": true, "::1": true, "localhost": true, "::ffff:127.0.0.1": true,
		"0.0.0.0": false, "::": false, "192.0.2.1": false, "fe80::1": false,
	} {
		if got, err := isLoopback(t.Context(), host); got != want || err != nil {
			t.Errorf("isLoopback(%s) = %v, %v", host, got, err)
		}
	}
}
