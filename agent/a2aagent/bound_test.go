package a2aagent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
)

// TestFollowedTaskIsBounded checks that a task that never ends is left when it is over the bound of
// what is stored for it, by artifacts and by metadata, and that its content is not stored.
func TestFollowedTaskIsBounded(t *testing.T) {
	text := a2a.Part{Kind: a2a.KindText, Text: "x"}
	for name, next := range map[string]func(i int) a2a.Event{
		"artifacts": func(i int) a2a.Event {
			return a2a.Event{Artifact: &a2a.ArtifactUpdate{Artifact: a2a.Artifact{ArtifactID: fmt.Sprint(i), Parts: []a2a.Part{text}}}}
		},
		"metadata": func(i int) a2a.Event {
			return a2a.Event{Status: &a2a.StatusUpdate{Status: a2a.TaskStatus{State: a2a.StateWorking}, Metadata: a2a.Metadata{}.With(fmt.Sprint(i), 1)}}
		},
	} {
		f := new(link).follower(t.Context(), agent.Funcs{})
		n := 0
		_, err := f.follow(t.Context(), func(yield func(a2a.Event, error) bool) {
			for n < 20_000 && yield(next(n), nil) {
				n++
			}
		})
		if !errors.Is(err, agent.ErrTooLarge) || n > 16<<10 {
			t.Errorf("%s: %v after %d events", name, err, n)
		}
	}
	f := new(link).follower(t.Context(), agent.Funcs{})
	for range 1000 {
		message := &a2a.Message{Parts: []a2a.Part{text}}
		f.event(a2a.Event{Status: &a2a.StatusUpdate{Status: a2a.TaskStatus{State: a2a.StateWorking, Message: message}}})
		f.event(a2a.Event{Artifact: &a2a.ArtifactUpdate{Append: true, Artifact: a2a.Artifact{ArtifactID: "one", Parts: []a2a.Part{text}}}})
	}
	f.event(a2a.Event{Task: &a2a.Task{ID: "t", History: make([]a2a.Message, 10), Artifacts: []a2a.Artifact{{ArtifactID: "one", Parts: make([]a2a.Part, 1000)}}}})
	if len(f.task.Artifacts) > 0 || len(f.task.History) > 0 || f.full != nil {
		t.Errorf("%d artifacts and %d messages are stored, %v", len(f.task.Artifacts), len(f.task.History), f.full)
	}
}
