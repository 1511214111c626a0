//go:build unix

// Package shelltest runs command lines with programs that only print how they were called.
package shelltest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// New makes programs that print their arguments, their stdin and their working directory. It
// returns a function that runs a command line with them.
func New(t *testing.T) (run func(line string) (argv []string, stdin, dir string)) {
	t.Helper()
	bin := t.TempDir()
	seen := filepath.Join(bin, "seen")
	for _, name := range []string{"parley", "curl"} {
		script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\0' \"$0\" \"$@\" >'%[1]s.argv'\npwd >'%[1]s.dir'\n", seen)
		script += fmt.Sprintf("case \" $* \" in *' -d - '*|*' @- '*|*' -d - --'*) cat >'%[1]s.stdin';; *) : >'%[1]s.stdin';; esac\n", seen)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return func(line string) ([]string, string, string) {
		t.Helper()
		cmd := exec.CommandContext(context.Background(), "sh", "-c", line)
		cmd.Dir = bin
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=/home/guest", "AUTHORIZATION=Bearer mine"}
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("sh: %v\n%s\nfor\n%s", err, out, line)
		}
		read := func(ending string) string {
			text, err := os.ReadFile(seen + ending)
			if err != nil {
				t.Errorf("nothing was started: %v\n%s", err, line)
			}
			return string(text)
		}
		argv := strings.Split(strings.TrimSuffix(read(".argv"), "\x00"), "\x00")
		return argv[1:], read(".stdin"), strings.TrimSpace(read(".dir"))
	}
}
