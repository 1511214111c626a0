package budget

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLastEighthIsForThoseWhoHoldNothing(t *testing.T) {
	p := &Pool{Max: 800}
	var accounts [8]Account
	for i := range accounts {
		accounts[i].Pool = p
		if !accounts[i].Take(50) {
			t.Fatalf("account %d does not fit", i)
		}
	}
	for i := 0; accounts[i%8].Take(50); i++ { // up to seven eighths
	}
	if p.Used() != 700 {
		t.Errorf("%d are in use, want 700", p.Used())
	}
	fresh := Account{Pool: p}
	if !fresh.Take(50) || fresh.Take(50) {
		t.Error("one that held nothing gets one of the last eighth, and no more")
	}
}

func TestNoMoreThanAQuarterWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Max: 800}
		greedy, other := Account{Pool: p}, Account{Pool: p}
		for greedy.Take(50) {
		}
		if greedy.Used() != 700 {
			t.Fatalf("alone, an account gets %d, want 700", greedy.Used())
		}
		if !other.Take(50) || other.Take(50) {
			t.Fatal("the other gets one place")
		}
		greedy.Give(50) // the other account's first slot was in the last eighth
		for range 3 {   // the other account gets what greedy returns
			greedy.Give(50)
			if greedy.Take(50) {
				t.Fatal("greedy gets more than a quarter while another waits")
			}
			if !other.Take(50) {
				t.Fatal("the other gets nothing")
			}
			if other.Take(50) {
				t.Fatal("there was room for one")
			}
		}
		time.Sleep(2 * time.Second) // the other account takes no more
		greedy.Give(50)
		if !greedy.Take(50) {
			t.Error("greedy gets nothing although nobody waits")
		}
	})
}

func TestOneAlwaysFits(t *testing.T) {
	a := Account{Pool: &Pool{Max: 10}}
	if !a.Take(100) || a.Take(1) {
		t.Error("one that is larger than the pool fits alone")
	}
	a.Give(100)
	if a.Used() != 0 || a.Pool.Used() != 0 {
		t.Error("what was given back is counted")
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Max: 100}
		a, b := Account{Pool: p}, Account{Pool: p}
		if !a.Take(100) {
			t.Fatal("no room")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Wait(ctx, 50); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v", err)
		}
		done := make(chan error)
		go func() { done <- b.Wait(t.Context(), 50) }()
		synctest.Wait()
		a.Give(100)
		if err := <-done; err != nil || b.Used() != 50 || p.Used() != 50 {
			t.Errorf("Wait = %v, %d of %d in use", err, b.Used(), p.Used())
		}
	})
}

// TestTheOldestMessageGoesOn fills the pool with partial messages: the oldest continues, and then
// the next one.
func TestTheOldestMessageGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Max: 1000}
		done := make(chan int, 100)
		for i := range 100 {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // sets their order
				a := Account{Pool: p}
				in := a.Begin(100)
				for range 10 {
					if err := in.Grow(t.Context(), 10); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second)
				}
				in.End()
				if p.Used() > 1000+100 {
					t.Errorf("%d are in use", p.Used())
				}
				a.Give(100)
				done <- i
			}()
		}
		for range 100 {
			<-done
		}
		if p.Used() != 0 {
			t.Errorf("%d are in use in the end", p.Used())
		}
	})
}
