package similar_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/similar"
)

func ExampleNames() {
	fmt.Println(similar.Names("subtarct", []string{"sum", "subtract", "update"}))
	// Output: [subtract]
}

func TestNames(t *testing.T) {
	all := []string{"variables", "environments", "asserts", "capture", "calls"}
	for _, c := range []struct{ typed, want string }{
		{"variable", "variables"}, {"Asserts", "asserts"}, {"assert", "asserts"}, {"captrue", "capture"}, {"calls", ""},
		{"x", ""}, {"", ""}, {strings.Repeat("calls", 100), ""},
	} {
		if got := strings.Join(similar.Names(c.typed, all), " "); got != c.want {
			t.Errorf("Names(%.20q) = %q, want %q", c.typed, got, c.want)
		}
	}
	if got := similar.Names("abd", []string{"abc", "abe", "abf", "abg"}); !slices.Equal(got, []string{"abc", "abe", "abf"}) {
		t.Errorf("Names = %q, want three", got)
	}
}
