package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/config"
)

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"secret": " s3cret \n\n", "empty": "", "big": strings.Repeat("x", 64<<10+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"A": "a-value", "EMPTY": "", "API_KEY": "key-value", "NEST": "${A}"}
	o := &config.ExpandOptions{Dir: dir, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	for in, want := range map[string]string{
		"":                          "",
		"plain $A {A} $ ${":         "plain $A {A} $ ${",
		"${A}":                      "a-value",
		"x${A}y${env:A}":            "xa-valueya-value",
		"${NO:-}":                   "",
		"${NO:-d:-e}":               "d:-e",
		"${env:NO:-d}":              "d",
		"${EMPTY}":                  "",
		"${EMPTY:-d}":               "d",
		"${A:-d}":                   "a-value",
		"${NEST}":                   "${A}",
		"${file:secret}":            " s3cret",
		"${file:" + dir + "/empty}": "",
		"${file:no:-d}":             "d",
		"${file:empty:-d}":          "d",
	} {
		if got, _, err := config.Expand(in, o); got != want || err != nil {
			t.Errorf("Expand(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"${NO}":              "NO is not set",
		"${env:NO}":          "NO is not set",
		"${file:no}":         "file:no cannot be read: no such file or directory",
		"${file:}":           "file: cannot be read: missing path",
		"${file:big}":        "file:big cannot be read: it has more than 65536 bytes",
		"${file:big:-d}":     "file:big cannot be read: it has more than 65536 bytes",
		"${file:/dev/zero}":  "file:/dev/zero cannot be read: it is not a regular file",
		"${}":                "${} is not a variable",
		"${a b}":             "${a b} is not a variable",
		"${1A}":              "${1A} is not a variable",
		"${workspaceFolder}": "workspaceFolder is not set",
		"${NO}${ALSO}":       "NO is not set\nALSO is not set",
	} {
		_, _, err := config.Expand(in, o)
		if err == nil || err.Error() != want {
			t.Errorf("Expand(%q): %v, want %s", in, err, want)
		}
	}
	if _, _, err := config.Expand("${NO}", o); !isUnset(err, "NO") {
		t.Errorf("%v is no UnsetError", err)
	}
	_, secrets, err := config.Expand("${A} ${API_KEY} ${file:secret}", o)
	if diff := cmp.Diff([]string{"key-value", " s3cret"}, secrets); diff != "" || err != nil {
		t.Errorf("secrets: %s, %v", diff, err)
	}
}

func isUnset(err error, name string) bool {
	unset, ok := errors.AsType[*config.UnsetError](err)
	return ok && unset.Name == name
}
