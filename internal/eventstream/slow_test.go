package eventstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress/progresstest"
)

// TestSlowReaderGetsAnEvent: an event that takes a minute is written, and a client that stops
// reading is hung up on after ten seconds.
func TestSlowReaderGetsAnEvent(t *testing.T) {
	const size = 15 << 20
	for name, most := range map[string]int{"steady": 0, "stops": 9 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := progresstest.New(256<<10, most)
				s := NewWriter(client, &WriterOptions{KeepAlive: -1})
				err := s.Send(t.Context(), Event{Data: make([]byte, size)})
				taken, silent := client.Taken()
				switch {
				case most == 0 && (err != nil || taken < size):
					t.Errorf("%d bytes were taken: %v", taken, err)
				case most > 0 && (err == nil || taken != most || silent < 9*time.Second || silent > 11*time.Second):
					t.Errorf("%d bytes were taken, the last ones %v before the end: %v", taken, silent, err)
				}
				_ = s.Finish()
			})
		})
	}
}
