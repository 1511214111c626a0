package main

import (
	"net"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

func Example() {
	main()
	// Output: hello over four bytes and a message
}

// TestContract checks the transport with the contract test of all transports.
func TestContract(t *testing.T) {
	transporttest.Run(t, func(*testing.T) (a, b jsonrpc.Transport) {
		here, there := net.Pipe()
		return prefixed(here), prefixed(there)
	}, &transporttest.Options{MaxMessage: maxMessage, LargeIsFinal: true, Unbuffered: true})
}
