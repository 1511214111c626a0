package main

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// WritePlot draws the time of a call as dots on a logarithmic scale: one line for each scenario,
// one dot for each entry.
func (r *Report) WritePlot(w io.Writer) {
	const (
		labels, width, row, top, bottom = 262, 1032, 26, 64, 40
		plot                            = width - labels - 30
	)
	var rows []Table
	least, most := math.Inf(1), 0.0
	for _, t := range r.Scenarios {
		if t.Growth {
			continue
		}
		rows = append(rows, t)
		for _, e := range t.Results {
			if e.Error == "" {
				least, most = min(least, e.Wall), max(most, e.Wall)
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	first, last := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	x := func(ns float64) float64 { return labels + plot*(math.Log10(ns)-first)/(last-first) }
	height := top + row*len(rows) + bottom

	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui,sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprint(w, `<style>
.ink{fill:#1f2328}.faint{fill:#656d76}.line{stroke:#d0d7de}.limit{fill:none;stroke:#656d76;stroke-width:1.5}.peer{fill:#9aa4ae}.best{fill:#cf7b1d}.ours{fill:#1a6fdb}.own{fill:#0b3d91}.watched{fill:none;stroke:#1a6fdb;stroke-width:1.5}
@media(prefers-color-scheme:dark){.ink{fill:#e6edf3}.faint{fill:#8d96a0}.line{stroke:#30363d}.peer{fill:#6e7781}.best{fill:#e8a04c}.ours{fill:#58a6ff}.own{fill:#a5d6ff}.watched{stroke:#58a6ff}}
</style>
`)
	fmt.Fprintf(w, `<text class="ink" x="12" y="24" font-size="15" font-weight="600">Time of one call, batch or echo; less is better</text>`+"\n")
	legend := labels
	for _, k := range []struct{ class, text string }{{"limit", "limit"}, {"own", "parley, own payload"}, {"ours", "parley"}, {"watched", "parley, recorded or tapped"}, {"best", "best peer"}, {"peer", "other peers"}} {
		fmt.Fprintf(w, `<circle class="%s" cx="%d" cy="44" r="5"/><text class="faint" x="%d" y="48">%s</text>`+"\n", k.class, legend, legend+10, k.text)
		legend += 30 + 7*len(k.text)
	}
	for power := first; power <= last; power++ {
		at := x(math.Pow(10, power))
		fmt.Fprintf(w, `<line class="line" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="faint" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			at, at, top, height-bottom, at, height-bottom+16, axis(power))
	}
	for i, t := range rows {
		y := top + row*i + row/2
		fmt.Fprintf(w, `<text class="ink" x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labels-14, y+4, html.EscapeString(t.Name))
		best := t.bestPeer()
		// Later ones are drawn on top.
		for _, order := range []string{"peer", "watched", "best", "limit", "ours", "own"} {
			for _, e := range t.Results {
				if e.Error == "" && class(&e, best) == order {
					fmt.Fprintf(w, `<circle class="%s" cx="%.1f" cy="%d" r="5"><title>%s: %s</title></circle>`+"\n", order, x(e.Wall), y, html.EscapeString(e.Name), duration(e.Wall))
				}
			}
		}
	}
	fmt.Fprintf(w, `<text class="faint" x="12" y="%d" font-size="11">%s, %s, %s</text>`+"\n</svg>\n", height-8, html.EscapeString(r.Machine), r.Go, r.Date.Format("2006-01-02"))
}

// axis returns the label of a power of ten nanoseconds.
func axis(power float64) string {
	return fmt.Sprintf("%.0f %s", math.Pow(10, math.Mod(power, 3)), []string{"ns", "us", "ms", "s"}[int(power)/3])
}

// bestPeer returns the name of the fastest peer.
func (t *Table) bestPeer() string {
	name, least := "", math.Inf(1)
	for _, e := range t.Results {
		if e.Role == Peer && e.Error == "" && e.Wall < least {
			name, least = e.Name, e.Wall
		}
	}
	return name
}

// class returns the style of a dot.
func class(e *Result, best string) string {
	switch {
	case e.Role == Limit:
		return "limit"
	case e.Name == best:
		return "best"
	case e.Role == Peer:
		return "peer"
	case strings.HasSuffix(e.Name, "own payload"):
		return "own"
	case strings.HasSuffix(e.Name, "recorded"), strings.HasSuffix(e.Name, "tapped"):
		return "watched"
	}
	return "ours"
}
