package tap

import (
	"io"
	"sync"
)

// A turn orders what both directions of a connection record. Whoever holds it has sent bytes and not yet shown them to the reader: what
// they cause on the other side comes later.
type turn struct{ sync.Mutex }

// pass copies from src to dst as bytes arrive and shows them to r. It returns an error of dst only.
//
// Bytes leave before they are looked at where dst takes them without waiting, so that reading is not in their way; the turn is held
// until they are recorded, so that a question is recorded before its answer. Where dst would have to wait, or cannot tell,
// they are recorded first: nobody holds the turn while waiting for the other side.
func pass(dst io.Writer, src io.Reader, r reader, t *turn) error {
	buf := make([]byte, 64<<10)
	try := newTry(dst)
	defer r.end()
	for {
		n, err := src.Read(buf)
		if n > 0 {
			t.Lock()
			sent := try.write(buf[:n])
			r.take(buf[:n])
			t.Unlock()
			if sent < n {
				if _, err := dst.Write(buf[sent:n]); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return nil // the end, of whatever kind: the other side sees it as a close
		}
	}
}

// passHTTP is pass for requests, whose heads may be rewritten: these are read first.
func passHTTP(dst io.Writer, src io.Reader, h *half, t *turn) error {
	buf := make([]byte, 64<<10)
	var out []byte
	try := newTry(dst)
	defer h.end()
	for {
		n, err := src.Read(buf)
		if n > 0 {
			t.Lock()
			sent := 0
			if out = out[:0]; h.keeps(n) {
				sent = try.write(buf[:n])
				h.take(buf[:n])
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
