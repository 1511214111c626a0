package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Bounds of a block of header fields. Exceeding them ends the Transport.
const (
	maxHeaderLine   = 4 << 10 // bytes, without the line end
	maxHeaderBlock  = 8 << 10 // bytes, including all line ends
	maxHeaderFields = 16
)

// headers is the framing by Content-Length (Language Server Protocol 3.17, Base Protocol).
type headers struct {
	limits
	begun bool // the first line has passed

	clean   int   // how many of the unread bytes are known to have no newline
	block   int   // bytes of this block so far
	fields  int   // fields of this block so far
	length  int64 // value of Content-Length; -1 before it
	charset error // why the payload cannot be read, though it can be skipped

	body bool  // the block is complete, the payload is next
	skip int64 // remaining bytes of a payload to skip
	over int64 // the longest payload that is skipped
}

func newHeaders(l limits) *headers {
	return &headers{limits: l, over: l.skip, length: -1}
}

func (h *headers) within() bool { return h.block > 0 || h.skip > 0 }

// next resets the state for another block.
func (h *headers) next() {
	h.clean, h.block, h.fields, h.length, h.charset, h.body = 0, 0, 0, -1, nil, false
}

func (h *headers) scan(in []byte, eof bool) frame {
	used := 0
	for {
		rest := in[used:]
		switch {
		case h.skip > 0:
			n := min(h.skip, int64(len(rest)))
			h.skip -= n
			used += int(n)
			if h.skip > 0 {
				return frame{used: used}
			}
		case h.body:
			if int64(len(rest)) < h.length {
				return frame{used: used, fault: h.cutOff(eof)}
			}
			payload := rest[:h.length:h.length]
			used += len(payload)
			h.next()
			if len(payload) > 0 { // an empty one is ignored, like a blank line
				return frame{used: used, payload: payload}
			}
		default:
			end := bytes.IndexByte(rest[h.clean:], '\n')
			if end < 0 {
				h.clean = len(rest)
				fault := h.pending(rest)
				if fault == nil && h.block+len(rest) > 0 {
					fault = h.cutOff(eof)
				}
				return frame{used: used, fault: fault}
			}
			end += h.clean
			h.clean = 0
			used += end + 1
			h.block += end + 1
			if fault := h.line(rest[:end]); fault != nil {
				return frame{used: used, fault: fault}
			}
		}
	}
}

// pending checks the bounds of a line whose end has not arrived yet.
func (h *headers) pending(rest []byte) *jsonrpc.FrameError {
	if len(rest)-1 > maxHeaderLine || h.block+len(rest) >= maxHeaderBlock {
		return h.refuse(rest, errTooLong)
	}
	return nil
}

// cutOff returns the fault of a message that ended early.
func (h *headers) cutOff(eof bool) *jsonrpc.FrameError {
	if !eof {
		return nil
	}
	return &jsonrpc.FrameError{Final: true, Err: fmt.Errorf("stream: truncated in the middle of a message: %w", io.ErrUnexpectedEOF)}
}

var errTooLong = errors.New("too long")

// line processes one line of the block, without its newline.
func (h *headers) line(line []byte) *jsonrpc.FrameError {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	switch {
	case len(line) > maxHeaderLine || h.block > maxHeaderBlock:
		return h.refuse(line, errTooLong)
	case len(line) == 0:
		return h.complete()
	}
	if !h.begun {
		h.begun = true
		if h.http && isHTTP(line) {
			return refuseHTTP()
		}
	}
	if h.fields++; h.fields > maxHeaderFields {
		return h.refuse(line, errors.New("too many fields"))
	}
	name, value, found := bytes.Cut(line, []byte(":"))
	if !found || !httptoken.Valid(name) {
		return h.refuse(line, errors.New("not a header field"))
	}
	value = bytes.Trim(value, " \t")
	switch { // a token is ASCII
	case bytes.EqualFold(name, []byte("Content-Length")):
		return h.contentLength(value)
	case bytes.EqualFold(name, []byte("Content-Type")):
		h.charset = checkCharset(string(value))
	}
	return nil
}

// contentLength accepts only digits. The same length twice is accepted (RFC 9110, section 8.6), two
// different lengths are not.
func (h *headers) contentLength(value []byte) *jsonrpc.FrameError {
	n, err := parseLength(value)
	if err != nil {
		return h.refuse(value, err)
	}
	if h.length >= 0 && h.length != n {
		return h.refuse(value, errors.New("duplicate Content-Length"))
	}
	h.length = n
	return nil
}

// complete checks the block after its last line.
func (h *headers) complete() *jsonrpc.FrameError {
	n := h.length
	switch {
	case n < 0:
		return h.refuse(nil, errors.New("no Content-Length"))
	case n > h.message:
		h.next()
		h.skip = n
		return &jsonrpc.FrameError{
			Answer: jsonrpc.ErrInvalidRequest,
			Final:  n > h.over,
			Err:    fmt.Errorf("stream: Content-Length %d is more than %d bytes: %w", n, h.message, jsonrpc.ErrTooLarge),
		}
	case h.charset != nil:
		err := h.charset
		h.next()
		h.skip = n
		return &jsonrpc.FrameError{Answer: jsonrpc.ErrParseError, Err: err}
	}
	h.body = true
	return nil
}

// refuse returns the fault of a block that does not reliably define where the payload ends.
func (h *headers) refuse(text []byte, err error) *jsonrpc.FrameError {
	if !h.begun && h.http && mayBeHTTP(text) {
		return refuseHTTP()
	}
	return &jsonrpc.FrameError{
		Answer: jsonrpc.ErrParseError,
		Final:  true,
		Err:    fmt.Errorf("stream: header %.64q: %w", text, err),
	}
}

// parseLength parses decimal digits. A number above the largest int64 becomes the largest int64.
func parseLength(value []byte) (int64, error) {
	if len(value) == 0 {
		return 0, errors.New("no digits")
	}
	var n int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, errors.New("not a number of bytes")
		}
		if digit := int64(c - '0'); n > (math.MaxInt64-digit)/10 {
			n = math.MaxInt64
		} else {
			n = n*10 + digit
		}
	}
	return n, nil
}

// checkCharset accepts UTF-8 under its two names, and a content type without a charset.
func checkCharset(contentType string) error {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return fmt.Errorf("stream: Content-Type %.64q: %w", contentType, err)
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8":
		return nil
	}
	return fmt.Errorf("stream: Content-Type %.64q: not UTF-8", contentType)
}

// encode copies each payload after its header.
func (h *headers) encode(b jsonrpc.Burst) ([]byte, *buffer) {
	const field, blank = "Content-Length: ", "\r\n\r\n"
	own := newBuffer(len(b.Bytes) + len(b.Ends)*(len(field)+len(blank)+20))
	out := own.b[:0]
	for p := range b.All() {
		out = append(out, field...)
		out = strconv.AppendInt(out, int64(len(p)), 10)
		out = append(out, blank...)
		out = append(out, p...)
	}
	return out, own
}
