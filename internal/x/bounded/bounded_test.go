package bounded_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/internal/x/bounded"
)

func lengthOf(s *string) int { return max(len(*s), 1) }

// TestTrySend: a value is dropped if too many wait, or too many bytes, and a value of any size fits
// if nothing else waits.
func TestTrySend(t *testing.T) {
	for name, c := range map[string]struct {
		n, most int
		values  []string
		want    string
	}{
		"number":          {2, 100, []string{"a", "b", "c"}, "[true true false]"},
		"bytes":           {9, 5, []string{"aaa", "bbb", "cc"}, "[true false true]"},
		"one of any size": {9, 5, []string{"aaaaaaaaa", "b"}, "[true false]"},
	} {
		q := bounded.New(c.n, c.most, lengthOf)
		var got []bool
		for _, v := range c.values {
			got = append(got, q.TrySend(v))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
		for len(q.C) > 0 {
			q.Take(<-q.C)
		}
		if big := string(make([]byte, 1000)); !q.TrySend(big) {
			t.Errorf("%s: an empty queue has no room", name)
		}
	}
}

// TestSend: a sender waits until its value fits, nothing is lost and the order remains; the end of
// its context ends the wait, and what was reserved is free again.
func TestSend(t *testing.T) {
	for name, c := range map[string]struct{ n, most int }{"number": {1, 100}, "bytes": {100, 4}} {
		synctest.Test(t, func(t *testing.T) {
			q := bounded.New(c.n, c.most, lengthOf)
			ctx, cancel := context.WithCancelCause(t.Context())
			own := errors.New("own")
			if err := q.Send(ctx, "aaa"); err != nil {
				t.Fatal(err)
			}
			var given error
			var sending sync.WaitGroup
			sending.Go(func() { given = q.Send(ctx, "bbb") })
			synctest.Wait()
			cancel(own)
			sending.Wait()
			if !errors.Is(given, own) {
				t.Errorf("%s: Send = %v", name, given)
			}
			sending.Go(func() {
				for i := range 100 {
					if err := q.Send(t.Context(), fmt.Sprint(100+i)); err != nil {
						t.Error(err)
					}
				}
				q.Close()
			})
			synctest.Wait()
			if len(q.C) != 1 {
				t.Errorf("%s: %d wait", name, len(q.C))
			}
			want := []string{"aaa"}
			for i := range 100 {
				want = append(want, fmt.Sprint(100+i))
			}
			var got []string
			for i := range q.C {
				got = append(got, q.Take(i))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: received %v", name, got)
			}
			sending.Wait()
		})
	}
}
