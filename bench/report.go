package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// A Report is the result of one run of the program.
type Report struct {
	Date      time.Time         `json:"date"`
	Command   string            `json:"command"`
	Machine   string            `json:"machine"`
	Go        string            `json:"go"`
	Versions  map[string]string `json:"versions"`
	Rounds    int               `json:"rounds"`
	Scenarios []Table           `json:"scenarios"`
	Idle      []Idle            `json:"idle,omitempty"`
}

// A Table holds the results of one scenario.
type Table struct {
	Name    string   `json:"name"`
	Growth  bool     `json:"growth,omitempty"`
	Results []Result `json:"results"`
}

// A Result is the cost of one entry in one scenario: the median of each figure, and ratios. A ratio
// above 1 is good for the entry.
type Result struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	Sample
	// VsPeer is the time of the best peer divided by our own; only for our entries.
	VsPeer    float64  `json:"vs_peer,omitempty"`
	VsPeerCPU float64  `json:"vs_peer_cpu,omitempty"` // the same with CPU time, and the same peer
	OfLimit   float64  `json:"of_limit,omitempty"`    // time of the limit / own time
	Rounds    []Sample `json:"rounds,omitempty"`
	Error     string   `json:"error,omitempty"`
}

func wall(s Sample) float64 { return s.Wall }
func cpu(s Sample) float64  { return s.CPU }

func (r *Result) median(of func(Sample) float64) float64 {
	values := make([]float64, len(r.Rounds))
	for i, s := range r.Rounds {
		values[i] = of(s)
	}
	return median(values)
}

// ratio returns the median over all rounds of b's cost / a's cost, or 0.
func ratio(a, b *Result, of func(Sample) float64) float64 {
	var values []float64
	for i := range min(len(a.Rounds), len(b.Rounds)) {
		if cost := of(a.Rounds[i]); cost > 0 {
			values = append(values, of(b.Rounds[i])/cost)
		}
	}
	return median(values)
}

// judge computes medians and ratios.
func judge(results []Result) {
	var limit, best *Result
	for i := range results {
		r := &results[i]
		r.Sample = Sample{r.median(wall), r.median(cpu),
			r.median(func(s Sample) float64 { return s.Bytes }), r.median(func(s Sample) float64 { return s.Allocs })}
		switch {
		case r.Error != "":
		case r.Role == Limit:
			limit = r
		case r.Role == Peer && (best == nil || r.Wall < best.Wall):
			best = r
		}
	}
	for i := range results {
		r := &results[i]
		if limit != nil && r != limit && r.Error == "" {
			r.OfLimit = ratio(r, limit, wall)
		}
		if best != nil && r.Role == Ours && r.Error == "" {
			r.VsPeer, r.VsPeerCPU = ratio(r, best, wall), ratio(r, best, cpu)
		}
	}
}

// find returns the result of an entry, or nil.
func (t *Table) find(name string) *Result {
	for i := range t.Results {
		if t.Results[i].Name == name && t.Results[i].Error == "" {
			return &t.Results[i]
		}
	}
	return nil
}

// table returns the results of a scenario, or nil.
func (r *Report) table(name string) *Table {
	for i := range r.Scenarios {
		if r.Scenarios[i].Name == name {
			return &r.Scenarios[i]
		}
	}
	return nil
}

// newReport describes the machine and the compared libraries.
func newReport(rounds int) *Report {
	r := &Report{
		Date: time.Now().UTC().Truncate(time.Second), Command: "go run . " + strings.Join(os.Args[1:], " "),
		Machine: fmt.Sprintf("%s/%s, %s, %d CPUs", runtime.GOOS, runtime.GOARCH, processor(), runtime.NumCPU()),
		Go:      runtime.Version(), Rounds: rounds, Versions: map[string]string{},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if compared[m.Path] {
				r.Versions[m.Path] = m.Version
			}
		}
	}
	return r
}

// compared are the modules of the peers.
var compared = map[string]bool{
	"go.lsp.dev/jsonrpc2":                    true,
	"github.com/creachadair/jrpc2":           true,
	"github.com/ethereum/go-ethereum":        true,
	"github.com/sourcegraph/jsonrpc2":        true,
	"golang.org/x/exp/jsonrpc2":              true,
	"github.com/gorilla/rpc":                 true,
	"github.com/mark3labs/mcp-go":            true,
	"github.com/modelcontextprotocol/go-sdk": true,
	"github.com/go-json-experiment/json":     true,
}

// processor returns the name of the CPU, if the system reports it.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // only on Linux
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, " \t:\n")
		}
	}
	return "unknown processor"
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// WriteMarkdown writes the report for people.
func (r *Report) WriteMarkdown(w io.Writer) {
	fmt.Fprintf(w, "%s, %s, %s\n`%s`, medians of %d interleaved rounds.\n", r.Date.Format("2006-01-02 15:04 MST"), r.Machine, r.Go, r.Command, r.Rounds)
	fmt.Fprintln(w, "`cpu` is the time of the whole process, client and server together. `x peer` is the time of the best peer divided by ours, `x cpu`\nthe same with CPU time, `of limit` the time of the bare transport divided by the entry's. Ratios are medians of the ratios within each round.")
	if goals := r.goals(); len(goals) > 0 {
		fmt.Fprint(w, "\n## Goals\n\n| goal | want | result | |\n|---|--:|--:|---|\n")
		for _, g := range goals {
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", g.text, g.want, g.got, g.verdict)
		}
	}
	for _, t := range r.Scenarios {
		fmt.Fprintf(w, "\n## %s\n\n| | time | cpu | B | allocs | x peer | x cpu | of limit |\n|---|--:|--:|--:|--:|--:|--:|--:|\n", t.Name)
		for _, e := range t.Results {
			if e.Error != "" {
				fmt.Fprintf(w, "| %s | failed: %s |\n", e.Name, e.Error)
				continue
			}
			fmt.Fprintf(w, "| %s | %s | %s | %.0f | %.1f | %s | %s | %s |\n", e.Name, duration(e.Wall), duration(e.CPU), e.Bytes, e.Allocs,
				times(e.VsPeer), times(e.VsPeerCPU), times(e.OfLimit))
		}
	}
	writeIdle(w, r.Idle)
}

// duration formats nanoseconds with three digits.
func duration(ns float64) string {
	unit := "ns"
	for _, next := range []string{"us", "ms", "s"} {
		if ns < 1000 {
			break
		}
		ns /= 1000
		unit = next
	}
	return digits(ns) + " " + unit
}

// times formats a ratio, or returns "" for 0.
func times(v float64) string {
	if v == 0 {
		return ""
	}
	return digits(v)
}

// digits formats v with three digits.
func digits(v float64) string {
	return fmt.Sprintf("%.*f", max(0, 2-int(math.Floor(math.Log10(max(v, 0.1))))), v)
}
