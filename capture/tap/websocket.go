package tap

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
)

// A frames reads one direction of a WebSocket (RFC 6455, section 5).
type frames struct {
	s    sink
	head []byte
	want int // length of the frame header, once known

	left       uint64 // missing bytes of this frame's payload
	mask       [4]byte
	masked     bool
	at         int // position in the mask
	opcode     byte
	fin        bool
	message    kept // the payload of all frames so far
	text       bool
	compressed bool
	control    []byte
	window     []byte // the last 32 KiB of inflated data, which the next message may refer to
	lost       bool
}

const window = 32 << 10

func (f *frames) feed(p []byte) {
	for len(p) > 0 && !f.lost {
		if f.left == 0 {
			p = f.header(p)
			continue
		}
		n := int(min(f.left, uint64(len(p))))
		f.data(p[:n])
		f.left -= uint64(n)
		p = p[n:]
		if f.left == 0 {
			f.frame()
		}
	}
}

// header reads bytes of a frame header.
func (f *frames) header(p []byte) []byte {
	for len(p) > 0 {
		f.head = append(f.head, p[0])
		p = p[1:]
		if len(f.head) < 2 {
			continue
		}
		if len(f.head) == 2 {
			f.want = 2
			switch f.head[1] & 0x7f {
			case 126:
				f.want += 2
			case 127:
				f.want += 8
			}
			if f.head[1]&0x80 != 0 {
				f.want += 4
			}
		}
		if len(f.head) == f.want {
			f.startFrame()
			return p
		}
	}
	return p
}

func (f *frames) startFrame() {
	h := f.head
	f.head = f.head[:0]
	f.fin, f.opcode = h[0]&0x80 != 0, h[0]&0x0f
	length := uint64(h[1] & 0x7f)
	rest := h[2:]
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(rest))
		rest = rest[2:]
	case 127:
		length = binary.BigEndian.Uint64(rest)
		rest = rest[8:]
	}
	f.masked, f.at = h[1]&0x80 != 0, 0
	if f.masked {
		copy(f.mask[:], rest)
	}
	f.control = f.control[:0]
	switch f.opcode {
	case 1, 2:
		f.message.reset()
		f.text, f.compressed = f.opcode == 1, h[0]&0x40 != 0
	case 0, 8, 9, 10:
	default:
		f.lost = true
		f.message.free()
		f.s.junk(h, "not a WebSocket frame; the rest is not parsed")
		return
	}
	if f.left = length; length == 0 {
		f.frame()
	}
}

// data reads bytes of a frame's payload and unmasks a copy.
func (f *frames) data(p []byte) {
	if f.masked {
		plain := make([]byte, len(p))
		for i, c := range p {
			plain[i] = c ^ f.mask[f.at&3]
			f.at++
		}
		p = plain
	}
	if f.opcode >= 8 {
		f.control = append(f.control, p[:min(len(p), 125-len(f.control))]...) // the maximum length
		return
	}
	f.message.add(p)
}

// frame ends a frame.
func (f *frames) frame() {
	if f.opcode == 8 {
		if len(f.control) > 2 {
			f.s.junk(f.control[2:], fmt.Sprintf("closed with %d", binary.BigEndian.Uint16(f.control)))
		}
		return
	}
	if f.opcode > 8 || !f.fin {
		return
	}
	defer f.message.reset()
	data, size := f.message.buf, f.message.size
	if f.compressed && size == len(data) {
		plain, n, err := f.inflate(data)
		if err != nil {
			f.s.junk(data[:min(len(data), maxOther)], "an invalid compressed message: "+err.Error())
			return
		}
		data, size = plain, n
	}
	if !f.text {
		f.s.junk(data[:min(len(data), maxOther)], fmt.Sprintf("a binary message of %d bytes", size))
	} else {
		f.s.payload(data, size)
	}
	if f.lost {
		f.s.junk(nil, "a compressed message that is too long; the rest is not parsed")
	}
}

// inflate decompresses permessage-deflate data (RFC 7692, section 7.2.2). It returns up to maxKept
// bytes, and the number of all. The rest of a longer message is needed for the window, with which
// later messages are decompressed; beyond maxExpanded bytes the connection is lost.
func (f *frames) inflate(data []byte) (plain []byte, size int, err error) {
	src := io.MultiReader(bytes.NewReader(data), bytes.NewReader([]byte("\x00\x00\xff\xff\x01\x00\x00\xff\xff")))
	r := flate.NewReaderDict(src, f.window)
	defer r.Close()
	if plain, err = io.ReadAll(io.LimitReader(r, maxKept)); err != nil {
		return nil, 0, err
	}
	f.slide(plain)
	size = len(plain)
	if size < maxKept {
		return plain, size, nil
	}
	for part := make([]byte, window); ; {
		n, err := r.Read(part)
		f.slide(part[:n])
		size += n
		switch {
		case err == io.EOF:
			return plain, size, nil
		case err != nil:
			return nil, 0, err
		case size >= maxExpanded:
			f.lost = true
			return plain, size, nil
		}
	}
}

// slide appends to the window and drops what is too old for it.
func (f *frames) slide(plain []byte) {
	f.window = append(f.window, plain[max(0, len(plain)-window):]...)
	if len(f.window) > window {
		f.window = bytes.Clone(f.window[len(f.window)-window:])
	}
}

func (f *frames) endInput() {
	if f.left > 0 || len(f.head) > 0 {
		f.s.junk(f.message.buf[:min(len(f.message.buf), maxOther)], "the connection ends inside a frame")
	}
	f.message.free()
}
