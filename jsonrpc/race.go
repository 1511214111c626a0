//go:build race

package jsonrpc

// poison overwrites a buffer that is returned to a pool, so that tests under the race detector find
// code that retained it.
func poison(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = '#'
	}
}
