package jsonrpc_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// ownNumbers is twoNumbers with its own append and parse methods.
type ownNumbers struct{ minuend, subtrahend int64 }

func (n *ownNumbers) ParseJSON(text []byte) error {
	// {"minuend":42,"subtrahend":23}, as sent by the benchmark
	i := len(`{"minuend":`)
	for ; text[i] != ','; i++ {
		n.minuend = n.minuend*10 + int64(text[i]-'0')
	}
	for i += len(`,"subtrahend":`); text[i] != '}'; i++ {
		n.subtrahend = n.subtrahend*10 + int64(text[i]-'0')
	}
	return nil
}

func (n ownNumbers) AppendJSON(dst []byte) ([]byte, error) {
	dst = strconv.AppendInt(append(dst, `{"minuend":`...), n.minuend, 10)
	dst = strconv.AppendInt(append(dst, `,"subtrahend":`...), n.subtrahend, 10)
	return append(dst, '}'), nil
}

func benchMux() *Mux {
	m := specMux()
	m.Add("own", Func(func(_ context.Context, in ownNumbers) (int, error) { return int(in.minuend - in.subtrahend), nil }))
	m.Add("quick", Func(func(_ context.Context, in twoNumbers) (int, error) { return in.Minuend - in.Subtrahend, nil }), Quick)
	m.Add("ownQuick", Func(func(_ context.Context, in ownNumbers) (int, error) { return int(in.minuend - in.subtrahend), nil }), Quick)
	return m
}

// BenchmarkDispatch measures a payload in and its response out, on one goroutine.
func BenchmarkDispatch(b *testing.B) {
	m := benchMux()
	a := &Answerer{Handler: m, Mode: m.Mode, Cancellation: CancelRequest}
	for _, method := range []string{"subtract", "quick", "own", "ownQuick"} {
		b.Run(method, func(b *testing.B) {
			payload := []byte(`{"jsonrpc":"2.0","method":"` + method + `","params":{"minuend":42,"subtrahend":23},"id":1}`)
			b.ReportAllocs()
			var out []byte
			x := &Exchange{} // no handler retains its Peer here
			for b.Loop() {
				out, _ = a.Answer(context.Background(), out[:0], payload, x)
			}
			if string(out) != `{"jsonrpc":"2.0","result":19,"id":1}` {
				b.Fatal(string(out))
			}
		})
	}
}

// BenchmarkParse measures only the strict pass.
func BenchmarkParse(b *testing.B) {
	payload := []byte(`{"jsonrpc":"2.0","method":"subtract","params":{"minuend":42,"subtrahend":23},"id":1}`)
	b.ReportAllocs()
	for b.Loop() {
		if e := Scan(payload, func(*Message) {}); e != nil {
			b.Fatal(e)
		}
	}
}

// BenchmarkScan measures the grammar check of a 64 KiB document with short strings, numbers and
// nesting.
func BenchmarkScan(b *testing.B) {
	doc := []byte(`[`)
	for i := 0; len(doc) < 64<<10; i++ {
		doc = fmt.Appendf(doc, `{"id":%d,"name":"Item number %d","price":%d.%02d,"tags":["new","größer","a/b"],"stock":{"here":%d,"there":null},"on":%t,"note":"first line\nsecond \"line\""},`,
			1000+i, i, i%500, i%100, i%37, i%2 == 0)
	}
	doc[len(doc)-1] = ']'
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := ParseRaw(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLocal(b *testing.B) {
	m := benchMux()
	p := Local(&Answerer{Handler: m, Mode: m.Mode}, nil)
	for _, method := range []string{"subtract", "quick", "ownQuick"} {
		b.Run(method, func(b *testing.B) {
			b.ReportAllocs()
			var params any = twoNumbers{42, 23}
			if method == "ownQuick" {
				params = ownNumbers{42, 23}
			}
			for b.Loop() {
				var got int
				if err := p.Call(context.Background(), method, params, &got); err != nil || got != 19 {
					b.Fatal(got, err)
				}
			}
		})
	}
}

// BenchmarkConn measures a call and its response between two Conns in memory.
func BenchmarkConn(b *testing.B) {
	for _, method := range []string{"subtract", "quick", "ownQuick"} {
		for _, callers := range []int{1, 50} {
			b.Run(method+"/"+strconv.Itoa(callers), func(b *testing.B) {
				client, _ := pair(b, nil, serving(benchMux()))
				b.ReportAllocs()
				b.SetParallelism((callers + 1) / 2)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						var got int
						if err := client.Call(context.Background(), method, twoNumbers{42, 23}, &got); err != nil || got != 19 {
							b.Fatal(got, err)
						}
					}
				})
			})
		}
	}
}
