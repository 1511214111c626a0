package jsonrpc_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// prefixed returns a transport that sends each message after its length in four bytes.
func prefixed(c net.Conn, o *jsonrpc.SimpleOptions) jsonrpc.Transport {
	receive := func() ([]byte, error) {
		var length [4]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return nil, err
		}
		message := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(c, message); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		return message, nil
	}
	send := func(message []byte) error {
		_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)) //nolint:gosec // short
		return err
	}
	return jsonrpc.Simple(receive, send, c.Close, o)
}

func TestSimpleContract(t *testing.T) {
	transporttest.Run(t, func(*testing.T) (a, b jsonrpc.Transport) {
		here, there := net.Pipe()
		return prefixed(here, nil), prefixed(there, nil)
	}, &transporttest.Options{Unbuffered: true})
}

func TestSimpleLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		o      *jsonrpc.SimpleOptions
		size   int
		passes bool
	}{
		"default, at it":   {nil, 4 << 20, true},
		"default, over it": {nil, 4<<20 + 1, false},
		"own, at it":       {&jsonrpc.SimpleOptions{MaxMessage: 100}, 100, true},
		"own, over it":     {&jsonrpc.SimpleOptions{MaxMessage: 100}, 101, false},
		"none":             {&jsonrpc.SimpleOptions{MaxMessage: -1}, 5 << 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			message := []byte(strings.Repeat("1", tc.size))
			tr := jsonrpc.Simple(func() ([]byte, error) { return message, nil }, nil, func() error { return nil }, tc.o)
			payload, more, err := tr.Read()
			f, refused := errors.AsType[*jsonrpc.FrameError](err)
			switch {
			case more:
				t.Error("more is true")
			case tc.passes && (err != nil || len(payload) != tc.size):
				t.Errorf("Read = %d bytes, %v", len(payload), err)
			case !tc.passes && (!refused || f.Final || f.Answer != jsonrpc.ErrInvalidRequest || !errors.Is(err, jsonrpc.ErrTooLarge)):
				t.Errorf("Read = %v", err)
			}
		})
	}
}

// TestSimpleSlowPeer checks that a send is interrupted after the timeout, that the Write returns
// ErrSlowPeer, and that a close that panics does not end the process.
func TestSimpleSlowPeer(t *testing.T) {
	for name, tc := range map[string]struct {
		o     *jsonrpc.SimpleOptions
		wait  time.Duration
		panic bool
	}{
		"default": {nil, 10 * time.Second, false},
		"own":     {&jsonrpc.SimpleOptions{WriteTimeout: time.Second}, time.Second, false},
		"panic":   {&jsonrpc.SimpleOptions{WriteTimeout: time.Second}, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				defer there.Close()
				var reported []error
				if tc.panic {
					tc.o.Report = func(_ string, err error) { reported = append(reported, err) }
				}
				tr := jsonrpc.Simple(nil, func(m []byte) error { _, err := here.Write(m); return err }, func() error {
					_ = here.Close()
					if tc.panic {
						panic("close")
					}
					return nil
				}, tc.o)
				var b jsonrpc.Burst
				b.Add([]byte(`"not read"`))
				start := time.Now()
				var err error
				func() {
					defer func() { _ = recover() }() // Write closes again, in the caller's goroutine
					err = tr.Write(b)
				}()
				if waited := time.Since(start); waited != tc.wait {
					t.Errorf("Write waited %v, want %v", waited, tc.wait)
				}
				synctest.Wait() // until the goroutine that closed has reported
				if !tc.panic && !errors.Is(err, jsonrpc.ErrSlowPeer) {
					t.Errorf("Write = %v", err)
				}
				if panicked := len(reported) == 1 && isPanic(reported[0]); panicked != tc.panic {
					t.Errorf("reported %v", reported)
				}
			})
		})
	}
}

func isPanic(err error) bool {
	_, ok := errors.AsType[*rescue.Error](err)
	return ok
}

// TestSimpleProgress checks that a peer that reads message after message is not slow.
func TestSimpleProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := jsonrpc.Simple(nil, func([]byte) error { time.Sleep(9 * time.Second); return nil }, func() error { return nil }, nil)
		var b jsonrpc.Burst
		for range 5 {
			b.Add([]byte(`"x"`))
		}
		if err := tr.Write(b); err != nil {
			t.Errorf("Write = %v", err)
		}
		if n := jsonrpc.WrittenBytes(tr); n != uint64(len(b.Bytes)) {
			t.Errorf("WrittenBytes = %d, want %d", n, len(b.Bytes))
		}
	})
}
