package mcphttp

import (
	"fmt"
	"testing"
)

// FuzzEntry checks that an entry of a log is parsed only if it has one ID.
func FuzzEntry(f *testing.F) {
	for _, seed := range []string{"0-1\n{}", "1-17\n", "1-17", "\n", "-\n", "1-\nx", "-1\nx", "01-2\nx", "18446744073709551616-1\n", "+1-1\n", "1-2-3\n", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parseEntry(text)
		if err != nil {
			return
		}
		again, err := parseEntry(fmt.Appendf(nil, "%d-%d\n%s", e.Stream, e.Place, e.Data))
		if err != nil || again.Stream != e.Stream || again.Place != e.Place || string(again.Data) != string(e.Data) {
			t.Errorf("%q is %+v, and again %+v, %v", text, e, again, err)
		}
	})
}
