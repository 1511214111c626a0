package acphttp

import (
	"net/http"
	"testing"

	"github.com/da1ed7bb/parley/acp"
)

// TestEventsAreNotParsed: the number and the run of an event are those of the params that package
// acp passes, and the payload is sent as it is.
func TestEventsAreNotParsed(t *testing.T) {
	p := new(post)
	h := http.Header{}
	if p.begin(h); len(h) > 0 {
		t.Errorf("a stream without events has headers %v", h)
	}
	e, err := p.event([]byte("is not read"), acp.NotifyRunEvent, &acp.RunEvent{RunID: "r", Seq: 7})
	if err != nil || e.ID != "7" || string(e.Data) != "is not read" {
		t.Errorf("event %q, %q, %v", e.ID, e.Data, err)
	}
	p.begin(h)
	if id := map[string][]string(h)[headerRunID]; len(id) != 1 || id[0] != "r" {
		t.Errorf("headers %v", h)
	}
	if e, err = p.event([]byte("x"), "other", nil); err != nil || e.ID != "" {
		t.Errorf("another message has id %q, %v", e.ID, err)
	}
}
