package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelpOpensWithExamples checks the help of every command: it begins with what the command does,
// and three examples follow within the first five lines.
func TestHelpOpensWithExamples(t *testing.T) {
	everyCommand((&app{getenv: os.Getenv}).rootCommand(), func(command *cobra.Command) {
		if !command.IsAvailableCommand() {
			return
		}
		first, examples := -1, 0
		for i, line := range strings.Split(command.Long, "\n") {
			if !strings.HasPrefix(line, "  parley ") && !strings.HasPrefix(line, "  source <(parley ") {
				continue
			}
			if examples++; first < 0 {
				first = i
			}
		}
		if examples < 3 || first > 4 {
			t.Errorf("%s: %d examples from line %d; want three within the first lines", command.CommandPath(), examples, first+1)
		}
	})
}
