package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// fillSome writes a few entries of each kind.
func fillSome(t *testing.T, s store.Store) {
	t.Helper()
	for l := range 4 {
		for i := range 30 {
			if _, err := s.Append(t.Context(), fmt.Sprint("log", l), uint64(i), fmt.Appendf(nil, "event %d of log %d", i+1, l)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Put(t.Context(), fmt.Sprint("value", l), 0, fmt.Appendf(nil, "value %d", l), 0); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(s.Trim(t.Context(), "log1", 20), s.Drop(t.Context(), "log2"), s.Delete(t.Context(), "value3", store.Any),
		s.Expire(t.Context(), "log3", time.Now().Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
}

// dump returns the contents of a store as text, or the first error.
func dump(ctx context.Context, s store.Store) (string, error) {
	var b strings.Builder
	heads, err := s.Heads(ctx, "", "", 0)
	if err != nil {
		return "", err
	}
	for _, h := range heads {
		fmt.Fprintln(&b, h)
		for e, err := range s.Read(ctx, h.Key, h.First-1) {
			if err != nil {
				return "", err
			}
			fmt.Fprintln(&b, e.Seq, e.Time, string(e.Data))
		}
	}
	values, err := s.List(ctx, "", "", 0)
	for _, v := range values {
		fmt.Fprintln(&b, v.Key, v.Rev, v.Expires, string(v.Data))
	}
	return b.String(), err
}

// snapshot returns the files of a directory, except the index of the write-ahead log, which is in
// memory and created again.
func snapshot(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-shm") || strings.HasPrefix(e.Name(), "lock") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) == 0 && strings.HasSuffix(e.Name(), "-wal") {
			continue // reading alone creates one
		}
		files[e.Name()] = b
	}
	return files
}

func restore(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// states returns a store's files after a crash, with everything in the write-ahead log, and after
// Close, and the store's contents.
func states(t *testing.T) (crashed, closed map[string][]byte, content string) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, store.Limits{})
	fillSome(t, s)
	content, err := dump(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	crashed = snapshot(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return crashed, snapshot(t, dir), content
}

func corruption(err error) *sqlite.CorruptError {
	f, ok := errors.AsType[*store.Fault](err)
	if !ok || f.Reason != store.ReasonCorrupt {
		return nil
	}
	c, _ := errors.AsType[*sqlite.CorruptError](err)
	return c
}

// For any wrong byte in any file, either Open reports it and changes nothing, or the byte was in
// unused space and all data is there. PARLEY_FLIPS is the number of bytes tried per file; the
// default is 25.
func TestFlippedByte(t *testing.T) {
	crashed, closed, content := states(t)
	for state, files := range map[string]map[string][]byte{"after a crash": crashed, "after Close": closed} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			t.Run(state+" "+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				told, harmless := 0, 0
				flips := 25
				if n, err := strconv.Atoi(os.Getenv("PARLEY_FLIPS")); err == nil {
					flips = n
				}
				// Odd, so that the position within pages varies.
				step := max(1, len(files[name])/flips) | 1
				for at := 0; at < len(files[name]); at += step {
					bad := maps.Clone(files)
					bad[name] = bytes.Clone(bad[name])
					bad[name][at] ^= 0x40
					restore(t, dir, bad)
					s, err := sqlite.Open(dir, nil)
					if err != nil {
						if c := corruption(err); c == nil || len(c.Findings) == 0 {
							t.Fatalf("byte %d: %v, want %s with findings", at, err, store.ReasonCorrupt)
						}
						if !maps.EqualFunc(snapshot(t, dir), bad, bytes.Equal) {
							t.Fatalf("byte %d: the files were changed", at)
						}
						told++
						continue
					}
					got, err := dump(t.Context(), s)
					if got != content {
						t.Fatalf("byte %d: nobody says so, but there is %s%v", at, got, err)
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					harmless++
				}
				t.Logf("%d bytes: %d told, %d harmless", len(files[name]), told, harmless)
			})
		}
	}
}

// The error describes what is wrong.
func TestCorruptionIsNamed(t *testing.T) {
	crashed, closed, _ := states(t)
	flip := func(file, text string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			at := bytes.LastIndex(files[file], []byte(text))
			if at < 0 {
				t.Fatalf("%s does not hold %q", file, text)
			}
			files[file] = bytes.Clone(files[file])
			files[file][at+1] ^= 1
		}
	}
	for _, c := range []struct {
		name  string
		files map[string][]byte
		harm  func(map[string][]byte)
		want  string
	}{
		{"an event", closed, flip("parley.db", "event 7 of log 3"), `log "log3": event 7 is corrupt`},
		{"a value", closed, flip("parley.db", "value 1"), `value "value1" is corrupt`},
		{"a commit that is only in the log", crashed, flip("parley.db-wal", "event 9 of log 3"), `commits`},
		{"the log is cut", crashed, func(f map[string][]byte) {
			f["parley.db-wal"] = f["parley.db-wal"][:len(f["parley.db-wal"])-100]
		}, `which were acknowledged, are missing`},
		{"the log is gone", crashed, func(f map[string][]byte) { delete(f, "parley.db-wal") }, ``},
		{"the database is gone", closed, func(f map[string][]byte) { delete(f, "parley.db") }, `the database is missing`},
		{"the database is empty", closed, func(f map[string][]byte) { f["parley.db"] = nil }, `the database is empty`},
		{"the database is half", closed, func(f map[string][]byte) { f["parley.db"] = f["parley.db"][:len(f["parley.db"])/2] }, ``},
		{"the database is no database", closed, func(f map[string][]byte) { f["parley.db"] = []byte(strings.Repeat("no database ", 1000)) }, ``},
		{"the record is gone", closed, func(f map[string][]byte) { delete(f, "head") }, `the record of acknowledged commits is missing`},
		{"the record is empty", closed, func(f map[string][]byte) { f["head"] = nil }, `contains no record`},
		{"the database is an older one", closed, func(f map[string][]byte) { f["parley.db"] = older(t) }, `belongs to another database`},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := maps.Clone(c.files)
			c.harm(files)
			dir := filepath.Join(t.TempDir(), "store")
			restore(t, dir, files)
			s, err := sqlite.Open(dir, nil)
			if err == nil {
				_ = s.Close()
				t.Fatal("nobody says so")
			}
			bad := corruption(err)
			if bad == nil || !strings.Contains(bad.Error(), c.want) || !strings.Contains(bad.Error(), dir) {
				t.Fatalf("got %v, want %s with %q", err, store.ReasonCorrupt, c.want)
			}
			if !maps.EqualFunc(snapshot(t, dir), files, bytes.Equal) {
				t.Error("the files were changed")
			}
			t.Log(err)
		})
	}
}

// older returns the database of another, newer store.
func older(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := open(t, dir, store.Limits{}).Close(); err != nil {
		t.Fatal(err)
	}
	return snapshot(t, dir)["parley.db"]
}

// Rows changed with SQLite itself are valid for SQLite but not for this package.
func TestChangedRows(t *testing.T) {
	_, closed, _ := states(t)
	for _, c := range []struct{ statement, want string }{
		{`DELETE FROM events WHERE seq = 25 AND log = (SELECT id FROM logs WHERE key = 'log1')`, `log "log1": events 25 to 25 are missing`},
		{`DELETE FROM events WHERE pos = (SELECT max(pos) FROM events)`, ``},
		{`DELETE FROM events`, ``},
		{`DELETE FROM logs WHERE key = 'log0'`, `does not belong to a log`},
		{`DELETE FROM vals WHERE key = 'value0'`, `2 values instead of 3`},
		{`DELETE FROM meta`, `the row about the store is missing`},
		{`UPDATE events SET data = x'00' WHERE seq = 3`, `event 3 is corrupt`},
		{`UPDATE events SET seq = 300 WHERE seq = 30`, ``},
		{`UPDATE events SET prev = 1 WHERE seq = 9`, `event 9 is corrupt`},
		{`UPDATE events SET time = time + 1 WHERE seq = 30 AND log = 1`, `event 30 is corrupt`},
		{`UPDATE logs SET first = 20 WHERE key = 'log1'`, ``},
		{`UPDATE logs SET expires = 0`, ``},
		{`UPDATE logs SET key = 'log' WHERE key = 'log0'`, ``},
		{`UPDATE vals SET data = x'00'`, `is corrupt`},
		{`UPDATE vals SET rev = rev + 1`, `is corrupt`},
		{`UPDATE meta SET rev = 1`, `the row about the store`},
		{`INSERT INTO vals VALUES ('new', 1, 0, x'', x'')`, `is corrupt`},
		{`INSERT INTO events VALUES (1000, 1, 31, 30, 0, x'', x'')`, `event 31 is corrupt`},
	} {
		t.Run(c.statement, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			restore(t, dir, closed)
			db, err := sql.Open("sqlite", filepath.Join(dir, "parley.db"))
			if err != nil {
				t.Fatal(err)
			}
			r, err := db.ExecContext(t.Context(), c.statement)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := r.RowsAffected(); err != nil || n == 0 {
				t.Fatalf("%d rows changed, %v", n, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := sqlite.Open(dir, nil)
			if err == nil {
				_ = s.Close()
				t.Fatal("nobody says so")
			}
			if bad := corruption(err); bad == nil || !strings.Contains(bad.Error(), c.want) {
				t.Fatalf("got %v, want %s with %q", err, store.ReasonCorrupt, c.want)
			}
		})
	}
}

// A byte that changes while the store is open is detected when it is read; other logs are not
// affected.
func TestReadsCheck(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Limits{})
	defer s.Close()
	fillSome(t, s)
	db, err := sql.Open("sqlite", filepath.Join(dir, "parley.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{
		`UPDATE events SET data = x'00' WHERE seq = 28 AND log = (SELECT id FROM logs WHERE key = 'log0')`,
		`UPDATE vals SET data = x'00' WHERE key = 'value0'`,
	} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	for _, after := range []uint64{0, 26, 27} {
		var got error
		for _, err := range s.Read(t.Context(), "log0", after) {
			got = err
		}
		if corruption(got) == nil || !strings.Contains(got.Error(), `"log0"`) {
			t.Errorf("Read behind %d ends with %v", after, got)
		}
	}
	if _, err := s.Get(t.Context(), "value0"); corruption(err) == nil || !strings.Contains(err.Error(), `"value0"`) {
		t.Errorf("Get: %v", err)
	}
	n := 0
	for _, err := range s.Read(t.Context(), "log3", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 30 {
		t.Errorf("%d events of another log, want 30", n)
	}
	if _, err := s.Get(t.Context(), "value1"); err != nil {
		t.Error(err)
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct{ statement, reason, want string }{
		{`PRAGMA user_version = 2`, store.ReasonNewer, "version 2, but this program supports 1"},
		{`PRAGMA application_id = 77`, store.ReasonFailed, "another program"},
	} {
		dir := t.TempDir()
		if err := open(t, dir, store.Limits{}).Close(); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", filepath.Join(dir, "parley.db"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), c.statement); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = sqlite.Open(dir, nil)
		if f, ok := errors.AsType[*store.Fault](err); !ok || f.Reason != c.reason || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s: %s", c.statement, err, c.reason, c.want)
		}
	}
}
