package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
)

// tolerated is the loss that is treated as noise.
const tolerated = 0.15

// Ratios are the stored result of a run. Times are not stored, because they depend on the machine.
type Ratios struct {
	VsPeer    float64 `json:"vs_peer,omitempty"`
	VsPeerCPU float64 `json:"vs_peer_cpu,omitempty"`
	OfLimit   float64 `json:"of_limit,omitempty"`
}

// A Baseline contains the ratios of our entries, by scenario and entry.
type Baseline map[string]map[string]Ratios

// baseline returns the ratios in a report.
func (r *Report) baseline() Baseline {
	b := Baseline{}
	for _, t := range r.Scenarios {
		for _, e := range t.Results {
			if e.Role != Ours || e.Error != "" || t.Growth {
				continue
			}
			if b[t.Name] == nil {
				b[t.Name] = map[string]Ratios{}
			}
			b[t.Name][e.Name] = Ratios{rounded(e.VsPeer), rounded(e.VsPeerCPU), rounded(e.OfLimit)}
		}
	}
	return b
}

// rounded rounds to three decimal places; more would be noise in the file.
func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// readBaseline reads the output of writeBaseline.
func readBaseline(file string) (Baseline, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var b Baseline
	return b, json.Unmarshal(text, &b)
}

// writeBaseline stores the ratios of the scenarios that were run, and preserves the others.
func writeBaseline(file string, now Baseline) error {
	b, err := readBaseline(file)
	if err != nil {
		b = Baseline{}
	}
	maps.Copy(b, now)
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// compare prints which ratios have become worse by more than the tolerated loss, and returns their
// number.
func (b Baseline) compare(w io.Writer, now Baseline) int {
	lost := 0
	for _, scenario := range slices.Sorted(maps.Keys(now)) {
		for _, entry := range slices.Sorted(maps.Keys(now[scenario])) {
			was, ok := b[scenario][entry]
			if !ok {
				fmt.Fprintf(w, "new   %s: %s has no baseline\n", scenario, entry)
				continue
			}
			is := now[scenario][entry]
			for _, r := range []struct {
				name    string
				was, is float64
			}{{"x peer", was.VsPeer, is.VsPeer}, {"x cpu", was.VsPeerCPU, is.VsPeerCPU}, {"of limit", was.OfLimit, is.OfLimit}} {
				if r.is < r.was*(1-tolerated) {
					lost++
					fmt.Fprintf(w, "LOST  %s: %s, %s: %s, was %s (%.0f %%)\n", scenario, entry, r.name, digits(r.is), digits(r.was), 100*(r.is/r.was-1))
				}
			}
		}
	}
	return lost
}
