package sqlite_test

import (
	"testing"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
	"github.com/da1ed7bb/parley/store/storetest"
)

// open opens the store in dir.
func open(t *testing.T, dir string, l store.Limits) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(dir, &sqlite.Options{Limits: l, Report: func(what string, err error) { t.Log(what, err) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	dirs := map[store.Store]string{}
	storetest.Run(t, func(t *testing.T, l store.Limits) store.Store {
		dir := t.TempDir()
		s := open(t, dir, l)
		dirs[s] = dir
		return s
	}, &storetest.Options{Reopen: func(t *testing.T, s store.Store, l store.Limits) store.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, dirs[s], l)
		dirs[again] = dirs[s]
		return again
	}})
}
