package capture_test

import (
	"testing"

	"github.com/da1ed7bb/parley/capture"
)

// TestAJudgePanics: a Judge runs on the Recorder's goroutine; if it panics, the row is recorded,
// and the other judges examine it.
func TestAJudgePanics(t *testing.T) {
	named := func(l *capture.Look) { l.Row.Name = "seen" }
	r, err := capture.New(&capture.Options{Judges: []capture.Judge{func(*capture.Look) { panic("in a Judge") }, named}})
	if err != nil {
		t.Fatal(err)
	}
	w := r.Wire(capture.WireInfo{Target: "x"})
	w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","method":"m","id":1}`))
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	rows := r.Rows(capture.Ref{}, 10)
	found := false
	for _, row := range rows {
		found = found || row.Name == "seen"
	}
	if !found {
		t.Errorf("rows %+v", rows)
	}
}
