package stream

import (
	"bytes"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// isHTTP reports whether line is a request line (RFC 9112, section 3): method, target and version.
func isHTTP(line []byte) bool {
	line = bytes.TrimRight(line, " \t\r")
	last := bytes.LastIndexByte(line, ' ')
	return last > 0 && bytes.HasPrefix(line[last+1:], []byte("HTTP/")) && bytes.IndexByte(line[:last], ' ') > 0 && httptoken.Valid(line[:bytes.IndexByte(line, ' ')])
}

// mayBeHTTP reports whether line, which is incomplete, can become a request line. No JSON text can.
func mayBeHTTP(line []byte) bool {
	method := bytes.IndexByte(line, ' ')
	return method > 0 && httptoken.Valid(line[:method]) && len(line) > method+1 && (line[method+1] == '/' || line[method+1] == '*')
}

// refuseHTTP returns a fault without a response: a web page could read the response.
func refuseHTTP() *jsonrpc.FrameError {
	return &jsonrpc.FrameError{Final: true, Err: ErrHTTP}
}
