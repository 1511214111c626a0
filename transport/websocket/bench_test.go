package websocket

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// BenchmarkOneWay sends bursts from one role to the other, over TCP.
func BenchmarkOneWay(b *testing.B) {
	for _, r := range roles { // the writer
		for _, size := range []struct{ payload, burst int }{{92, 1}, {92, 50}, {64 << 10, 1}, {1 << 20, 1}} {
			b.Run(r.name+"/"+strconv.Itoa(size.payload)+"x"+strconv.Itoa(size.burst), func(b *testing.B) {
				near, far := tcpPair(b)
				w, rd := newTransport(near, r.client, nil, "", nil), newTransport(far, !r.client, nil, "", nil)
				var out jsonrpc.Burst
				for range size.burst {
					out.Add(bytes.Repeat([]byte("x"), size.payload))
				}
				done := readingThenClosing(rd)
				b.SetBytes(int64(len(out.Bytes)))
				b.ReportAllocs()
				for b.Loop() {
					if err := w.Write(out); err != nil {
						b.Fatal(err)
					}
				}
				w.Close()
				<-done
			})
		}
	}
}

// BenchmarkRoundTrip sends one message back and forth without other traffic, and compares it with
// the same bytes on bare TCP.
func BenchmarkRoundTrip(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 92)
	b.Run("websocket", func(b *testing.B) {
		near, far := tcpPair(b)
		c, s := newTransport(near, true, nil, "", nil), newTransport(far, false, nil, "", nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			echo(s)
		}()
		var out jsonrpc.Burst
		out.Add(payload)
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Write(out); err != nil {
				b.Fatal(err)
			}
			if _, _, err := c.Read(); err != nil {
				b.Fatal(err)
			}
		}
		c.Close()
		<-done
	})
	b.Run("bare", func(b *testing.B) {
		near, far := tcpPair(b)
		go bareEcho(far)
		buf := make([]byte, 4096)
		for b.Loop() {
			if _, err := near.Write(payload); err != nil {
				b.Fatal(err)
			}
			if _, err := near.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func bareEcho(conn net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

// BenchmarkCall makes a small typed call through two Conns, in mode quick, from one caller and from
// 50.
func BenchmarkCall(b *testing.B) {
	type args struct {
		Minuend    int `json:"minuend"`
		Subtrahend int `json:"subtrahend"`
	}
	var methods jsonrpc.Mux
	methods.Add("subtract", jsonrpc.Func(func(_ context.Context, in args) (int, error) { return in.Minuend - in.Subtrahend, nil }), jsonrpc.Quick)
	for _, callers := range []int{1, 50} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			client, _ := conversing(b, &methods)
			ctx := context.Background()
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for range (b.N + i) / callers {
						var out int
						if err := client.Call(ctx, "subtract", args{42, 23}, &out); err != nil || out != 19 {
							b.Error(out, err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}
