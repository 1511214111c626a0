package sqlite_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// All intact data of a corrupt store can be recovered, and the rest is reported.
func TestSalvage(t *testing.T) {
	_, closed, content := states(t)
	dir := filepath.Join(t.TempDir(), "store")
	restore(t, dir, closed)

	whole, err := sqlite.Salvage(t.Context(), dir, dir+"-whole")
	if err != nil || len(whole.Lost) > 0 || whole.Logs != 3 || whole.Events != 70 || whole.Values != 3 {
		t.Fatalf("of a sound store: %+v, %v", whole, err)
	}
	s := open(t, dir+"-whole", store.Limits{})
	if got, err := dump(t.Context(), s); err != nil || got != content {
		t.Errorf("a copy of a sound store is another: %v\n%s", err, cmp.Diff(content, got))
	}
	if _, err := s.Append(t.Context(), "log0", 30, []byte("more")); err != nil {
		t.Error(err)
	}
	if rev, err := s.Put(t.Context(), "new", 0, nil, 0); err != nil || rev <= 3 {
		t.Errorf("Put = %d, %v", rev, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The result passes its own check.
	if err := open(t, dir+"-whole", store.Limits{}).Close(); err != nil {
		t.Fatal(err)
	}

	db, err := sql.Open("sqlite", filepath.Join(dir, "parley.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`UPDATE events SET data = x'00' WHERE seq = 25 AND log = (SELECT id FROM logs WHERE key = 'log1')`,
		`DELETE FROM events WHERE seq = 3 AND log = (SELECT id FROM logs WHERE key = 'log3')`,
		`UPDATE vals SET data = x'00' WHERE key = 'value0'`,
	} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(dir, nil); corruption(err) == nil {
		t.Fatalf("Open = %v", err)
	}
	part, err := sqlite.Salvage(t.Context(), dir, dir+"-part")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(part.Lost)
	want := []string{`log "log1": from event 25 on`, `log "log3": from event 3 on`, `value "value0"`}
	if d := cmp.Diff(want, part.Lost); d != "" || part.Events != 30+4+2 || part.Values != 2 {
		t.Errorf("%+v\n%s", part, d)
	}
	s = open(t, dir+"-part", store.Limits{})
	defer s.Close()
	for key, last := range map[string]uint64{"log0": 30, "log1": 24, "log3": 2} {
		if h, err := s.Head(t.Context(), key); err != nil || h.Last != last {
			t.Errorf("%s: %+v, %v; want %d", key, h, err, last)
		}
	}
	if v, err := s.Get(t.Context(), "value1"); err != nil || string(v.Data) != "value 1" {
		t.Errorf("value1 = %q, %v", v.Data, err)
	}

	if _, err := sqlite.Salvage(t.Context(), dir, dir+"-part"); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("into a folder that exists: %v", err)
	}
	if _, err := sqlite.Salvage(t.Context(), dir+"-part", dir+"-other"); err == nil {
		t.Error("of a store that is open")
	} else if f, ok := errors.AsType[*store.Fault](err); !ok || f.Reason != store.ReasonInUse {
		t.Errorf("of a store that is open: %v", err)
	}
	if _, err := sqlite.Salvage(t.Context(), dir+"-none", dir+"-other"); err == nil {
		t.Error("of nothing")
	}
}
