package main

import (
	"strings"
	"testing"
)

func TestDidYouMean(t *testing.T) {
	methods := []string{"subtract", "sum", "update", "get_data", "countdown", "rpc.discover", "calculator/add", "edit", "up"}
	for _, c := range []struct{ typed, want string }{
		{"subtarct", "; did you mean subtract?"},
		{"subtract", ""},
		{"Subtract", "; did you mean subtract?"},
		{"getData", "; did you mean get_data?"},
		{"smu", "; did you mean sum?"},
		{"discover", "; did you mean rpc.discover?"},
		{"countdwon", "; did you mean countdown?"},
		{"add", "; did you mean calculator/add?"},
		{"init", ""}, // edit differs in half of its letters
		{"x", ""},
		{"", ""},
		{"nothing at all", ""},
		{strings.Repeat("subtract", 1000), ""},
	} {
		if got := didYouMean(c.typed, methods); got != c.want {
			t.Errorf("didYouMean(%q) = %q, want %q", cut(c.typed, 40), got, c.want)
		}
	}
	if got := didYouMean("abd", []string{"abc", "abe", "abf", "abg"}); got != "; did you mean abc or abe or abf?" {
		t.Errorf("didYouMean of many names = %q, want three", got)
	}
	if got := didYouMean("red", []string{"re\x1b[31md"}); strings.Contains(got, "\x1b") {
		t.Errorf("didYouMean prints a control sequence of a server: %q", got)
	}
}
