package jsonrpc

import (
	"testing"
	"unsafe"
)

// One running is allocated for each request. A larger one is in the next class of the allocator,
// which costs every request time.
func TestARequestHasAContextOf160Bytes(t *testing.T) {
	if n := unsafe.Sizeof(running{}); n > 160 {
		t.Errorf("a running has %d bytes", n)
	}
}
