package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A Run is one run of go test on packages, with the repetitions of single tests that follow it.
type Run struct {
	Folder string   // from the root of the repository
	Env    []string // NAME=VALUE of the run
	Flags  []string // of go test
	tests  map[test]*result
	order  []test
	seeds  map[string]string // of the order of tests, by package
	builds map[string][]string
}

// maxOutput is the number of output lines of a test from which lines in the middle are dropped.
const maxOutput = 10_000

// printed matches a message of a test. It follows what the test printed without a line feed.
var printed = regexp.MustCompile(`    [\w.-]+_test\.go:\d+: `)

// A test names a test of a package. If name is empty, it is the package as a whole.
type test struct{ pkg, name string }

type result struct {
	action string // of the last run: pass, fail or skip
	output []string
	raced  bool     // output begins with a data race
	build  string   // the package that could not be built
	first  []string // the output of a run that failed, if there was another one
}

// event is what go test -json prints (go doc test2json).
type event struct {
	Action, Package, Test, Output, FailedBuild, ImportPath string
}

// ReadRun reads the output of go test -json, and the file beside it that ends in .how: the folder,
// the variables and the flags of the run, a line each.
func ReadRun(file string) (*Run, error) {
	r := &Run{tests: map[test]*result{}, seeds: map[string]string{}, builds: map[string][]string{}}
	how, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".how")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if lines := strings.Split(string(how), "\n"); len(lines) >= 3 {
		r.Folder, r.Env, r.Flags = lines[0], strings.Fields(lines[1]), strings.Split(lines[2], "\t")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil { // what go prints before the first event is no JSON
				r.add(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *Run) add(e event) {
	if e.Action == "build-output" {
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], strings.TrimRight(e.Output, "\n"))
		return
	}
	if e.Package == "" {
		return
	}
	key := test{e.Package, e.Test}
	t := r.tests[key]
	if t == nil {
		t = new(result)
		r.tests[key] = t
		r.order = append(r.order, key)
	}
	switch e.Action {
	case "run", "start":
		if t.action == "fail" {
			t.first = t.output
		}
		t.action, t.output, t.raced = "", nil, false // a repetition
	case "output":
		if seed, ok := strings.CutPrefix(e.Output, "-test.shuffle "); ok {
			r.seeds[e.Package] = strings.TrimSpace(seed)
		}
		line := strings.TrimRight(e.Output, "\n")
		if at := printed.FindStringIndex(line); at != nil && strings.TrimSpace(line[:at[0]]) != "" {
			t.print(line[:at[0]])
			line = line[at[0]:]
		}
		t.print(line)
	case "pass", "fail", "skip":
		t.action, t.build = e.Action, e.FailedBuild
	}
}

// print adds a line to the output.
func (t *result) print(line string) {
	if !t.raced && strings.Contains(line, "WARNING: DATA RACE") {
		t.raced, t.output = true, nil
	}
	switch {
	case len(t.output) < maxOutput:
		t.output = append(t.output, line)
	case !t.raced: // the message may be at the end
		t.output = append(slices.Delete(t.output, maxOutput/10, maxOutput/2), line)
	}
}

// Count returns the number of tests by their last result. Subtests count.
func (r *Run) Count() (passed, failed, skipped int) {
	for key, t := range r.tests {
		switch {
		case key.name == "" && t.action == "fail" && !r.hasFailedTest(key.pkg):
			failed++
		case key.name == "":
		case t.action == "pass":
			passed++
		case t.action == "skip" && r.maySkip(key):
			skipped++
		default: // a test without a result was running when the program ended
			failed++
		}
	}
	return passed, failed, skipped
}

// systems are what a skipped test may name: what it needs cannot be had on this machine.
var systems = regexp.MustCompile(`(?i)\b(linux|windows|macos|darwin|freebsd|unix|root)\b`)

// maySkip reports whether a skipped test names a system that it needs. In a repetition of go test
// -run a subtest may be skipped too.
func (r *Run) maySkip(key test) bool {
	return slices.ContainsFunc(r.tests[key].output, func(line string) bool {
		return !strings.HasPrefix(strings.TrimSpace(line), "---") && !strings.HasPrefix(line, "===") && systems.MatchString(line)
	})
}

func (r *Run) hasFailedTest(pkg string) bool {
	for key, t := range r.tests {
		if key.pkg == pkg && key.name != "" && t.action != "pass" && t.action != "skip" {
			return true
		}
	}
	return false
}

// Failures returns the failures of the run: one per test with its subtests, and one per package
// that failed without one.
func (r *Run) Failures(stage string) []Failure {
	var all []Failure
	for _, key := range r.order {
		t := r.tests[key]
		switch {
		case key.name == "" && t.action == "fail" && !r.hasFailedTest(key.pkg):
			text := t.output
			if t.build != "" {
				text = r.builds[t.build]
			}
			all = append(all, Failure{stage, key.pkg, "", Summary(strings.Join(text, "\n")), r.repeat(key)})
		case key.name == "" || strings.Contains(key.name, "/"):
		case t.action == "skip" && !r.maySkip(key):
			all = append(all, Failure{stage, key.pkg, key.name, append([]string{"skipped, and names no system that it needs:"}, Summary(r.output(key))...), r.repeat(key)})
		case t.action != "pass" && t.action != "skip":
			all = append(all, Failure{stage, key.pkg, key.name, Summary(r.output(key)), r.repeat(key)})
		}
	}
	for _, key := range r.order {
		if strings.Contains(key.name, "/") && r.tests[key].action == "skip" && !r.maySkip(key) {
			all = append(all, Failure{stage, key.pkg, key.name, append([]string{"skipped, and names no system that it needs:"}, Summary(r.output(key))...), r.repeat(key)})
		}
	}
	return all
}

// ByChance returns the tests that failed and then passed.
func (r *Run) ByChance(stage string) []Failure {
	var all []Failure
	for _, key := range r.order {
		if t := r.tests[key]; key.name != "" && !strings.Contains(key.name, "/") && t.action == "pass" && t.first != nil {
			var lines []string
			for _, other := range r.order {
				if other.pkg == key.pkg && (other.name == key.name || strings.HasPrefix(other.name, key.name+"/")) {
					lines = append(lines, r.tests[other].first...)
				}
			}
			all = append(all, Failure{stage, key.pkg, key.name, Summary(strings.Join(lines, "\n")), r.repeat(key)})
		}
	}
	return all
}

// output returns the output of a test and its failed subtests. Of a program that ended early it is
// also what belongs to the package.
func (r *Run) output(key test) string {
	var lines []string
	for _, other := range r.order {
		t := r.tests[other]
		if other.pkg == key.pkg && (other.name == key.name || strings.HasPrefix(other.name, key.name+"/") && t.action != "pass" && t.action != "skip") {
			lines = append(lines, t.output...)
		}
	}
	if r.tests[key].action == "" {
		lines = append(lines, r.tests[test{key.pkg, ""}].output...)
	}
	return strings.Join(lines, "\n")
}

// repeat returns the command that repeats a test alone, in the same order as it had.
func (r *Run) repeat(key test) string {
	command := strings.Join(append(slices.Clone(r.Env), "go test"), " ")
	if r.Folder != "" && r.Folder != "." {
		command = "cd " + r.Folder + " && " + command
	}
	for i := 0; i < len(r.Flags); i++ {
		switch flag := r.Flags[i]; {
		case flag == "-run" || flag == "-skip" || flag == "-p": // with their values
			i++
		case flag == "-shuffle=on" && r.seeds[key.pkg] != "":
			command += " -shuffle=" + r.seeds[key.pkg]
		case flag != "":
			command += " " + flag
		}
	}
	if key.name != "" {
		root, _, _ := strings.Cut(key.name, "/")
		command += fmt.Sprintf(" -run '^%s$'", root)
	}
	return command + " " + key.pkg
}
