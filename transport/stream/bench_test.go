//go:build unix

package stream

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// BenchmarkStream measures one-way traffic over a Unix socket: bursts of small messages, and large
// ones alone.
func BenchmarkStream(b *testing.B) {
	for _, framer := range []Framer{Line, Header} {
		for _, size := range []struct{ payload, burst int }{{92, 1}, {92, 50}, {64 << 10, 1}, {1 << 20, 1}} {
			name := [...]string{"line", "header"}[framer] + "/" + strconv.Itoa(size.payload) + "x" + strconv.Itoa(size.burst)
			b.Run(name, func(b *testing.B) {
				c, s := unixPair(b)
				w, r := New(c, framer, nil), New(s, framer, nil)
				defer w.Close()
				var out jsonrpc.Burst
				for range size.burst {
					out.Add(bytes.Repeat([]byte("x"), size.payload))
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					for {
						if _, _, err := r.Read(); err != nil {
							return
						}
					}
				}()
				b.SetBytes(int64(len(out.Bytes)))
				b.ReportAllocs()
				for b.Loop() {
					if err := w.Write(out); err != nil {
						b.Fatal(err)
					}
				}
				_ = w.Close()
				<-done
				_ = r.Close()
			})
		}
	}
}
