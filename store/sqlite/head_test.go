package sqlite

import (
	"bytes"
	"testing"
)

// For any contents, whatever is accepted as a record is a valid record.
func FuzzHead(f *testing.F) {
	m := meta{commits: 7, rev: 9, total: 1 << 63}
	good := m.record().encode()
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(bytes.Repeat([]byte{0}, slotSize))
	f.Add(append([]byte(headMagic), make([]byte, slotSize-len(headMagic))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := decodeHead(b)
		if ok && !bytes.Equal(r.encode(), b) {
			t.Errorf("%x is read as %+v and written as %x", b, r, r.encode())
		}
		if !ok && bytes.Equal(b, good) {
			t.Errorf("%x is refused", b)
		}
	})
}
