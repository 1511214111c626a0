package budget

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestArrival checks what buffers of a connection count.
func TestArrival(t *testing.T) {
	var a Arrival
	before := Messages.Used()
	for _, step := range []struct {
		size int
		held int64
	}{{4 << 10, 0}, {64 << 10, 128 << 10}, {16 << 10, 32 << 10}, {0, 0}, {16 << 10, 32 << 10}} {
		if !a.Hold(step.size) || Messages.Used()-before != step.held {
			t.Errorf("a buffer of %d bytes counts %d, want %d", step.size, Messages.Used()-before, step.held)
		}
	}
	if a.Hold(128 << 10) {
		t.Error("a long message takes room without its turn")
	}
	if waited, err := a.Grow(1 << 20); err != nil || waited != 0 || Messages.Used()-before != 2<<20 {
		t.Errorf("Grow = %v, %v, %d bytes are held", waited, err, Messages.Used()-before)
	}
	a.Passed()
	a.Close()
	a.Close()
	if _, err := a.Grow(4 << 20); !errors.Is(err, ErrNoRoom) || Messages.Used() != before || len(Messages.half) != 0 {
		t.Errorf("after Close: Grow = %v, %d bytes are held, %d messages arrive", err, Messages.Used()-before, len(Messages.half))
	}
}

// remote is a connection with a remote address.
type remote string

func (r remote) RemoteAddr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", string(r))
	return addr
}

// TestConnectionsOfOneAddressShareAnAccount checks whose account the buffers of a connection count
// against.
func TestConnectionsOfOneAddressShareAnAccount(t *testing.T) {
	for _, row := range []struct {
		first, second string
		shared        bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "192.0.2.2:1", false},
		{"[2001:db8::1]:1", "[2001:db8::2]:1", true},
		{"127.0.0.1:1", "127.0.0.1:2", false},
	} {
		var a, b Arrival
		a.From(remote(row.first))
		b.From(remote(row.second))
		a.name()
		b.name()
		if shared := a.account() == b.account(); shared != row.shared {
			t.Errorf("%s and %s: shared is %t", row.first, row.second, shared)
		}
		a.Close()
		b.Close()
		if senders.Len() != 0 {
			t.Errorf("%d accounts are left", senders.Len())
		}
	}
}

// TestOlderMessagesAreNotOvertaken checks that a message gets room only if the older ones that are
// arriving still fit, and that nothing is reserved for one that has stopped.
func TestOlderMessagesAreNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Max: 800 << 10}
		begin := func() *Intake { return (&Account{Pool: p}).Begin(600 << 10) }
		first, second := begin(), begin()
		if !first.TryGrow(100<<10) || second.TryGrow(150<<10) {
			t.Error("the second message takes room that the first one needs")
		}
		if !second.TryGrow(100 << 10) {
			t.Error("there is room for both")
		}
		time.Sleep(2 * time.Second)
		if !second.TryGrow(150 << 10) {
			t.Error("room is reserved for a message that does not arrive")
		}
		second.End()
		if !first.TryGrow(900 << 10) {
			t.Error("the oldest message has to wait")
		}
		first.End()
	})
}

// asking is a connection that calls a function when its address is read.
type asking func()

func (f asking) RemoteAddr() net.Addr { f(); return nil }

// TestRemoteAddrIsCalledWithoutALock checks that the address of a user's connection may take its
// time, and that its connection can be closed meanwhile.
func TestRemoteAddrIsCalledWithoutALock(t *testing.T) {
	for name, use := range map[string]func(*Arrival){
		"Hold": func(a *Arrival) { a.Hold(64 << 10) },
		"Grow": func(a *Arrival) { _, _ = a.Grow(1 << 20) },
	} {
		t.Run(name, func(t *testing.T) {
			before, calls := Messages.Used(), 0
			var a Arrival
			a.From(asking(func() {
				calls++
				if !a.mu.TryLock() {
					t.Error("the lock is held")
					return
				}
				a.mu.Unlock()
				a.Close()
			}))
			use(&a)
			if calls != 1 || Messages.Used() != before {
				t.Errorf("%d calls, %d bytes are held", calls, Messages.Used()-before)
			}
		})
	}
}
