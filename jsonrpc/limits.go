package jsonrpc

import (
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
)

// Limits bound the resources of one connection. In each field, zero means the default. Changes
// after the first use have no effect.
type Limits struct {
	// Depth bounds the nesting of one message. The default is 1,000; other values are raised to 16
	// or lowered to 10,000. A deeper message gets -32600.
	Depth int
	// Tokens bounds the values and member names in one message. The default is 500,000. A message
	// with more gets -32600.
	Tokens int
	// Batch bounds the messages in one batch. The default is 10,000. A batch with more gets -32600
	// as a whole.
	Batch int
	// Parallel bounds the members of one batch that run concurrently; the others wait. The default
	// is 16.
	Parallel int

	// BatchBytes bounds the responses to one batch, in bytes. The default is 16 MiB. Members above
	// it are not run and get -31003.
	BatchBytes int

	// Running bounds the requests of one connection that run concurrently; others are queued. The
	// default is 256.
	Running int
	// Pending bounds the queued requests. The default is 1,024. A request above it gets -31001 at
	// once.
	Pending int
	// PendingBytes bounds the queued and running requests, in bytes. The default is 64 MiB. A
	// request above it gets -31001 at once.
	PendingBytes int
	// NotifyBytes bounds the queued notifications, in bytes. The default is 8 MiB. More close the
	// connection.
	NotifyBytes int

	// OutMessages bounds the messages that wait to be written. The default is 1,024. Above it,
	// callers and handlers wait for room.
	OutMessages int
	// OutBytes bounds the bytes that wait to be written. The default is 8 MiB. Above it, callers
	// and handlers wait for room, in first-come order.
	OutBytes int
	// OutWait bounds how long callers and handlers wait while the peer reads nothing, to within a
	// tenth. The default is 10 s. After it the connection is closed with ErrSlowPeer.
	OutWait time.Duration

	// Deadline is the time of a handler, renewed by each of its notifications. The default is 60 s;
	// negative means no deadline. After it the request gets -31002.
	Deadline time.Duration
	// TotalDeadline is the total time of a handler. The default is 10 min; negative means no
	// deadline.
	TotalDeadline time.Duration

	// Grace bounds how long the end of a connection waits for handlers whose contexts have been
	// cancelled. The default is 5 s. After it Serve and Close return ErrStillRunning. If negative,
	// both wait until the last handler has returned, however long that takes. There are two
	// exceptions, which are bounded by a second: a Shutdown whose context has ended, and handlers
	// that had the time of Conn.Grace.
	Grace time.Duration

	// Calls bounds the own calls that wait for a response. The default is 65,536. A call above it
	// fails with ErrBusy.
	Calls int
	// Events bounds the notifications that wait for one Stream. The default is 256. One more ends
	// the Stream with ErrLagging.
	Events int
	// EventBytes bounds the notifications that wait for one Stream, in bytes; each counts at least
	// 1 KiB. The default is 8 MiB. All Streams of one connection together have eight times this. At
	// the bound, the reader waits for room for up to 100 ms, and for 10 s in total until nothing
	// waits. After that the Stream ends with ErrLagging; at the common bound, the Stream that holds
	// most ends. If nothing waits for a Stream, it accepts a notification of any size.
	EventBytes int
	// CallTime is the time of a call whose context has no deadline, renewed by each notification
	// about it. The default is 60 s; negative means no timeout. After it the call fails with
	// ErrTimeout.
	CallTime time.Duration
}

// withDefaults returns the effective limits.
func (l Limits) withDefaults() Limits {
	or(&l.Depth, defaultDepth)
	l.Depth = min(max(l.Depth, 16), 10_000)
	or(&l.Tokens, defaultTokens)
	or(&l.Batch, defaultBatch)
	or(&l.Parallel, 16)
	or(&l.BatchBytes, 16<<20)
	or(&l.Running, 256)
	or(&l.Pending, 1024)
	or(&l.PendingBytes, 64<<20)
	or(&l.NotifyBytes, 8<<20)
	or(&l.OutMessages, 1024)
	or(&l.OutBytes, 8<<20)
	or(&l.OutWait, 10*time.Second)
	or(&l.Deadline, 60*time.Second)
	or(&l.TotalDeadline, 10*time.Minute)
	or(&l.Grace, grace.Time)
	or(&l.Calls, 65_536)
	or(&l.Events, 256)
	or(&l.EventBytes, 8<<20)
	or(&l.CallTime, 60*time.Second)
	return l
}

func or[T comparable](p *T, otherwise T) {
	if *p == *new(T) {
		*p = otherwise
	}
}

// tickOf returns the interval at which deadlines of length d are checked, which is also their
// precision.
func tickOf(d time.Duration) time.Duration {
	return min(max(d/10, time.Millisecond), time.Second)
}

// ticks returns the number of ticks in d, rounded up. For a negative d it returns a number that is
// never reached.
func ticks(d, tick time.Duration) int64 {
	if d < 0 {
		return 1<<62 - 1
	}
	return int64((d + tick - 1) / tick)
}
