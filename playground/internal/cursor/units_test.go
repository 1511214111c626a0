package cursor

import (
	"testing"
)

func TestUnits(t *testing.T) {
	text := []byte(`{"a":"é𝄞"}`)
	for _, c := range []struct{ offset, want int }{{0, 0}, {6, 6}, {8, 7}, {12, 9}, {1000, 11}, {-1, 0}} {
		if got := Units(text, c.offset); got != c.want {
			t.Errorf("Units(%d) = %d, want %d", c.offset, got, c.want)
		}
	}
}

// TestOffset checks that a position past the end is the end, and that one inside a character is
// moved before or after it.
func TestOffset(t *testing.T) {
	for _, c := range []struct {
		text      string
		units, at int
	}{{"é𝄞x", 0, 0}, {"é𝄞x", 1, 2}, {"é𝄞x", 2, 6}, {"é𝄞x", 3, 6}, {"é𝄞x", 4, 7}, {"é𝄞x", 99, 7}, {"", 1, 0}} {
		if got := Offset(c.text, c.units); got != c.at {
			t.Errorf("Offset(%q, %d) = %d, want %d", c.text, c.units, got, c.at)
		}
	}
}
