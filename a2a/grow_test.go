package a2a_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/heap"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// TestApplyManyMembers checks that an event with many members of metadata costs memory in
// proportion to them: each of them used to copy all before it.
func TestApplyManyMembers(t *testing.T) {
	const members = 4000
	m := a2a.Metadata{}
	for i := range members {
		m[fmt.Sprint(i)] = jsonrpc.Raw("1")
	}
	var task a2a.Task
	spent := heap.Allocated(func() {
		task.Apply(a2a.Event{Status: &a2a.StatusUpdate{Metadata: m}})
		chunk := &a2a.ArtifactUpdate{Artifact: a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("x")}, Metadata: m}}
		task.Apply(a2a.Event{Artifact: chunk})
		chunk.Append = true
		task.Apply(a2a.Event{Artifact: chunk})
		task.Metadata = task.Metadata.Merge(m)
	})
	if spent > 8<<20 || len(task.Metadata) != members || len(task.Artifacts[0].Metadata) != members {
		t.Errorf("%d members allocate %d KiB; the task has %d", members, spent>>10, len(task.Metadata))
	}
}

// TestApplyManyArtifacts checks the cost of a task with many artifacts, which an agent that passes
// on those of another server does not choose, and of storing it.
func TestApplyManyArtifacts(t *testing.T) {
	const artifacts = 2000
	for name, o := range map[string]*a2a.ServerOptions{"memory": {}, "store": {Store: store.NewMemory(store.Limits{})}} {
		s := a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
			for i := range artifacts {
				a := a2a.Artifact{ArtifactID: fmt.Sprint(i), Parts: []a2a.Part{a2a.Text("x")}, Metadata: a2a.Metadata{}.With(fmt.Sprint(i), 1)}
				if err := r.Artifact(ctx, a); err != nil {
					return err
				}
				if err := r.Chunk(ctx, a, true, true); err != nil {
					return err
				}
				if err := r.Update(ctx, a2a.StateWorking, a2a.Metadata{}.With(fmt.Sprint(i), 1)); err != nil {
					return err
				}
			}
			return nil
		}), o)
		c := connectBare(t, s)
		var e a2a.Event
		var err error
		spent := heap.Allocated(func() { e, err = c.Send(t.Context(), text("go")) })
		if err != nil {
			t.Fatal(name, err)
		}
		if n := len(e.Task.Artifacts); n != artifacts || len(e.Task.Metadata) != artifacts || e.Task.Text() != strings.Repeat("xx", artifacts) {
			t.Errorf("%s: the task has %d artifacts and %d members", name, n, len(e.Task.Metadata))
		}
		if spent > 128<<20 {
			t.Errorf("%s: %d artifacts allocate %d MiB", name, artifacts, spent>>20)
		}
	}
}

// TestCopiesOfATask checks that a copy of a task by assignment, and the events, do not change when
// the task does.
func TestCopiesOfATask(t *testing.T) {
	one := a2a.Metadata{}.With("n", 1)
	first := a2a.Event{Artifact: &a2a.ArtifactUpdate{Artifact: a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("x")}, Metadata: one}}}
	more := a2a.Event{Artifact: &a2a.ArtifactUpdate{Append: true, Artifact: a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("y")}, Metadata: a2a.Metadata{}.With("n", 2)}}}
	var task a2a.Task
	task.Apply(first)
	task.Apply(a2a.Event{Status: &a2a.StatusUpdate{Metadata: one}})
	before := task
	task.Apply(more)
	task.Apply(a2a.Event{Artifact: &a2a.ArtifactUpdate{Artifact: a2a.Artifact{ArtifactID: "b", Parts: []a2a.Part{a2a.Text("z")}}}})
	task.Apply(a2a.Event{Status: &a2a.StatusUpdate{Metadata: a2a.Metadata{}.With("n", 3)}})
	if before.Text() != "x" || string(before.Metadata["n"]) != "1" || string(before.Artifacts[0].Metadata["n"]) != "1" {
		t.Errorf("the copy has changed: %+v", before)
	}
	if task.Text() != "xyz" || string(task.Metadata["n"]) != "3" || string(task.Artifacts[0].Metadata["n"]) != "2" {
		t.Errorf("the task is %+v", task)
	}
	if string(one["n"]) != "1" || len(first.Artifact.Artifact.Parts) != 1 {
		t.Errorf("an event has changed: %s, %+v", one["n"], first.Artifact.Artifact)
	}
}
