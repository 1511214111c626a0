//go:build unix

package stream

import (
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A waiter is a socket that reports when a read has nothing to read.
type waiter struct {
	*net.UnixConn
	onWait func()
}

func (w *waiter) SyscallConn() (syscall.RawConn, error) {
	raw, err := w.UnixConn.SyscallConn()
	return &rawWaiter{raw, w}, err
}

type rawWaiter struct {
	syscall.RawConn
	w *waiter
}

func (r *rawWaiter) Read(f func(uintptr) bool) error {
	return r.RawConn.Read(func(fd uintptr) bool {
		for !f(fd) {
			r.w.onWait()
		}
		return true
	})
}

// TestNoRestingBuffer checks that a waiting Transport holds no buffer, unless it holds a part of a
// message.
func TestNoRestingBuffer(t *testing.T) {
	for _, step := range []struct {
		name string
		sent []string // one more each time a read has to wait
		held []bool   // whether a buffer was held then
	}{
		{"whole messages", []string{"1\n", "2\n3\n", "4\n"}, []bool{false, false, false}},
		{"half a message", []string{"1\n", "{", "}\n", "2\n"}, []bool{false, false, true, false}},
		{"a long message", []string{strings.Repeat("x", 50_000), "\n", "2\n"}, []bool{false, true, false}},
		{"blank lines", []string{"\n\n", "1\n"}, []bool{false, false}},
	} {
		client, server := unixPair(t)
		w := &waiter{UnixConn: server}
		r := New(w, Line, nil)
		waits := 0
		w.onWait = func() {
			if waits == len(step.sent) {
				_ = client.Close()
				return
			}
			if held := r.in.buf != nil; held != step.held[waits] {
				t.Errorf("%s: before %.10q arrives a buffer is held: %v, want %v", step.name, step.sent[waits], held, step.held[waits])
			}
			if _, err := client.Write([]byte(step.sent[waits])); err != nil {
				t.Error(err)
			}
			waits++
		}
		for {
			if _, _, err := r.Read(); err != nil {
				break
			}
		}
		if waits < len(step.sent) {
			t.Errorf("%s: only %d of %d parts were read", step.name, waits, len(step.sent))
		}
		_ = r.Close()
	}
}

// TestIdleMemory checks that an idle connection holds nearly no heap, also after a long message.
// Its stack is 2 KB or 4 KB, as the runtime decides.
func TestIdleMemory(t *testing.T) {
	const conns = 300
	type pair struct{ client, server *net.UnixConn }
	pairs := make([]pair, conns)
	for i := range pairs {
		pairs[i].client, pairs[i].server = unixPair(t)
	}
	got, done := make(chan struct{}), make(chan struct{})
	heap, stacks := inUse()
	for _, p := range pairs {
		r := New(p.server, Line, nil)
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				if _, _, err := r.Read(); err != nil {
					_ = r.Close()
					return
				}
				got <- struct{}{}
			}
		}()
	}

	// bytes: the Transport, the goroutine without its stack, and the rounding of the runtime
	most := int64(1500)
	if poison {
		most *= 2 // for the race detector itself
	}
	for _, size := range []int{100, 100_000} {
		for _, p := range pairs {
			if _, err := p.client.Write([]byte(strings.Repeat("x", size) + "\n")); err != nil {
				t.Fatal(err)
			}
			<-got
		}
		// The last goroutines may not be back in Read yet, and a pool retains buffers for two
		// collections.
		var used, stack int64
		for range 100 {
			h, s := inUse()
			if used, stack = (h-heap)/conns, (s-stacks)/conns; used <= most {
				break
			}
		}
		t.Logf("after a message of %d bytes: %d bytes of heap and %d of stack for each idle connection", size, used, stack)
		if used > most {
			t.Errorf("that is more than %d bytes of heap", most)
		}
	}
	for _, p := range pairs {
		_ = p.client.Close()
		<-done
	}
}

// inUse returns the memory of heap and stacks.
func inUse() (heap, stacks int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}

// TestNoTrustInLength checks that an announced length does not allocate memory.
func TestNoTrustInLength(t *testing.T) {
	client, server := unixPair(t)
	r := New(server, Header, &Options{MaxMessage: -1})
	if _, err := client.Write([]byte("Content-Length: 999999999999\r\n\r\n{")); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := r.Read()
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Error("Read of half a message = nil error")
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 200<<10 {
		t.Errorf("%d bytes were allocated for 33 that arrived", used)
	}
	_ = r.Close()
}

func unixPair(t testing.TB) (client, server *net.UnixConn) {
	t.Helper()
	addr := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"}
	l, err := net.ListenUnix("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.DialUnix("unix", nil, addr); err != nil {
		t.Fatal(err)
	}
	if server, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}
