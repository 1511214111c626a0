package acpagent

import (
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/heap"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestManyMembers checks that members that a peer adds, which may be hundreds of thousands, are
// converted at a cost that is proportional to their number: each one used to copy all before it.
func TestManyMembers(t *testing.T) {
	const members = 2000
	m := acp.Extra{}
	for i := range members {
		m[fmt.Sprint("m", i)] = jsonrpc.Raw("1")
	}

	for name, f := range map[string]func(){
		"part":     func() { partFrom(acp.MessagePart{Extra: m}) },
		"message":  func() { messageFrom(acp.Message{Extra: m}) },
		"question": func() { questionFrom(&acp.AwaitRequest{Type: "message", Message: &acp.Message{Extra: m}}) },
		"answer":   func() { answerFrom(acp.Message{Extra: m}) },
		"result":   func() { resultOf(&acp.Run{Extra: m}) },
		"card":     func() { CardOf(&acp.AgentManifest{Extra: m}) },
		"manifest": func() { Manifest(&agent.Card{Metadata: agent.Metadata(m)}) },
	} {
		f() // what is allocated once
		if spent := heap.Allocated(f); spent > 16<<20 {
			t.Errorf("%s: %d members allocate %d KiB", name, members, spent>>10)
		}
	}
}
