package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// verify reads everything and compares it with the hashes beside it. What it returns is what there is; what does not fit is in
// bad. The error is for what cannot be read at all.
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
		bad.add("the row about the store is not what was written")
	}
	got := meta{store: m.store, commits: m.commits, log: m.log, rev: m.rev}
	heads, keys, err := readLogs(ctx, conn, &got)
	if err != nil {
		return m, nil, err
	}
	if err := verifyEvents(ctx, conn, heads, keys, bad); err != nil {
		return m, nil, err
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
		bad.add("a log or a value is an older one, or its row is not what was written")
	}
	return m, heads, nil
}

// structure lets SQLite look at its pages.
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

// readLogs returns the logs by key, and their keys by number, and adds them to m.
func readLogs(ctx context.Context, conn *sql.Conn, m *meta) (map[string]head, map[uint32]string, error) {
	rows, err := conn.QueryContext(ctx, `SELECT key, id, first, last, bytes, expires, base, tip FROM logs`)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	heads, keys := map[string]head{}, map[uint32]string{}
	for rows.Next() {
		var (
			key       string
			h         head
			base, tip sql.RawBytes
		)
		if err := rows.Scan(&key, &h.id, &h.first, &h.last, &h.bytes, &h.expires, &base, &tip); err != nil {
			return nil, nil, err
		}
		copy(h.base[:], base)
		copy(h.tip[:], tip)
		heads[key], keys[h.id] = h, key
		m.logs++
		m.bytes += h.cost()
		m.total += h.digest(key)
	}
	return heads, keys, rows.Err()
}

// verifyEvents follows the chain of each log.
func verifyEvents(ctx context.Context, conn *sql.Conn, heads map[string]head, keys map[uint32]string, bad *CorruptError) error {
	rows, err := conn.QueryContext(ctx, `SELECT id, time, data, hash FROM events ORDER BY id`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var (
		key     string
		h       head
		next    uint64 // the number that comes next in this log
		before  hash
		size    int64
		strange int
	)
	seen := map[string]bool{}
	finish := func() {
		if key == "" {
			return
		}
		if next <= h.last {
			bad.add("log %q: events %d to %d are missing", key, next, h.last)
		} else if before != h.tip {
			bad.add("log %q: its last event is not the one that was written", key)
		} else if size != h.bytes {
			bad.add("log %q: %d bytes instead of %d", key, size, h.bytes)
		}
	}
	current := int64(-1)
	for rows.Next() {
		var (
			id, at    int64
			data, sum sql.RawBytes
		)
		if err := rows.Scan(&id, &at, &data, &sum); err != nil {
			return err
		}
		log, seq := id>>32, uint64(id&0xffffffff)
		if log != current {
			finish()
			current = log
			key = keys[uint32(log)]
			h = heads[key]
			seen[key] = true
			next, before, size = h.first, h.base, 0
		}
		if key == "" {
			strange++
			continue
		}
		if seq > next && seq <= h.last {
			bad.add("log %q: events %d to %d are missing", key, next, seq-1)
			copy(before[:], sum) // so that one fault is told once
		} else if seq < next || seq > h.last {
			bad.add("log %q: event %d should not be there", key, seq)
			continue
		} else if want := link(&before, seq, at, data); !bytes.Equal(sum, want[:]) {
			bad.add("log %q: event %d is not what was written", key, seq)
		}
		copy(before[:], sum)
		next = seq + 1
		size += int64(len(data))
	}
	finish()
	if strange > 0 {
		bad.add("%d events belong to no log", strange)
	}
	for key, h := range heads {
		if !seen[key] && h.events() > 0 {
			bad.add("log %q: events %d to %d are missing", key, h.first, h.last)
		}
	}
	return rows.Err()
}

// verifyValues compares each value with its hash, and adds them to m.
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
			bad.add("value %q is not what was written", key)
		}
		m.vals++
		m.bytes += valueCost(len(data))
		m.total += first8(sum)
	}
	return rows.Err()
}
