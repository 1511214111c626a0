package a2aagent

import (
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/heap"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestManyMembers checks that members that a peer adds, which may be hundreds of thousands, are
// converted at a cost that is proportional to their number: each one used to copy all before it.
func TestManyMembers(t *testing.T) {
	const members = 2000
	m := a2a.Metadata{}
	for i := range members {
		m[fmt.Sprint("m", i)] = jsonrpc.Raw("1")
	}
	status := a2a.TaskStatus{State: a2a.StateWorking, Message: &a2a.Message{Parts: []a2a.Part{{Kind: a2a.KindText, Text: "x"}}, Metadata: m}}
	failed := a2a.Task{Status: a2a.TaskStatus{State: a2a.StateFailed, Message: &a2a.Message{}}}
	for i := range members {
		result := agent.Result{Metadata: agent.Metadata{fmt.Sprint("r", i): jsonrpc.Raw("1")}}
		failed.Status.Message.Parts = append(failed.Status.Message.Parts, a2a.Part{Metadata: a2a.Metadata{}.With(agent.MetaResult, result)})
	}

	for name, f := range map[string]func(){
		"part":     func() { partFrom(a2a.Part{Metadata: m}) },
		"input":    func() { inputTo([]agent.Message{{Role: agent.RoleUser, Metadata: agent.Metadata(m)}}) },
		"question": func() { questionFrom(status) },
		"answer":   func() { answerFrom(status.Message) },
		"answers":  func() { answerTo(&agent.Answer{Metadata: agent.Metadata(m)}, "t", "s") },
		"status":   func() { new(link).follower(t.Context(), agent.Funcs{}).status(status, m) },
		"artifact": func() { new(link).follower(t.Context(), agent.Funcs{}).artifact(&a2a.Artifact{Metadata: m}, nil, nil) },
		"result":   func() { (&follower{task: failed}).result() },
		"card":     func() { Card(&agent.Card{Metadata: agent.Metadata(m)}) },
	} {
		f() // what is allocated once
		if spent := heap.Allocated(f); spent > 16<<20 {
			t.Errorf("%s: %d members allocate %d KiB", name, members, spent>>10)
		}
	}
}
