package main

import (
	"os"
	"strings"
	"testing"
)

// TestCheckGuide requires that the script of check runs every command of its guide. The script may
// limit a command to one family of rules, which takes less time.
func TestCheckGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/check.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/check.txtar")
	if err != nil {
		t.Fatal(err)
	}
	ran := strings.ReplaceAll(string(script), "exec parley check --only batch ", "exec parley check ")
	commands := 0
	for _, block := range strings.Split(string(guide), "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			commands++
			if !strings.Contains(ran, "\nexec "+line) {
				t.Errorf("check.txtar does not run %s", line)
			}
		}
	}
	if commands < 5 {
		t.Errorf("the guide has %d commands", commands)
	}
}
