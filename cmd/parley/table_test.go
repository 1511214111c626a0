package main

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func tableOf(t *testing.T, value string, person bool) string {
	t.Helper()
	var out bytes.Buffer
	p := &printer{w: &out, format: "table", terminal: person}
	if err := p.emit(jsonrpc.Raw(value)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTables(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"objects", `[{"a":1,"b":"x\ny"},{"b":true,"c":null}]`, "A  B     C\n1  x y\n   true  null\n"},
		{"an object", `{"name":"n","longer":[1,2]}`, "name    n\nlonger  [1,2]\n"},
		{"other things", `[1,"a",[2]]`, "1\na\n[2]\n"},
		{"mixed", `["alone",{"a":1,"b":2}]`, "A  B\nalone\n1  2\n"},
		{"nothing", `[]`, ""},
		{"no list", `"text"`, "text\n"},
		{"a wide letter", `[{"a":"漢","b":1},{"a":"x","b":2}]`, "A   B\n漢  1\nx   2\n"},
		{"a long value", `[{"a":"` + strings.Repeat("x", 200) + `"}]`, "A\n" + strings.Repeat("x", 80) + "…\n"},
		{"a long list", `[{"a":[` + strings.Repeat("10,", 5000) + `1]}]`, "A\n[" + strings.Repeat("10,", 26) + "1…\n"},
	} {
		if got := tableOf(t, c.value, false); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
		if got, want := tableOf(t, c.value, true), "│ "+strings.TrimSuffix(strings.ReplaceAll(c.want, "\n", "\n│ "), "│ "); c.want != "" && got != want {
			t.Errorf("%s, for a person:\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

// TestTablesAreBounded checks that the output and memory of a table are bounded by the bytes that
// the server sent.
func TestTablesAreBounded(t *testing.T) {
	list := func(rows int, row func(i int) string) string {
		var all []string
		for i := range rows {
			all = append(all, row(i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	wide := func(n int) func(int) string {
		return func(int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, `,"m%d":%d`, i, i)
			}
			return "{" + b.String()[1:] + "}"
		}
	}
	for _, c := range []struct {
		name, value string
		most        int    // maximum output bytes per input byte
		has         string // required in the output
	}{
		{"10,000 objects with a member of their own each", list(10_000, func(i int) string { return fmt.Sprintf(`{"m%d":%d}`, i, i) }), 2, `{"m9999":9999}`},
		{"long names of their own", list(10_000, func(i int) string { return fmt.Sprintf(`{"%s%d":1}`, strings.Repeat("n", 70), i) }), 2, `n9999":1}`},
		{"10,000 members in each of 20", list(20, wide(10_000)), 2, "+9936 members"},
		{"one object of 100,000 members", wide(100_000)(0), 4, "m99999  99999"},
		{"one long cell, many short", `[{"a":"` + strings.Repeat("x", 80) + `","b":1},` + list(5000, func(int) string { return `{"a":1,"b":2}` })[1:], 8, ""},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := tableOf(t, c.value, false)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		if len(got) > c.most*len(c.value) || !strings.Contains(got, c.has) {
			t.Errorf("%s: %d bytes of %d, the end is %q", c.name, len(got), len(c.value), got[max(0, len(got)-200):])
		}
		if most := uint64(64<<20 + 40*len(c.value)); allocated > most {
			t.Errorf("%s: %d bytes allocated for %d, want %d at most", c.name, allocated, len(c.value), most)
		}
	}
}

// TestIndentIsStreamed checks that a deeply nested list is streamed; its indent is many times as
// long as the list.
func TestIndentIsStreamed(t *testing.T) {
	value := jsonrpc.Raw(strings.Repeat("[", 150) + strings.Repeat("11111,", 100_000) + "1" + strings.Repeat("]", 150))
	w := &largest{}
	if err := (&printer{w: w}).emit(value); err != nil {
		t.Fatal(err)
	}
	if w.most > 256<<10 || w.total > 60*len(value) {
		t.Errorf("%d bytes in all, %d at once, for %d", w.total, w.most, len(value))
	}
}

// largest is a writer that records the size of writes.
type largest struct{ most, total int }

func (l *largest) Write(p []byte) (int, error) {
	l.most, l.total = max(l.most, len(p)), l.total+len(p)
	return len(p), nil
}
