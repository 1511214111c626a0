package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test's binary the server on stdio, too.
func TestMain(m *testing.M) {
	if os.Getenv(stdioServer) != "" {
		serveStdio()
		return
	}
	os.Exit(m.Run())
}

// TestEntriesAnswer checks that every entry works over each of its transports, and the responses
// are correct.
func TestEntriesAnswer(t *testing.T) {
	for _, s := range scenarios() {
		if s.Conns > 10 {
			continue // it needs as many connections as a process has file descriptors
		}
		t.Run(s.Name(), func(t *testing.T) {
			for _, e := range libraries() {
				c := s.enter(e)
				if c == nil {
					continue
				}
				c.n = 1
				if c.measure(s); c.err != nil {
					t.Errorf("%s: %v", e.Name, c.err)
				}
				c.close()
			}
		})
	}
}

func TestDocument(t *testing.T) {
	for _, n := range []int{1 << 10, 64 << 10, 1 << 20} {
		doc := document(n)
		if !json.Valid(doc) {
			t.Errorf("the document of %d bytes is no JSON: %.300s", n, doc)
		}
		if len(doc) < n || len(doc) > n+300 {
			t.Errorf("document(%d) has %d bytes", n, len(doc))
		}
		if bytes.IndexByte(doc, '\n') >= 0 {
			t.Error("the document has a newline, which ends a line")
		}
	}
}

// TestOwnPayload checks that the payload with its own methods accepts what the codec accepts.
func TestOwnPayload(t *testing.T) {
	for _, tt := range []struct {
		in string
		ok bool
	}{
		{`{"minuend":42,"subtrahend":23}`, true},
		{` { "subtrahend" : -7 , "minuend" : 0 } `, true},
		{`{}`, false},
		{`{"minuend":42}`, false},
		{`{"minuend":42,"minuend":42}`, false},
		{`{"minuend":42,"subtrahend":23,"more":1}`, false},
		{`{"minuend":4.5,"subtrahend":23}`, false},
		{`{"minuend":1e3,"subtrahend":23}`, false},
		{`{"minuend":"42","subtrahend":23}`, false},
		{`{"minuend":1234567890123456789,"subtrahend":23}`, false},
		{`[42,23]`, false},
		{`null`, false},
	} {
		var own OwnPair
		err := own.ParseJSON([]byte(strings.TrimSpace(tt.in)))
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v, want ok %t", tt.in, err, tt.ok)
		}
		if !tt.ok {
			continue
		}
		var pair Pair
		if err := json.Unmarshal([]byte(tt.in), &pair); err != nil || OwnPair(pair) != own {
			t.Errorf("%s: %v, the codec has %v (%v)", tt.in, own, pair, err)
		}
		text, _ := own.AppendJSON(nil)
		if want, _ := json.Marshal(pair); !bytes.Equal(text, want) {
			t.Errorf("%v is written %s, want %s", own, text, want)
		}
	}
}

func TestMedianAndRatio(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 100}, 3}} {
		if got := median(tt.in); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.in, got, tt.want)
		}
	}
	// A machine that becomes busy changes both by the same factor: the ratio stays.
	ours := &Result{Rounds: []Sample{{Wall: 1}, {Wall: 10}, {Wall: 3}}}
	peer := &Result{Rounds: []Sample{{Wall: 2}, {Wall: 20}, {Wall: 6}}}
	if got := ratio(ours, peer, wall); got != 2 {
		t.Errorf("ratio = %v, want 2", got)
	}
}

func TestJudge(t *testing.T) {
	rounds := func(ns, cpu float64) []Sample { return []Sample{{Wall: ns, CPU: cpu}, {Wall: 2 * ns, CPU: 2 * cpu}} }
	results := []Result{
		{Name: "raw", Role: Limit, Rounds: rounds(10, 10)},
		{Name: "parley", Role: Ours, Rounds: rounds(20, 20)},
		{Name: "slow", Role: Peer, Rounds: rounds(100, 10)},
		{Name: "best", Role: Peer, Rounds: rounds(60, 80)},
		{Name: "broken", Role: Peer, Rounds: rounds(1, 1), Error: "it failed"},
	}
	judge(results)
	if r := results[1]; r.VsPeer != 3 || r.VsPeerCPU != 4 || r.OfLimit != 0.5 {
		t.Errorf("x peer %v, x cpu %v, of limit %v; want 3, 4, 0.5", r.VsPeer, r.VsPeerCPU, r.OfLimit)
	}
	if r := results[2]; r.VsPeer != 0 || r.OfLimit != 0.1 {
		t.Errorf("a peer has x peer %v and of limit %v, want none and 0.1", r.VsPeer, r.OfLimit)
	}
}

func TestCompare(t *testing.T) {
	was := Baseline{"unix": {"parley": {VsPeer: 2, VsPeerCPU: 3, OfLimit: 0.5}}}
	for _, tt := range []struct {
		name string
		now  Ratios
		lost int
	}{
		{"the same", Ratios{2, 3, 0.5}, 0},
		{"noise", Ratios{1.75, 2.6, 0.43}, 0},
		{"one lost", Ratios{1.65, 3, 0.5}, 1},
		{"all lost", Ratios{1, 1, 0.1}, 3},
		{"better", Ratios{4, 6, 1}, 0},
	} {
		var out strings.Builder
		if got := was.compare(&out, Baseline{"unix": {"parley": tt.now}}); got != tt.lost {
			t.Errorf("%s: %d lost, want %d\n%s", tt.name, got, tt.lost, out.String())
		}
	}
	var out strings.Builder
	if was.compare(&out, Baseline{"new": {"parley": {VsPeer: 1}}}); !strings.Contains(out.String(), "no baseline") {
		t.Errorf("a new scenario is not told: %q", out.String())
	}
}

func TestBaselineFile(t *testing.T) {
	file := t.TempDir() + "/b.json"
	first, second := Baseline{"a": {"parley": {VsPeer: 1}}}, Baseline{"b": {"parley": {VsPeer: 2}}}
	for _, b := range []Baseline{first, second} {
		if err := writeBaseline(file, b); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readBaseline(file)
	if err != nil || got["a"]["parley"].VsPeer != 1 || got["b"]["parley"].VsPeer != 2 {
		t.Errorf("the file holds %v (%v), want both scenarios", got, err)
	}
}

// TestGoalsAreMeasured checks that each goal names an existing scenario and existing entries.
func TestGoalsAreMeasured(t *testing.T) {
	names := map[string]map[string]bool{}
	for _, s := range scenarios() {
		names[s.Name()] = map[string]bool{"": true}
		for _, e := range libraries() {
			if e.Open[s.Transport] != nil {
				names[s.Name()][e.Name] = true
			}
		}
	}
	for _, g := range goals {
		if names[g.scenario] == nil || !names[g.scenario][g.against] {
			t.Errorf("%s: nothing is measured for it", g.text())
		}
	}
}

// TestFeedChecks checks that a feed detects a wrong response, and one that lacks a digit.
func TestFeedChecks(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer string
		ok     bool
	}{
		{"right", smallAnswer, true},
		{"wrong", strings.Replace(smallAnswer, "19", "18", 1), false},
		{"an error", `{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":12345}`, false},
	} {
		f := &feed{all: make(chan error, 2)}
		for range feedCalls {
			if len(f.all) == 0 {
				_, _ = f.Write([]byte(tt.answer + "\n")) // never fails
			}
		}
		if err := <-f.all; (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestRunRotates checks that each round starts with a different entry.
func TestRunRotates(t *testing.T) {
	order := ""
	entry := func(name string) Entry {
		return Entry{name, Peer, map[Transport]func() (*Session, error){Memory: func() (*Session, error) {
			call := func(context.Context) error {
				if !strings.HasSuffix(order, name) {
					order += name
				}
				return nil
			}
			return &Session{Call: call, Close: func() {}}, nil
		}}}
	}
	s := Scenario{Transport: Memory, Work: smallCall, Callers: 1}
	results := s.Run([]Entry{entry("a"), entry("b"), entry("c")}, Plan{Rounds: 3, Time: time.Microsecond})
	if len(results) != 3 || len(results[0].Rounds) != 3 {
		t.Fatalf("results %v", results)
	}
	if !strings.HasSuffix(order, "abc"+"bca"+"cab") {
		t.Errorf("the order was %s", order)
	}
}

func TestPlotIsOneSVG(t *testing.T) {
	r := &Report{Machine: "a <machine>", Scenarios: []Table{{Name: "unix & more", Results: []Result{
		{Name: "raw", Role: Limit, Sample: Sample{Wall: 100}}, {Name: "parley, own payload", Role: Ours, Sample: Sample{Wall: 1000}},
	}}}}
	var out strings.Builder
	r.WritePlot(&out)
	text := out.String()
	for _, want := range []string{"<svg", "</svg>", "unix &amp; more", `class="own"`, `class="limit"`, "a &lt;machine&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the plot:\n%s", want, text)
		}
	}
}

// TestTapCost checks that each way through a tap works, and its table is written.
func TestTapCost(t *testing.T) {
	var out strings.Builder
	if err := tapCost(&out, 1, 60); err != nil {
		t.Fatal(err)
	}
	for _, table := range fareTables() {
		if n := strings.Count(out.String(), "\n| "+table.transport+" | "); n != len(table.fares) {
			t.Errorf("%d rows for %s, want %d:\n%s", n, table.transport, len(table.fares), out.String())
		}
	}
}
