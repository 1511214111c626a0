package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/da1ed7bb/parley/store"
)

func tail(e *env) error {
	if err := e.fill("log", "a", "b"); err != nil {
		return err
	}
	got, want := "", "1:a 2:b 3:c 4:d 5:e "
	for ev, err := range e.Tail(e.ctx, "log", 0) {
		if err != nil {
			return fmt.Errorf("after %q: %v", got, err)
		}
		got += fmt.Sprintf("%d:%s ", ev.Seq, ev.Data)
		switch ev.Seq { // events arrive both while it reads and while it waits
		case 1:
			err = e.fill("log", "c")
		case 3:
			go func() { _ = e.fill("log", "d", "e") }() // missing events are detected below
		}
		if err != nil {
			return err
		}
		if ev.Seq == 5 {
			break
		}
	}
	if got != want {
		return fmt.Errorf("Tail yields %q, want %q", got, want)
	}
	for ev, err := range e.Tail(e.ctx, "log", 4) {
		if err != nil || ev.Seq != 5 {
			return fmt.Errorf("Tail behind 4 begins with %d, %v", ev.Seq, err)
		}
		return nil
	}
	return errors.New("Tail behind 4 yields nothing")
}

func tailFirst(e *env) error {
	done := make(chan error, 1)
	go func() {
		for ev, err := range e.Tail(e.ctx, "log", 0) {
			if err == nil && (ev.Seq != 1 || string(ev.Data) != "a") {
				err = fmt.Errorf("first event is %d:%s", ev.Seq, ev.Data)
			}
			done <- err
			return
		}
		done <- errors.New("Tail yields nothing")
	}()
	e.sleep(e.short() / 10) // let it start
	if err := e.fill("log", "a"); err != nil {
		return err
	}
	return <-done
}

func tailEnds(e *env) error {
	if err := e.fill("log", "a"); err != nil {
		return err
	}
	why := errors.New("enough")
	for _, key := range []string{"log", "none"} {
		ctx, cancel := context.WithCancelCause(e.ctx)
		stop := time.AfterFunc(e.short()/10, func() { cancel(why) })
		var last error
		for _, err := range e.Tail(ctx, key, 0) {
			last = err
		}
		stop.Stop()
		cancel(nil)
		if err := wantErr("Tail of "+key, last, why); err != nil {
			return err
		}
	}
	return nil
}

func tailDropped(e *env) error {
	if err := e.fill("log", "a"); err != nil {
		return err
	}
	for _, err := range e.Tail(e.ctx, "log", 0) {
		if err != nil {
			return wantErr("Tail of a dropped log", err, store.ErrNotFound)
		}
		time.AfterFunc(e.short()/10, func() {
			_ = e.Drop(e.ctx, "log")        // if this fails, Tail continues
			_ = e.fill("log", "b", "c")     // another log, which this Tail must not read
			_ = e.Trim(e.ctx, "log", 1<<40) //
		})
	}
	return errors.New("Tail ends without an error")
}

func slowTail(e *env) error {
	const n = 100 * 7
	if err := e.fill("log", "0"); err != nil {
		return err
	}
	written := make(chan error, 1)
	got := uint64(0)
	for ev, err := range e.Tail(e.ctx, "log", 0) {
		if err != nil {
			return err
		}
		if got++; ev.Seq != got {
			return fmt.Errorf("event %d after %d", ev.Seq, got-1)
		}
		if got == 1 {
			go func() {
				for range n / 7 {
					if err := e.fill("log", "1", "2", "3", "4", "5", "6", "7"); err != nil {
						written <- err
						return
					}
				}
				written <- nil
			}()
			// All of it is written while this reader does not read.
			if err := <-written; err != nil {
				return err
			}
		}
		if got == n+1 {
			return nil
		}
	}
	return errors.New("Tail ends without an error")
}
