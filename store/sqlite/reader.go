package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/da1ed7bb/parley/store"
)

// errReadOnly is the Err of the Fault for a write to a store opened with OpenReader.
var errReadOnly = errors.New("the store is open for reading only")

// OpenReader opens the store in a directory to read its current contents, also while another
// process writes to it: it takes no lock. It checks everything, as [Open] does, and creates and
// changes nothing. It does not see later writes: open it again to see them. Writes fail, and Tail
// does not see new events. If the directory contains no store, the error is [fs.ErrNotExist].
func OpenReader(dir string, o *Options) (*Store, error) {
	s := newStore(dir, o)
	s.readOnly = true
	close(s.stopped)
	close(s.synced)
	exists, err := s.openReader(context.Background())
	switch {
	case err != nil:
		_ = s.release() // err is already returned
		return nil, s.refusal(err)
	case !exists:
		_ = s.release() // nothing is open
		return nil, fmt.Errorf("%s contains no store: %w", dir, fs.ErrNotExist)
	}
	return s, nil
}

func (s *Store) openReader(ctx context.Context) (exists bool, err error) {
	if _, exists, err = s.check(ctx); err != nil || !exists {
		return exists, err
	}
	s.db, err = sql.Open("sqlite", s.dsn("parley.db", "ro", patient, "query_only(1)"))
	if err != nil {
		return true, err
	}
	s.db.SetMaxOpenConns(readers)
	s.db.SetMaxIdleConns(readers)
	return true, s.db.PingContext(ctx)
}

// Held reports whether a process has the store in a directory open for writing. It returns false if
// the directory contains no store.
func Held(dir string) (bool, error) {
	s := &Store{dir: dir}
	if _, err := os.Stat(s.name("lock")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	db, err := sql.Open("sqlite", s.dsn("lock", "ro", "busy_timeout(0)"))
	if err != nil {
		return false, err
	}
	defer db.Close()
	var n int
	err = db.QueryRowContext(context.Background(), "SELECT count(*) FROM sqlite_schema").Scan(&n)
	if err != nil && fault(err).Reason == store.ReasonInUse {
		return true, nil
	}
	return false, err
}
