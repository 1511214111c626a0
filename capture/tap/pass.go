package tap

import (
	"io"
	"sync"
)

// A turn orders what the two directions of a connection record. Its holder has sent bytes that are
// not yet recorded. Their effects on the other side are recorded later.
type turn struct{ sync.Mutex }

// pass copies bytes from src to dst as they arrive and passes them to r. It returns only errors of
// dst.
//
// If dst accepts the bytes without blocking, they are sent before they are parsed, so that parsing
// does not delay them. The turn is held until they are recorded, so that a request is recorded
// before its response. If dst would block, or if that is unknown, they are recorded first: the turn
// is not held while pass waits for the other side.
func pass(dst io.Writer, src io.Reader, r reader, t *turn) error {
	buf := make([]byte, 64<<10)
	try := newTry(dst)
	defer r.endInput()
	for {
		n, err := src.Read(buf)
		if n > 0 {
			t.Lock()
			sent := try.write(buf[:n])
			r.feed(buf[:n])
			t.Unlock()
			if sent < n {
				if _, err := dst.Write(buf[sent:n]); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return nil // any error is an end: the other side receives a close
		}
	}
}

// passHTTP is pass for requests, whose heads may be rewritten and are therefore parsed first.
func passHTTP(dst io.Writer, src io.Reader, h *half, t *turn) error {
	buf := make([]byte, 64<<10)
	var out []byte
	try := newTry(dst)
	defer h.endInput()
	for {
		n, err := src.Read(buf)
		if n > 0 {
			t.Lock()
			sent := 0
			if out = out[:0]; h.keeps(n) {
				sent = try.write(buf[:n])
				h.feed(buf[:n])
				out = append(out, buf[sent:n]...)
			} else {
				out = h.filter(buf[:n], out)
			}
			t.Unlock()
			if len(out) > 0 {
				if _, err := dst.Write(out); err != nil {
					return err
				}
			}
		}
		if err != nil {
			if left := h.takeHead(); len(left) > 0 {
				_, err = dst.Write(left)
				return err
			}
			return nil
		}
	}
}
