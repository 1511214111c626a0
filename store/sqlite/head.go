package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

// A headFile records the state of the database at the last acknowledged write. It has two slots
// that are written alternately, so that one is always intact. Each is smaller than a sector.
type headFile struct{ f *os.File }

type headRecord struct {
	store   [16]byte // the ID of its database
	commits uint64
	meta    [32]byte // hash of the meta row at that commit
}

const (
	headMagic = "parley head 001\n"
	slotGap   = 4096
	slotSize  = len(headMagic) + 16 + 8 + 32 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r headRecord) encode() []byte {
	b := append([]byte(headMagic), r.store[:]...)
	b = binary.BigEndian.AppendUint64(b, r.commits)
	b = append(b, r.meta[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeHead(b []byte) (r headRecord, ok bool) {
	sum := len(b) - 4
	if len(b) != slotSize || string(b[:len(headMagic)]) != headMagic || binary.BigEndian.Uint32(b[sum:]) != crc32.Checksum(b[:sum], castagnoli) {
		return r, false
	}
	b = b[len(headMagic):]
	copy(r.store[:], b)
	r.commits = binary.BigEndian.Uint64(b[16:])
	copy(r.meta[:], b[24:])
	return r, true
}

// readHead returns the newest record; exists is false if the file does not exist. bad is true if a
// slot is unreadable.
func readHead(name string) (r headRecord, exists, bad bool, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, false, nil
	}
	if err != nil {
		return r, false, false, err
	}
	defer f.Close()
	found := false
	for i := range int64(2) {
		b := make([]byte, slotSize)
		if _, err := f.ReadAt(b, i*slotGap); err != nil && !errors.Is(err, io.EOF) {
			return r, true, false, err
		}
		slot, ok := decodeHead(b)
		switch {
		case ok && (!found || slot.commits > r.commits):
			r, found = slot, true
		case !ok:
			bad = true
		}
	}
	if !found {
		return r, true, true, fmt.Errorf("%s contains no record", name)
	}
	return r, true, bad, nil
}

// openHead opens the file for writing and creates it if necessary.
func openHead(name string) (*headFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &headFile{f}, nil
}

// write writes r to its slot and notifies the goroutine that syncs.
func (h *headFile) write(r headRecord, written chan<- struct{}) error {
	if _, err := h.f.WriteAt(r.encode(), int64(r.commits%2)*slotGap); err != nil {
		return err
	}
	select {
	case written <- struct{}{}:
	default: // already notified
	}
	return nil
}

// writeHead writes both slots of a file that may be new or partly damaged.
func (h *headFile) writeHead(r headRecord) error {
	for i := range int64(2) {
		if _, err := h.f.WriteAt(r.encode(), i*slotGap); err != nil {
			return err
		}
	}
	return h.f.Sync()
}

func (h *headFile) close() error { return errors.Join(h.f.Sync(), h.f.Close()) }
