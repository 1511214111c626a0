package check

import (
	"bufio"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
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

// A wsWire is a WebSocket connection.
type wsWire struct {
	s     *session
	c     net.Conn
	r     *bufio.Reader
	pongs []string // payloads of the pongs, the last ones
	ended *closeError
}

// A closeError is the close frame of a server.
type closeError struct{ code int }

func (e *closeError) Error() string { return fmt.Sprintf("WebSocket closed with code %d", e.code) }

// upgrade performs the opening handshake. Servers that require an Origin get their own.
func (s *session) upgrade(c net.Conn) (*wsWire, error) {
	w, status, err := s.handshake(c, s.origin)
	if status != http.StatusForbidden || s.origin {
		return w, err
	}
	again, dialed := s.dialConn()
	if dialed != nil {
		return nil, err
	}
	w, _, second := s.handshake(again, true)
	if second != nil {
		_ = again.Close() // refused too
		return nil, err
	}
	_ = c.Close() // refused
	s.origin = true
	return w, nil
}

func (s *session) handshake(c net.Conn, origin bool) (*wsWire, int, error) {
	_ = c.SetDeadline(time.Now().Add(s.o.Timeout)) // the error shows in Write
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	key := base64.StdEncoding.EncodeToString(nonce[:])
	h := s.header()
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", "websocket")
	h.Set("Sec-WebSocket-Version", "13")
	h.Set("Sec-WebSocket-Key", key)
	if origin {
		scheme := "http://"
		if s.target.Scheme == "wss" {
			scheme = "https://"
		}
		h.Set("Origin", scheme+s.target.Address)
	}
	if _, err := c.Write(s.head("GET", h)); err != nil {
		return nil, 0, err
	}
	r := bufio.NewReader(c)
	response, err := http.ReadResponse(r, nil) //nolint:bodyclose // frames follow it
	if err != nil {
		return nil, 0, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, response.StatusCode, fmt.Errorf("the WebSocket handshake failed: HTTP status %d", response.StatusCode)
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	s.counted["handshake"]++
	if got := response.Header.Get("Sec-WebSocket-Accept"); got != base64.StdEncoding.EncodeToString(sum[:]) {
		s.note("ws/handshake", "Sec-WebSocket-Key: "+key, "Sec-WebSocket-Accept: "+got, "Sec-WebSocket-Accept must be the hash of the key")
	}
	for _, name := range []string{"Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"} {
		if got := response.Header.Get(name); got != "" && h.Get(name) == "" {
			s.note("ws/handshake", "(no "+name+")", name+": "+got, "the server selects what the client did not offer")
		}
	}
	if !strings.EqualFold(response.Header.Get("Upgrade"), "websocket") || !strings.Contains(strings.ToLower(response.Header.Get("Connection")), "upgrade") {
		s.note("ws/handshake", "Upgrade: websocket", "Upgrade: "+response.Header.Get("Upgrade")+", Connection: "+response.Header.Get("Connection"), "status 101 needs Upgrade: websocket and Connection: Upgrade")
	}
	return &wsWire{s: s, c: c, r: r}, response.StatusCode, nil
}

// frameOf returns a masked frame. first is its first byte: the FIN bit, reserved bits and opcode.
func frameOf(first byte, payload []byte) []byte {
	var mask [4]byte
	_, _ = rand.Read(mask[:]) // never fails
	out := []byte{first}
	switch n := len(payload); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	out = append(out, mask[:]...)
	for i, b := range payload {
		out = append(out, b^mask[i%4])
	}
	return out
}

const fin = 0x80

func (w *wsWire) send(message []byte) error { return w.sendRaw(frameOf(fin|opText, message)) }

func (w *wsWire) sendRaw(raw []byte) error {
	_ = w.c.SetWriteDeadline(time.Now().Add(w.s.o.Timeout)) // the error shows in Write
	_, err := w.c.Write(raw)
	return err
}

// recv returns the next message. Control frames before it are handled.
func (w *wsWire) recv(wait time.Duration) ([]byte, error) {
	if w.ended != nil {
		return nil, w.ended
	}
	var message []byte
	begun := false
	until := time.Now().Add(max(wait, time.Millisecond))
	for range 100_000 {
		if !begun {
			_ = w.c.SetReadDeadline(until) // the error shows in Read
			if _, err := w.r.Peek(1); err != nil {
				return nil, err
			}
		}
		_ = w.c.SetReadDeadline(time.Now().Add(w.s.o.Timeout)) // for the rest of a frame
		first, payload, err := w.readFrame()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = errors.New("a frame did not end")
			}
			return nil, err
		}
		switch op := first & 0x0f; op {
		case opPing:
			if err := w.sendRaw(frameOf(fin|opPong, payload)); err != nil {
				return nil, err
			}
		case opPong:
			if w.pongs = append(w.pongs, string(payload)); len(w.pongs) > 10 {
				w.pongs = w.pongs[1:]
			}
		case opClose:
			w.ended = &closeError{code: 1005}
			if len(payload) >= 2 {
				w.ended.code = int(binary.BigEndian.Uint16(payload))
			}
			_ = w.sendRaw(frameOf(fin|opClose, payload[:min(2, len(payload))])) // the connection ends
			return nil, w.ended
		case opText, opBinary, opContinuation:
			if begun == (op != opContinuation) {
				w.violation("a continuation frame without a beginning, or a new message within one")
			}
			if op == opBinary {
				w.s.note("ws/text", w.s.lastSent, string(payload), "the message was sent in a binary frame; clients read text frames")
			}
			begun = true
			if message = append(message, payload...); len(message) > maxReply {
				return nil, errTooLong
			}
			if first&fin == 0 {
				continue
			}
			if op != opBinary && !utf8.Valid(message) {
				w.violation("the text message is not UTF-8 (section 8.1)")
			}
			w.s.counted["message"]++
			return message, nil
		default:
			w.violation(fmt.Sprintf("opcode %d is reserved", op))
		}
	}
	return nil, errors.New("the server sends frames without an end")
}

func (w *wsWire) violation(why string) {
	w.s.note("ws/frames", w.s.lastSent, "(a frame)", "%s", why)
}

func (w *wsWire) readFrame() (first byte, payload []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(w.r, head[:2]); err != nil {
		return 0, nil, err
	}
	first = head[0]
	masked, size := head[1]&0x80 != 0, uint64(head[1]&0x7f)
	if first&0x70 != 0 {
		w.violation("reserved bits are set without an extension")
	}
	if first&0x08 != 0 && (size > 125 || first&fin == 0) {
		w.violation("a control frame must be whole and have at most 125 bytes")
	}
	switch size {
	case 126:
		if _, err := io.ReadFull(w.r, head[:2]); err != nil {
			return 0, nil, err
		}
		if size = uint64(binary.BigEndian.Uint16(head[:])); size < 126 {
			w.violation("the length is not in its shortest form")
		}
	case 127:
		if _, err := io.ReadFull(w.r, head[:8]); err != nil {
			return 0, nil, err
		}
		if size = binary.BigEndian.Uint64(head[:]); size < 1<<16 {
			w.violation("the length is not in its shortest form")
		}
	}
	if size > maxReply {
		return 0, nil, errTooLong
	}
	var mask [4]byte
	if masked {
		w.violation("a server must not mask frames")
		if _, err := io.ReadFull(w.r, mask[:]); err != nil {
			return 0, nil, err
		}
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(w.r, payload); err != nil {
		return 0, nil, err
	}
	if masked {
		for i := range payload {
			payload[i] ^= mask[i%4]
		}
	}
	return first, payload, nil
}

func (w *wsWire) close() {
	if w.ended == nil {
		_ = w.sendRaw(frameOf(fin|opClose, []byte{3, 232})) // best effort
	}
	_ = w.c.Close() // nothing is left to send
}
