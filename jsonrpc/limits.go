package jsonrpc

import (
	"sync/atomic"
	"time"
)

// Limits bound what one conversation may cost. In each field zero means the default. A Limits is
// plain data; changes after its first use have no effect.
type Limits struct {
	Depth    int // nesting of one message; 1,000, from 16 to 10,000. Deeper: -32600
	Tokens   int // values and member names in one message; 500,000. More: -32600
	Batch    int // messages in one batch; 10,000. More: -32600 for the whole batch
	Parallel int // members of one batch that run at once; 16. The rest wait

	BatchBytes int // answers to one batch, in bytes; 16 MiB. Members past it are not run and answered -31003

	Running      int // requests of one conversation that run at once; 256. More wait in line
	Pending      int // requests that wait in line; 1,024. More are answered -31001 at once
	PendingBytes int // bytes of requests that run or wait in line; 64 MiB. More are answered -31001 at once
	NotifyBytes  int // bytes of notifications that wait in line; 8 MiB. More end the conversation

	OutMessages int           // messages that wait to be written; 1,024. Callers and handlers wait for room
	OutBytes    int           // bytes that wait to be written; 8 MiB. Callers and handlers wait for room
	OutWait     time.Duration // how long they wait; 10 s. Then the peer is closed as one that does not read

	Deadline      time.Duration // a handler's time, renewed by each of its notifications; 60 s. Negative: none. Passed: -31002
	TotalDeadline time.Duration // a handler's time in all; 10 min. Negative: none

	Calls    int           // own calls that wait for an answer; 65,536. More fail with ErrBusy
	Events   int           // notifications that wait for one Stream; 256. More end it with ErrLagging
	CallTime time.Duration // a call's time if its context has no deadline, renewed by each notification about it; 60 s. Negative: none. Passed: ErrTimeout
}

// withDefaults returns the limits in force.
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
	or(&l.Calls, 65_536)
	or(&l.Events, 256)
	or(&l.CallTime, 60*time.Second)
	return l
}

func or[T comparable](p *T, otherwise T) {
	if *p == *new(T) {
		*p = otherwise
	}
}

// tickOf returns how often deadlines of length d are looked at: they are exact to this.
func tickOf(d time.Duration) time.Duration {
	return min(max(d/10, time.Millisecond), time.Second)
}

// ticks returns how many ticks make up d, rounded up; a negative d is never reached.
func ticks(d, tick time.Duration) int64 {
	if d < 0 {
		return 1<<62 - 1
	}
	return int64((d + tick - 1) / tick)
}

// A Gate bounds the requests that run at once in all conversations that share it. The zero Gate, and nil, let all pass.
type Gate struct {
	Max int64 // requests at once; over it they are answered -31001. Zero: no bound

	running atomic.Int64
}

func (g *Gate) enter() bool {
	if g == nil || g.Max == 0 {
		return true
	}
	if g.running.Add(1) <= g.Max {
		return true
	}
	g.running.Add(-1)
	return false
}

// mustEnter takes a place back that was left for a while.
func (g *Gate) mustEnter() {
	if g != nil && g.Max != 0 {
		g.running.Add(1)
	}
}

func (g *Gate) leave() {
	if g != nil && g.Max != 0 {
		g.running.Add(-1)
	}
}
