package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

const killWriters = 8

func init() { children["write"] = writeForEver }

// start runs this test binary as a child process with a role.
func start(t *testing.T, role, dir string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], dir)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// writeForEver is the child that is killed: it writes to its own logs and values and prints each
// acknowledged write.
func writeForEver(dir string) error {
	s, err := sqlite.Open(dir, &sqlite.Options{Limits: store.Limits{LogEvents: -1, LogBytes: -1}})
	if err != nil {
		return err
	}
	ctx := context.Background()
	var wg sync.WaitGroup
	errs := make([]error, killWriters)
	for w := range killWriters {
		wg.Go(func() {
			key := fmt.Sprint("log", w)
			h, err := s.Head(ctx, key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				errs[w] = err
				return
			}
			for last := h.Last; ; {
				a, b := fmt.Sprintf("%d.%d", w, last+1), fmt.Sprintf("%d.%d", w, last+2)
				if last, errs[w] = s.Append(ctx, key, last, []byte(a), []byte(b)); errs[w] != nil {
					return
				}
				fmt.Printf("event %s %d\n", key, last)
				if last%20 == 0 {
					if _, errs[w] = s.Put(ctx, key, store.Any, strconv.AppendUint(nil, last, 10), 0); errs[w] != nil {
						return
					}
					fmt.Printf("value %s %d\n", key, last)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// A process that is killed while writing must not have lost or duplicated an acknowledged write.
// PARLEY_KILLS is the number of kills; the default is 5.
func TestKill(t *testing.T) {
	rounds := 5
	if n, err := strconv.Atoi(os.Getenv("PARLEY_KILLS")); err == nil {
		rounds = n
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	acked := map[string]uint64{}
	events := uint64(0)
	for round := range rounds {
		cmd, out := start(t, "write", dir)
		lines := bufio.NewScanner(out)
		deadline := 20 + random.IntN(1000) // acknowledgements until the kill
		for n := 0; lines.Scan(); n++ {
			what, key, seq := parseAck(t, lines.Text())
			acked[what+key] = seq
			if n == deadline {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		if cmd.ProcessState.Success() || strings.Contains(cmd.ProcessState.String(), "exit status") {
			t.Fatalf("round %d: the child ended by itself: %v", round, cmd.ProcessState)
		}
		events = checkKilled(t, dir, acked)
	}
	t.Logf("%d kills, %d events, none lost, none doubled", rounds, events)
}

func parseAck(t *testing.T, line string) (what, key string, seq uint64) {
	t.Helper()
	if _, err := fmt.Sscanf(line, "%s %s %d", &what, &key, &seq); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return what, key, seq
}

// checkKilled opens the store and compares it with the acknowledged writes.
func checkKilled(t *testing.T, dir string, acked map[string]uint64) (events uint64) {
	t.Helper()
	s := open(t, dir, store.Limits{})
	defer s.Close()
	for w := range killWriters {
		key := fmt.Sprint("log", w)
		n := uint64(0)
		for e, err := range s.Read(t.Context(), key, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; e.Seq != n || string(e.Data) != fmt.Sprintf("%d.%d", w, n) {
				t.Fatalf("%s: event %d is %d:%s", key, n, e.Seq, e.Data)
			}
		}
		if n < acked["event"+key] {
			t.Errorf("%s: %d events were acknowledged, %d are there", key, acked["event"+key], n)
		}
		if n%2 != 0 {
			t.Errorf("%s: half of an append is there: %d events", key, n)
		}
		events += n
		if want := acked["value"+key]; want > 0 {
			v, err := s.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := strconv.ParseUint(string(v.Data), 10, 64); err != nil || got < want {
				t.Errorf("%s: value %d was acknowledged, %d is there", key, want, got)
			}
		}
	}
	return events
}

// A second process gets an error, and the first one continues.
func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	cmd, out := start(t, "write", dir)
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the child says nothing")
	}
	s, err := sqlite.Open(dir, nil)
	if err == nil {
		_ = s.Close()
		t.Error("a second process may open the store")
	} else if f, ok := errors.AsType[*store.Fault](err); !ok || f.Reason != store.ReasonInUse || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second process gets %v, want %s with the folder", err, store.ReasonInUse)
	}
	for range 10 {
		if !lines.Scan() {
			t.Fatal("the first process does not go on")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // it was killed
	s = open(t, dir, store.Limits{})
	defer s.Close()

	again, err := sqlite.Open(dir, nil) // a second Open in the same process is rejected too
	if f, ok := errors.AsType[*store.Fault](err); !ok || f.Reason != store.ReasonInUse {
		t.Errorf("a second Open in the process gets %v", err)
		_ = again.Close()
	}
}
