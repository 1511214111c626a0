package sqlite

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"

	"github.com/da1ed7bb/parley/store"
)

const (
	applicationID = 0x7061726c // "parl"
	schemaVersion = 1
)

// The tables. Events of all logs are stored in the order in which they were written, so that a
// commit of many logs touches few pages; each event has the position of the previous one of its
// log. The end of each log is determined by Open and held in memory.
const schema = `
CREATE TABLE meta (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	store   BLOB NOT NULL,    -- names this database
	commits INTEGER NOT NULL, -- counts commits
	log     INTEGER NOT NULL, -- id of the newest log
	pos     INTEGER NOT NULL, -- position of the newest event
	rev     INTEGER NOT NULL, -- newest revision of a value
	logs    INTEGER NOT NULL,
	vals    INTEGER NOT NULL,
	bytes   INTEGER NOT NULL, -- as store.Limits counts them
	total   INTEGER NOT NULL, -- sum of the hashes of all events, logs and values
	hash    BLOB NOT NULL     -- of this row
) STRICT;
CREATE TABLE logs (
	key     TEXT PRIMARY KEY,
	id      INTEGER NOT NULL,
	first   INTEGER NOT NULL, -- number of the oldest event, or of the next one
	expires INTEGER NOT NULL, -- milliseconds since 1970, 0 for never
	base    BLOB NOT NULL     -- hash of the event before the first one
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
	pos  INTEGER PRIMARY KEY,
	log  INTEGER NOT NULL,
	seq  INTEGER NOT NULL,
	prev INTEGER NOT NULL,    -- position of the event before it, if there is one
	time INTEGER NOT NULL,    -- milliseconds since 1970
	data BLOB NOT NULL,
	hash BLOB NOT NULL        -- of the hash before, the number, the time and the data
) STRICT;
CREATE TABLE vals (
	key     TEXT PRIMARY KEY,
	rev     INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	data    BLOB NOT NULL,
	hash    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX vals_expires ON vals (expires) WHERE expires > 0;
`

type hash = [sha256.Size]byte

// meta is the row with totals for the whole store.
type meta struct {
	store   [16]byte
	commits uint64
	log     int64
	pos     int64
	rev     uint64
	logs    int64
	vals    int64
	bytes   int64
	total   uint64
}

func (m meta) hash() hash {
	b := append([]byte("meta"), m.store[:]...)
	for _, n := range []uint64{m.commits, uint64(m.log), uint64(m.pos), m.rev, uint64(m.logs), uint64(m.vals), uint64(m.bytes), m.total} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return sha256.Sum256(b)
}

func (m meta) record() headRecord {
	return headRecord{store: m.store, commits: m.commits, meta: m.hash()}
}

// head is the state of one log. The first half is in the database row; the second half is derived
// from the events.
type head struct {
	id      int64
	first   uint64
	expires int64
	base    hash

	last  uint64
	bytes int64
	pos   int64 // of the last event; 0 for no events
	tip   hash  // of the last event, or base
}

// sameRow reports whether both have the same row in the database.
func (h *head) sameRow(o *head) bool {
	return h.id == o.id && h.first == o.first && h.expires == o.expires && h.base == o.base
}

// digest returns the row's contribution to meta.total.
func (h *head) digest(key string) uint64 {
	b := binary.BigEndian.AppendUint64([]byte("log"), uint64(h.id))
	b = binary.BigEndian.AppendUint64(b, h.first)
	b = binary.BigEndian.AppendUint64(b, uint64(h.expires))
	sum := sha256.Sum256(append(append(b, h.base[:]...), key...))
	return binary.BigEndian.Uint64(sum[:])
}

// events returns the number of stored events.
func (h *head) events() int64 { return int64(h.last + 1 - h.first) }

// seed returns the hash before the first event of a log.
func seed(m *meta, id int64, key string) hash {
	b := append([]byte("seed"), m.store[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	return sha256.Sum256(append(b, key...))
}

// link returns the hash of an event.
func link(before *hash, seq uint64, time int64, data []byte) hash {
	d := sha256.New()
	var fixed [sha256.Size + 16]byte
	copy(fixed[:], before[:])
	binary.BigEndian.PutUint64(fixed[sha256.Size:], seq)
	binary.BigEndian.PutUint64(fixed[sha256.Size+8:], uint64(time))
	_, _ = d.Write(fixed[:]) // writing to a hash never fails
	_, _ = d.Write(data)
	var sum hash
	d.Sum(sum[:0])
	return sum
}

// valueHash returns the hash of a value; its first eight bytes are the value's contribution to
// meta.total.
func valueHash(key string, rev uint64, expires int64, data []byte) hash {
	d := sha256.New()
	b := binary.BigEndian.AppendUint64([]byte("value"), rev)
	b = binary.BigEndian.AppendUint64(b, uint64(expires))
	b = binary.BigEndian.AppendUint64(b, uint64(len(key)))
	_, _ = d.Write(append(b, key...)) // writing to a hash never fails
	_, _ = d.Write(data)
	var sum hash
	d.Sum(sum[:0])
	return sum
}

func first8(h []byte) uint64 {
	if len(h) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(h)
}

func readMeta(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (m meta, sum []byte, err error) {
	var id []byte
	err = q.QueryRowContext(ctx, `SELECT store, commits, log, pos, rev, logs, vals, bytes, total, hash FROM meta`).
		Scan(&id, &m.commits, &m.log, &m.pos, &m.rev, &m.logs, &m.vals, &m.bytes, (*signed)(&m.total), &sum)
	copy(m.store[:], id)
	return m, sum, err
}

// signed is a uint64 in a column of signed integers.
type signed uint64

// Scan implements [sql.Scanner].
func (s *signed) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a %T is not an integer", v)
	}
	*s = signed(n)
	return nil
}

// create creates the tables of a new database in one commit.
func create(ctx context.Context, conn *sql.Conn) error {
	var m meta
	_, _ = rand.Read(m.store[:]) // it never fails
	m.commits = 1
	sum := m.hash()
	for _, q := range []struct {
		text string
		args []any
	}{
		{"BEGIN IMMEDIATE", nil},
		{schema, nil},
		{"INSERT INTO meta VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", []any{m.store[:], m.commits, m.log, m.pos, m.rev, m.logs, m.vals, m.bytes, int64(m.total), sum[:]}},
		{fmt.Sprintf("PRAGMA application_id = %d", applicationID), nil},
		{fmt.Sprintf("PRAGMA user_version = %d", schemaVersion), nil},
		{"COMMIT", nil},
	} {
		if _, err := conn.ExecContext(ctx, q.text, q.args...); err != nil {
			return err
		}
	}
	return nil
}

// checkVersion returns an error if this program cannot read the database. fresh is true if the
// database is empty.
func checkVersion(ctx context.Context, conn *sql.Conn) (fresh bool, err error) {
	var id, version, tables int64
	for query, n := range map[string]*int64{
		"PRAGMA application_id": &id, "PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := conn.QueryRowContext(ctx, query).Scan(n); err != nil {
			return false, err
		}
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return true, nil
	case id != applicationID:
		return false, &store.Fault{Reason: store.ReasonFailed, Err: fmt.Errorf("the database belongs to another program (application_id %#x)", id)}
	case version > schemaVersion:
		return false, &store.Fault{Reason: store.ReasonNewer, Err: fmt.Errorf("the database has version %d, but this program supports %d", version, schemaVersion)}
	case version < 1:
		return false, &store.Fault{Reason: store.ReasonCorrupt, Err: fmt.Errorf("the database has version %d", version)}
	}
	return false, nil
}
