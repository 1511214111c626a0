package sse

import "sync"

// A Lazy is the stream that the answer to a request becomes when there is something to say before its end. What a handler has started may outlive
// the handler and still want to say something: it gets no stream once the answer is over, as the ResponseWriter is not its own any more then.
// The zero value is an answer of which nothing is known yet. It is safe for concurrent use.
type Lazy struct {
	mu     sync.Mutex // guards what is below
	stream *Writer
	over   bool
}

// Get returns the stream, which begin makes if there is none yet, or nil once the answer is over. begin must not use the Lazy.
func (l *Lazy) Get(begin func() *Writer) *Writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	if l.stream == nil {
		l.stream = begin()
	}
	return l.stream
}

// End says that the answer is over, and returns the stream, for its last event, or nil if there is none. It returns nil also when somebody else
// has called it before: what is last is said once.
func (l *Lazy) End() *Writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	l.over = true
	return l.stream
}

// Abandon ends the stream without a last event, so that nothing keeps it alive: for a panic on its way to net/http, which ends the connection. It
// does nothing after End.
func (l *Lazy) Abandon() {
	if stream := l.End(); stream != nil {
		_ = stream.Finish() // there is nobody to tell
	}
}
