package stdio

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// told runs a journal in a bubble, calls write with it, and returns the lines of the callback.
func told(t *testing.T, write func(j *journal)) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		j := newJournal(func(line string) { lines = append(lines, line) })
		wg.Go(j.runJournal)
		write(j)
		j.closeJournal()
		wg.Wait()
	})
	return lines
}

func TestJournalLines(t *testing.T) {
	long := strings.Repeat("x", longestLine)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"lines", "one\ntwo\r\n\nfour", []string{"one", "two", "", "four"}},
		{"control characters", "\x1b[31mred\x07\x00\x7f\tend\n", []string{`\u001b[31mred\u0007\u0000\u007f` + "\tend"}},
		{"another set of them", "a\u0085b\u009bc\n", []string{`a\u0085b\u009bc`}},
		{"what turns text around or cannot be seen", "a\u202eb\u200bc\U000e0041\u2028\n", []string{`a\u202eb\u200bc\u{e0041}\u2028`}},
		{"no UTF-8", "\xff\xfeü\n", []string{`\xff\xfeü`}},
		{"a carriage return inside", "50%\r100%\r\n", []string{`50%\u000d100%`}},
		{"the longest line", long + "\n", []string{long}},
		{"longer", long + "y\nz", []string{long, "y", "z"}},
		{"twice as long", long + long, []string{long, long}},
	} {
		for _, n := range []int{1, 100, 1 << 20} {
			got := told(t, func(j *journal) {
				for rest := []byte(c.text); len(rest) > 0; {
					k := min(n, len(rest))
					if _, err := j.Write(rest[:k]); err != nil {
						t.Error(err)
					}
					rest = rest[k:]
				}
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, written by %d: told %.100q, want %.100q", c.name, n, got, c.want)
			}
		}
	}
}

// TestJournalRate checks the limit of 1,000 lines in a second, and the line with the number of lost
// ones.
func TestJournalRate(t *testing.T) {
	flood := func(n int) []byte { return bytes.Repeat([]byte("x\n"), n) }
	write := func(j *journal, p []byte) { _, _ = j.Write(p) }

	got := told(t, func(j *journal) {
		for range 5 {
			write(j, flood(600))
			synctest.Wait() // the lines are reported
		}
		time.Sleep(1100 * time.Millisecond) // in a synctest bubble
		synctest.Wait()
		write(j, []byte("later\n"))
	})
	if len(got) != 1002 || got[1000] != "2000 lines dropped" || got[1001] != "later" {
		t.Errorf("%d lines, the last are %q, want 1000, then the note, then one more", len(got), got[max(0, len(got)-3):])
	}

	got = told(t, func(j *journal) {
		write(j, flood(1001))
	})
	if len(got) != 1001 || got[1000] != "1 lines dropped" {
		t.Errorf("at the end: %d lines, the last is %q", len(got), got[len(got)-1])
	}

	got = told(t, func(j *journal) {
		for range 3 {
			write(j, flood(1000))
			synctest.Wait()
			time.Sleep(time.Second)
		}
	})
	if len(got) != 3000 {
		t.Errorf("1,000 lines in each of three seconds: %d were told", len(got))
	}
}

// TestJournalSlow checks that a slow callback blocks nothing, and that no line is lost without
// being counted.
func TestJournalSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		release := make(chan struct{})
		j := newJournal(func(line string) {
			<-release
			lines = append(lines, line)
		})
		var wg sync.WaitGroup
		wg.Go(j.runJournal)
		for range 10 {
			_, _ = j.Write(bytes.Repeat([]byte("x\n"), 900)) // returns, or the test hangs
			time.Sleep(time.Second)
		}
		close(release)
		j.closeJournal()
		wg.Wait()
		sum := 0
		for _, line := range lines {
			var n int
			if _, err := fmt.Sscanf(line, "%d lines dropped", &n); err == nil {
				sum += n
			} else {
				sum++
			}
		}
		if sum != 9000 || len(lines) > 4*queuedLines {
			t.Errorf("%d lines were told that stand for %d, want 9000", len(lines), sum)
		}
	})
}

func TestRing(t *testing.T) {
	var r ring
	var all []byte
	for n := range 3000 {
		p := fmt.Appendf(nil, "%d %s\n", n, strings.Repeat("x", n%700))
		r.writeRing(p)
		all = append(all, p...)
		want := all[max(0, len(all)-keptStderr):]
		if n%100 == 0 && !bytes.Equal(r.last(keptStderr), want) {
			t.Fatalf("after %d writes the ring does not hold the last %d bytes", n+1, len(want))
		}
	}
	if got, want := r.last(10), all[len(all)-10:]; !bytes.Equal(got, want) {
		t.Errorf("last(10) = %q, want %q", got, want)
	}
	huge := bytes.Repeat([]byte("abcdefg"), keptStderr)
	r.writeRing(huge)
	if !bytes.Equal(r.last(keptStderr), huge[len(huge)-keptStderr:]) {
		t.Error("one write of more than the ring takes is not kept by its end")
	}
}
