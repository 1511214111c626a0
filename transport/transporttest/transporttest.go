package transporttest

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options declare what a transport does not support, and give the suite more access to it. The zero
// value is a transport with the default limit of 4 MiB that supports everything.
type Options struct {
	// MaxMessage is the limit of the transports under test, in bytes. Zero means 4 MiB, the default
	// of all transports; negative means that there is no limit, and the rules about it do not run.
	MaxMessage int

	// LargeIsFinal declares that nothing can be read after a message over the limit (WebSocket
	// closes with 1009).
	LargeIsFinal bool

	// Unbuffered declares that a Write may wait until the other side reads, however short it is
	// (net.Pipe).
	Unbuffered bool

	// Over creates a client's and a server's end on two byte streams, after any handshake; each end
	// gets its own stream. If nil, the rules about single bytes do not run.
	Over func(t *testing.T, client, server net.Conn) (c, s jsonrpc.Transport)
}

func (o *Options) limit() int {
	if o.MaxMessage == 0 {
		return 4 << 20
	}
	return o.MaxMessage
}

// patience bounds each rule. A conforming transport needs far less time.
const patience = 60 * time.Second

// Run checks the contract of [jsonrpc.Transport], with a subtest for each rule. makePipe returns
// two connected ends; it is called at least once for each rule, and Run closes the ends. Everything
// else that makePipe starts must end in t.Cleanup: a goroutine that remains after that fails the
// rule.
func Run(t *testing.T, makePipe func(t *testing.T) (a, b jsonrpc.Transport), o *Options) {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	for _, r := range rules {
		if r.needs != nil && !r.needs(o) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			// Registered first, so that it runs after the cleanups of makePipe.
			ours := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, ours) })

			e := &env{t: t, o: o, makePipe: makePipe, patience: patience}
			defer e.close()
			if err := e.check(r); err != nil {
				t.Fatal(err)
			}
		})
	}
}
