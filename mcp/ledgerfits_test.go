package mcp

import (
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestALedgerCanBeFull checks that tasks may use both limits completely, and no more, and that a
// task that gets smaller always fits.
func TestALedgerCanBeFull(t *testing.T) {
	l := &taskLedger{limits: TaskLimits{Tasks: 2, Bytes: 100}, order: []*taskEntry{{}}, bytes: 60}
	for _, row := range []struct {
		tasks int
		bytes int64
		fits  bool
	}{{1, 40, true}, {1, 41, false}, {2, 0, false}, {0, 41, false}, {0, 0, true}, {0, -10, true}} {
		if got := l.fits(row.tasks, row.bytes); got != row.fits {
			t.Errorf("%d more tasks and %d more bytes fit: %v", row.tasks, row.bytes, got)
		}
	}
	l.bytes = 110 // the limits were lowered
	if !l.fits(0, -5) || l.fits(0, 1) {
		t.Error("above the limit only a smaller task fits")
	}
}

// TestTheCostOfAChange checks that each part that a server chooses counts.
func TestTheCostOfAChange(t *testing.T) {
	least := changeCost(&Change{})
	for name, change := range map[string]*Change{
		"URI":     {URI: "0123456789"},
		"ID":      {ID: "0123456789"},
		"task ID": {Task: &Task{ID: "0123456789"}},
		"status":  {Task: &Task{Status: "0123456789"}},
		"message": {Task: &Task{StatusMessage: "0123456789"}},
		"result":  {Task: &Task{Result: []byte(`"01234567"`)}},
		"error":   {Task: &Task{Error: &jsonrpc.Error{Message: "01234", Data: []byte(`"012"`)}}},
	} {
		if got := changeCost(change); got != least+10 {
			t.Errorf("%s: %d bytes cost %d", name, 10, got-least)
		}
	}
}
