package stream_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress/progresstest"
	"github.com/da1ed7bb/parley/jsonrpc"
	. "github.com/da1ed7bb/parley/transport/stream"
)

// TestSlowReaderGetsABurst: a burst that takes a minute is written, and a peer that stops reading
// is closed after ten seconds.
func TestSlowReaderGetsABurst(t *testing.T) {
	const size = 15 << 20
	for name, most := range map[string]int{"steady": 0, "stops": 9 << 20} {
		for _, deadlines := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					peer := progresstest.New(256<<10, most)
					var rwc io.ReadWriteCloser = peer
					if !deadlines {
						rwc = struct{ io.ReadWriteCloser }{peer}
					}
					out := New(rwc, Line, nil)
					var b jsonrpc.Burst
					b.Add(make([]byte, size))
					err := out.Write(b)
					taken, silent := peer.Taken()
					switch {
					case most == 0 && (err != nil || taken != size+1):
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

// ended is a peer that sends nothing more.
type ended struct{ *progresstest.Peer }

func (ended) Read([]byte) (int, error) { return 0, io.EOF }

// TestProgressAfterTheEndOfInput checks that what a slow peer takes is counted at least once a
// second after it has ended its side: without progress for a second it is disconnected.
func TestProgressAfterTheEndOfInput(t *testing.T) {
	for _, deadlines := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			peer := ended{progresstest.New(20<<10, 0)}
			var rwc io.ReadWriteCloser = peer
			if !deadlines {
				rwc = struct{ io.ReadWriteCloser }{peer}
			}
			out := New(rwc, Line, nil)
			if _, _, err := out.Read(); err != io.EOF {
				t.Fatal(err)
			}
			var b jsonrpc.Burst
			b.Add(make([]byte, 200<<10))
			wrote := make(chan error, 1)
			go func() { wrote <- out.Write(b) }()
			before, steps := uint64(0), 0
			for len(wrote) == 0 {
				time.Sleep(time.Second)
				synctest.Wait()
				if n := jsonrpc.WrittenBytes(out); len(wrote) == 0 && n <= before {
					t.Errorf("no progress from %d bytes on", n)
				} else {
					before, steps = n, steps+1
				}
			}
			if err := <-wrote; err != nil || steps < 10 {
				t.Errorf("%d seconds: %v", steps, err)
			}
			_ = out.Close()
		})
	}
}
