package conformance

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"
)

// Opcodes of RFC 6455, section 5.2.
const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10
)

// A Frame is one WebSocket frame.
type Frame struct {
	Fin     bool
	RSV     byte // three bits
	Op      byte
	Payload []byte
}

// A CloseError is a close frame from the server. Code 1005 means that it was empty.
type CloseError struct {
	Code   int
	Reason string
}

func (e *CloseError) Error() string { return fmt.Sprintf("close %d %q", e.Code, e.Reason) }

// mask is the masking key of all our frames. This value makes errors visible.
var mask = [4]byte{0x37, 0xfa, 0x21, 0x3d}

// bytes returns the frame as a client sends it.
func (f Frame) bytes() []byte { return f.encode(true, 0) }

// encode encodes a frame, masked or not, with the length in lengthBytes bytes; 0 selects the
// shortest form.
func (f Frame) encode(masked bool, lengthBytes int) []byte {
	first := f.RSV<<4 | f.Op
	if f.Fin {
		first |= 0x80
	}
	n := len(f.Payload)
	if lengthBytes == 0 {
		switch {
		case n > 0xffff:
			lengthBytes = 8
		case n > 125:
			lengthBytes = 2
		}
	}
	var bit byte
	if masked {
		bit = 0x80
	}
	out := []byte{first}
	switch lengthBytes {
	case 8:
		out = binary.BigEndian.AppendUint64(append(out, bit|127), uint64(n))
	case 2:
		out = binary.BigEndian.AppendUint16(append(out, bit|126), uint16(n))
	default:
		out = append(out, bit|byte(n))
	}
	if !masked {
		return append(out, f.Payload...)
	}
	out = append(out, mask[:]...)
	start := len(out)
	out = append(out, f.Payload...)
	for i := range f.Payload {
		out[start+i] ^= mask[i&3]
	}
	return out
}

func text(payload string) Frame { return Frame{Fin: true, Op: opText, Payload: []byte(payload)} }

// readFrame reads one frame of the server and checks that a server may send it.
func readFrame(in *bufio.Reader) (Frame, error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Fin: head[0]&0x80 != 0, RSV: head[0] >> 4 & 7, Op: head[0] & 15}
	n := uint64(head[1] & 0x7f)
	switch {
	case head[1]&0x80 != 0:
		return f, errors.New("a server must not mask (RFC 6455, section 5.1)")
	case f.RSV != 0:
		return f, errors.New("no extension was agreed on, but a reserved bit is set")
	case f.Op > opBinary && f.Op < opClose || f.Op > opPong:
		return f, fmt.Errorf("opcode %d does not exist", f.Op)
	case f.Op >= opClose && (n > 125 || !f.Fin):
		return f, errors.New("a control frame is short and whole")
	}
	long := n
	switch n {
	case 126:
		var b [2]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return f, err
		}
		if long = uint64(binary.BigEndian.Uint16(b[:])); long < 126 {
			return f, errors.New("a length is written in the shortest form")
		}
	case 127:
		var b [8]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return f, err
		}
		if long = binary.BigEndian.Uint64(b[:]); long <= 0xffff {
			return f, errors.New("a length is written in the shortest form")
		}
	}
	if long > 64<<20 {
		return f, fmt.Errorf("a frame of %d bytes", long)
	}
	f.Payload = make([]byte, long)
	_, err := io.ReadFull(in, f.Payload)
	return f, err
}

// closeError parses a close frame.
func closeError(payload []byte) error {
	switch {
	case len(payload) == 0:
		return &CloseError{Code: 1005}
	case len(payload) == 1:
		return errors.New("a close frame with one byte")
	case !utf8.Valid(payload[2:]):
		return errors.New("the reason is not UTF-8")
	}
	return &CloseError{Code: int(binary.BigEndian.Uint16(payload)), Reason: string(payload[2:])}
}

// A socketWire sends and receives messages in text frames.
type socketWire struct {
	s  Stream
	in *bufio.Reader
}

const handshake = "GET /rpc HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

func (d *Demo) dialWebSocket(address string) (*socketWire, error) {
	s, err := dialStream("tcp", address)
	if err != nil {
		return nil, err
	}
	w := &socketWire{s: s, in: bufio.NewReaderSize(s, 64<<10)}
	if _, err := io.WriteString(s, fill(handshake, address)); err != nil {
		return nil, err
	}
	_ = s.SetReadDeadline(time.Now().Add(patience))
	r, err := http.ReadResponse(w.in, &http.Request{Method: http.MethodGet})
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }() // a 101 has no body
	if r.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("the handshake brought %s", r.Status)
	}
	return w, nil
}

func (w *socketWire) Close() { _ = w.s.Close() }

func (w *socketWire) Send(message []byte) error {
	return w.raw(Frame{Fin: true, Op: opText, Payload: message}.bytes())
}

func (w *socketWire) raw(b []byte) error {
	_ = w.s.SetWriteDeadline(time.Now().Add(patience))
	_, err := w.s.Write(b)
	return err
}

func (w *socketWire) frame() (Frame, error) {
	_ = w.s.SetReadDeadline(time.Now().Add(patience))
	return readFrame(w.in)
}

// Recv returns the next message. Each must be one whole text frame.
func (w *socketWire) Recv() ([]byte, error) {
	for {
		f, err := w.frame()
		switch {
		case err != nil:
			return nil, err
		case f.Op == opClose:
			return nil, closeError(f.Payload)
		case f.Op == opPing:
			if err := w.raw(Frame{Fin: true, Op: opPong, Payload: f.Payload}.bytes()); err != nil {
				return nil, err
			}
		case f.Op == opPong:
		case f.Op == opText && f.Fin && utf8.Valid(f.Payload):
			return f.Payload, nil
		default:
			return nil, fmt.Errorf("not a whole text frame: fin %t, opcode %d, %s", f.Fin, f.Op, short(f.Payload))
		}
	}
}
