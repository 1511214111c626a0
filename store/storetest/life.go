package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/da1ed7bb/parley/store"
)

func lifeRules() []rule {
	return []rule{
		{name: "an ended context writes nothing", check: endedContext},
		{name: "a closed store refuses everything, and Tails end", check: closed},
		{name: "everything is there after reopening", reopens: true, check: survives},
		{name: "what expires does so while the store is closed", reopens: true, check: expiresClosed},
		{name: "bounds count what was there before", reopens: true, limits: store.Limits{LogEvents: 3, Logs: 1, Values: 1, Bytes: 10_000}, check: boundsAgain},
	}
}

func endedContext(e *env) error {
	ctx, cancel := context.WithCancelCause(e.ctx)
	why := errors.New("enough")
	cancel(why)
	_, app := e.Append(ctx, "log", 0, []byte("x"))
	_, put := e.Put(ctx, "value", 0, []byte("x"), 0)
	_, get := e.Get(ctx, "value")
	_, list := e.List(ctx, "", "", 0)
	_, head := e.Head(ctx, "log")
	_, heads := e.Heads(ctx, "", "", 0)
	for what, err := range map[string]error{
		"Append": app, "Put": put, "Get": get, "List": list, "Head": head, "Heads": heads,
		"Delete": e.Delete(ctx, "value", store.Any), "Trim": e.Trim(ctx, "log", 1), "Drop": e.Drop(ctx, "log"),
		"Expire": e.Expire(ctx, "log", time.Time{}),
	} {
		if err := wantErr(what, err, why); err != nil {
			return err
		}
	}
	if _, err := e.Get(e.ctx, "value"); !errors.Is(err, store.ErrNotFound) {
		return wantErr("Get", err, store.ErrNotFound)
	}
	return e.wantAll("log", 0, "")
}

func closed(e *env) error {
	if err := e.fill("log", "a"); err != nil {
		return err
	}
	ended := make(chan error, 2)
	for _, key := range []string{"log", "none"} {
		go func() {
			var last error
			for _, err := range e.Tail(e.ctx, key, 0) {
				last = err
			}
			ended <- last
		}()
	}
	e.sleep(e.short() / 10) // let it start
	if err := e.Close(); err != nil {
		return err
	}
	for range 2 {
		if err := wantErr("Tail", <-ended, store.ErrClosed); err != nil {
			return err
		}
	}
	if err := e.Close(); err != nil {
		return fmt.Errorf("Close again: %v", err)
	}
	_, app := e.Append(e.ctx, "log", store.Any, []byte("x"))
	_, none := e.Append(e.ctx, "log", store.Any)
	_, put := e.Put(e.ctx, "value", store.Any, []byte("x"), 0)
	_, get := e.Get(e.ctx, "value")
	_, list := e.List(e.ctx, "", "", 0)
	_, head := e.Head(e.ctx, "log")
	_, heads := e.Heads(e.ctx, "", "", 0)
	_, read := e.all("log", 0)
	for what, err := range map[string]error{
		"Append": app, "Append of nothing": none, "Put": put, "Get": get, "List": list, "Head": head, "Heads": heads, "Read": read,
		"Delete": e.Delete(e.ctx, "value", store.Any), "Trim": e.Trim(e.ctx, "log", 1), "Drop": e.Drop(e.ctx, "log"),
		"Expire": e.Expire(e.ctx, "log", time.Time{}),
	} {
		if err := wantErr(what, err, store.ErrClosed); err != nil {
			return err
		}
	}
	return nil
}

func survives(e *env) error {
	if err := errors.Join(e.fill("log", "a", "b", "c", "d"), e.fill("gone", "x"), e.fill("ends", "x")); err != nil {
		return err
	}
	until := time.Now().Add(time.Hour)
	if err := errors.Join(e.Trim(e.ctx, "log", 1), e.Drop(e.ctx, "gone"), e.Expire(e.ctx, "ends", until)); err != nil {
		return err
	}
	rev, err := e.Put(e.ctx, "value", 0, []byte("v"), 0)
	if err != nil {
		return err
	}
	if _, err := e.Put(e.ctx, "deleted", 0, []byte("v"), 0); err != nil {
		return err
	}
	if err := e.Delete(e.ctx, "deleted", store.Any); err != nil {
		return err
	}
	leased, err := e.Put(e.ctx, "lease", 0, []byte("v"), time.Hour)
	if err != nil {
		return err
	}
	var times [2][]time.Time
	for i := range times {
		for ev, err := range e.Read(e.ctx, "log", 1) {
			if err != nil {
				return err
			}
			times[i] = append(times[i], ev.Time)
		}
		e.reopen()
	}
	if fmt.Sprint(times[0]) != fmt.Sprint(times[1]) {
		return fmt.Errorf("times were %v and are %v", times[0], times[1])
	}
	if err := e.wantAll("log", 1, "2:b 3:c 4:d"); err != nil {
		return err
	}
	if _, err := e.all("log", 0); !errors.Is(err, store.ErrTrimmed) {
		return wantErr("Read of what was trimmed", err, store.ErrTrimmed)
	}
	all, err := e.Heads(e.ctx, "", "", 0)
	if err != nil || len(all) != 2 || all[0].Key != "ends" || all[0].Expires.Sub(until).Abs() > time.Millisecond ||
		all[1] != (store.Head{Key: "log", First: 2, Last: 4, Bytes: 3}) {
		return fmt.Errorf("Heads = %+v, %v", all, err)
	}
	if err := errors.Join(e.wantValue("value", rev, "v"), e.wantValue("lease", leased, "v")); err != nil {
		return err
	}
	if _, err := e.Get(e.ctx, "deleted"); !errors.Is(err, store.ErrNotFound) {
		return wantErr("Get of what was deleted", err, store.ErrNotFound)
	}
	if last, err := e.Append(e.ctx, "log", 4, []byte("e")); err != nil || last != 5 {
		return fmt.Errorf("Append = %d, %v", last, err)
	}
	next, err := e.Put(e.ctx, "value", rev, []byte("w"), 0)
	if err != nil || next <= leased {
		return fmt.Errorf("Put = %d after %d, %v", next, leased, err)
	}
	return nil
}

func expiresClosed(e *env) error {
	if err := e.fill("log", "a"); err != nil {
		return err
	}
	if err := e.Expire(e.ctx, "log", time.Now().Add(e.short())); err != nil {
		return err
	}
	if _, err := e.Put(e.ctx, "value", 0, []byte("v"), e.short()); err != nil {
		return err
	}
	e.sleep(2 * e.short())
	e.reopen()
	if _, err := e.Get(e.ctx, "value"); !errors.Is(err, store.ErrNotFound) {
		return wantErr("Get", err, store.ErrNotFound)
	}
	if last, err := e.Append(e.ctx, "log", 0, []byte("b")); err != nil || last != 1 {
		return fmt.Errorf("Append = %d, %v", last, err)
	}
	e.reopen()
	return e.wantAll("log", 0, "1:b")
}

func boundsAgain(e *env) error {
	if err := e.fill("log", "a", "b"); err != nil {
		return err
	}
	if _, err := e.Put(e.ctx, "value", 0, make([]byte, 9000), 0); err != nil {
		return err
	}
	e.reopen()
	if err := e.fill("log", "c"); err != nil {
		return err
	}
	if err := wantErr("a fourth event", e.fill("log", "d"), store.ErrLimit); err != nil {
		return err
	}
	if err := wantErr("a second log", e.fill("other", "d"), store.ErrLimit); err != nil {
		return err
	}
	if err := e.Trim(e.ctx, "log", 3); err != nil {
		return err
	}
	_, err := e.Append(e.ctx, "log", store.Any, make([]byte, 1000))
	if err := wantErr("10,000 bytes in all", err, store.ErrLimit); err != nil {
		return err
	}
	_, err = e.Put(e.ctx, "second", 0, nil, 0)
	return wantErr("a second value", err, store.ErrLimit)
}
