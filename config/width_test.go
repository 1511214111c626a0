package config

import (
	"strings"
	"testing"
)

func TestWidest(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"", 0}, {"a: 1\n", 1}, {"a: 1\n\n# b: 2\nc: 3\n", 2}, {"a:\n  b: 1\n  c: 2\n  d: 3\ne:\n  f: 1\n", 3},
		{"a:\n  b: 1\nc:\n  d: 2\n", 2}, {"- a: 1\n  b: 2\n- a: 1\n  b: 2\n", 1}, {"a:\n- b: 1\n- b: 2\n", 1},
		{strings.Repeat("a: {b: 1, c: 2}\r\n", 50), 50},
	} {
		if got := widest([]byte(c.text)); got != c.want {
			t.Errorf("widest of %q is %d, want %d", c.text, got, c.want)
		}
	}
}
