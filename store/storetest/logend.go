package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/da1ed7bb/parley/store"
)

func trim(e *env) error {
	if err := e.fill("log", "a", "bb", "ccc", "dddd"); err != nil {
		return err
	}
	if err := e.Trim(e.ctx, "log", 2); err != nil {
		return err
	}
	h, err := e.Head(e.ctx, "log")
	if err != nil || h != (store.Head{Key: "log", First: 3, Last: 4, Bytes: 7}) {
		return fmt.Errorf("the head is %+v, %v", h, err)
	}
	if err := e.wantAll("log", 2, "3:ccc 4:dddd"); err != nil {
		return err
	}
	for _, after := range []uint64{0, 1} {
		_, err := e.all("log", after)
		if g, ok := errors.AsType[*store.TrimmedError](err); !ok || g.First != 3 || !errors.Is(err, store.ErrTrimmed) {
			return fmt.Errorf("Read behind %d: %v, want: kept from 3 on", after, err)
		}
		for _, err := range e.Tail(e.ctx, "log", after) {
			if err := wantErr("Tail", err, store.ErrTrimmed); err != nil {
				return err
			}
		}
	}
	for _, through := range []uint64{0, 1, 2} { // also repeated and smaller numbers
		if err := e.Trim(e.ctx, "log", through); err != nil {
			return err
		}
	}
	if err := e.Trim(e.ctx, "log", 1<<50); err != nil {
		return err
	}
	if h, err = e.Head(e.ctx, "log"); err != nil || h != (store.Head{Key: "log", First: 5, Last: 4}) {
		return fmt.Errorf("the head of an empty log is %+v, %v", h, err)
	}
	if err := e.wantAll("log", 4, ""); err != nil {
		return err
	}
	if _, err := e.all("log", 3); !errors.Is(err, store.ErrTrimmed) {
		return wantErr("Read of an empty log behind 3", err, store.ErrTrimmed)
	}
	if last, err := e.Append(e.ctx, "log", 4, []byte("e")); err != nil || last != 5 {
		return fmt.Errorf("Append after Trim = %d, %v", last, err)
	}
	return e.wantAll("log", 4, "5:e")
}

func drop(e *env) error {
	if err := e.fill("log", "a", "b"); err != nil {
		return err
	}
	if err := e.Drop(e.ctx, "log"); err != nil {
		return err
	}
	if _, err := e.Head(e.ctx, "log"); !errors.Is(err, store.ErrNotFound) {
		return wantErr("Head", err, store.ErrNotFound)
	}
	if err := e.wantAll("log", 0, ""); err != nil {
		return err
	}
	if last, err := e.Append(e.ctx, "log", 0, []byte("c")); err != nil || last != 1 {
		return fmt.Errorf("Append after Drop = %d, %v", last, err)
	}
	return e.wantAll("log", 0, "1:c")
}

func expire(e *env) error {
	if err := errors.Join(e.fill("log", "a"), e.fill("stays", "a")); err != nil {
		return err
	}
	at := time.Now().Add(e.short())
	if err := e.Expire(e.ctx, "log", at); err != nil {
		return err
	}
	h, err := e.Head(e.ctx, "log")
	if d := h.Expires.Sub(at); err != nil || d < 0 || d > time.Millisecond {
		return fmt.Errorf("the head is %+v, %v, want it to expire at %v", h, err, at)
	}
	n := 0
	for _, err := range e.Tail(e.ctx, "log", 0) {
		if err == nil {
			n++
			continue
		}
		if err := wantErr("Tail of a log that expired", err, store.ErrNotFound); err != nil {
			return err
		}
	}
	if n != 1 || time.Now().Before(at) {
		return fmt.Errorf("Tail ended after %d events, %v before the time", n, time.Until(at))
	}
	if _, err := e.Head(e.ctx, "log"); !errors.Is(err, store.ErrNotFound) {
		return wantErr("Head", err, store.ErrNotFound)
	}
	if err := e.wantAll("log", 0, ""); err != nil {
		return err
	}
	heads, err := e.Heads(e.ctx, "", "", 0)
	if err != nil || len(heads) != 1 || heads[0].Key != "stays" {
		return fmt.Errorf("Heads = %v, %v", heads, err)
	}
	if last, err := e.Append(e.ctx, "log", 0, []byte("b")); err != nil || last != 1 {
		return fmt.Errorf("Append after the end = %d, %v", last, err)
	}
	e.sleep(2 * e.short())
	return e.wantAll("log", 0, "1:b")
}

func expireLater(e *env) error {
	if err := e.fill("log", "a"); err != nil {
		return err
	}
	if err := e.Expire(e.ctx, "log", time.Now().Add(e.short())); err != nil {
		return err
	}
	if err := e.Expire(e.ctx, "log", time.Time{}); err != nil {
		return err
	}
	e.sleep(2 * e.short())
	if err := e.wantAll("log", 0, "1:a"); err != nil {
		return err
	}
	if err := e.Expire(e.ctx, "log", time.Now().Add(-time.Second)); err != nil {
		return err
	}
	return e.wantAll("log", 0, "")
}
