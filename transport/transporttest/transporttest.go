package transporttest

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options say what a carrier cannot do, and give the suite a deeper look into it. The zero value is a carrier
// with the default limit of 4 MiB that does everything.
type Options struct {
	// MaxMessage is the limit of the transports under test, in bytes. Zero means 4 MiB, the default of all
	// transports; negative means that there is none, and the rules about it do not run.
	MaxMessage int

	// LargeIsFinal says that nothing can be read behind a message over the limit (WebSocket closes with 1009).
	LargeIsFinal bool

	// Unbuffered says that a Write may wait until the other side reads, however short it is (net.Pipe).
	Unbuffered bool

	// Over makes a client's and a server's end over a byte stream, after any handshake; each gets a connection of
	// its own. Nil leaves out the rules about single bytes.
	Over func(t *testing.T, client, server net.Conn) (c, s jsonrpc.Transport)
}

func (o *Options) limit() int {
	if o.MaxMessage == 0 {
		return 4 << 20
	}
	return o.MaxMessage
}

// patience bounds each rule. A transport that keeps the contract never comes near it.
const patience = 60 * time.Second

// Run checks the contract of [jsonrpc.Transport], a subtest for each rule. makePipe returns two connected ends;
// it is called once or more for each rule, and Run closes what it returns. What makePipe started otherwise it ends
// in t.Cleanup: goroutines that are left then fail the rule.
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
