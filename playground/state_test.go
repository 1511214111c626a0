package playground

import (
	"fmt"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/capture"
)

func TestHistoryIsBounded(t *testing.T) {
	var h history
	ref := func(n int) capture.Ref { return capture.Ref{Seq: int64(n)} }
	for n := range maxHistory + 5 {
		h.add(sent{ref: ref(n + 1), payload: fmt.Append(nil, n)})
	}
	if list := h.newest(maxHistory + 5); len(list) != maxHistory || list[0].ref != ref(maxHistory+5) {
		t.Errorf("%d messages, the newest is %v", len(list), list[0].ref)
	}
	if _, ok := h.find(ref(5)); ok {
		t.Error("a message beyond the bound is still there")
	}
	h.add(sent{ref: ref(9001), payload: make([]byte, maxRemembered-10)})
	h.add(sent{ref: ref(9002), payload: make([]byte, maxRemembered+10)})
	if list := h.newest(10); len(list) != 1 || list[0].ref != ref(9002) {
		t.Errorf("%d messages are retained, want only the newest", len(list))
	}
}

// TestChangesAreNotMissed checks that a waiter that calls next before reading the state sees each
// change, and that one change wakes all.
func TestChangesAreNotMissed(t *testing.T) {
	var c changes
	c.signal() // nothing waits
	var mu sync.Mutex
	state := 0
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				changed := c.next()
				mu.Lock()
				now := state
				mu.Unlock()
				if now == 100 {
					return
				}
				<-changed
			}
		})
	}
	for range 100 {
		mu.Lock()
		state++
		mu.Unlock()
		c.signal()
	}
	all.Wait()
}
