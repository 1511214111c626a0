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

// Salvaged reports what could be recovered from a corrupt store.
type Salvaged struct {
	Logs, Events, Values int
	// Lost has one sentence per loss, such as `log "runs/7": from event 5 on`; at most 100.
	Lost []string
	More int // the number of losses not listed
}

func (s *Salvaged) lose(format string, args ...any) {
	if len(s.Lost) == maxFindings {
		s.More++
		return
	}
	s.Lost = append(s.Lost, fmt.Sprintf(format, args...))
}

// Salvage copies the intact data of a store that [Open] rejects as corrupt to a directory that must
// not exist yet: each log up to its first event that is missing or changed, and each value that is
// unchanged. Numbers, revisions and times are preserved. Commits that are missing entirely cannot
// be recovered. Salvage does not change the original store; check the result before you replace the
// store with it.
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
	defer func() { _ = old.release() }() // it holds only a lock
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

// A rescued event is an intact event.
type rescued struct {
	key  string
	log  head // only first and expires are used
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

// salvageLogs copies logs up to their first fault.
func salvageLogs(ctx context.Context, conn *sql.Conn, to *Store, out *Salvaged) error {
	var unused meta
	_, byID, err := readLogs(ctx, conn, &unused)
	if err != nil {
		out.lose("logs: reading stopped: %v", err)
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
	for _, l := range byID { // including those without events
		out.Logs++
		if some = append(some, &rescued{key: l.key, log: l.head}); len(some) == maxGroup {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	rows, err := conn.QueryContext(ctx, `SELECT pos, log, seq, time, data, hash FROM events ORDER BY pos`)
	if err != nil {
		out.lose("events: reading stopped: %v", err)
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
		out.lose("events: reading stopped: %v", err)
	}
	return flush()
}

// salvageValues copies intact values.
func salvageValues(ctx context.Context, conn *sql.Conn, to *Store, out *Salvaged) error {
	rows, err := conn.QueryContext(ctx, `SELECT key, rev, expires, data, hash FROM vals`)
	if err != nil {
		out.lose("values: reading stopped: %v", err)
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
		out.lose("values: reading stopped: %v", err)
	}
	return nil
}
