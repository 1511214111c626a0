package websocket

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress/progresstest"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestSlowReaderGetsABurst: a burst that takes a minute is written, and a peer that stops reading
// is closed after ten seconds.
func TestSlowReaderGetsABurst(t *testing.T) {
	const size = 15 << 20
	for name, most := range map[string]int{"steady": 0, "stops": 9 << 20} {
		for _, client := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					peer := progresstest.New(256<<10, most)
					out := newTransport(peer, client, &Options{PingInterval: -1, CloseTimeout: time.Second}, "", nil)
					var b jsonrpc.Burst
					b.Add(make([]byte, size))
					err := out.Write(b)
					taken, silent := peer.Taken()
					switch {
					case most == 0 && (err != nil || taken < size):
						t.Errorf("%d bytes were taken: %v", taken, err)
					case most > 0 && (!errors.Is(err, jsonrpc.ErrSlowPeer) || taken != most || silent < 9*time.Second || silent > 11*time.Second):
						t.Errorf("%d bytes were taken, the last ones %v before the end: %v", taken, silent, err)
					}
					if jsonrpc.WrittenBytes(out) == 0 {
						t.Error("no progress is reported")
					}
					_ = out.Close()
				})
			})
		}
	}
}
