package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/store"
)

// Options configures [Open]. The zero value is ready for use.
type Options struct {
	Limits store.Limits // Bytes is 64 GiB by default

	// Report is called with events that should be logged but are not errors of a call, such as a
	// repaired record. If nil, they are dropped. It is called on the goroutine that detected the
	// event, and must not block.
	Report func(what string, err error)

	vfs string // for tests
}

// A Store stores logs and values in one directory. It is safe for concurrent use.
type Store struct {
	dir    string
	limits store.Limits
	report func(what string, err error)
	vfs    string // for SQLite; "" for the default

	readOnly bool

	lock   *sql.DB
	db     *sql.DB   // for readers
	writer *sql.Conn // owned by the commits goroutine
	wdb    *sql.DB
	head   *headFile

	ops      chan *op
	written  chan struct{} // signals that the record has changed; buffer of one
	stop     chan struct{} // closed by Close
	stopped  chan struct{} // closed after the last commit
	synced   chan struct{} // closed after that, when the record is no longer used
	closing  sync.Once
	closeErr error

	mu     sync.RWMutex // guards the fields below
	heads  map[string]head
	tails  map[string]*tail
	closed bool
	broken *store.Fault // if set, writes fail
}

// readers is the maximum number of concurrent reads; further reads wait.
const readers = 4

// Open opens the store in a directory, which it creates if necessary, and checks it. If it cannot
// be opened, the error is a [*store.Fault]: another process has it open, the disk is full, it was
// written by a newer version, or it is corrupt. If it is corrupt, Open has changed nothing in it,
// and the Err of the Fault is a [*CorruptError].
func Open(dir string, o *Options) (*Store, error) {
	s := newStore(dir, o)
	m, err := s.open(context.Background())
	if err != nil {
		_ = s.release() // err is already returned
		return nil, s.refusal(err)
	}
	go s.commits(m)
	go s.syncHead()
	return s, nil
}

func newStore(dir string, o *Options) *Store {
	var options Options
	if o != nil {
		options = *o
	}
	s := &Store{
		dir: dir, limits: options.Limits.WithDefaults(64 << 30), report: options.Report, vfs: options.vfs,
		ops: make(chan *op, maxWaiting), written: make(chan struct{}, 1),
		stop: make(chan struct{}), stopped: make(chan struct{}), synced: make(chan struct{}), tails: map[string]*tail{},
	}
	s.report = func(what string, err error) { report.Call(options.Report, "sqlite", what, err) }
	return s
}

// refusal returns the error for a store that cannot be opened.
func (s *Store) refusal(err error) *store.Fault {
	f := fault(err)
	if f.Reason == store.ReasonCorrupt {
		if _, told := errors.AsType[*CorruptError](err); !told {
			f = s.corrupt("%v", err)
		}
	}
	return f
}

func (s *Store) name(file string) string { return filepath.Join(s.dir, file) }

// dsn returns the data source name of a database for the driver.
func (s *Store) dsn(file, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_pragma": pragmas}
	if s.vfs != "" {
		q.Set("vfs", s.vfs)
	}
	path := filepath.ToSlash(s.name(file))
	if !filepath.IsAbs(s.dir) {
		if abs, err := filepath.Abs(s.name(file)); err == nil {
			path = filepath.ToSlash(abs)
		}
	}
	if path[0] != '/' {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// patient waits for a lock that a concurrent reader may hold briefly.
const patient = "busy_timeout(5000)"

// durable makes every commit reach the disk. fullfsync is for macOS, whose fsync stops at the
// drive's cache.
var durable = []string{patient, "journal_mode(WAL)", "synchronous(FULL)", "fullfsync(1)", "checkpoint_fullfsync(1)", "journal_size_limit(67108864)"}

func (s *Store) open(ctx context.Context) (m meta, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return m, err
	}
	// SQLite creates its files readable for everyone. The -wal and -shm files get the mode of the
	// database, so the database is created first.
	for _, file := range []string{"lock", "parley.db", "parley.db-wal", "parley.db-shm", "head"} {
		if err := private.Settle(s.name(file), file == "lock"); err != nil {
			return m, err
		}
	}
	if err := s.takeLock(ctx); err != nil {
		return m, err
	}
	m, exists, err := s.check(ctx)
	if err != nil {
		return m, err
	}
	if !exists {
		if err := private.Settle(s.name("parley.db"), true); err != nil {
			return m, err
		}
	}
	s.wdb, err = sql.Open("sqlite", s.dsn("parley.db", "rwc", durable...))
	if err != nil {
		return m, err
	}
	if s.writer, err = s.wdb.Conn(ctx); err != nil {
		return m, err
	}
	if !exists {
		if err := create(ctx, s.writer); err != nil {
			return m, err
		}
		if m, _, err = readMeta(ctx, s.writer); err != nil {
			return m, err
		}
		s.heads = map[string]head{}
	}
	if s.head, err = openHead(s.name("head")); err != nil {
		return m, err
	}
	if err := s.head.writeHead(m.record()); err != nil {
		return m, err
	}
	if err := syncDir(s.dir); err != nil {
		return m, err
	}
	s.db, err = sql.Open("sqlite", s.dsn("parley.db", "rw", patient, "query_only(1)"))
	if err != nil {
		return m, err
	}
	s.db.SetMaxOpenConns(readers)
	s.db.SetMaxIdleConns(readers)
	return m, s.db.PingContext(ctx)
}

// takeLock locks a separate file while the process lives, so that others can still read the
// database. It uses SQLite's lock, which works the same on every system.
func (s *Store) takeLock(ctx context.Context) (err error) {
	s.lock, err = sql.Open("sqlite", s.dsn("lock", "rwc", "busy_timeout(0)"))
	if err != nil {
		return err
	}
	s.lock.SetMaxOpenConns(1)
	if _, err = s.lock.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		if f := fault(err); f.Reason == store.ReasonInUse {
			return &store.Fault{Reason: store.ReasonInUse, Err: fmt.Errorf("%s is open in another process", s.dir)}
		}
	}
	return err
}

// check reads the existing data, if any, and changes nothing.
func (s *Store) check(ctx context.Context) (m meta, exists bool, err error) {
	record, recorded, torn, err := readHead(s.name("head"))
	if err != nil && !recorded {
		return m, false, err
	}
	bad := &CorruptError{Dir: s.dir}
	if err != nil {
		bad.add("the record of acknowledged commits: %v", err)
	}
	info, err := os.Stat(s.name("parley.db"))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 && !recorded:
		if recorded {
			bad.add("the database is missing, with %d commits", record.commits)
			return m, true, &store.Fault{Reason: store.ReasonCorrupt, Err: bad}
		}
		return m, false, nil
	case err != nil:
		return m, true, err
	}
	db, err := sql.Open("sqlite", s.dsn("parley.db", "ro", patient, "query_only(1)"))
	if err != nil {
		return m, true, err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return m, true, err
	}
	defer conn.Close()
	// All reads below see one state, even if another process writes.
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return m, true, err
	}
	defer func() { _, _ = conn.ExecContext(ctx, "ROLLBACK") }() // the connection is closed anyway
	fresh, err := checkVersion(ctx, conn)
	if err != nil {
		return m, true, err
	}
	if fresh { // its first commit did not happen, so nothing was acknowledged
		if recorded {
			bad.add("the database is empty, %d commits are missing", record.commits)
			return m, true, &store.Fault{Reason: store.ReasonCorrupt, Err: bad}
		}
		return m, false, nil
	}
	m, s.heads, err = verify(ctx, conn, bad)
	if err != nil {
		bad.add("reading stopped: %v", err)
	}
	switch {
	case err != nil:
	case !recorded && m.commits > 1:
		bad.add("the record of acknowledged commits is missing")
	case !recorded || len(bad.Findings) > 0:
	case record.store != m.store:
		bad.add("the record of acknowledged commits belongs to another database")
	case record.commits > m.commits:
		bad.add("commits %d to %d, which were acknowledged, are missing", m.commits+1, record.commits)
	case record.commits == m.commits && record.meta != m.hash():
		bad.add("commit %d is not the one that was acknowledged", m.commits)
	}
	if len(bad.Findings) > 0 {
		return m, true, &store.Fault{Reason: store.ReasonCorrupt, Err: bad}
	}
	if torn {
		s.report(ReportRecordRepaired, fmt.Errorf("sqlite: %s", s.dir))
	}
	return m, true, nil
}

// Close implements [store.Store]. It waits for running writes.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		close(s.stop)
		<-s.synced
		s.mu.Lock()
		for key := range s.tails {
			s.wakeLocked(key)
		}
		s.mu.Unlock()
		s.closeErr = s.release()
	})
	return s.closeErr
}

// release closes everything that is open.
func (s *Store) release() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	if s.wdb != nil {
		errs = append(errs, s.wdb.Close())
	}
	if s.head != nil {
		errs = append(errs, s.head.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// enter checks the store, ctx and key before an operation.
func (s *Store) enter(ctx context.Context, key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	return s.ready(ctx)
}

func (s *Store) ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	return nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// expiry returns an expiry time rounded to milliseconds, never before t.
func expiry(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(millis(t.Add(time.Millisecond-1)), 1)
}

func past(expires int64, now time.Time) bool { return expires != 0 && now.UnixMilli() >= expires }
