package orchestrator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is wrong is refused before anything starts, with its line and column.
func TestBadPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.Lines(string(b)) {
				if rest, ok := strings.CutPrefix(line, "#! "); ok {
					want = append(want, strings.TrimSpace(rest))
				}
			}
			_, err = ParsePlan("", b)
			bad, ok := errors.AsType[*PlanError](err)
			if !ok {
				t.Fatalf("got %v, want a PlanError", err)
			}
			if d := cmp.Diff(want, strings.Split(bad.Error(), "\n")); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func TestGoodPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if _, err := ReadPlan(file); err != nil {
			t.Errorf("%s:\n%v", file, err)
		}
	}
}
