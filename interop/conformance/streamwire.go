package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A streamWire sends and receives messages over a byte stream, as lines or with headers.
type streamWire struct {
	s      Stream
	in     *bufio.Reader
	header bool
}

func newStreamWire(s Stream, header bool) *streamWire {
	return &streamWire{s: s, in: bufio.NewReaderSize(s, 64<<10), header: header}
}

func (w *streamWire) Close() { _ = w.s.Close() }

func (w *streamWire) Send(message []byte) error {
	_ = w.s.SetWriteDeadline(time.Now().Add(patience))
	framed := make([]byte, 0, len(message)+40)
	if w.header {
		framed = append(framed, fmt.Sprintf("Content-Length: %d\r\n\r\n", len(message))...)
		framed = append(framed, message...)
	} else {
		framed = append(append(framed, message...), '\n')
	}
	_, err := w.s.Write(framed)
	return err
}

func (w *streamWire) Recv() ([]byte, error) { return w.recv(patience) }

func (w *streamWire) recv(within time.Duration) ([]byte, error) {
	_ = w.s.SetReadDeadline(time.Now().Add(within))
	if w.header {
		return w.recvHeader()
	}
	line, err := w.in.ReadBytes('\n')
	if err != nil {
		if len(line) > 0 {
			return nil, fmt.Errorf("%w in the middle of a line: %s", err, short(line))
		}
		return nil, err
	}
	return bytes.TrimSuffix(line, []byte{'\n'}), nil
}

// recvHeader accepts exactly what the Language Server Protocol allows a server to send.
func (w *streamWire) recvHeader() ([]byte, error) {
	length := -1
	for first := true; ; first = false {
		line, err := w.in.ReadString('\n')
		if err != nil {
			if first && line == "" {
				return nil, err
			}
			return nil, fmt.Errorf("%w in the middle of a header", err)
		}
		field, ok := strings.CutSuffix(line, "\r\n")
		if !ok {
			return nil, fmt.Errorf("a header line must end in CR LF: %q", line)
		}
		if field == "" {
			break
		}
		name, value, found := strings.Cut(field, ": ")
		switch {
		case !found:
			return nil, fmt.Errorf("not a header field: %q", line)
		case name == "Content-Length":
			if length, err = strconv.Atoi(value); err != nil || length < 0 {
				return nil, fmt.Errorf("not a length: %q", line)
			}
		case name != "Content-Type":
			return nil, fmt.Errorf("unknown header field: %q", line)
		}
	}
	if length < 0 {
		return nil, errors.New("no Content-Length in the answer")
	}
	message := make([]byte, length)
	_, err := io.ReadFull(w.in, message)
	return message, err
}
