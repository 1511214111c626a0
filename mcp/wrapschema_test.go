package mcp

import (
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestWrapSchema checks the schema of wrapped results: definitions move to the outside, where
// references find them, and a schema that refers to another part of itself is not wrapped.
func TestWrapSchema(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"array","items":{"type":"string"}}`:                                    `{"type":"object","properties":{"result":{"type":"array","items":{"type":"string"}}},"required":["result"]}`,
		`{"type":"array","items":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"string"}}}`: `{"type":"object","properties":{"result":{"type":"array","items":{"$ref":"#/$defs/a"}}},"required":["result"],"$defs":{"a":{"type":"string"}}}`,
		`{"type":"array","items":{"$ref":"#/items/b"}}`:                                 ``,
		`{"type":"array","items":{"$ref":"#"}}`:                                         ``,
		`true`:                                                                          ``,
	} {
		if got := wrapSchema(jsonrpc.Raw(in)); string(got) != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", in, got, want)
		}
	}
}

// TestVisitorLeaves checks that a call removes its own visits only, and that the lock is free after
// that.
func TestVisitorLeaves(t *testing.T) {
	c := &Client{visits: map[string]expected{}}
	one, other := &visitor{c: c, seen: map[string]*visit{}}, &visitor{c: c, seen: map[string]*visit{}}
	one.expect("a", newVisit())
	other.expect("b", newVisit())
	one.leave()
	if !c.mu.TryLock() {
		t.Fatal("the lock is held")
	}
	defer c.mu.Unlock()
	if _, ok := c.visits["b"]; !ok || len(c.visits) != 1 {
		t.Errorf("%d visits remain", len(c.visits))
	}
}
