package eventstream

import "sync"

// A Lazy is the stream that the response to a request becomes if there are messages to send before
// its end. A goroutine that a handler started may outlive the handler and still send messages: it
// gets no stream after the end of the response, because the ResponseWriter must not be used any
// more. The zero value is a response that has not begun. It is safe for concurrent use.
type Lazy struct {
	mu     sync.Mutex // guards the fields below
	stream *Writer
	over   bool
}

// Get returns the stream, which begin creates on the first call, or nil after the end of the
// response. begin must not use the Lazy.
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

// End marks the end of the response, and returns the stream for its last event, or nil if there is
// no stream. Only the first call returns the stream: the last event is sent once.
func (l *Lazy) End() *Writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	l.over = true
	return l.stream
}

// Abandon ends the stream without a last event, so that no keep-alive is sent: for a panic on its
// way to net/http, which ends the connection. It does nothing after End.
func (l *Lazy) Abandon() {
	if stream := l.End(); stream != nil {
		_ = stream.Finish() // the error can no longer be reported
	}
}
