package main

import (
	"fmt"
)

// A goal is a target value for one of our entries.
type goal struct {
	scenario, entry string
	against         string  // an entry
	by              measure // the measured quantity
	want            float64
}

// A measure is the quantity of a goal.
type measure string

const (
	byWall   measure = "time"          // the other's time divided by ours
	byCPU    measure = "cpu"           // the other's CPU time divided by ours
	byAllocs measure = "allocs"        // maximum of ours
	onTop    measure = "allocs on top" // maximum of ours minus the other's
	byBytes  measure = "bytes"         // maximum allocated
)

// goals are the rows of the table "Goals" that this program can measure. The peers are named
// instead of "the best", so that a goal keeps its meaning when a peer is added.
var goals = []goal{
	{"unix, 50 callers", "parley quick", "go.lsp.dev", byWall, 1.7},
	{"unix, 50 callers", "parley quick", "go.lsp.dev", byCPU, 2.5},
	{"unix, 50 callers", "parley quick, own payload", "go.lsp.dev", byWall, 3},
	{"unix, 50 callers", "parley quick", "raw", byWall, 0.30},
	{"unix, 50 callers", "parley quick, own payload", "raw", byWall, 0.55},
	{"unix, 50 callers", "parley", "go.lsp.dev async", byWall, 2},
	{"unix, 50 callers", "parley", "go.lsp.dev", byWall, 1.3},
	{"unix, 50 callers", "parley", "raw", byWall, 0.22},
	{"tcp, 50 callers", "parley quick", "go.lsp.dev", byWall, 3},
	{"tcp, 50 callers", "parley quick, own payload", "go.lsp.dev", byWall, 5},
	{"tcp, 50 callers", "parley quick", "raw", byWall, 0.35},
	{"tcp, 50 callers", "parley quick, own payload", "raw", byWall, 0.6},
	{"unix, 1 caller", "parley quick", "go.lsp.dev", byWall, 1.1},
	{"unix, 1 caller", "parley quick", "raw", byWall, 0.85},
	{"unix, caller reads", "parley lone", "go.lsp.dev sync", byWall, 1.15},
	{"unix, caller reads", "parley lone", "raw", byWall, 0.85},
	{"in memory, 1 caller", "parley quick", "go.lsp.dev", byWall, 3},
	{"in memory, 1 caller", "parley quick, own payload", "go.lsp.dev", byWall, 10},
	{"in memory, 1 caller", "parley quick, own payload", "raw", byWall, 1},
	{"in memory, 50 callers", "parley quick", "go.lsp.dev", byWall, 3},
	{"in memory, 50 callers", "parley quick, own payload", "go.lsp.dev", byWall, 10},
	{"in memory, 50 callers", "parley quick, own payload", "raw", byWall, 1},
	{"server fed", "parley quick", "go.lsp.dev", byWall, 1.6},
	{"server fed", "parley quick, own payload", "go.lsp.dev", byWall, 4.5},
	{"server fed", "parley quick, own payload", "", byAllocs, 0},
	{"dispatch", "parley quick", "go.lsp.dev", byWall, 1.6},
	{"dispatch", "parley quick, own payload", "go.lsp.dev", byWall, 4.5},
	{"dispatch", "parley quick, own payload", "", byAllocs, 0},
	{"dispatch", "parley quick, own payload", "raw", byWall, 0.5},
	{"unix, batch of 100", "parley quick", "go.lsp.dev batch", byWall, 3},
	{"unix, batch of 100", "parley quick", "raw", byWall, 0.13},
	{"unix, batch of 100", "parley quick, own payload", "raw", byWall, 0.25},
	{"HTTP server, batch of 100", "parley quick", "go-ethereum", byWall, 4},
	{"HTTP server, 1 caller", "parley quick", "gorilla", byWall, 1.08},
	{"HTTP server, 1 caller", "parley quick", "go-ethereum", byWall, 1.25},
	{"HTTP server, 1 caller", "parley quick", "jrpc2", byWall, 1.7},
	{"HTTP server, 1 caller", "parley quick", "raw", byWall, 0.96},
	{"HTTP server, 1 caller", "parley quick", "raw", onTop, 4},
	{"HTTP server, 50 callers", "parley quick", "gorilla", byWall, 1.08},
	{"HTTP server, 50 callers", "parley quick", "raw", byWall, 0.96},
	{"HTTP, 1 caller", "parley quick", "gorilla", byWall, 1.1},
	{"HTTP, 1 caller", "parley quick", "go-ethereum", byWall, 1.3},
	{"HTTP, 1 caller", "parley quick", "raw", byWall, 0.93},
	{"WebSocket, 1 caller", "parley quick", "go-ethereum", byWall, 1.5},
	{"WebSocket, 1 caller", "parley quick", "raw", byWall, 0.9},
	{"WebSocket, 50 callers", "parley quick", "go-ethereum", byWall, 3},
	{"WebSocket, 50 callers", "parley quick", "raw", byWall, 0.35},
	{"unix, echo 64 KiB", "parley quick", "go.lsp.dev", byWall, 1.6},
	{"unix, echo 64 KiB", "parley quick", "raw", byWall, 0.13},
	// The limit is about one payload-size allocation on each side.
	{"unix, echo 64 KiB", "parley quick", "", byBytes, 2.2 * (64 << 10)},
	{"unix, echo 1 MiB", "parley quick", "go.lsp.dev", byWall, 1.6},
	{"unix, echo 1 MiB", "parley quick", "raw", byWall, 0.13},
	{"unix, echo 1 MiB", "parley quick", "", byBytes, 2.2 * (1 << 20)},
	{"MCP stdio, 2025-11-25, 1 caller", "parley", "mcp-go", byWall, 5},
	{"MCP stdio, 2025-11-25, 1 caller", "parley", "go-sdk", byWall, 12},
	{"MCP stdio, 2025-11-25, 1 caller", "parley", "raw", byWall, 0.55},
	{"MCP stdio, 2025-11-25, 50 callers", "parley", "mcp-go", byWall, 12},
	{"MCP stdio, 2025-11-25, 50 callers", "parley", "go-sdk", byWall, 40},
	{"MCP stdio, 2025-11-25, 50 callers", "parley", "raw", byWall, 0.30},
	{"MCP stdio, 2026-07-28, 1 caller", "parley", "mcp-go", byWall, 5},
	{"MCP stdio, 2026-07-28, 50 callers", "parley", "mcp-go", byWall, 12},
	{"MCP in memory, 2025-11-25, 1 caller", "parley", "mcp-go", byWall, 3.5},
	{"MCP in memory, 2026-07-28, 1 caller", "parley", "mcp-go", byWall, 8},
	{"MCP HTTP, session, 1 caller", "parley", "mcp-go", byWall, 1.7},
	{"MCP HTTP, session, 1 caller", "parley", "go-sdk", byWall, 5},
	{"MCP HTTP, session, 1 caller", "parley", "raw", byWall, 0.80},
	{"MCP HTTP, session, 50 callers", "parley", "mcp-go", byWall, 1.7},
	{"MCP HTTP, stateless, 1 caller", "parley", "mcp-go", byWall, 3.3},
	{"MCP HTTP, stateless, 1 caller", "parley", "go-sdk", byWall, 10},
	{"MCP HTTP, stateless, 1 caller", "parley", "raw", byWall, 0.75},
	{"MCP HTTP, stateless, 50 callers", "parley", "mcp-go", byWall, 3.3},
}

// idleGoals are the limits of the cost of an idle connection.
var idleGoals = []struct {
	name string
	rss  float64
}{
	{"parley unix", 4.5 * 1024},
	{"parley WebSocket", 8 * 1024},
}

// A judged is a row of the report.
type judged struct{ text, want, got, verdict string }

// goals compares the results with the goals. Goals without a measurement are omitted.
func (r *Report) goals() []judged {
	var all []judged
	for _, g := range goals {
		t := r.table(g.scenario)
		if t == nil {
			continue
		}
		own := t.find(g.entry)
		if own == nil {
			all = append(all, judged{g.text(), g.wants(), "not measured", "missed"})
			continue
		}
		got, ok := g.reached(own, t.find(g.against))
		all = append(all, judged{g.text(), g.wants(), digits(got), verdict(ok)})
	}
	for _, g := range idleGoals {
		for _, i := range r.Idle {
			if i.Name == g.name {
				all = append(all, judged{g.name + ", idle", fmt.Sprintf("<= %.1f KiB", g.rss/1024), fmt.Sprintf("%.1f KiB", i.Fresh/1024), verdict(i.Fresh <= g.rss)},
					judged{g.name + ", goroutines", "<= 1", digits(i.Goroutines), verdict(i.Goroutines < 1.01)})
			}
		}
	}
	return all
}

func verdict(ok bool) string {
	if ok {
		return "reached"
	}
	return "**missed**"
}

func (g goal) text() string {
	text := g.scenario + ": " + g.entry
	if g.against != "" {
		text += " against " + g.against
	}
	return text + ", " + string(g.by)
}

func (g goal) wants() string {
	switch g.by {
	case byWall, byCPU:
		return ">= " + digits(g.want)
	}
	return fmt.Sprintf("<= %.0f", g.want)
}

// reached returns the measured value, and whether it reaches the goal.
func (g goal) reached(own, other *Result) (got float64, ok bool) {
	switch {
	case g.by == byAllocs:
		got = own.Allocs
		return got, got < g.want+0.05 // tolerates occasional allocations of the runtime itself
	case g.by == byBytes:
		return own.Bytes, own.Bytes <= g.want
	case other == nil:
		return 0, false
	case g.by == onTop:
		got = own.Allocs - other.Allocs
		return got, got < g.want+0.05
	case g.by == byCPU:
		got = ratio(own, other, cpu)
	default:
		got = ratio(own, other, wall)
	}
	return got, got >= g.want
}
