package jsonrpc_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// TestFewConnectionsDoNotFillAGate checks that connections that fill a Gate with waiting calls do
// not starve others: each new connection is served, also over HTTP.
func TestFewConnectionsDoNotFillAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &Gate{Max: 256}
		var conns []*Conn
		for range 16 {
			m := waits()
			d := newDeaf(nil)
			n := 0
			d.next = func() []byte {
				if n++; n > 20 || d.close.Load() {
					return nil
				}
				return []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait"}`, n))
			}
			close(d.ears)
			c := NewConn(d)
			serving(m)(c)
			c.Gate = gate
			c.Start(t.Context())
			synctest.Wait()
			conns = append(conns, c)
		}
		for range 10 {
			client, server := pair(t, nil, func(c *Conn) { serving(specMux())(c); c.Gate = gate })
			for range 10 {
				if got, err := Call[int](t.Context(), client, "subtract", twoNumbers{42, 23}); err != nil || got != 19 {
					t.Errorf("a new connection: %v, %v", got, err)
				}
			}
			_, _ = client.Close(), server.Close()
		}
		a := &Answerer{Handler: specMux(), Gate: gate}
		for i := range 10 {
			x := &Exchange{From: fmt.Sprint("caller ", i)}
			if out, e := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","id":1,"method":"subtract","params":[2,1]}`), x); e != nil {
				t.Errorf("a new caller: %s", out)
			}
		}
		for _, c := range conns {
			c.Hangup(ErrClosed)
			_ = c.Close()
		}
		client, _ := pair(t, nil, func(c *Conn) { serving(specMux())(c); c.Gate = gate })
		if got, err := Call[int](t.Context(), client, "subtract", twoNumbers{42, 23}); err != nil || got != 19 {
			t.Errorf("afterwards: %v, %v", got, err)
		}
	})
}
