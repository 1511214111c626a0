package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/da1ed7bb/parley/store"
)

// Salvaged tells what could be taken over from a store that is corrupt.
type Salvaged struct {
	Logs, Events, Values int
	Lost                 []string // one sentence each, such as `log "runs/7": from event 5 on`; at most 100
	More                 int      // losses that are not listed
}

func (s *Salvaged) lose(format string, args ...any) {
	if len(s.Lost) == maxFindings {
		s.More++
		return
	}
	s.Lost = append(s.Lost, fmt.Sprintf(format, args...))
}

// Salvage copies what is sound of a store that [Open] refuses as corrupt into a folder that does not exist yet: each log up to its
// first event that is missing or not what was written, and each value that is what was written. Numbers, revisions and times stay. Commits that
// are missing altogether stay missing. The store itself is not changed; that a person looks at the result before it takes
// its place is the point.
func Salvage(ctx context.Context, from, to string) (*Salvaged, error) {
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, fmt.Errorf("%s exists already", to))
	}
	if _, err := os.Stat(filepath.Join(from, "parley.db")); err != nil {
		return nil, err
	}
	old := &Store{dir: from}
	if err := old.takeLock(ctx); err != nil {
		return nil, errors.Join(err, old.release())
	}
	defer func() { _ = old.release() }() // it holds a lock alone
	db, err := sql.Open("sqlite", old.dsn("parley.db", "ro", patient, "query_only(1)"))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	fresh, err := Open(to, &Options{Limits: store.Limits{EventBytes: -1, LogEvents: -1, LogBytes: -1, Logs: -1, ValueBytes: -1, Values: -1, Bytes: -1}})
	if err != nil {
		return nil, err
	}
	out := &Salvaged{}
	err = errors.Join(salvageLogs(ctx, conn, fresh, out), salvageValues(ctx, conn, fresh, out))
	return out, errors.Join(err, fresh.Close())
}

// A rescued event is one that is what was written.
type rescued struct {
	key  string
	log  head // first and expires are used
	seq  uint64
	time int64
	data []byte
}

// adopt adds an event with its number and time.
func (b *batch) adopt(e *rescued) error {
	old, ok := b.heads[e.key]
	if !ok {
		if was, there := b.s.heads[e.key]; there { // only this goroutine writes it
			old = &was
		}
	}
	var h head
	if old != nil {
		h = *old
	} else {
		b.next.log++
		b.next.logs++
		b.next.bytes += store.EntryBytes
		h = head{id: b.next.log, first: e.log.first, last: e.log.first - 1, expires: e.log.expires}
		h.base = seed(&b.next, h.id, e.key)
		h.tip = h.base
	}
	if e.data != nil {
		b.add(&h, e.time, e.data)
		b.next.bytes += int64(len(e.data)) + store.EntryBytes
	}
	b.heads[e.key] = &h
	return nil
}

// salvageLogs copies logs up to where they break.
func salvageLogs(ctx context.Context, conn *sql.Conn, to *Store, out *Salvaged) error {
	var unused meta
	_, byID, err := readLogs(ctx, conn, &unused)
	if err != nil {
		out.lose("logs: reading ends with %v", err)
	}
	var some []*rescued
	flush := func() error {
		kept := some
		some = nil
		_, err := to.write(ctx, 0, func(b *batch) (uint64, error) {
			for _, e := range kept {
				if err := b.adopt(e); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		return err
	}
	for _, l := range byID { // also those without events
		out.Logs++
		if some = append(some, &rescued{key: l.key, log: l.head}); len(some) == maxGroup {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	rows, err := conn.QueryContext(ctx, `SELECT pos, log, seq, time, data, hash FROM events ORDER BY pos`)
	if err != nil {
		out.lose("events: reading ends with %v", err)
		return flush()
	}
	defer rows.Close()
	broken := map[int64]bool{}
	for rows.Next() {
		var (
			pos, log  int64
			e         rescued
			data, sum []byte
		)
		if err := rows.Scan(&pos, &log, &e.seq, &e.time, &data, &sum); err != nil {
			out.lose("the event at position %d: %v", pos, err)
			continue
		}
		l := byID[log]
		if l == nil || broken[log] {
			continue
		}
		if want := link(&l.tip, e.seq, e.time, data); e.seq != l.last+1 || !bytes.Equal(want[:], sum) {
			out.lose("log %q: from event %d on", l.key, l.last+1)
			broken[log] = true
			continue
		}
		l.last = e.seq
		copy(l.tip[:], sum)
		e.key, e.log, e.data = l.key, l.head, append([]byte{}, data...)
		out.Events++
		if some = append(some, &e); len(some) == maxGroup {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		out.lose("events: reading ends with %v", err)
	}
	return flush()
}

// salvageValues copies values that are what was written.
func salvageValues(ctx context.Context, conn *sql.Conn, to *Store, out *Salvaged) error {
	rows, err := conn.QueryContext(ctx, `SELECT key, rev, expires, data, hash FROM vals`)
	if err != nil {
		out.lose("values: reading ends with %v", err)
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var (
			key       string
			rev       uint64
			expires   int64
			data, sum []byte
		)
		if err := rows.Scan(&key, &rev, &expires, &data, &sum); err != nil {
			out.lose("a value: %v", err)
			continue
		}
		want := valueHash(key, rev, expires, data)
		if !bytes.Equal(want[:], sum) {
			out.lose("value %q", key)
			continue
		}
		out.Values++
		_, err := to.write(ctx, int64(len(data)), func(b *batch) (uint64, error) {
			b.next.rev = max(b.next.rev, rev)
			b.next.vals++
			b.next.bytes += valueCost(len(data))
			b.next.total += first8(sum)
			return 0, b.exec(`INSERT INTO vals (key, rev, expires, data, hash) VALUES (?, ?, ?, ?, ?)`, key, rev, expires, data, sum)
		})
		if err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		out.lose("values: reading ends with %v", err)
	}
	return nil
}
