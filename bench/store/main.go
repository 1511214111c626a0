// Command store measures how many appends per second store/sqlite acknowledges, each synced to the
// disk, compared with SQLite itself with one transaction per append, for one writer and for fifty.
// It fails if the factor at fifty writers is below ten.
//
// Both write 250 bytes per append into a file on the same disk, with a write-ahead log and
// synchronous=FULL, through the same driver. The two take turns, and the result is the median of
// several rounds, because other programs on the same disk affect both.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

const want = 10 // times plain SQLite, at fifty writers

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each")
	length := flag.Duration("time", time.Second, "time of a round")
	dir := flag.String("dir", "", "a folder on the disk to measure (the system's folder for temporary files)")
	flag.Parse()
	if err := run(*rounds, *length, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "store:", err)
		os.Exit(1)
	}
}

func run(rounds int, length time.Duration, under string) error {
	dir, err := os.MkdirTemp(under, "store")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Print("| writers | plain SQLite | store/sqlite | times |\n|--:|--:|--:|--:|\n")
	for _, writers := range []int{1, 50} {
		var plain, ours, times []float64
		for round := range rounds {
			name := filepath.Join(dir, fmt.Sprint(writers, "-", round))
			p, err := measurePlain(name+".db", writers, length)
			if err != nil {
				return err
			}
			o, err := measureStore(name, writers, length)
			if err != nil {
				return err
			}
			plain, ours, times = append(plain, p), append(ours, o), append(times, o/p)
		}
		fmt.Printf("| %d | %.0f/s | %.0f/s | %.1f |\n", writers, middle(plain), middle(ours), middle(times))
		if writers > 1 && middle(times) < want {
			return fmt.Errorf("%d writers are %.1f times as fast as plain SQLite, want %d", writers, middle(times), want)
		}
	}
	return nil
}

func middle(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// measure lets writers call f with their number and a counter, and returns the number of calls per
// second.
func measure(writers int, length time.Duration, f func(writer, n int) error) (float64, error) {
	var (
		wg    sync.WaitGroup
		count atomic.Int64
		first error
		once  sync.Once
	)
	begin := time.Now()
	for w := range writers {
		wg.Go(func() {
			for n := 0; time.Since(begin) < length; n++ {
				if err := f(w, n); err != nil {
					once.Do(func() { first = err })
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(count.Load()) / time.Since(begin).Seconds(), first
}

var event = make([]byte, 250)

// measurePlain uses one transaction per append, on one connection for all writers: with several
// connections they wait for each other in SQLite, which is slower.
func measurePlain(name string, writers int, length time.Duration) (float64, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(name)+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	_, err = db.ExecContext(ctx, `CREATE TABLE events (log INTEGER, seq INTEGER, time INTEGER, data BLOB, PRIMARY KEY (log, seq)) WITHOUT ROWID`)
	if err != nil {
		return 0, err
	}
	insert, err := db.PrepareContext(ctx, `INSERT INTO events VALUES (?, ?, ?, ?)`)
	if err != nil {
		return 0, err
	}
	defer insert.Close()
	return measure(writers, length, func(w, n int) error {
		_, err := insert.ExecContext(ctx, w, n, time.Now().UnixMilli(), event)
		return err
	})
}

func measureStore(name string, writers int, length time.Duration) (float64, error) {
	s, err := sqlite.Open(name, &sqlite.Options{Limits: store.Limits{LogEvents: -1, LogBytes: -1}})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	keys := make([]string, writers)
	for i := range keys {
		keys[i] = fmt.Sprint("log", i)
	}
	return measure(writers, length, func(w, n int) error {
		_, err := s.Append(context.Background(), keys[w], uint64(n), event)
		return err
	})
}
