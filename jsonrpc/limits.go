package jsonrpc

import "time"

// Limits bound what one conversation may cost. In each field zero means the default. A Limits is
// plain data; changes after its first use have no effect.
type Limits struct {
	Depth    int // nesting of one message; 1,000, from 16 to 10,000. Deeper: -32600
	Tokens   int // values and member names in one message; 500,000. More: -32600
	Batch    int // messages in one batch; 10,000. More: -32600 for the whole batch
	Parallel int // members of one batch that run at once; 16. The rest wait

	BatchBytes int // answers to one batch, in bytes; 16 MiB. Members past it are answered -31003

	Running     int // requests of one conversation that run at once; 256. More wait in line
	Pending     int // requests that wait in line; 1,024. More are answered -31001 at once
	NotifyBytes int // bytes of notifications that wait in line; 8 MiB. More end the conversation

	OutMessages int           // messages that wait to be written; 1,024. Callers and handlers wait for room
	OutBytes    int           // bytes that wait to be written; 8 MiB. Callers and handlers wait for room
	OutWait     time.Duration // how long they wait; 10 s. Then the peer is closed as one that does not read

	Deadline      time.Duration // a handler's time, renewed by each of its notifications; 60 s. Negative: none. Passed: -31002
	TotalDeadline time.Duration // a handler's time in all; 10 min. Negative: none

	Calls    int           // own calls that wait for an answer; 65,536. More fail with ErrBusy
	Events   int           // notifications that wait for one Stream; 256. More end it with ErrLagging
	CallTime time.Duration // a call's time, renewed by each notification about it; 60 s. Negative: none. Passed: ErrTimeout
}

// A Gate bounds the requests that run at once in all conversations that share it. The zero value, and nil, let all pass.
type Gate struct {
	Max int64 // requests at once; over it they are answered -31001. Zero: no bound

	running counter
}
