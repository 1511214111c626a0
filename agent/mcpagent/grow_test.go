package mcpagent

import (
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/heap"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestManyMembers checks that members that a peer adds, which may be hundreds of thousands, are
// converted at a cost that is proportional to their number: each one used to copy all before it.
func TestManyMembers(t *testing.T) {
	const members = 2000
	m := mcp.Meta{}
	for i := range members {
		m[fmt.Sprint("m", i)] = jsonrpc.Raw("1")
	}
	card := mcp.Tool{Meta: m.With(agent.MetaCard, agent.Card{})}

	for name, f := range map[string]func(){
		"progress": func() { (&follower{ctx: t.Context(), caller: agent.Funcs{}}).progress(mcp.Progress{Meta: m}) },
		"result":   func() { _, _ = (&follower{ctx: t.Context(), caller: agent.Funcs{}}).result(&mcp.ToolResult{Meta: m}) },
		"tool":     func() { Tool(&agent.Card{Metadata: agent.Metadata(m)}) },
		"card":     func() { CardOf(&card) },
	} {
		f() // what is allocated once
		if spent := heap.Allocated(f); spent > 16<<20 {
			t.Errorf("%s: %d members allocate %d KiB", name, members, spent>>10)
		}
	}
}
