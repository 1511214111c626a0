package stream

import (
	"bytes"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// lines is the framing by newlines.
type lines struct {
	limits
	begun    bool  // the first line has passed
	clean    int   // how many of the unread bytes are known to have no newline
	skipping bool  // inside a line over the limit
	skipped  int64 // how much of it was skipped
	junk     bool  // it does not begin as a message
}

func (l *lines) within() bool { return l.skipping }

func (l *lines) scan(in []byte, eof bool) frame {
	used := 0
	for {
		rest := in[used:]
		if l.skipping {
			n, fault := l.skipOver(rest)
			if used += n; fault != nil || l.skipping {
				return frame{used: used, fault: fault}
			}
			continue
		}
		end := bytes.IndexByte(rest[l.clean:], '\n')
		switch {
		case end >= 0:
			end += l.clean
			used += end + 1
		case eof && len(rest) > 0:
			end = len(rest)
			used += end
		default:
			if l.garbage > 0 && int64(len(rest)) > l.garbage && !mayBeJSON(rest) {
				return frame{used: len(in), fault: endless(int64(len(rest)))}
			}
			// A carriage return may still belong to the end of the line: one byte above the limit
			// is not enough to refuse it.
			if l.clean = len(rest); int64(len(rest))-1 <= l.message {
				return frame{used: used}
			}
			l.clean, l.skipping, l.skipped, l.junk = 0, true, int64(len(rest)), !mayBeJSON(rest)
			return frame{used: len(in), fault: l.tooLarge(rest)}
		}
		l.clean = 0
		if f := l.whole(rest[:end]); f.payload != nil || f.fault != nil {
			f.used = used
			return f
		}
	}
}

// whole handles a complete line. A blank line is neither a payload nor a fault.
func (l *lines) whole(line []byte) frame {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	switch {
	case int64(len(line)) > l.message:
		return frame{fault: l.tooLarge(line)}
	case isBlank(line):
		return frame{}
	}
	if !l.begun {
		l.begun = true
		if l.http && isHTTP(line) {
			return frame{fault: refuseHTTP()}
		}
	}
	return frame{payload: line[:len(line):len(line)]}
}

// tooLarge returns the fault for a line over the limit, of which at least the beginning has
// arrived.
func (l *lines) tooLarge(line []byte) *jsonrpc.FrameError {
	if !l.begun {
		l.begun = true
		if l.http && mayBeHTTP(line) {
			return refuseHTTP()
		}
	}
	return &jsonrpc.FrameError{
		Answer: jsonrpc.ErrInvalidRequest,
		Err:    fmt.Errorf("stream: line of more than %d bytes: %w", l.message, jsonrpc.ErrTooLarge),
	}
}

// skipOver skips the rest of a line that is over the limit. Its fault was already returned.
func (l *lines) skipOver(rest []byte) (used int, fault *jsonrpc.FrameError) {
	end := bytes.IndexByte(rest, '\n')
	if end >= 0 {
		l.skipping = false
		return end + 1, nil
	}
	l.skipped += int64(len(rest))
	switch {
	case l.junk && l.garbage > 0 && l.skipped > l.garbage:
		fault = endless(l.skipped)
	case l.skipped > l.skip:
		fault = &jsonrpc.FrameError{Final: true, Err: fmt.Errorf("stream: no newline in %d bytes: %w", l.skipped, jsonrpc.ErrTooLarge)}
	}
	return len(rest), fault
}

// endless returns the fault for a line that is not a message and does not end.
func endless(size int64) *jsonrpc.FrameError {
	return &jsonrpc.FrameError{Final: true, Err: fmt.Errorf("stream: no newline in %d bytes that are not JSON: %w", size, jsonrpc.ErrGarbage)}
}

// encode replaces newlines inside payloads, which are white space in JSON, with blanks, and leaves
// those that end one.
func (l *lines) encode(b jsonrpc.Burst) ([]byte, *buffer) {
	if bytes.Count(b.Bytes, newline) != len(b.Ends) {
		for p := range b.All() {
			for i := bytes.IndexByte(p, '\n'); i >= 0; i = bytes.IndexByte(p, '\n') {
				p[i] = ' '
				p = p[i+1:]
			}
		}
	}
	return b.Bytes, nil
}

var newline = []byte{'\n'}

// mayBeJSON reports whether line begins as a JSON text that can be long.
func mayBeJSON(line []byte) bool {
	for _, c := range line {
		switch c {
		case ' ', '\t', '\r':
		default:
			return c == '{' || c == '[' || c == '"'
		}
	}
	return false
}

// isBlank reports whether line is only white space.
func isBlank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
