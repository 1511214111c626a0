package stdio_test

import (
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/transport/stdio"
)

// TestLimits checks that by default a child may open 4,096 files and dumps no core.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		max  int
		want uint64
	}{{0, 4096}, {100, 100}} {
		// The limits are set right after the start, before the child describes them.
		d := describe(t, stdio.Options{MaxFiles: c.max})
		if d.Files != c.want || d.Core != 0 {
			t.Errorf("MaxFiles %d: the child may open %d files and dump %d bytes, want %d and 0", c.max, d.Files, d.Core, c.want)
		}
	}
}

// TestStderr checks that a flood on stderr neither blocks the child nor grows the memory of this
// process.
func TestStderr(t *testing.T) {
	const total = 100_000
	told, dropped := 0, 0
	release := make(chan struct{})
	c := start(t, stdio.Options{Stderr: func(line string) {
		<-release
		var n int
		if _, err := fmt.Sscanf(line, "%d lines dropped", &n); err == nil {
			dropped += n
			return
		}
		told++
	}}, "noise", "100000")
	if err := c.Wait(); err != nil { // returns although no line was received
		t.Error(err)
	}
	close(release)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if told+dropped != total || told > 5000 {
		t.Errorf("%d lines told, %d dropped, want %d in all", told, dropped, total)
	}
	if got := c.Stderr(); len(got) != 256<<10 || string(got[len(got)-len("line 99999\n"):]) != "line 99999\n" {
		t.Errorf("kept %d bytes of stderr, the end is %q", len(got), got[max(0, len(got)-20):])
	}
}
