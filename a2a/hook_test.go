package a2a

import (
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestNotificationsThatWaitAreWeighed: the whole task replaces the notifications for a webhook when
// they have 1 MiB, and one of any size waits alone.
func TestNotificationsThatWaitAreWeighed(t *testing.T) {
	large := jsonrpc.Raw(`"` + strings.Repeat("x", 600<<10) + `"`)
	h := &hook{version: V10, busy: true}
	h.add(large)
	if h.dirty || len(h.waiting) != 1 || h.bytes != len(large) {
		t.Errorf("%d wait, dirty is %v", len(h.waiting), h.dirty)
	}
	h.add(large)
	if !h.dirty || h.waiting != nil || h.bytes != 0 {
		t.Errorf("%d wait, dirty is %v", len(h.waiting), h.dirty)
	}
	h = &hook{version: V10, busy: true}
	h.add(large[:0:0])
	h.add(jsonrpc.Raw(`"` + strings.Repeat("x", 2<<20) + `"`))
	if !h.dirty {
		t.Error("a large one waits beside another")
	}
}
