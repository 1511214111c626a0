package websocket

import (
	"net"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// TestContract checks the rules that apply to all duplex transports. Most rules leave no reader at
// the peer, so no closing handshake completes: CloseTimeout is short.
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
