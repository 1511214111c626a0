package websocket

import (
	"net"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// TestContract: the rules that all duplex transports keep. The ends of most of them have nobody who reads, so that
// there is no closing handshake to wait for.
func TestContract(t *testing.T) {
	o := &Options{MaxMessage: 1 << 20, CloseTimeout: 20 * time.Millisecond}
	transporttest.Run(t,
		func(t *testing.T) (a, b jsonrpc.Transport) { return dialled(t, o) },
		&transporttest.Options{
			MaxMessage:   1 << 20,
			LargeIsFinal: true,
			Over: func(t *testing.T, client, server net.Conn) (c, s jsonrpc.Transport) {
				return newTransport(client, true, o, "", nil), newTransport(server, false, o, "", nil)
			},
		})
}
