package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestFold checks that help texts fit on a narrow terminal without breaking a word, and that
// commands stay on one line.
func TestFold(t *testing.T) {
	const text = `A paragraph that is wrapped
in the source, and filled again.

  parley call :3000/rpc subtract 42 23
  short   the second column keeps its indent when it is folded
  averyveryverylongfirstcolumn  its text
`
	const want = `A paragraph that is wrapped in
the source, and filled again.

  parley call :3000/rpc subtract 42 23
  short   the second column
          keeps its indent when
          it is folded
  averyveryverylongfirstcolumn
  its text
`
	if got := fold(text, 32); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	all := []string{rootHelp, exitHelp, agentHelp, topics["targets"], topics["filters"], topics["exit-codes"], topics["environment"]}
	everyCommand((&app{getenv: func(string) string { return "" }}).rootCommand(), func(command *cobra.Command) { all = append(all, command.Long) })
	for _, text := range all {
		folded := fold(text, 79)
		for line := range strings.Lines(folded) {
			if command := strings.HasPrefix(strings.TrimSpace(line), "parley "); !command && utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 79 {
				t.Errorf("too long: %s", line)
			}
		}
		if !slices.Equal(strings.Fields(folded), strings.Fields(text)) {
			t.Errorf("words are lost:\n%s", folded)
		}
	}
}

// TestColumnsFit checks which columns give way on a narrow terminal, and how cells are cut.
func TestColumnsFit(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"short", 10, "short"}, {"subtract", 8, "subtract"}, {"subtract", 7, "subtra…"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"},
	} {
		if got := cutColumns(tt.text, tt.width); got != tt.want || columns(got) > tt.width {
			t.Errorf("%q in %d columns is %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
	widths := []int{8, 27, 58, 0}
	if last := fitIn(widths, 60, 80); last != 20 || !slices.Equal(widths, []int{8, 27, 16, 20}) {
		t.Errorf("the columns have %v, the last %d", widths, last)
	}
	widths = []int{8, 27, 58, 0}
	if last := fitIn(widths, 60, 200); last != 60 || widths[2] != 58 {
		t.Errorf("on a wide terminal they have %v, the last %d", widths, last)
	}
}
