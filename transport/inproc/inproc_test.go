package inproc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	for name, o := range map[string]*inproc.Options{"default": nil, "small buffer": {Buffer: 5000}, "tiny buffer": {Buffer: 1}} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) {
				return inproc.Pipe(o)
			}, &transporttest.Options{Unbuffered: name == "tiny buffer"})
		})
	}
}

func one(text string) jsonrpc.Burst {
	var b jsonrpc.Burst
	b.Add([]byte(text))
	return b
}

// TestSlowPeer checks that a write to a peer that does not read fails after the timeout, and that
// its end is closed.
func TestSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := inproc.Pipe(&inproc.Options{Buffer: 10})
		if err := a.Write(one(`"fills it"`)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := a.Write(one(`"waits"`)); !errors.Is(err, jsonrpc.ErrSlowPeer) {
			t.Errorf("Write = %v, want %v", err, jsonrpc.ErrSlowPeer)
		}
		if waited := time.Since(start); waited != 10*time.Second {
			t.Errorf("Write waited %v, want 10s", waited)
		}
		if _, _, err := b.Read(); err != nil {
			t.Errorf("Read of what was written before = %v", err)
		}
		if _, _, err := b.Read(); err != io.EOF {
			t.Errorf("Read = %v, want io.EOF", err)
		}
	})
}

// TestRoom checks that a waiting Write continues when the other end reads, and not before.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := inproc.Pipe(&inproc.Options{Buffer: 20})
		done := make(chan error, 1)
		long := `"` + string(bytes.Repeat([]byte("x"), 100)) + `"`
		go func() { done <- errors.Join(a.Write(one(`"short"`)), a.Write(one(long))) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Write past the bound = %v, want it to wait", err)
		default:
		}
		for _, want := range []string{`"short"`, long} {
			got, _, err := b.Read()
			if err != nil || string(got) != want {
				t.Errorf("Read = %s, %v, want %s", got, err, want)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func ExamplePipe() {
	a, b := inproc.Pipe(nil)
	defer a.Close()
	defer b.Close()

	var burst jsonrpc.Burst
	burst.Add([]byte(`{"jsonrpc":"2.0","method":"one"}`))
	burst.Add([]byte(`{"jsonrpc":"2.0","method":"two"}`))
	if err := a.Write(burst); err != nil {
		fmt.Println(err)
	}
	for more := true; more; {
		var payload []byte
		payload, more, _ = b.Read()
		fmt.Printf("%s\n", payload)
	}
	// Output:
	// {"jsonrpc":"2.0","method":"one"}
	// {"jsonrpc":"2.0","method":"two"}
}
