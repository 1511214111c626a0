package editoragent

import (
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/internal/x/heap"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestManyMembers checks that members that a peer adds, which may be hundreds of thousands, are
// converted at a cost that is proportional to their number: each one used to copy all before it.
func TestManyMembers(t *testing.T) {
	const members = 2000
	m := editor.Meta{}
	for i := range members {
		m[fmt.Sprint("m", i)] = jsonrpc.Raw("1")
	}

	for name, f := range map[string]func(){
		"prompt": func() { promptFrom(&editor.PromptParams{Meta: m}) },
		"result": func() { new(follower).result(&editor.PromptResult{StopReason: editor.EndTurn, Meta: m}) },
		"block":  func() { blockFrom(editor.Content{Kind: editor.KindText, Meta: m}) },
	} {
		f() // what is allocated once
		if spent := heap.Allocated(f); spent > 16<<20 {
			t.Errorf("%s: %d members allocate %d KiB", name, members, spent>>10)
		}
	}
}
