package main

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkRecording measures what recording, and a tap, cost one caller: the median of a call
// compared with that of the bare pair. Both are measured in turns of 200 calls, so that variations
// of the machine affect both. The goal is a "p50-ratio" below 1.10 for recording on Unix and HTTP.
func BenchmarkRecording(b *testing.B) {
	bare := newParleyUse(false, false)
	open := half{serve: bare.serve, ask: bare.ask}.on(Unix, TCP)
	open[WebSocket] = bare.overWebSocket
	open[HTTP] = func() (*Session, error) {
		url, stop, err := serveHTTP(bare.handler())
		if err != nil {
			return nil, err
		}
		return bare.withClient(url, httpClient(), stop), nil
	}
	for _, e := range captured() {
		for _, c := range []Transport{Unix, TCP, HTTP, WebSocket} {
			b.Run(e.Name+"/"+string(c), func(b *testing.B) {
				with, err := e.Open[c]()
				if err != nil {
					b.Fatal(err)
				}
				defer with.Close()
				without, err := open[c]()
				if err != nil {
					b.Fatal(err)
				}
				defer without.Close()
				var times [2][]time.Duration
				for b.Loop() {
					for i, s := range []*Session{without, with} {
						for range 200 {
							begin := time.Now()
							if err := s.Call(b.Context()); err != nil {
								b.Fatal(err)
							}
							times[i] = append(times[i], time.Since(begin))
						}
					}
				}
				var p50 [2]float64
				for i := range times {
					slices.Sort(times[i])
					p50[i] = float64(times[i][len(times[i])/2])
				}
				b.ReportMetric(p50[0], "bare-p50-ns")
				b.ReportMetric(p50[1]-p50[0], "added-p50-ns")
				b.ReportMetric(p50[1]/p50[0], "p50-ratio")
			})
		}
	}
}
