// Failures prints what went wrong in the stages of make test, from their logs: for each failure the
// stage, the package, the test, its message with the line of the test file, and the command that
// repeats it alone. Tests that were skipped without naming a system are failures too.
//
// Usage: go run -C tools ./failures LOGS STAGE[=CODE]…
//
// LOGS holds STAGE.log, the output of a stage, and files of go test -json with the options of their
// runs (see scripts/gotest). CODE is the exit code of a stage that failed. The last line is "N
// passed, N failed, N skipped". The exit code is 1 if a stage or a test failed.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLines limits what is printed, so that it fits on a screen.
const maxLines = 38

// A Failure is one thing that went wrong.
type Failure struct {
	Stage, Package, Test string
	Message              []string
	Repeat               string // the command that repeats it alone
}

// isLike reports whether another failure says the same.
func (f Failure) isLike(other Failure) bool {
	return f.Package == other.Package && f.Test == other.Test && slices.Equal(f.Message, other.Message)
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: failures LOGS STAGE[=CODE]…")
		os.Exit(2)
	}
	r, err := Read(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "failures:", err)
		os.Exit(2)
	}
	r.Print(os.Stdout, os.Args[1])
	if len(r.Failures) > 0 {
		os.Exit(1)
	}
}

// A Report is the result of all stages.
type Report struct {
	Failures                []Failure
	ByChance                []Failure // passed when they ran again
	Passed, Failed, Skipped int
}

// Read reads the logs of the stages, which are given as NAME or NAME=CODE.
func Read(logs string, stages []string) (*Report, error) {
	r := new(Report)
	for _, stage := range stages {
		name, code, _ := strings.Cut(stage, "=")
		found := len(r.Failures)
		runs, err := filepath.Glob(filepath.Join(logs, name+".*json"))
		if err != nil {
			return nil, err
		}
		slices.Sort(runs)
		for _, file := range runs {
			run, err := ReadRun(file)
			if err != nil {
				return nil, err
			}
			passed, failed, skipped := run.Count()
			r.Passed, r.Failed, r.Skipped = r.Passed+passed, r.Failed+failed, r.Skipped+skipped
			for _, f := range run.Failures(name) {
				if !slices.ContainsFunc(r.Failures[found:], f.isLike) { // what cannot be built fails in each run
					r.Failures = append(r.Failures, f)
				}
			}
			r.ByChance = append(r.ByChance, run.ByChance(name)...)
		}
		if code != "" && len(r.Failures) == found {
			log, err := os.ReadFile(filepath.Join(logs, name+".log"))
			if err != nil {
				return nil, err
			}
			r.Failures = append(r.Failures, Failure{Stage: name, Message: Summary(string(log)), Repeat: "make " + name})
		}
	}
	return r, nil
}

// Print writes at most maxLines lines about the failures, and the number of tests.
func (r *Report) Print(w io.Writer, logs string) {
	for _, f := range r.ByChance {
		for i, line := range f.lines(6) {
			if i == 0 {
				line = strings.Replace(line, "FAILED", "BY CHANCE", 1)
			}
			fmt.Fprintln(w, line)
		}
	}
	each := maxLines
	if n := len(r.Failures); n > 0 {
		each = max(maxLines/n, 3)
	}
	lines := 0
	for i, f := range r.Failures {
		if lines+3 > maxLines {
			fmt.Fprintf(w, "and %d more; see %s\n", len(r.Failures)-i, logs)
			break
		}
		text := f.lines(each)
		lines += len(text)
		for _, line := range text {
			fmt.Fprintln(w, line)
		}
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", r.Passed, r.Failed, r.Skipped)
}

// lines returns a failure as at most most lines, of which the first names it and the last repeats
// it.
func (f Failure) lines(most int) []string {
	title := "FAILED " + f.Stage
	if f.Package != "" {
		title += ": " + strings.TrimSpace(f.Package+" "+f.Test)
	}
	lines := []string{title}
	message := f.Message
	if n := max(most-2, 1); len(message) > n {
		from := max(n/4, 1)                      // the first messages of a test and its last ones,
		if slices.ContainsFunc(message, stops) { // or the first places of a panic
			from = n
		}
		message = slices.Concat(message[:from], message[len(message)-n+from:])
	}
	for _, line := range message {
		if len(line) > 300 && !strings.HasPrefix(line, "input ") { // inputs are needed as a whole
			line = strings.ToValidUTF8(line[:300], "") + "…"
		}
		lines = append(lines, "  "+line)
	}
	return append(lines, "  again: "+f.Repeat)
}
