package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHangUpIsBoundedOnceTimeIsUp checks that closing a connection takes the time it needs, unless
// the user's timeout has expired.
func TestHangUpIsBoundedOnceTimeIsUp(t *testing.T) {
	for _, c := range []struct {
		err  error
		want time.Duration
	}{{nil, 5 * time.Second}, {errInterrupted, 5 * time.Second}, {context.DeadlineExceeded, hangUpTime}, {&shownError{"late", errImpatient}, hangUpTime}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			hangUp(c.err, func() error { time.Sleep(5 * time.Second); return nil })
			if took := time.Since(began); took != c.want {
				t.Errorf("after %v it takes %v, want %v", c.err, took, c.want)
			}
			time.Sleep(10 * time.Second) // remaining goroutines end
		})
	}
}

// TestChildrenThatPrintWithoutEnd checks that every command gives up on children that print
// endlessly, long before --timeout.
func TestChildrenThatPrintWithoutEnd(t *testing.T) {
	sh := filepath.Join(string(filepath.Separator), "bin", "sh")
	if _, err := os.Stat(sh); err != nil {
		return // the system has no such programs
	}
	for _, print := range []string{`exec yes`, `yes | tr -d '\n'`} {
		for _, words := range [][]string{{"call", "x"}, {"mcp", "tools"}, {"edit", "hello"}, {"call", "--raw", `{"jsonrpc":"2.0","id":1,"method":"x"}`}} {
			var out, errs bytes.Buffer
			a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
			code := a.main(t.Context(), append(words, "--timeout", "9m", "--", sh, "-c", print))
			if code == exitAway || code == exitOK && words[1] != "--raw" {
				t.Errorf("%q %s: exit code %d\n%s", words, print, code, errs.String())
			}
		}
	}
}
