package mcp

import (
	"strconv"
	"testing"
)

func TestFilter(t *testing.T) {
	task := &Task{ID: "t"}
	one := map[string]Filter{
		NotifyToolsChanged:     {ToolsListChanged: true},
		NotifyPromptsChanged:   {PromptsListChanged: true},
		NotifyResourcesChanged: {ResourcesListChanged: true},
		NotifyResourceUpdated:  {ResourceSubscriptions: []string{"a:b", "a:c"}},
		NotifyTask:             {TaskIDs: []string{"s", "t"}},
		NotifyTaskStatus:       {TaskIDs: []string{"t"}},
	}
	for asked, f := range one {
		for method := range one {
			// two names of the same notification
			want := method == asked || one[method].TaskIDs != nil && f.TaskIDs != nil
			if got := f.wants(method, "a:c", task); got != want {
				t.Errorf("who asked for %s wants %s: %v", asked, method, got)
			}
		}
		if f.wants(NotifyMessage, "a:c", task) {
			t.Errorf("who asked for %s gets log messages", asked)
		}
		if f.wants(NotifyResourceUpdated, "a:d", nil) || f.wants(NotifyTask, "", &Task{ID: "u"}) || f.wants(NotifyTask, "", nil) {
			t.Errorf("who asked for %s hears of what is somebody else's", asked)
		}
	}
}

// TestAFullQueueKeepsChanges checks that log messages and tasks make room in a full queue, and not
// a change, of which the receiver would never learn.
func TestAFullQueueKeepsChanges(t *testing.T) {
	var q noteQueue
	q.push(note{method: NotifyToolsChanged})
	for i := range maxNotes + 100 {
		q.push(note{method: NotifyMessage, other: i})
	}
	q.push(note{method: NotifyPromptsChanged})
	for i := range maxNotes {
		q.push(note{method: NotifyTask, task: &Task{ID: strconv.Itoa(i)}})
	}
	left := map[string]int{}
	for {
		m, ok := q.take()
		if !ok {
			break
		}
		left[m.method]++
	}
	if left[NotifyToolsChanged] != 1 || left[NotifyPromptsChanged] != 1 || left[NotifyTask] == 0 || left[NotifyTask]+left[NotifyMessage] != maxNotes-2 {
		t.Errorf("the queue has %v", left)
	}
}
