package transporttest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// rules is the whole contract, in the order in which an implementer needs it.
var rules = []rule{
	{"payloads arrive in order", nil, checkOrder},
	{"a long burst arrives whole", nil, checkBurst},
	{"an empty burst is nothing", nil, checkEmptyBurst},
	{"sizes around every power of two", nil, checkSizes},
	{"raw newlines are white space", nil, checkNewlines},
	{"more is false when all was read", nil, checkLastMore},
	{"a payload is valid until the next Read", buffered, checkValidity},
	{"Write keeps nothing of a burst", nil, checkBorrow},
	{"reads and writes at the same time", nil, checkDuplex},
	{"a Read that waits holds up no Write", nil, checkPingPong},
	{"both write before either reads", buffered, checkBothWrite},
	{"TryWrite never waits", nil, checkTry},
	{"the largest message passes", limited, checkLargest},
	{"a message over the limit", limited, checkTooLarge},
	{"Close unblocks Read", nil, checkCloseRead},
	{"Close unblocks Write", nil, checkCloseWrite},
	{"Close from many at once", nil, checkCloseTwice},
	{"the end of stream after all payloads", buffered, checkEOF},
	{"Write fails once the peer is gone", nil, checkGone},
	{"wire: one system call for a burst", onBytes, checkOneWrite},
	{"wire: any split into reads", onBytes, checkSplits},
	{"wire: a cut at every byte", onBytes, checkCuts},
	{"wire: more is true when another is here", onBytes, checkMore},
}

func buffered(o *Options) bool { return !o.Unbuffered }
func limited(o *Options) bool  { return o.MaxMessage >= 0 }
func onBytes(o *Options) bool  { return o.Over != nil }

func checkOrder(e *env) error {
	const total = 3000
	a, b := e.pipe()
	write := func() error {
		for n, size := 0, 1; n < total; size = size%37 + 1 {
			var out jsonrpc.Burst
			for range min(size, total-n) {
				out.Add(numbered(n))
				n++
			}
			if err := a.Write(out); err != nil {
				return fmt.Errorf("Write before payload %d: %w", n, err)
			}
		}
		return nil
	}
	read := func() error {
		for n := range total {
			if _, err := expect(b, numbered(n)); err != nil {
				return fmt.Errorf("payload %d: %w", n, err)
			}
		}
		return nil
	}
	return all(write, read)
}

func checkBurst(e *env) error {
	// about 300 KB, and three times the pieces of one writev: more than a socket accepts at once
	const total = 3000
	padded := func(n int) []byte { return fmt.Appendf(nil, `{"n":%d,"pad":%q}`, n, strings.Repeat("x", 80)) }
	a, b := e.pipe()
	var out jsonrpc.Burst
	for n := range total {
		out.Add(padded(n))
	}
	read := func() error {
		for n := range total {
			if _, err := expect(b, padded(n)); err != nil {
				return fmt.Errorf("payload %d: %w", n, err)
			}
		}
		return nil
	}
	return all(func() error { return a.Write(out) }, read)
}

func checkEmptyBurst(e *env) error {
	a, b := e.pipe()
	write := func() error { return errors.Join(a.Write(jsonrpc.Burst{}), a.Write(burst(numbered(1)))) }
	read := func() error { _, err := expect(b, numbered(1)); return err }
	return all(write, read)
}

func checkSizes(e *env) error {
	limit := e.o.limit()
	if limit < 0 || limit > 4<<20 {
		limit = 4 << 20
	}
	var sizes []int
	for n := 4; n <= limit; n *= 2 {
		sizes = append(sizes, n)
		if n <= 128<<10 {
			sizes = append(sizes, n-1, min(n+1, limit))
		}
	}
	a, b := e.pipe()
	write := func() error {
		for i, n := range sizes {
			if err := a.Write(burst(sized(n, i))); err != nil {
				return fmt.Errorf("Write of %d bytes: %w", n, err)
			}
		}
		return nil
	}
	read := func() error {
		for i, n := range sizes {
			if _, err := expect(b, sized(n, i)); err != nil {
				return fmt.Errorf("payload of %d bytes: %w", n, err)
			}
		}
		return nil
	}
	return all(write, read)
}

func checkNewlines(e *env) error {
	texts := [][]byte{
		[]byte("{\n\t\"a\": [\n1,\n2\n]\n}"),
		[]byte(`{"flat":"a\nb"}`),
		[]byte("\n[1]\n"),
		[]byte("\n\n\n1"),
		numbered(4),
	}
	a, b := e.pipe()
	read := func() error {
		for _, p := range texts {
			got, _, err := b.Read()
			if err != nil {
				return fmt.Errorf("Read = %w, want %s", err, short(p))
			}
			// White space around the value may be removed, but not inside it.
			if !same(bytes.TrimSpace(got), bytes.TrimSpace(p)) {
				return fmt.Errorf("Read = %s, want %s", short(got), short(p))
			}
		}
		return nil
	}
	return all(func() error { return a.Write(burst(texts...)) }, read)
}

func checkLastMore(e *env) error {
	a, b := e.pipe()
	for round := range 50 {
		const total = 7
		var out jsonrpc.Burst
		for n := range total {
			out.Add(numbered(n))
		}
		read := func() error {
			for n := range total {
				more, err := expect(b, numbered(n))
				if err != nil {
					return err
				}
				if more && n == total-1 {
					return fmt.Errorf("round %d: more is true, and nothing was written behind this payload", round)
				}
			}
			return nil
		}
		if err := all(func() error { return a.Write(out) }, read); err != nil {
			return err
		}
	}
	return nil
}

func checkValidity(e *env) error {
	a, b := e.pipe()
	if err := a.Write(burst(sized(100, 1), sized(90, 2))); err != nil {
		return err
	}
	for n := range 100 {
		got, _, err := b.Read()
		if err != nil {
			return err
		}
		before := bytes.Clone(got)
		if err := a.Write(burst(sized(100+n, n))); err != nil {
			return err
		}
		if !bytes.Equal(got, before) {
			return fmt.Errorf("payload %d changed before the next Read: %s, was %s", n, short(got), short(before))
		}
	}
	return nil
}

func checkBorrow(e *env) error {
	const total = 200
	a, b := e.pipe()
	write := func() error {
		var out jsonrpc.Burst
		for n := range total {
			out.Bytes, out.Ends = out.Bytes[:0], out.Ends[:0]
			out.Add(sized(1000+n, n))
			if err := a.Write(out); err != nil {
				return err
			}
			clear(out.Bytes)
			clear(out.Ends)
		}
		return nil
	}
	read := func() error {
		for n := range total {
			if _, err := expect(b, sized(1000+n, n)); err != nil {
				return fmt.Errorf("payload %d: %w", n, err)
			}
		}
		return nil
	}
	return all(write, read)
}

func checkDuplex(e *env) error {
	const total = 500
	a, b := e.pipe()
	size := func(n int) int { return 2 + n*n%9000 }
	write := func(t jsonrpc.Transport) func() error {
		return func() error {
			for n := range total {
				if err := t.Write(burst(sized(size(n), n), numbered(n))); err != nil {
					return fmt.Errorf("Write %d: %w", n, err)
				}
			}
			return nil
		}
	}
	read := func(t jsonrpc.Transport) func() error {
		return func() error {
			for n := range total {
				if _, err := expect(t, sized(size(n), n)); err != nil {
					return fmt.Errorf("payload %d: %w", n, err)
				}
				if _, err := expect(t, numbered(n)); err != nil {
					return fmt.Errorf("payload %d: %w", n, err)
				}
			}
			return nil
		}
	}
	return all(write(a), write(b), read(a), read(b))
}

// checkPingPong alternates writes while a Read waits on each side at all times.
func checkPingPong(e *env) error {
	const total = 300
	a, b := e.pipe()
	atA, atB := make(chan int, total), make(chan int, total)
	read := func(t jsonrpc.Transport, got chan<- int) func() error {
		return func() error {
			defer close(got)
			for n := range total {
				if _, err := expect(t, numbered(n)); err != nil {
					return fmt.Errorf("payload %d: %w", n, err)
				}
				got <- n
			}
			return nil
		}
	}
	write := func() error {
		for n := range total {
			if err := a.Write(burst(numbered(n))); err != nil {
				return fmt.Errorf("ping %d: %w", n, err)
			}
			<-atB
			if err := b.Write(burst(numbered(n))); err != nil {
				return fmt.Errorf("pong %d: %w", n, err)
			}
			<-atA
		}
		return nil
	}
	return all(read(a, atA), read(b, atB), write)
}

func checkBothWrite(e *env) error {
	a, b := e.pipe()
	for n := range 20 {
		// 4 KiB each fit into the buffers of any transport that has buffers.
		if err := errors.Join(a.Write(burst(sized(4096, n))), b.Write(burst(sized(4000, n)))); err != nil {
			return err
		}
		_, errA := expect(a, sized(4000, n))
		_, errB := expect(b, sized(4096, n))
		if err := errors.Join(errA, errB); err != nil {
			return err
		}
	}
	return nil
}

// checkTry fills the connection to a peer that does not read, and then checks that Write continues
// where TryWrite stopped.
func checkTry(e *env) error {
	const most = 64 << 20 // no buffers are that large
	size := 50_000
	if limit := e.o.limit(); limit > 0 {
		size = min(size, limit)
	}
	a, b := e.pipe()
	var out jsonrpc.Burst
	sent, bytes := 0, 0
	for {
		out = jsonrpc.Burst{}
		for range 3 {
			out.Add(sized(size, sent))
			sent++
		}
		if !a.TryWrite(out) {
			break
		}
		if bytes += len(out.Bytes); bytes > most {
			return fmt.Errorf("TryWrite has sent %d bytes that were not read", bytes)
		}
	}
	write := func() error {
		if err := a.Write(out); err != nil {
			return fmt.Errorf("Write of what TryWrite began: %w", err)
		}
		for n := range 100 {
			out := burst(numbered(n))
			if a.TryWrite(out) {
				continue
			}
			if err := a.Write(out); err != nil {
				return fmt.Errorf("Write of what TryWrite left, %d: %w", n, err)
			}
		}
		return nil
	}
	read := func() error {
		for n := range sent {
			if _, err := expect(b, sized(size, n)); err != nil {
				return fmt.Errorf("payload %d: %w", n, err)
			}
		}
		for n := range 100 {
			if _, err := expect(b, numbered(n)); err != nil {
				return fmt.Errorf("payload %d behind those: %w", n, err)
			}
		}
		return nil
	}
	if err := all(write, read); err != nil {
		return err
	}
	_ = a.Close()
	if a.TryWrite(burst(numbered(1))) {
		return errors.New("TryWrite after Close = true")
	}
	return nil
}
