package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/store"
)

// verify reads everything and compares it with the stored hashes. It returns what exists and adds
// mismatches to bad. It returns an error if the database cannot be read at all.
func verify(ctx context.Context, conn *sql.Conn, bad *CorruptError) (m meta, heads map[string]head, err error) {
	if err := structure(ctx, conn, bad); err != nil {
		return m, nil, err
	}
	m, sum, err := readMeta(ctx, conn)
	if errors.Is(err, sql.ErrNoRows) {
		bad.add("the row about the store is missing")
		return m, nil, nil
	}
	if err != nil {
		return m, nil, err
	}
	if want := m.hash(); !bytes.Equal(sum, want[:]) {
		bad.add("the row about the store is corrupt")
	}
	got := meta{store: m.store, commits: m.commits, log: m.log, pos: m.pos, rev: m.rev}
	heads, byID, err := readLogs(ctx, conn, &got)
	if err != nil {
		return m, nil, err
	}
	if err := verifyEvents(ctx, conn, byID, &got, bad); err != nil {
		return m, nil, err
	}
	for _, l := range byID {
		heads[l.key] = l.head
	}
	if err := verifyValues(ctx, conn, &got, bad); err != nil {
		return m, nil, err
	}
	switch {
	case len(bad.Findings) > 0:
	case got.logs != m.logs:
		bad.add("there are %d logs instead of %d", got.logs, m.logs)
	case got.vals != m.vals:
		bad.add("there are %d values instead of %d", got.vals, m.vals)
	case got.bytes != m.bytes:
		bad.add("there are %d bytes instead of %d", got.bytes, m.bytes)
	case got.total != m.total:
		bad.add("an event, a log or a value is missing, outdated or corrupt")
	}
	return m, heads, nil
}

// structure runs SQLite's own integrity check.
func structure(ctx context.Context, conn *sql.Conn, bad *CorruptError) error {
	rows, err := conn.QueryContext(ctx, fmt.Sprintf("PRAGMA integrity_check(%d)", maxFindings))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		if text != "ok" {
			bad.add("the database: %s", text)
		}
	}
	return rows.Err()
}

// A foundLog is the state of a log while its events are read.
type foundLog struct {
	key string
	head
}

// readLogs returns the logs by ID and adds them to m.
func readLogs(ctx context.Context, conn *sql.Conn, m *meta) (map[string]head, map[int64]*foundLog, error) {
	rows, err := conn.QueryContext(ctx, `SELECT key, id, first, expires, base FROM logs`)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	heads, byID := map[string]head{}, map[int64]*foundLog{}
	for rows.Next() {
		var (
			l    foundLog
			base sql.RawBytes
		)
		if err := rows.Scan(&l.key, &l.id, &l.first, &l.expires, &base); err != nil {
			return nil, nil, err
		}
		copy(l.base[:], base)
		l.last, l.tip = l.first-1, l.base
		byID[l.id] = &l
		m.logs++
		m.bytes += store.EntryBytes
		m.total += l.digest(l.key)
	}
	return heads, byID, rows.Err()
}

// verifyEvents checks the hash chain of each log and adds the events to m.
func verifyEvents(ctx context.Context, conn *sql.Conn, byID map[int64]*foundLog, m *meta, bad *CorruptError) error {
	rows, err := conn.QueryContext(ctx, `SELECT pos, log, seq, prev, time, data, hash FROM events ORDER BY pos`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			pos, log, prev, at int64
			seq                uint64
			data, sum          sql.RawBytes
		)
		if err := rows.Scan(&pos, &log, &seq, &prev, &at, &data, &sum); err != nil {
			return err
		}
		m.bytes += int64(len(data)) + store.EntryBytes
		m.total += first8(sum)
		l := byID[log]
		if l == nil {
			bad.add("the event at position %d does not belong to a log", pos)
			continue
		}
		want := link(&l.tip, seq, at, data)
		switch {
		case seq > l.last+1:
			// The following events are not counted as faults.
			bad.add("log %q: events %d to %d are missing", l.key, l.last+1, seq-1)
		case seq <= l.last:
			bad.add("log %q: there are two events %d", l.key, seq)
		case !bytes.Equal(sum, want[:]) || prev != l.pos && l.pos != 0 || pos > m.pos:
			bad.add("log %q: event %d is corrupt", l.key, seq)
		}
		l.last, l.pos = seq, pos
		l.bytes += int64(len(data))
		copy(l.tip[:], sum)
	}
	return rows.Err()
}

// verifyValues checks the hash of each value and adds the values to m.
func verifyValues(ctx context.Context, conn *sql.Conn, m *meta, bad *CorruptError) error {
	rows, err := conn.QueryContext(ctx, `SELECT key, rev, expires, data, hash FROM vals`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			key       string
			rev       uint64
			expires   int64
			data, sum sql.RawBytes
		)
		if err := rows.Scan(&key, &rev, &expires, &data, &sum); err != nil {
			return err
		}
		if want := valueHash(key, rev, expires, data); !bytes.Equal(sum, want[:]) {
			bad.add("value %q is corrupt", key)
		}
		m.vals++
		m.bytes += valueCost(len(data))
		m.total += first8(sum)
	}
	return rows.Err()
}
