package transporttest

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bent Transport has one defect.
type bent struct {
	jsonrpc.Transport
	read  func(jsonrpc.Transport) ([]byte, bool, error)
	write func(jsonrpc.Transport, jsonrpc.Burst) error
	try   func(jsonrpc.Transport, jsonrpc.Burst) bool
	close func(jsonrpc.Transport) error
}

func (t *bent) Read() ([]byte, bool, error) {
	if t.read != nil {
		return t.read(t.Transport)
	}
	return t.Transport.Read()
}

func (t *bent) Write(b jsonrpc.Burst) error {
	if t.write != nil {
		return t.write(t.Transport, b)
	}
	return t.Transport.Write(b)
}

func (t *bent) TryWrite(b jsonrpc.Burst) bool {
	switch {
	case t.try != nil:
		return t.try(t.Transport, b)
	case t.write != nil:
		return false
	}
	return t.Transport.TryWrite(b)
}

func (t *bent) Close() error {
	if t.close != nil {
		return t.close(t.Transport)
	}
	return t.Transport.Close()
}

// onRead, onWrite and onClose add a defect to both ends.
func onRead(f func(p []byte, more bool, err error) ([]byte, bool, error)) func(jsonrpc.Transport) jsonrpc.Transport {
	return func(t jsonrpc.Transport) jsonrpc.Transport {
		return &bent{Transport: t, read: func(t jsonrpc.Transport) ([]byte, bool, error) { return f(t.Read()) }}
	}
}

func onWrite(f func(t jsonrpc.Transport, b jsonrpc.Burst) error) func(jsonrpc.Transport) jsonrpc.Transport {
	return func(t jsonrpc.Transport) jsonrpc.Transport { return &bent{Transport: t, write: f} }
}

// noClose ignores the first Close, so that the second can clean up after the rule.
func noClose(t jsonrpc.Transport) jsonrpc.Transport {
	var seen atomic.Bool
	return &bent{Transport: t, close: func(t jsonrpc.Transport) error {
		if seen.Swap(true) {
			return t.Close()
		}
		return nil
	}}
}

// late holds a burst until the next one is written.
func late(t jsonrpc.Transport) jsonrpc.Transport {
	var kept jsonrpc.Burst
	return &bent{Transport: t, write: func(t jsonrpc.Transport, b jsonrpc.Burst) error {
		err := t.Write(kept)
		kept = b
		return err
	}}
}

// oneLock reads and writes under the same lock.
func oneLock(t jsonrpc.Transport) jsonrpc.Transport {
	var mu sync.Mutex
	return &bent{
		Transport: t,
		read: func(t jsonrpc.Transport) ([]byte, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			return t.Read()
		},
		write: func(t jsonrpc.Transport, b jsonrpc.Burst) error {
			mu.Lock()
			defer mu.Unlock()
			return t.Write(b)
		},
	}
}

var shared [1 << 10]byte // the memory that sharing uses for every short payload

func sharing(t jsonrpc.Transport) jsonrpc.Transport {
	return &bent{
		Transport: t,
		read: func(t jsonrpc.Transport) ([]byte, bool, error) {
			p, more, err := t.Read()
			return shared[:copy(shared[:], p)], more, err
		},
		write: func(t jsonrpc.Transport, b jsonrpc.Burst) error {
			clear(shared[:])
			return t.Write(b)
		},
	}
}

func moreIs(more bool) func(jsonrpc.Transport) jsonrpc.Transport {
	return onRead(func(p []byte, _ bool, err error) ([]byte, bool, error) { return p, more, err })
}

func cutTo(n int) func(jsonrpc.Transport) jsonrpc.Transport {
	return onRead(func(p []byte, more bool, err error) ([]byte, bool, error) { return p[:min(len(p), n)], more, err })
}

// oneByOne writes each payload with a separate call.
func oneByOne(t jsonrpc.Transport, b jsonrpc.Burst) error {
	for p := range b.All() {
		if err := t.Write(burst(p)); err != nil {
			return err
		}
	}
	return nil
}

// faults contains a defect for every rule, which that rule must detect.
var faults = []struct {
	rule string
	bend func(jsonrpc.Transport) jsonrpc.Transport
	o    *stream.Options
}{
	{rule: "payloads arrive in order", bend: onWrite(func(t jsonrpc.Transport, b jsonrpc.Burst) error {
		payloads := slices.Collect(b.All())
		slices.Reverse(payloads)
		return t.Write(burst(payloads...))
	})},
	{rule: "a long burst arrives whole", bend: onWrite(func(t jsonrpc.Transport, b jsonrpc.Burst) error {
		return t.Write(burst(slices.Collect(b.All())[:min(1024, len(b.Ends))]...))
	})},
	{rule: "an empty burst is nothing", bend: onWrite(func(t jsonrpc.Transport, b jsonrpc.Burst) error {
		if len(b.Ends) == 0 {
			b.Add([]byte("{}"))
		}
		return t.Write(b)
	})},
	{rule: "sizes around every power of two", bend: cutTo(65_535)},
	{rule: "raw newlines are white space", bend: onRead(func(p []byte, more bool, err error) ([]byte, bool, error) {
		return slices.DeleteFunc(p, func(c byte) bool { return c == ' ' || c == '\t' }), more, err
	})},
	{rule: "more is false when all was read", bend: moreIs(true)},
	{rule: "a payload is valid until the next Read", bend: sharing},
	{rule: "Write keeps nothing of a burst", bend: late},
	{rule: "reads and writes at the same time", bend: cutTo(8_000)},
	{rule: "a Read that waits holds up no Write", bend: oneLock},
	{rule: "both write before either reads", bend: onWrite(func(t jsonrpc.Transport, b jsonrpc.Burst) error {
		if err := t.Write(b); err != nil {
			return err
		}
		_, _, err := t.Read() // as if it waited for an acknowledgement
		return err
	})},
	{rule: "TryWrite never waits", bend: func(t jsonrpc.Transport) jsonrpc.Transport {
		return &bent{Transport: t, try: func(jsonrpc.Transport, jsonrpc.Burst) bool { return true }}
	}},
	{rule: "TryWrite never waits", bend: func(t jsonrpc.Transport) jsonrpc.Transport {
		// Write then starts again from the beginning
		return &bent{Transport: t, try: func(t jsonrpc.Transport, b jsonrpc.Burst) bool {
			if len(b.Ends) == 1 {
				_ = t.Write(b)
			}
			return false
		}}
	}},
	{rule: "the largest message passes", o: &stream.Options{MaxMessage: 4<<20 - 1}},
	{rule: "a message over the limit", o: &stream.Options{MaxMessage: -1}},
	{rule: "a message over the limit", o: &stream.Options{MaxSkip: 100}},
	{rule: "Close unblocks Read", bend: noClose},
	{rule: "Close unblocks Write", bend: noClose},
	{rule: "Close from many at once", bend: onRead(func(p []byte, more bool, err error) ([]byte, bool, error) { return p, more, nil })},
	{rule: "the end of stream after all payloads", bend: onRead(func(p []byte, more bool, err error) ([]byte, bool, error) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return p, more, err
	})},
	{rule: "Write fails once the peer is gone", bend: onWrite(func(t jsonrpc.Transport, b jsonrpc.Burst) error {
		_ = t.Write(b)
		return nil
	})},
	{rule: "wire: one system call for a burst", bend: onWrite(oneByOne)},
	{rule: "wire: any split into reads", bend: cutTo(60_000)},
	{rule: "wire: a cut at every byte", bend: moreIs(true)},
	{rule: "wire: more is true when another is here", bend: moreIs(false)},
}

// TestRules checks that each rule passes on a correct transport and fails on one with a defect.
func TestRules(t *testing.T) {
	for _, r := range rules {
		if err := check(t, r, time.Minute, nil, nil); err != nil {
			t.Errorf("%s: an honest transport fails: %v", r.name, err)
		}
		bends := 0
		for _, f := range faults {
			if f.rule != r.name {
				continue
			}
			bends++
			if err := check(t, r, time.Second, f.bend, f.o); err == nil {
				t.Errorf("%s: fault %d was not found", r.name, bends)
			}
		}
		if bends == 0 {
			t.Errorf("%s: nothing shows that this rule can fail", r.name)
		}
	}
}

func check(t *testing.T, r rule, patience time.Duration, bend func(jsonrpc.Transport) jsonrpc.Transport, o *stream.Options) error {
	over := func(_ *testing.T, c, s net.Conn) (jsonrpc.Transport, jsonrpc.Transport) {
		a, b := jsonrpc.Transport(stream.New(c, stream.Line, o)), jsonrpc.Transport(stream.New(s, stream.Line, o))
		if bend != nil {
			a, b = bend(a), bend(b)
		}
		return a, b
	}
	e := &env{t: t, patience: patience, o: &Options{Over: over}, makePipe: func(t *testing.T) (a, b jsonrpc.Transport) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return over(t, c, s)
	}}
	defer e.close()
	return e.check(r)
}
