package capture_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

// TestStderrFloods checks that if a program floods stderr, 1,000 lines or 256 KiB of each second
// are recorded and the dropped lines are counted. The recorded messages are retained.
func TestStderrFloods(t *testing.T) {
	for name, line := range map[string]string{"short": "x", "long": strings.Repeat("x", 8<<10)} {
		synctest.Test(t, func(t *testing.T) {
			rec := record(t, &capture.Options{MaxDisk: -1})
			w := rec.Wire(capture.WireInfo{})
			w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","method":"early"}`))
			const seconds, each = 20, 5000
			recorded := 0
			for range seconds {
				for range each {
					if w.Stderr([]byte(line)) > 0 {
						recorded++
					}
				}
				time.Sleep(time.Second)
			}
			w.Close(nil)
			rec.Flush()
			limit := 1000
			if len(line) > 1000 {
				limit = 256 << 10 / len(line)
			}
			if recorded > seconds*limit || recorded < seconds*limit/2 {
				t.Errorf("%s: %d lines are recorded in %d s", name, recorded, seconds)
			}
			rows, dropped := 0, 0
			early := false
			for _, r := range rec.Rows(capture.Ref{}, 0) {
				early = early || r.Method == "early"
				if r.Kind == capture.RowStderr {
					rows++
				}
			}
			if rows > 4000 || !early {
				t.Errorf("%s: %d rows of stderr; what was said is there: %v", name, rows, early)
			}
			for e, err := range rec.Events(0) {
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				if e.Kind == capture.KindStderr && bytes.HasSuffix(e.Data, []byte(" lines dropped")) {
					if _, err := fmt.Sscan(string(e.Data), &n); err != nil {
						t.Fatal(err)
					}
				}
				dropped += n
			}
			if dropped != seconds*each-recorded {
				t.Errorf("%s: %d lines are counted as dropped, want %d", name, dropped, seconds*each-recorded)
			}
		})
	}
}
