package check_test

import (
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/check"
	"github.com/da1ed7bb/parley/internal/x/race"
)

// everything are the options of the strictest check.
func everything() *check.Options {
	return &check.Options{
		Echo: "echo", Fail: "fail", Sleep: "sleep", Panic: "panic", Named: "subtract", NamedParams: []string{"minuend", "subtrahend"},
		Strict: true, Hard: true,
	}
}

func run(t *testing.T, target string, o *check.Options) *check.Report {
	t.Helper()
	at, err := parley.ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	report, err := check.Check(t.Context(), at, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestACorrectServerPasses checks a server that is written without parley.
func TestACorrectServerPasses(t *testing.T) {
	for name, target := range serve(t, new(plainServer)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is waiting
			o := everything()
			o.Hard = !race.Enabled
			least := 300
			if name == "lsp" { // as tcp, but for the frames
				o.Only, least = []string{"framing", "hard/broken-length", "id"}, 60
			}
			report := check.Run(t, target, o)
			for _, r := range report.Rules {
				if r.Outcome == check.Fail {
					t.Errorf("%s %s: %s\n%s\n%s", r.Level, r.ID, r.Why, r.Sent, r.Received)
				}
			}
			if report.Verdict != check.Pass || report.Counts.Pass < least {
				t.Errorf("verdict %s, %+v", report.Verdict, report.Counts)
			}
		})
	}
}
