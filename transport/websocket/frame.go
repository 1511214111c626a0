package websocket

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// An opcode is the type of a frame (RFC 6455, section 5.2).
type opcode byte

const (
	opContinuation opcode = 0x0
	opText         opcode = 0x1
	opBinary       opcode = 0x2
	opClose        opcode = 0x8
	opPing         opcode = 0x9
	opPong         opcode = 0xA
)

func (op opcode) control() bool { return op&0x8 != 0 }

func (op opcode) known() bool { return op <= opBinary || opClose <= op && op <= opPong }

const (
	finBit      = 0x80
	reservedBit = 0x70
	maskBit     = 0x80

	maxHeader  = 14  // two bytes, eight of length, four of mask
	maxControl = 125 // payload of a control frame (RFC 6455, section 5.5)
)

// A header is the part of a frame before the payload.
type header struct {
	fin    bool
	op     opcode
	key    uint32 // the mask, its first byte lowest; only a client's frames have one
	length int64
}

// parseHeader parses the header at the start of b and checks everything that does not depend on
// earlier frames. masked reports whether the frames are a client's. n is the length of the header,
// or 0 if it is incomplete; violations are reported at the earliest byte.
func parseHeader(b []byte, masked bool) (h header, n int, bad *violation) {
	if len(b) < 2 {
		if len(b) == 1 {
			bad = judge(b[0])
		}
		return h, 0, bad
	}
	if bad := judge(b[0]); bad != nil {
		return h, 0, bad
	}
	h.fin, h.op = b[0]&finBit != 0, opcode(b[0]&0x0F)
	if (b[1]&maskBit != 0) != masked {
		if masked {
			return h, 0, protocolError("a frame without a mask")
		}
		return h, 0, protocolError("a frame with a mask")
	}
	h.length, n = int64(b[1]&^maskBit), 2
	if h.op.control() && h.length > maxControl {
		return h, 0, protocolError("a control frame of more than 125 bytes")
	}

	switch h.length {
	case 126:
		if len(b) < 4 {
			return h, 0, nil
		}
		h.length, n = int64(binary.BigEndian.Uint16(b[2:])), 4
		if h.length < 126 {
			return h, 0, protocolError("a length that is not in its shortest form")
		}
	case 127:
		if len(b) < 10 {
			return h, 0, nil
		}
		long := binary.BigEndian.Uint64(b[2:])
		switch {
		case long>>63 != 0:
			return h, 0, protocolError("a length of 64 bits")
		case long <= 0xFFFF:
			return h, 0, protocolError("a length that is not in its shortest form")
		}
		h.length, n = int64(long), 10
	}
	if masked {
		if len(b) < n+4 {
			return h, 0, nil
		}
		h.key = binary.LittleEndian.Uint32(b[n:])
		n += 4
	}
	return h, n, nil
}

// judge checks the first byte of a frame.
func judge(first byte) *violation {
	op := opcode(first & 0x0F)
	switch {
	case first&reservedBit != 0:
		return protocolError("reserved bits are set")
	case !op.known():
		return protocolError("a reserved opcode")
	case op.control() && first&finBit == 0:
		return protocolError("a fragmented control frame")
	}
	return nil
}

// appendHeader appends the header of an unfragmented frame, with its length in the shortest form.
func appendHeader(dst []byte, op opcode, length int, masked bool, key uint32) []byte {
	var mask byte
	if masked {
		mask = maskBit
	}
	dst = append(dst, finBit|byte(op))
	switch {
	case length <= 125:
		dst = append(dst, mask|byte(length))
	case length <= 0xFFFF:
		dst = binary.BigEndian.AppendUint16(append(dst, mask|126), uint16(length))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, mask|127), uint64(length))
	}
	if masked {
		dst = binary.LittleEndian.AppendUint32(dst, key)
	}
	return dst
}

// xor writes src under the mask key to dst and returns the key for the byte that follows (RFC 6455,
// section 5.3). dst may be src, or start before it in the same array: a fragment is unmasked and
// moved in one pass.
func xor(dst, src []byte, key uint32) uint32 {
	dst = dst[:len(src)]
	wide := uint64(key)<<32 | uint64(key)
	for len(src) >= 32 && len(dst) >= 32 {
		binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(src)^wide)
		binary.LittleEndian.PutUint64(dst[8:], binary.LittleEndian.Uint64(src[8:])^wide)
		binary.LittleEndian.PutUint64(dst[16:], binary.LittleEndian.Uint64(src[16:])^wide)
		binary.LittleEndian.PutUint64(dst[24:], binary.LittleEndian.Uint64(src[24:])^wide)
		src, dst = src[32:], dst[32:]
	}
	for len(src) >= 8 && len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(src)^wide)
		src, dst = src[8:], dst[8:]
	}
	for i, c := range src {
		dst[i] = c ^ byte(key)
		key = bits.RotateLeft32(key, -8)
	}
	return key
}

// textPrefix returns how many bytes of b are whole characters, and whether b can still become
// UTF-8: a character that is cut off at the end is no error, but one that no byte could complete
// is.
func textPrefix(b []byte) (n int, ok bool) {
	n = len(b)
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		c := b[len(b)-i]
		if c < utf8.RuneSelf {
			break
		}
		if utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) { // an invalid one counts as full
				n = len(b) - i
			}
			break
		}
	}
	return n, utf8.Valid(b[:n])
}

// parseClose parses the payload of a close frame (RFC 6455, sections 5.5.1 and 7.4).
func parseClose(p []byte) (Code, string, *violation) {
	switch len(p) {
	case 0:
		return CloseNoStatus, "", nil
	case 1:
		return 0, "", protocolError("a close frame of one byte")
	}
	code := Code(binary.BigEndian.Uint16(p))
	if !code.sendable() {
		return 0, "", protocolError("a close code that must not be sent")
	}
	if !utf8.Valid(p[2:]) {
		return 0, "", invalidText("a close reason that is not UTF-8")
	}
	return code, string(p[2:]), nil
}

// appendClose appends the payload of a close frame; the reason is cut to the maximum length.
func appendClose(dst []byte, code Code, reason string) []byte {
	if code == CloseNoStatus {
		return dst
	}
	if limit := maxControl - 2; len(reason) > limit {
		for limit > 0 && !utf8.RuneStart(reason[limit]) {
			limit--
		}
		reason = reason[:limit]
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(code)), reason...)
}

// A violation is an error of the peer, with the close code and the reason that are sent.
type violation struct {
	code   Code
	reason string // also sent, so always a fixed text
	kind   error  // for errors.Is, or nil
}

func (v *violation) Error() string {
	return fmt.Sprintf("websocket: the peer sent %s (closed with %d)", v.reason, v.code)
}

func (v *violation) Unwrap() error { return v.kind }

func protocolError(reason string) *violation {
	return &violation{code: CloseProtocolError, reason: reason}
}

func invalidText(reason string) *violation {
	return &violation{code: CloseInvalidData, reason: reason}
}

func tooBig(reason string) *violation {
	return &violation{code: CloseTooBig, reason: reason, kind: jsonrpc.ErrTooLarge}
}
