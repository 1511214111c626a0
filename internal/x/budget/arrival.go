package budget

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// FreeBuffer is the size of a buffer that an Arrival does not count: every connection may have one.
const FreeBuffer = 4 << 10

const (
	// ArrivalTime is how long a message that has arrived in part waits for room.
	ArrivalTime = 5 * time.Minute

	// ArrivalWant is what one message probably takes in all. Room for that is reserved while it
	// arrives.
	ArrivalWant = 8 << 20

	// buffers up to this size need not wait while half of Messages is free
	quickBuffer = 64 << 10
)

// ErrNoRoom is returned by Arrival.Grow.
var ErrNoRoom = errors.New("too much is in memory")

// An Arrival counts the buffer of one connection in which its messages arrive, in Messages. A
// buffer counts twice, because the next larger one is filled from it. Close may be called by any
// goroutine, the other methods by the goroutine that reads. The zero Arrival has an account of its
// own.
type Arrival struct {
	conn    any  // with the remote address, if it has one
	named   bool // key is set
	key     string
	counted int64 // what the goroutine that reads has taken
	partial bool  // intake is set

	mu     sync.Mutex // guards the fields below
	own    Account
	shared *Shared // of the remote address; nil for none, and before the first use
	held   int64
	intake *Intake            // of a message that had to grow; nil for none
	stop   context.CancelFunc // while Grow waits
	closed bool
}

// From sets the connection. If it has a RemoteAddr, the account of that address is used. From must
// be called before the other methods.
func (a *Arrival) From(conn any) { a.conn = conn }

func cost(size int) int64 {
	if size <= FreeBuffer {
		return 0
	}
	return 2 * int64(size)
}

// name sets the key of the account. It is called without the lock, because RemoteAddr may be a
// function of the user.
func (a *Arrival) name() {
	if a.named {
		return
	}
	a.named = true
	if c, ok := a.conn.(interface{ RemoteAddr() net.Addr }); ok {
		a.key = KeyOf(c.RemoteAddr())
	}
}

// account returns the account of the connection. The lock is held.
func (a *Arrival) account() *Account {
	if a.own.Pool == nil {
		a.own.Pool = &Messages
		if a.key != "" {
			a.shared = senders.Enter(a.key)
		}
	}
	if a.shared != nil {
		return &a.shared.Account
	}
	return &a.own
}

// Hold counts a buffer of the given size in place of the one before, and reports whether there was
// room. It never waits. There is always room for FreeBuffer or less, and for a smaller buffer.
// There is room for up to 64 KiB while half of Messages is free, and never for more: use Grow.
func (a *Arrival) Hold(size int) bool {
	more := cost(size) - a.counted
	if more == 0 {
		return true
	}
	a.name()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return more < 0
	}
	if more < 0 {
		a.account().Give(-more)
	} else if size > quickBuffer || Messages.Used()+more > Messages.Max/2 || !a.account().Take(more) {
		return false
	}
	a.held += more
	a.counted += more
	return true
}

// Grow is Hold for a message that has arrived in part. It waits for room, and reports for how long.
// It returns ErrNoRoom after five minutes, and after Close.
func (a *Arrival) Grow(size int) (waited time.Duration, err error) {
	more := cost(size) - a.counted
	if more <= 0 {
		return 0, nil
	}
	a.name()
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return 0, ErrNoRoom
	}
	if a.intake == nil {
		a.intake, a.partial = a.account().Begin(max(ArrivalWant, cost(size))-a.held), true
	}
	if a.intake.TryGrow(more) {
		a.held += more
		a.counted += more
		a.mu.Unlock()
		return 0, nil
	}
	intake := a.intake
	ctx, cancel := context.WithTimeout(context.Background(), ArrivalTime)
	defer cancel()
	a.stop = cancel
	a.mu.Unlock()

	start := time.Now()
	err = intake.Grow(ctx, more)
	waited = time.Since(start)

	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop = nil
	switch {
	case err != nil:
		return waited, ErrNoRoom
	case a.closed:
		a.account().Give(more)
		return waited, ErrNoRoom
	}
	a.held += more
	a.counted += more
	return waited, nil
}

// Passed marks the message as complete. Its buffer still counts.
func (a *Arrival) Passed() {
	if !a.partial {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endIntake()
	a.partial = false
}

// endIntake lets the next message be the oldest. The lock is held.
func (a *Arrival) endIntake() {
	if a.intake != nil {
		a.intake.End()
		a.intake = nil
	}
}

// Close releases everything and ends a Grow. Nothing is counted afterwards.
func (a *Arrival) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	if a.stop != nil {
		a.stop()
	}
	a.endIntake()
	if a.held > 0 {
		a.account().Give(a.held)
		a.held = 0
	}
	if a.shared != nil {
		senders.Leave(a.shared)
	}
}
