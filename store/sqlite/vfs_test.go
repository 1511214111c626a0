package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// A disk is a virtual file system between SQLite and its files: it counts operations and fails on
// request.
type disk struct {
	writes, syncs atomic.Int64 // of the write-ahead log and of the database
	// failWrite is the number of the first write that fails with a full disk; all later ones fail
	// too. 0 means never.
	failWrite atomic.Int64
	failSync  atomic.Int64 // the sync with this number fails
}

func (d *disk) reset() {
	for _, n := range []*atomic.Int64{&d.writes, &d.syncs, &d.failWrite, &d.failSync} {
		n.Store(0)
	}
}

const diskName = "parley-test-disk"

// theDisk registers the only disk: SQLite's list of virtual file systems is global to the process.
var theDisk = sync.OnceValue(func() *disk {
	d := &disk{}
	tls := libc.NewTLS()
	normal := lib.Xsqlite3_vfs_find(tls, 0)
	vfs := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	*at[lib.Tsqlite3_vfs](vfs) = *at[lib.Tsqlite3_vfs](normal)
	name, err := libc.CString(diskName)
	if err != nil {
		panic(err)
	}
	at[lib.Tsqlite3_vfs](vfs).FzName = name
	open := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](at[lib.Tsqlite3_vfs](normal).FxOpen)

	var mu sync.Mutex
	methods := map[uintptr]uintptr{} // copies of the default ones, with two replaced
	at[lib.Tsqlite3_vfs](vfs).FxOpen = pointer(func(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
		if code := open(tls, normal, name, file, flags, out); code != lib.SQLITE_OK {
			return code
		}
		if flags&(lib.SQLITE_OPEN_MAIN_DB|lib.SQLITE_OPEN_WAL) == 0 || strings.HasSuffix(libc.GoString(name), "lock") {
			return lib.SQLITE_OK
		}
		mu.Lock()
		defer mu.Unlock()
		usual := at[lib.Tsqlite3_file](file).FpMethods
		if methods[usual] == 0 {
			methods[usual] = d.wrap(tls, usual)
		}
		at[lib.Tsqlite3_file](file).FpMethods = methods[usual]
		return lib.SQLITE_OK
	})
	if code := lib.Xsqlite3_vfs_register(tls, vfs, 0); code != lib.SQLITE_OK {
		panic(fmt.Sprint("sqlite3_vfs_register: ", code))
	}
	return d
})

func (d *disk) wrap(tls *libc.TLS, usual uintptr) uintptr {
	methods := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	m := at[lib.Tsqlite3_io_methods](methods)
	*m = *at[lib.Tsqlite3_io_methods](usual)
	write := function[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](m.FxWrite)
	m.FxWrite = pointer(func(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
		if w, fail := d.writes.Add(1), d.failWrite.Load(); fail > 0 && w >= fail {
			return lib.SQLITE_FULL
		}
		return write(tls, file, data, n, offset)
	})
	sync := function[func(*libc.TLS, uintptr, int32) int32](m.FxSync)
	m.FxSync = pointer(func(tls *libc.TLS, file uintptr, flags int32) int32 {
		if d.syncs.Add(1) == d.failSync.Load() {
			return lib.SQLITE_IOERR_FSYNC
		}
		return sync(tls, file, flags)
	})
	return methods
}

// The translated C code calls functions by the address of a Go function value.

func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

func function[F any](p uintptr) F {
	holder := struct{ p uintptr }{p}
	return *(*F)(unsafe.Pointer(&holder))
}

// kept holds functions whose only other pointer is in C's memory.
var kept []any

func pointer(f any) uintptr {
	kept = append(kept, f)
	return (*(*[2]uintptr)(unsafe.Pointer(&f)))[1]
}

func openOn(t *testing.T, dir string) (*sqlite.Store, error) {
	t.Helper()
	return sqlite.Open(dir, sqlite.WithVFS(sqlite.Options{Report: func(what string, err error) { t.Log(what, err) }}, diskName))
}

// A write is only acknowledged after a sync that followed it.
func TestSyncComesBeforeTheAnswer(t *testing.T) {
	d := theDisk()
	d.reset()
	s, err := openOn(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 20 {
		syncs, writes := d.syncs.Load(), d.writes.Load()
		if _, err := s.Append(t.Context(), "log", uint64(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if d.syncs.Load() == syncs || d.writes.Load() == writes {
			t.Fatalf("append %d: %d writes and %d syncs before the answer", i, d.writes.Load()-writes, d.syncs.Load()-syncs)
		}
	}
	syncs := d.syncs.Load()
	if _, err := s.Append(t.Context(), "log", 3, []byte("x")); !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	if d.syncs.Load() != syncs {
		t.Error("a refused append costs a sync")
	}
}

// The disk is full at write number n, for every possible n: nothing is acknowledged from there on,
// the error is -31009 and retryable, acknowledged data can be read, and writes succeed again when
// there is space.
func TestFullDisk(t *testing.T) {
	d := theDisk()
	for n := int64(1); ; n++ {
		d.reset()
		dir := t.TempDir()
		s, err := openOn(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		d.writes.Store(0)
		d.failWrite.Store(n)
		acked, failed := writeSome(t.Context(), s)
		full := d.writes.Load() >= n
		d.failWrite.Store(0)
		if !full && failed != nil {
			t.Fatalf("write %d: %v without a full disk", n, failed)
		}
		if failed != nil {
			f, ok := errors.AsType[*store.Fault](failed)
			if !ok || f.Reason != store.ReasonFull || !f.Retryable() {
				t.Fatalf("write %d: %v, want %s", n, failed, store.ReasonFull)
			}
			if code, _, _ := f.Public(); code != -31009 {
				t.Fatalf("the code is %d", code)
			}
			if err := wantEvents(t.Context(), s, acked); err != nil {
				t.Fatalf("write %d, disk full: %v", n, err)
			}
			if acked, failed = writeSome(t.Context(), s); failed != nil {
				t.Fatalf("write %d, room again: %v", n, failed)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("write %d: Close: %v", n, err)
		}
		if s, err = openOn(t, dir); err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
		if err := wantEvents(t.Context(), s, acked); err != nil {
			t.Fatalf("write %d, open again: %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !full {
			t.Logf("%d writes, each failed once", n-1)
			return
		}
	}
}

// Sync number n fails, for every possible n: the state of the disk is then unknown, so nothing is
// written until the store is opened again. All acknowledged data is then there.
func TestFailedSync(t *testing.T) {
	d := theDisk()
	for n := int64(1); ; n++ {
		d.reset()
		dir := t.TempDir()
		s, err := openOn(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		d.syncs.Store(0)
		d.failSync.Store(n)
		acked, failed := writeSome(t.Context(), s)
		hit := d.syncs.Load() >= n
		if failed != nil {
			if f, ok := errors.AsType[*store.Fault](failed); !ok || f.Reason != store.ReasonFailed || f.Retryable() {
				t.Fatalf("sync %d: %v, want %s", n, failed, store.ReasonFailed)
			}
			if _, err := s.Append(t.Context(), "log", store.Any, []byte("x")); !errors.Is(err, failed) {
				t.Fatalf("sync %d: the next write gets %v", n, err)
			}
			if err := wantEvents(t.Context(), s, acked); err != nil {
				t.Fatalf("sync %d: %v", n, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("sync %d: Close: %v", n, err)
		}
		if s, err = openOn(t, dir); err != nil {
			t.Fatalf("sync %d: %v", n, err)
		}
		if err := wantEvents(t.Context(), s, acked); err != nil {
			t.Fatalf("sync %d, open again: %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !hit {
			t.Logf("%d syncs, each failed once", n-1)
			return
		}
	}
}

// writeSome appends numbers to a log until there are four or a write fails, and returns the last
// acknowledged one.
func writeSome(ctx context.Context, s store.Store) (acked uint64, err error) {
	h, err := s.Head(ctx, "log")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	for acked = h.Last; acked < 4; {
		last, err := s.Append(ctx, "log", acked, fmt.Append(nil, acked+1))
		if err != nil {
			return acked, err
		}
		acked = last
		if _, err := s.Put(ctx, "value", store.Any, fmt.Append(nil, acked), 0); err != nil {
			return acked, err
		}
	}
	return acked, nil
}

// wantEvents returns an error if the log of writeSome is wrong. It may contain one event more than
// was acknowledged.
func wantEvents(ctx context.Context, s store.Store, acked uint64) error {
	n := uint64(0)
	for e, err := range s.Read(ctx, "log", 0) {
		if err != nil {
			return err
		}
		if n++; e.Seq != n || string(e.Data) != fmt.Sprint(n) {
			return fmt.Errorf("event %d is %d:%s", n, e.Seq, e.Data)
		}
	}
	if n < acked || n > acked+1 {
		return fmt.Errorf("%d events, %d were acknowledged", n, acked)
	}
	return nil
}
