package jsonrpc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// TestInOrder checks that handlers of an InOrder method start one after the other, in wire order
// and together with the notifications, although all of them run at once once they have proceeded.
func TestInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		var mu sync.Mutex
		var order []string
		proceed, finish := make(chan struct{}), make(chan struct{})
		h := HandlerFunc(func(_ context.Context, req *Request) (any, error) {
			mu.Lock()
			order = append(order, req.Method+string(req.Params))
			mu.Unlock()
			<-proceed
			if !req.IsNotification() {
				req.Proceed()
				req.Proceed() // a second time has no effect
				<-finish
			}
			return nil, nil
		})
		client, _ := pair(t, func(*Conn) {}, func(c *Conn) {
			c.Handler = h
			c.Mode = func(string) Mode { return InOrder }
		})
		var want []string
		var calls sync.WaitGroup
		for i := range n {
			params := Raw(fmt.Sprintf("[%d]", i))
			sent := make(chan struct{})
			calls.Go(func() {
				item := &Item{Method: "r", Params: params, Sent: func() { close(sent) }}
				if err := client.Do(t.Context(), item); err != nil {
					t.Error(err)
				}
			})
			<-sent
			want = append(want, "r"+string(params))
			if i%2 == 0 {
				if err := client.Notify(t.Context(), "n", params); err != nil {
					t.Fatal(err)
				}
				want = append(want, "n"+string(params))
			}
		}
		for i := range want {
			synctest.Wait()
			mu.Lock()
			if got := fmt.Sprint(order); got != fmt.Sprint(want[:i+1]) {
				t.Fatalf("after %d have proceeded, %s have started; want %s", i, got, fmt.Sprint(want[:i+1]))
			}
			mu.Unlock()
			proceed <- struct{}{}
		}
		close(finish)
		calls.Wait()
	})
}
