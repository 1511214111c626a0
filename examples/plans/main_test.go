package main

import (
	"strings"
	"testing"
)

func TestPlans(t *testing.T) {
	for _, c := range []struct {
		args        []string
		answers     string
		last, lines string
	}{
		{[]string{"quorum", "question=What is the capital of France?"}, "", "Paris", "cancelled answer/eve"},
		{[]string{"review", "topic=cats"}, "publish\nyes\n", "Written: Here is a sentence about cats.", "ok        final/publish/note"},
		{[]string{"review", "topic=cats"}, "polish\n", "Here is a very good sentence about cats.", "ok        final/polish/polishing/1/again"},
		{[]string{"review", "topic=cats"}, "drop\n", "Goodbye.", "ok        final"},
		{[]string{"translate", "lines=one\ntwo\nthousand\nthree"}, "", "trois", "failed    each/3/1"},
	} {
		var out strings.Builder
		if err := run(t.Context(), c.args, strings.NewReader(c.answers), &out); err != nil {
			t.Errorf("%q: %v\n%s", c.args, err, &out)
			continue
		}
		if !strings.HasSuffix(out.String(), c.last+"\n") || !strings.Contains(out.String(), c.lines+"\n") {
			t.Errorf("%q prints\n%s\nwant %q, and %q at the end", c.args, &out, c.lines, c.last)
		}
	}
	for _, args := range [][]string{nil, {"nothing"}, {"quorum"}, {"quorum", "wrong=1"}} {
		if err := run(t.Context(), args, strings.NewReader(""), &strings.Builder{}); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
