package capture_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

// TestAJudgeThatDoesNotReturn: Close and Flush wait for it for the grace time, Close reports what
// is not recorded, and what was pending is recorded when the Judge returns after all.
func TestAJudgeThatDoesNotReturn(t *testing.T) {
	for name, c := range map[string]struct{ grace, want time.Duration }{
		"default": {0, 5 * time.Second},
		"own":     {time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "session.jsonl")
			synctest.Test(t, func(t *testing.T) {
				entered, release := make(chan struct{}), make(chan struct{})
				first := true
				r, err := capture.New(&capture.Options{File: file, Grace: c.grace, Judges: []capture.Judge{func(*capture.Look) {
					if first {
						first = false
						close(entered)
						<-release
					}
				}}})
				if err != nil {
					t.Fatal(err)
				}
				w := r.Wire(capture.WireInfo{Target: "x"})
				w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","method":"first","id":1}`))
				<-entered
				w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","method":"second","id":2}`))
				w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","method":"third","id":3}`))
				begin := time.Now()
				r.Flush()
				if waited := time.Since(begin); waited != c.want {
					t.Errorf("Flush waits %v", waited)
				}
				begin = time.Now()
				err = r.Close()
				if waited := time.Since(begin); waited != c.want || !errors.Is(err, capture.ErrStuck) || !strings.Contains(err.Error(), "2 events are not recorded") {
					t.Errorf("Close = %v after %v", err, waited)
				}
				if err := r.Close(); err != nil {
					t.Errorf("the second Close = %v", err)
				}
				close(release)
				synctest.Wait()
			})
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(text), "third") {
				t.Errorf("the file does not have the last event: %v, %s", err, text)
			}
		})
	}
}

// TestASlowJudge: as long as the recording makes progress, Close waits for all of it.
func TestASlowJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := capture.New(&capture.Options{MaxDisk: -1, Judges: []capture.Judge{func(*capture.Look) { time.Sleep(time.Second) }}})
		if err != nil {
			t.Fatal(err)
		}
		w := r.Wire(capture.WireInfo{Target: "x"})
		long := strings.Repeat("x", 40<<10)
		for range 20 { // about one in a block
			w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","method":"`+long+`"}`))
		}
		if err := r.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if r.Len() < 20 {
			t.Errorf("%d rows", r.Len())
		}
	})
}
