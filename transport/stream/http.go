package stream

import (
	"bytes"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// isHTTP reports whether line is a request line (RFC 9112, section 3): method, target and version.
func isHTTP(line []byte) bool {
	line = bytes.TrimRight(line, " \t\r")
	last := bytes.LastIndexByte(line, ' ')
	return last > 0 && bytes.HasPrefix(line[last+1:], []byte("HTTP/")) && bytes.IndexByte(line[:last], ' ') > 0 && isToken(line[:bytes.IndexByte(line, ' ')])
}

// mayBeHTTP reports whether what begins like this can become a request line. No JSON does.
func mayBeHTTP(line []byte) bool {
	method := bytes.IndexByte(line, ' ')
	return method > 0 && isToken(line[:method]) && len(line) > method+1 && (line[method+1] == '/' || line[method+1] == '*')
}

// isToken reports whether b is a token (RFC 9110, section 5.6.2).
func isToken(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0:
		default:
			return false
		}
	}
	return len(b) > 0
}

// refuseHTTP: nothing is answered, since what we say would be shown to a web page.
func refuseHTTP() *jsonrpc.FrameError {
	return &jsonrpc.FrameError{Final: true, Err: ErrHTTP}
}
