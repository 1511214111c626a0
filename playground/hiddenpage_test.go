package playground

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// TestHiddenOnThePage checks that the page escapes the same characters as a terminal, except tabs
// and newlines, which the page lays out.
func TestHiddenOnThePage(t *testing.T) {
	source, err := os.ReadFile("web/src/lib/json.js")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^export const hidden = /\[(.*)\]/gu;$`).FindSubmatch(source)
	if m == nil {
		t.Fatal("json.js has no list of hidden characters")
	}
	hidden := make(map[rune]bool)
	for _, one := range regexp.MustCompile(`\\u(?:\{([0-9a-f]+)\}|([0-9a-f]{4}))(?:-\\u(?:\{([0-9a-f]+)\}|([0-9a-f]{4})))?`).FindAllStringSubmatch(string(m[1]), -1) {
		number := func(text string) rune {
			n, err := strconv.ParseInt(text, 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return rune(n)
		}
		from := number(one[1] + one[2])
		to := from
		if end := one[3] + one[4]; end != "" {
			to = number(end)
		}
		for r := from; r <= to; r++ {
			hidden[r] = true
		}
	}
	var differ []string
	for r := rune(0); r <= 0x10ffff; r++ {
		if hidden[r] != (harmless.Hidden(r) && r != '\t' && r != '\n') {
			differ = append(differ, strconv.FormatInt(int64(r), 16))
		}
	}
	if len(differ) > 0 {
		t.Errorf("%d characters differ: %s …", len(differ), strings.Join(differ[:min(10, len(differ))], " "))
	}
}
