package mcp

import "testing"

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
