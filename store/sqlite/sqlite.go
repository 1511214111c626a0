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

	"github.com/da1ed7bb/parley/store"
)

// Options tune Open. The zero value is ready for use.
type Options struct {
	Limits store.Limits // Bytes is 64 GiB by default

	// Report gets what is worth a line in a log and no error of a call, such as a repaired record. Nil drops it. It is called on
	// the goroutine that noticed, and must not wait.
	Report func(what string, err error)

	vfs string // for tests
}

// A Store keeps logs and values in one folder. It is safe for concurrent use.
type Store struct {
	dir    string
	limits store.Limits
	report func(what string, err error)
	vfs    string // of SQLite; "" for the default

	lock   *sql.DB
	db     *sql.DB   // for readers
	writer *sql.Conn // belongs to the goroutine of commits
	wdb    *sql.DB
	head   *headFile

	ops      chan *op
	written  chan struct{} // the record has changed; has room for one
	stop     chan struct{} // closed by Close
	stopped  chan struct{} // closed when there are no more commits
	synced   chan struct{} // closed after that, when nobody uses the record any more
	closing  sync.Once
	closeErr error

	mu     sync.RWMutex // guards what follows
	heads  map[string]head
	tails  map[string]*tail
	closed bool
	broken *store.Fault // no more writes
}

// readers is how many read at the same time; more wait.
const readers = 4

// Open opens the store in a folder, which it makes if need be, and checks it. What it finds wrong is a [*store.Fault]: another
// process has it open, the disk is full, it was written by a later version, or it is corrupt, in which case nothing in it was
// changed and the Err of the Fault is a [*CorruptError].
func Open(dir string, o *Options) (*Store, error) {
	var options Options
	if o != nil {
		options = *o
	}
	s := &Store{
		dir: dir, limits: options.Limits.WithDefaults(64 << 30), report: options.Report, vfs: options.vfs,
		ops: make(chan *op, maxWaiting), written: make(chan struct{}, 1),
		stop: make(chan struct{}), stopped: make(chan struct{}), synced: make(chan struct{}), tails: map[string]*tail{},
	}
	if s.report == nil {
		s.report = func(string, error) {}
	}
	m, err := s.open(context.Background())
	if err != nil {
		_ = s.release() // already failing with err
		f := fault(err)
		if f.Reason == store.ReasonCorrupt {
			if _, told := errors.AsType[*CorruptError](err); !told {
				f = s.corrupt("%v", err)
			}
		}
		return nil, f
	}
	go s.commits(m)
	go s.syncHead()
	return s, nil
}

func (s *Store) name(file string) string { return filepath.Join(s.dir, file) }

// dsn is the address of a database for the driver.
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

// patient waits for a lock that somebody who reads along may hold for a moment.
const patient = "busy_timeout(5000)"

// durable is how every commit reaches the disk. fullfsync is for macOS, whose fsync stops at the drive's cache.
var durable = []string{patient, "journal_mode(WAL)", "synchronous(FULL)", "fullfsync(1)", "checkpoint_fullfsync(1)", "journal_size_limit(67108864)"}

func (s *Store) open(ctx context.Context) (m meta, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return m, err
	}
	if err := s.takeLock(ctx); err != nil {
		return m, err
	}
	m, exists, err := s.check(ctx)
	if err != nil {
		return m, err
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
	if err := s.head.begin(m.record()); err != nil {
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

// takeLock holds a lock on a file of its own for as long as the process lives, so that others can still read the database. It is
// SQLite's lock, which works the same on every system.
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

// check reads what is there, if anything, and changes nothing.
func (s *Store) check(ctx context.Context) (m meta, exists bool, err error) {
	record, recorded, torn, err := readHead(s.name("head"))
	if err != nil && !recorded {
		return m, false, err
	}
	bad := &CorruptError{Dir: s.dir}
	if err != nil {
		bad.add("the record of what was acknowledged: %v", err)
	}
	info, err := os.Stat(s.name("parley.db"))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 && !recorded:
		if recorded {
			bad.add("the database is gone, %d commits", record.commits)
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
		bad.add("reading ends with: %v", err)
	}
	switch {
	case err != nil:
	case !recorded && m.commits > 1:
		bad.add("the record of what was acknowledged is gone")
	case !recorded || len(bad.Findings) > 0:
	case record.store != m.store:
		bad.add("the record of what was acknowledged belongs to another database")
	case record.commits > m.commits:
		bad.add("commits %d to %d, which were acknowledged, are missing", m.commits+1, record.commits)
	case record.commits == m.commits && record.meta != m.hash():
		bad.add("commit %d is not the one that was acknowledged", m.commits)
	}
	if len(bad.Findings) > 0 {
		return m, true, &store.Fault{Reason: store.ReasonCorrupt, Err: bad}
	}
	if torn {
		s.report("one of two records of what was acknowledged could not be read, and is written anew", nil)
	}
	return m, true, nil
}

// Close implements [store.Store]: it waits for the writes that are under way.
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

// release closes what is open.
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

// enter begins an operation.
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

// expiry is the time of an end, which is not before t.
func expiry(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(millis(t.Add(time.Millisecond-1)), 1)
}

func past(expires int64, now time.Time) bool { return expires != 0 && now.UnixMilli() >= expires }
