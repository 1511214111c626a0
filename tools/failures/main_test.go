package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// planted is a module with one failure of each kind.
var planted = map[string]string{
	"go.mod": "module planted.example/m\n\ngo 1.26\n",
	"fails/a_test.go": `package fails

import "testing"

func TestWrong(t *testing.T) {
	t.Log("before")
	t.Run("sub", func(t *testing.T) { t.Errorf("got %d, want %d\n  a second line", 1, 2) })
}

func TestRight(t *testing.T) {}
`,
	"races/a_test.go": `package races

import "testing"

func TestRace(t *testing.T) {
	n, done := 0, make(chan bool)
	go func() { n++; close(done) }()
	n++
	<-done
}
`,
	"panics/a_test.go": `package panics

import "testing"

func TestPanic(t *testing.T) {
	var m map[string]int
	m["x"] = 1
}
`,
	"hangs/a_test.go": `package hangs

import "testing"

func TestHang(t *testing.T) { select {} }
`,
	"leaks/a_test.go": `package leaks

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	m.Run()
	fmt.Fprintln(os.Stderr, "goleak: Errors on successful test run: found unexpected goroutines:")
	os.Exit(1)
}

func TestLeak(t *testing.T) {}
`,
	"builds/a.go":       "package builds\n\nfunc f() int { return \"text\" }\n",
	"builds/a_test.go":  "package builds\n\nimport \"testing\"\n\nfunc TestBuild(t *testing.T) {}\n",
	"missing/a_test.go": "package missing\n\nimport (\n\t\"testing\"\n\n\t_ \"planted.example/nothing\"\n)\n\nfunc TestMissing(t *testing.T) {}\n",
	"vets/a_test.go":    "package vets\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestVet(t *testing.T) { fmt.Printf(\"%d\", \"text\") }\n",
	"skips/a_test.go": `package skips

import "testing"

func TestSilent(t *testing.T) { t.Skip("later") }

func TestSystem(t *testing.T) { t.Skip("needs Windows") }
`,
}

// TestPlanted checks that each kind of failure is reported with its package, test, message, place
// and the command that repeats it, within 40 lines.
func TestPlanted(t *testing.T) {
	dir, logs := t.TempDir(), t.TempDir()
	for name, text := range planted {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "go", "test", "-json", "-race", "-shuffle=on", "-timeout=5s", "./...")
	c.Dir = dir
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
	out, err := c.Output()
	if len(out) == 0 {
		t.Fatal("no output:", err)
	}
	how := "interop\nPARLEY_X=1 \n-race\t-shuffle=on\t-p\t4\t-run\t.\n"
	if err := errors.Join(os.WriteFile(filepath.Join(logs, "race.json"), out, 0o600), os.WriteFile(filepath.Join(logs, "race.how"), []byte(how), 0o600),
		os.WriteFile(filepath.Join(logs, "race.log"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := Read(logs, []string{"race=1"})
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	r.Print(&all, logs)
	if lines := strings.Count(all.String(), "\n"); lines > 40 {
		t.Errorf("%d lines, want at most 40", lines)
	}
	if want := "2 passed, 10 failed, 1 skipped\n"; !strings.HasSuffix(all.String(), want) {
		t.Errorf("the last line is not %q:\n%s", want, &all)
	}
	want := map[string][]string{
		"fails TestWrong":  {`a_test.go:7: got 1, want 2\n`, `a second line`},
		"races TestRace":   {`WARNING: DATA RACE\n`, `races/a_test.go:7`},
		"panics TestPanic": {`panic: assignment to entry in nil map`, `panics/a_test.go:7`},
		"hangs TestHang":   {`panic: test timed out after 5s`, `TestHang`},
		"leaks":            {`found unexpected goroutines`},
		"builds":           {`builds/a.go:3:\d+: cannot use`},
		"missing":          {`a_test.go:6:2: .*planted.example/nothing`},
		"vets":             {`a_test.go:8:\d+: fmt.Printf format %d`},
		"skips TestSilent": {`names no system`, `a_test.go:5: later`},
	}
	for _, f := range r.Failures {
		name := strings.TrimSpace(strings.TrimPrefix(f.Package, "planted.example/m/") + " " + f.Test)
		text := strings.Join(f.lines(12), "\n") + "\n"
		for _, w := range append(want[name], `^FAILED race: planted.example/m/`+name+`\n`,
			`\n  again: cd interop && PARLEY_X=1 go test -race -shuffle=(on|\d+) (-run '\^Test\w+\$' )?`+f.Package+`\n$`) {
			if !regexp.MustCompile(w).MatchString(text) {
				t.Errorf("no match for %s in:\n%s", w, text)
			}
		}
		if !strings.Contains(all.String(), f.lines(3)[0]) {
			t.Errorf("%s is missing in the report", name)
		}
		if want[name] == nil {
			t.Errorf("%s was not expected:\n%s", name, text)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is not reported", name)
	}
}

// TestManyMessages checks that the end of what a test logs is in its report, and the beginning of a
// panic.
func TestManyMessages(t *testing.T) {
	var log strings.Builder
	for i := range 100 {
		fmt.Fprintf(&log, "    x_test.go:7: %d\n", i)
	}
	for _, c := range []struct {
		end  string
		most int
		want []string
	}{
		{"    x_test.go:9: too late\n", 9, []string{"x_test.go:7: 0", "x_test.go:9: too late"}},
		{"    x_test.go:9: too late\n", 3, []string{"x_test.go:7: 0"}},
		{"panic: planted\n\tm.example/x_test.go:9 +0x1\n", 9, []string{"panic: planted", "m.example/x_test.go:9"}},
	} {
		lines := Failure{Message: Summary(log.String() + c.end)}.lines(c.most)
		text := strings.Join(lines, "\n")
		for _, want := range c.want {
			if len(lines) > c.most || !strings.Contains(text, want) {
				t.Errorf("no %q, or more than %d lines:\n%s", want, c.most, text)
			}
		}
	}
}

// TestMuchOutput checks that neither a data race in the middle of a long output is lost, nor a
// message behind a line that has no end.
func TestMuchOutput(t *testing.T) {
	events := func(lines ...string) *Run {
		r := &Run{tests: map[test]*result{}, seeds: map[string]string{}}
		for _, line := range lines {
			r.add(event{Action: "output", Package: "m/p", Test: "TestX", Output: line})
		}
		r.add(event{Action: "fail", Package: "m/p", Test: "TestX"})
		return r
	}
	noise := slices.Repeat([]string{"    x_test.go:7: noise\n"}, 2*maxOutput)
	race := []string{"WARNING: DATA RACE\n", "Write at 0x1 by goroutine 7:\n", "      m.example/x_test.go:9 +0x1\n"}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"race at the beginning": {slices.Concat(race, noise), "m.example/x_test.go:9 +0x1"},
		"race in the middle":    {slices.Concat(noise[:maxOutput-1], race, noise), "m.example/x_test.go:9 +0x1"},
		"message at the end":    {append(noise, "    x_test.go:9: too late\n"), "x_test.go:9: too late"},
		"line without an end":   {[]string{strings.Repeat("x", 5000) + "    x_test.go:9: too late\n"}, "x_test.go:9: too late"},
	} {
		failed := events(c.lines...).Failures("race")
		if len(failed) != 1 || !slices.Contains(failed[0].Message, c.want) {
			t.Errorf("%s: %q, want %q", name, failed, c.want)
		}
	}
}

// TestByChance checks that a test that passes when it runs again is no failure, and is listed.
func TestByChance(t *testing.T) {
	logs := t.TempDir()
	events := `{"Action":"start","Package":"m/p"}
{"Action":"run","Package":"m/p","Test":"TestX"}
{"Action":"output","Package":"m/p","Test":"TestX","Output":"    x_test.go:9: too late\n"}
{"Action":"fail","Package":"m/p","Test":"TestX"}
{"Action":"fail","Package":"m/p"}
{"Action":"start","Package":"m/p"}
{"Action":"run","Package":"m/p","Test":"TestX"}
{"Action":"pass","Package":"m/p","Test":"TestX"}
{"Action":"pass","Package":"m/p"}
`
	if err := os.WriteFile(filepath.Join(logs, "race.whole.json"), []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Read(logs, []string{"race"})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	r.Print(&text, logs)
	if want := "BY CHANCE race: m/p TestX\n  x_test.go:9: too late\n  again: go test -run '^TestX$' m/p\n1 passed, 0 failed, 0 skipped\n"; text.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &text, want)
	}
}

// TestLogs checks stages that are not runs of go test.
func TestLogs(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"lint": {"lint .\ncmd/parley/call.go:12:2: ineffectual assignment to err (ineffassign)\n\terr = nil\n\t^\n1 issues:\n* ineffassign: 1\nmake: *** [Makefile:55: lint] Error 1\n",
			"cmd/parley/call.go:12:2: ineffectual assignment to err (ineffassign)"},
		"setup": {"setup: apt-get install chromium\nE: Unable to locate package chromium\nmake: *** [Makefile:33: setup] Error 100\n",
			"E: Unable to locate package chromium"},
		"tidy": {"go: example.com/x@v1.0.0: reading file: no such file\nmake: *** [Makefile:50: tidy] Error 1\n", "go: example.com/x@v1.0.0: reading file: no such file"},
		"page": {"✔ paints (1.2ms)\n✖ folds (0.8ms)\n  AssertionError: 1 !== 2\n      at file:///x/tests/fold.test.js:9:3\n", "✖ folds (0.8ms)"},
		"cross": {"store/lock.go:3:5: darwin/arm64: undefined: flock\nmake: *** [Makefile:98: cross] Error 1\n",
			"store/lock.go:3:5: darwin/arm64: undefined: flock"},
		"generate": {"'go generate ./...' changed these files; commit what it made:\n> M jsonrpc/x_gen.go\n", "> M jsonrpc/x_gen.go"},
	} {
		logs := t.TempDir()
		if err := os.WriteFile(filepath.Join(logs, name+".log"), []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Read(logs, []string{name + "=2"})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		r.Print(&text, logs)
		for _, want := range []string{"FAILED " + name + "\n", c.want, "again: make " + name} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: no %q in:\n%s", name, want, &text)
			}
		}
	}
}
