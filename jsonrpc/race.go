//go:build race

package jsonrpc

// poison spoils a buffer that goes back to a pool, so that tests under the race detector notice who kept it.
func poison(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = '#'
	}
}
