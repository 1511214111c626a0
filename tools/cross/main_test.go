package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// module writes the files of a module, given as name and content in turn, and returns its folder.
func module(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		file := filepath.Join(dir, files[i])
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(files[i+1]), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const goMod = "module example.com/m\n\ngo 1.26\n"

// TestCheck checks that an error is reported once, with its place, for the systems that have it.
func TestCheck(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the analyzers read what other systems than Windows do not build")
	}
	// Of a right package: a part per system, tests inside and outside, an import of another package.
	right := []string{
		"go.mod", goMod,
		"a/a.go", "package a\n\nimport \"example.com/m/b\"\n\nfunc A() string { return b.B + part() }\n",
		"a/part_unix.go", "//go:build unix\n\npackage a\n\nfunc part() string { return \"u\" }\n",
		"a/part_windows.go", "package a\n\nfunc part() string { return \"w\" }\n",
		"a/a_test.go", "package a\n\nvar inside = part\n",
		"a/b_test.go", "package a_test\n\nimport \"example.com/m/a\"\n\nvar outside = a.A\n",
		"b/b.go", "package b\n\nconst B = \"b\"\n",
	}
	wrong := []string{
		"type/x_windows.go", "package x\n\nvar X int = \"text\"\n",
		"function/x_windows.go", "package x\n\nfunc X() int { return y }\n",
		"borrows/x_windows.go", "package x\n\nfunc X() int { return y }\n",
		"borrows/x_test.go", "package x\n\nvar y = 1\n",
		"signature/x.go", "package x\n",
		"signature/x_windows_test.go", "package x\n\nfunc TestX(n int) {}\n",
		"tested/x_windows.go", "package x\n\nfunc X() int { return y }\n",
		"tested/x_test.go", "package x\n",
		"missing/x.go", "//go:build !linux\n\npackage x\n\nvar X = flock()\n",
		"bits/x.go", "package x\n\nvar X int = 1 << 40\n",
		"inside/x_windows_test.go", "package x\n\nvar X int = \"text\"\n",
		"outside/x.go", "package x\n",
		"outside/x_windows_test.go", "package x_test\n\nvar X int = \"text\"\n",
		"syntax/x_windows.go", "package x\n\nfunc X( {\n",
		"module/x_windows.go", "package x\n\nimport _ \"example.com/nothing\"\n",
	}
	vetted := []string{
		"vet/x_windows.go", "package x\n\nimport \"sync\"\n\nfunc X(m sync.Mutex) {}\n",
		"shift/x.go", "package x\n\nfunc X(n int) int { return n << 40 }\n",
	}
	for name, c := range map[string]struct {
		files []string
		want  map[string][]string // by system
	}{
		"right": {right, nil},
		"wrong": {slices.Concat(right, wrong), map[string][]string{
			"linux/arm": {`bits/x.go:3:13: linux/arm: cannot use 1 << 40 (untyped int constant 1099511627776) as int value in variable declaration (overflows)`},
			"windows/amd64": {
				`borrows/x_windows.go:3:23: windows/amd64: undefined: y`,
				`function/x_windows.go:3:23: windows/amd64: undefined: y`,
				`inside/x_windows_test.go:3:13: windows/amd64: cannot use "text"`,
				`missing/x.go:5:9: windows/amd64: undefined: flock`,
				`module/x_windows.go:3:10: windows/amd64: could not import example.com/nothing`,
				`module/x_windows.go:3:8: windows/amd64: no required module provides package example.com/nothing`,
				`outside/x_windows_test.go:3:13: windows/amd64: cannot use "text"`,
				`signature/x_windows_test.go:3:1: windows/amd64: wrong signature for TestX`,
				`syntax/x_windows.go:3:9: windows/amd64: `,
				`tested/x_windows.go:3:23: windows/amd64: undefined: y`,
				`type/x_windows.go:3:13: windows/amd64: cannot use "text"`,
			},
		}},
		"vet": {slices.Concat(right, vetted), map[string][]string{"linux/arm": {`shift/x.go:3:28: linux/arm: n (32 bits) too small for shift of 40`}, "windows/amd64": {`vet/x_windows.go:5:10: windows/amd64: X passes lock by value: sync.Mutex`}}},
	} {
		dir := module(t, c.files...)
		for _, system := range []string{"windows/amd64", "linux/amd64", "linux/arm"} {
			found, err := Check(dir, system, []string{"./..."})
			if err != nil || !slices.EqualFunc(found, c.want[system], strings.HasPrefix) {
				t.Errorf("%s on %s: %v\n%s\nwant:\n%s", name, system, err, strings.Join(found, "\n"), strings.Join(c.want[system], "\n"))
			}
		}
	}
}

// TestCannotCheck checks that a system or a pattern that means nothing is an error or a finding.
func TestCannotCheck(t *testing.T) {
	dir := module(t, "go.mod", goMod, "b/b.go", "package b\n")
	for system, pattern := range map[string]string{"windows": "./...", "windows/amd64": "./c/...", "windows/nothing": "./..."} {
		if found, err := Check(dir, system, []string{pattern}); err == nil && len(found) == 0 {
			t.Errorf("%s %s: no error", system, pattern)
		}
	}
}
