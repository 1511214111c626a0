package transporttest

import (
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func checkLargest(e *env) error {
	limit := e.o.limit()
	a, b := e.pipe()
	send := func(t jsonrpc.Transport) func() error {
		return func() error { return t.Write(burst(sized(limit, 1), numbered(2))) }
	}
	read := func(t jsonrpc.Transport) func() error {
		return func() error {
			if _, err := expect(t, sized(limit, 1)); err != nil {
				return err
			}
			_, err := expect(t, numbered(2))
			return err
		}
	}
	return all(send(a), send(b), read(a), read(b))
}

func checkTooLarge(e *env) error {
	limit := e.o.limit()
	for _, size := range []int{limit + 1, limit + 2, limit + 3, 2*limit + 77} {
		a, b := e.pipe()
		// The peer may close the connection in the middle of a message that it rejects: only the
		// error that it returns is checked.
		write := func() error { _ = a.Write(burst(numbered(1), sized(size, 1), numbered(2))); return nil }
		read := func() error {
			more, err := expect(b, numbered(1))
			if err != nil {
				return err
			}
			if more {
				return errors.New("more is true before a message over the limit, which is no payload")
			}
			_, _, err = b.Read()
			f, ok := errors.AsType[*jsonrpc.FrameError](err)
			switch {
			case !ok:
				return fmt.Errorf("Read of %d bytes = %v, want a *jsonrpc.FrameError", size, err)
			case f.Final != e.o.LargeIsFinal:
				return fmt.Errorf("Read of %d bytes: Final is %v, want %v: %v", size, f.Final, e.o.LargeIsFinal, err)
			case f.Final:
				_, _, err := b.Read()
				if !failure(err) {
					return fmt.Errorf("Read behind the final error = %v, want an error", err)
				}
				return b.Close() // unblocks the writer
			case !errors.Is(f.Answer, jsonrpc.ErrInvalidRequest):
				return fmt.Errorf("Read of %d bytes: Answer is %v, want -32600", size, f.Answer)
			}
			_, err = expect(b, numbered(2))
			return err
		}
		if err := all(write, read); err != nil {
			return err
		}
	}
	return nil
}

func checkCloseRead(e *env) error {
	for range 20 {
		a, _ := e.pipe()
		read := func() error {
			if p, _, err := a.Read(); !failure(err) {
				return fmt.Errorf("Read = %s, %v, want an error after Close", short(p), err)
			}
			return nil
		}
		if err := all(read, a.Close); err != nil {
			return err
		}
		if err := read(); err != nil {
			return fmt.Errorf("again: %w", err)
		}
	}
	return nil
}

func checkCloseWrite(e *env) error {
	a, b := e.pipe()
	// The peer reads the first payload and then stops: the rest is more than any buffer between the
	// two can hold.
	large := sized(1<<20, 1)
	out := burst(numbered(1))
	for range 16 {
		out.Add(large)
	}
	write := func() error {
		if err := a.Write(out); err == nil {
			return errors.New("Write to a peer that does not read = nil, want an error after Close")
		}
		return nil
	}
	closeIt := func() error {
		if _, err := expect(b, numbered(1)); err != nil {
			return err
		}
		return a.Close()
	}
	if err := all(write, closeIt); err != nil {
		return err
	}
	if err := a.Write(burst(numbered(2))); err == nil {
		return errors.New("Write after Close = nil, want an error")
	}
	return nil
}

func checkCloseTwice(e *env) error {
	a, b := e.pipe()
	var closes []func() error
	for range 8 {
		closes = append(closes,
			func() error { _ = a.Close(); return nil }, // only the first call may return an error
			func() error { _ = b.Close(); return nil })
	}
	if err := all(closes...); err != nil {
		return err
	}
	for _, t := range []jsonrpc.Transport{a, b} {
		if _, _, err := t.Read(); !failure(err) {
			return fmt.Errorf("Read after Close = %v, want an error", err)
		}
	}
	return nil
}

func checkEOF(e *env) error {
	a, b := e.pipe()
	if err := a.Write(burst(numbered(1), numbered(2))); err != nil {
		return err
	}
	if err := a.Write(burst(numbered(3))); err != nil {
		return err
	}
	if err := a.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	for n := 1; n <= 3; n++ {
		if _, err := expect(b, numbered(n)); err != nil {
			return fmt.Errorf("after the peer's Close: %w", err)
		}
	}
	for range 2 {
		if _, _, err := b.Read(); !isEOF(err) {
			return fmt.Errorf("Read behind the last payload = %v, want io.EOF", err)
		}
	}
	return nil
}

func checkGone(e *env) error {
	a, b := e.pipe()
	if err := b.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	const tries = 100_000 // a socket accepts some writes before it detects the close
	out := burst(sized(1000, 1))
	noticed := func() bool { return a.Write(out) != nil }
	for range tries {
		if noticed() {
			return nil
		}
	}
	return fmt.Errorf("%d writes to a peer that is gone, and no error", tries)
}
