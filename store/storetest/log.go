package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/store"
)

func logRules() []rule {
	return []rule{
		{name: "events are numbered from 1 and read back in order", check: appendAndRead},
		{name: "several events are added together or not at all", check: allOrNone},
		{name: "an append with another last number is a conflict and adds nothing", check: fence},
		{name: "of many appends with the same number one wins", check: race},
		{name: "many writers with Any lose and double nothing", check: manyWriters},
		{name: "a log that does not exist is empty", check: missingLog},
		{name: "what is kept is a copy", check: copied},
		{name: "an empty event is an event", check: emptyEvent},
		{name: "reading ends at what was last when it began", check: readEnds},
		{name: "a reader may stop, and may write while it reads", check: readerWrites},
		{name: "a tail goes from old to new events without a gap", check: tail},
		{name: "a tail may begin before its log", check: tailFirst},
		{name: "a tail ends with the cause of its context", check: tailEnds},
		{name: "a tail ends when its log is dropped", check: tailDropped},
		{name: "a slow tail misses nothing and delays no other", check: slowTail},
		{name: "events are trimmed from the front, and the numbers go on", check: trim},
		{name: "a dropped log begins again", check: drop},
		{name: "a log expires, and the tail on it ends", check: expire},
		{name: "a log whose end is put off stays", check: expireLater},
		{name: "logs are listed by prefix in pages", check: heads},
		{name: "keys are compared byte by byte", check: keys},
		{name: "what is no key is refused", check: notKeys},
		{name: "a log is bounded, and what is in it stays", limits: store.Limits{EventBytes: 10, LogEvents: 3, LogBytes: 25}, check: logBounds},
		{name: "the number of logs is bounded", limits: store.Limits{Logs: 2}, check: logCount},
	}
}

// wantErr returns an error if got is not want.
func wantErr(what string, got, want error) error {
	if !errors.Is(got, want) {
		return fmt.Errorf("%s: got error %v, want %v", what, got, want)
	}
	return nil
}

// all reads the events of a log after the given number as one string, such as "1:a 2:b".
func (e *env) all(key string, after uint64) (string, error) {
	var out []string
	for ev, err := range e.Read(e.ctx, key, after) {
		if err != nil {
			return strings.Join(out, " "), err
		}
		out = append(out, fmt.Sprintf("%d:%s", ev.Seq, ev.Data))
	}
	return strings.Join(out, " "), nil
}

func (e *env) wantAll(key string, after uint64, want string) error {
	got, err := e.all(key, after)
	if err != nil || got != want {
		return fmt.Errorf("Read(%q, %d) = %q, %v, want %q", key, after, got, err, want)
	}
	return nil
}

// fill appends events a, b, c … and ignores the number.
func (e *env) fill(key string, events ...string) error {
	var raw [][]byte
	for _, ev := range events {
		raw = append(raw, []byte(ev))
	}
	_, err := e.Append(e.ctx, key, store.Any, raw...)
	return err
}

func appendAndRead(e *env) error {
	before := time.Now().Add(-time.Millisecond)
	for i, data := range []string{"a", "b", "c"} {
		last, err := e.Append(e.ctx, "log", uint64(i), []byte(data))
		if err != nil || last != uint64(i+1) {
			return fmt.Errorf("Append %d = %d, %v", i, last, err)
		}
	}
	n := uint64(0)
	for ev, err := range e.Read(e.ctx, "log", 0) {
		if err != nil {
			return err
		}
		n++
		if ev.Seq != n || string(ev.Data) != string('a'+rune(n-1)) {
			return fmt.Errorf("event %d is %d:%s", n, ev.Seq, ev.Data)
		}
		if ev.Time.Before(before) || ev.Time.After(time.Now()) || ev.Time.Location() != time.UTC || ev.Time.Nanosecond()%1e6 != 0 {
			return fmt.Errorf("event %d is of %v, want now, in UTC and milliseconds", n, ev.Time)
		}
	}
	if err := e.wantAll("log", 2, "3:c"); err != nil {
		return err
	}
	if err := e.wantAll("log", 3, ""); err != nil {
		return err
	}
	h, err := e.Head(e.ctx, "log")
	if err != nil || h != (store.Head{Key: "log", First: 1, Last: 3, Bytes: 3}) {
		return fmt.Errorf("the head is %+v, %v", h, err)
	}
	return nil
}

func allOrNone(e *env) error {
	last, err := e.Append(e.ctx, "log", 0, []byte("a"), []byte("b"), []byte("c"))
	if err != nil || last != 3 {
		return fmt.Errorf("Append of three = %d, %v", last, err)
	}
	_, err = e.Append(e.ctx, "log", 3, []byte("d"), make([]byte, 2<<20), []byte("f"))
	if err := wantErr("Append with one event too large", err, store.ErrLimit); err != nil {
		return err
	}
	if last, err = e.Append(e.ctx, "log", 3); err != nil || last != 3 {
		return fmt.Errorf("Append of nothing = %d, %v", last, err)
	}
	_, err = e.Append(e.ctx, "log", 2)
	if err := wantErr("Append of nothing behind another number", err, store.ErrConflict); err != nil {
		return err
	}
	return e.wantAll("log", 0, "1:a 2:b 3:c")
}

func fence(e *env) error {
	if err := e.fill("log", "a", "b"); err != nil {
		return err
	}
	for _, after := range []uint64{0, 1, 3, 1 << 40, store.Any - 1} {
		_, err := e.Append(e.ctx, "log", after, []byte("x"))
		if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Key != "log" || c.Want != after || c.Have != 2 {
			return fmt.Errorf("Append behind %d: %v, want a conflict with 2", after, err)
		}
	}
	_, err := e.Append(e.ctx, "other", 2, []byte("x"))
	if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Have != 0 {
		return fmt.Errorf("Append behind 2 of no log: %v, want a conflict with 0", err)
	}
	if _, err := e.Head(e.ctx, "other"); !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("a refused append left a log behind: %v", err)
	}
	return e.wantAll("log", 0, "1:a 2:b")
}

func race(e *env) error {
	const writers = 16
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() { _, errs[i] = e.Append(e.ctx, "log", 0, fmt.Append(nil, i)) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			return fmt.Errorf("writers %d and %d both won", winner, i)
		case !errors.Is(err, store.ErrConflict):
			return err
		}
	}
	return e.wantAll("log", 0, fmt.Sprintf("1:%d", winner))
}

func manyWriters(e *env) error {
	const writers, each = 8, 40
	var wg sync.WaitGroup
	errs := make([]error, writers)
	acked := make([]map[uint64]string, writers)
	for w := range writers {
		wg.Go(func() {
			acked[w] = map[uint64]string{}
			for i := range each {
				data := fmt.Sprintf("%d.%d", w, i)
				seq, err := e.Append(e.ctx, "log", store.Any, []byte(data))
				if err != nil {
					errs[w] = err
					return
				}
				acked[w][seq] = data
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	want := map[uint64]string{}
	for _, m := range acked {
		for seq, data := range m {
			if other, taken := want[seq]; taken {
				return fmt.Errorf("%s and %s were both told that they are %d", data, other, seq)
			}
			want[seq] = data
		}
	}
	n := uint64(0)
	for ev, err := range e.Read(e.ctx, "log", 0) {
		if err != nil {
			return err
		}
		if n++; ev.Seq != n || want[n] != string(ev.Data) {
			return fmt.Errorf("event %d is %d:%s, its writer got %q", n, ev.Seq, ev.Data, want[n])
		}
	}
	if n != writers*each {
		return fmt.Errorf("%d events, want %d", n, writers*each)
	}
	return nil
}

func missingLog(e *env) error {
	if err := e.wantAll("none", 0, ""); err != nil {
		return err
	}
	if err := e.wantAll("none", 7, ""); err != nil {
		return err
	}
	if _, err := e.Head(e.ctx, "none"); !errors.Is(err, store.ErrNotFound) {
		return wantErr("Head", err, store.ErrNotFound)
	}
	if err := e.Trim(e.ctx, "none", 5); err != nil {
		return err
	}
	if err := e.Drop(e.ctx, "none"); err != nil {
		return err
	}
	if err := wantErr("Expire", e.Expire(e.ctx, "none", time.Time{}), store.ErrNotFound); err != nil {
		return err
	}
	if last, err := e.Append(e.ctx, "none", 0); err != nil || last != 0 {
		return fmt.Errorf("Append of nothing = %d, %v", last, err)
	}
	heads, err := e.Heads(e.ctx, "", "", 0)
	if err != nil || len(heads) != 0 {
		return fmt.Errorf("Heads = %v, %v", heads, err)
	}
	return nil
}

func copied(e *env) error {
	data := []byte("good")
	if _, err := e.Append(e.ctx, "log", 0, data); err != nil {
		return err
	}
	rev, err := e.Put(e.ctx, "value", 0, data, 0)
	if err != nil {
		return err
	}
	copy(data, "evil")
	if err := e.wantAll("log", 0, "1:good"); err != nil {
		return err
	}
	return e.wantValue("value", rev, "good")
}

func emptyEvent(e *env) error {
	if _, err := e.Append(e.ctx, "log", 0, nil, []byte{}, bytes.Repeat([]byte{0}, 3)); err != nil {
		return err
	}
	return e.wantAll("log", 0, "1: 2: 3:\x00\x00\x00")
}

func readEnds(e *env) error {
	if err := e.fill("log", "a", "b"); err != nil {
		return err
	}
	n := 0
	for _, err := range e.Read(e.ctx, "log", 0) {
		if err != nil {
			return err
		}
		if n++; n > 2 {
			return errors.New("Read yields what was added while it went on")
		}
		if err := e.fill("log", "more"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(e.ctx)
	why := errors.New("enough")
	cancel(why)
	for _, err := range e.Read(ctx, "log", 0) {
		return wantErr("Read with an ended context", err, why)
	}
	return errors.New("Read with an ended context yields nothing")
}

func readerWrites(e *env) error {
	var many []string
	for i := range 600 {
		many = append(many, fmt.Sprint(i))
	}
	if err := e.fill("log", many...); err != nil {
		return err
	}
	n := 0
	for ev, err := range e.Read(e.ctx, "log", 0) {
		if err != nil {
			return err
		}
		if n++; ev.Seq != uint64(n) || string(ev.Data) != fmt.Sprint(n-1) {
			return fmt.Errorf("event %d is %d:%s", n, ev.Seq, ev.Data)
		}
		if n%200 == 0 { // a driver that holds a lock while it yields would hang here
			if err := e.fill("copy", string(ev.Data)); err != nil {
				return err
			}
		}
		if n == 500 {
			break
		}
	}
	return e.wantAll("copy", 0, "1:199 2:399")
}

func heads(e *env) error {
	for _, key := range []string{"b/2", "a/1", "b/1", "b/10", "b", "c", "b0", "B/1", "b/é"} {
		if err := e.fill(key, "x"); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		prefix, after string
		n             int
		want          string
	}{
		{"", "", 0, "B/1 a/1 b b/1 b/10 b/2 b/é b0 c"},
		{"b/", "", 0, "b/1 b/10 b/2 b/é"},
		{"b/", "", 2, "b/1 b/10"},
		{"b/", "b/10", 2, "b/2 b/é"},
		{"b/", "b/é", 2, ""},
		{"b/", "a", 1, "b/1"},
		{"b/", "c", 1, ""},
		{"b/1", "", -1, "b/1 b/10"},
		{"d", "", 0, ""},
		{"%", "", 0, ""},
		{"b_", "", 0, ""},
	} {
		list, err := e.Heads(e.ctx, c.prefix, c.after, c.n)
		var got []string
		for _, h := range list {
			got = append(got, h.Key)
			if h.First != 1 || h.Last != 1 || h.Bytes != 1 {
				return fmt.Errorf("Heads: %+v", h)
			}
		}
		if err != nil || strings.Join(got, " ") != c.want {
			return fmt.Errorf("Heads(%q, %q, %d) = %q, %v, want %q", c.prefix, c.after, c.n, got, err, c.want)
		}
	}
	return nil
}

func keys(e *env) error {
	all := []string{"a", "A", "a/", "a ", " a", "a%", "a_", "ä", "a\u0308", "a'", `a"`, "a.b", "a>", "a*", strings.Repeat("k", 256), "日本語"}
	for i, key := range all {
		if err := e.fill(key, fmt.Sprint("log ", i)); err != nil {
			return fmt.Errorf("%q: %v", key, err)
		}
		if _, err := e.Put(e.ctx, key, 0, fmt.Append(nil, "value ", i), 0); err != nil {
			return fmt.Errorf("%q: %v", key, err)
		}
	}
	for i, key := range all {
		if err := e.wantAll(key, 0, fmt.Sprint("1:log ", i)); err != nil {
			return err
		}
		if v, err := e.Get(e.ctx, key); err != nil || string(v.Data) != fmt.Sprint("value ", i) || v.Key != key {
			return fmt.Errorf("Get(%q) = %q, %v", key, v.Data, err)
		}
	}
	return nil
}

func notKeys(e *env) error {
	for _, key := range []string{"", "a\x00b", "a\n", "\x7f", "\xff", "a\xc3", "\u0085", strings.Repeat("k", 257)} {
		_, get := e.Get(e.ctx, key)
		_, put := e.Put(e.ctx, key, store.Any, nil, 0)
		_, head := e.Head(e.ctx, key)
		_, app := e.Append(e.ctx, key, store.Any, []byte("x"))
		_, read := e.all(key, 0)
		var tail error
		for _, err := range e.Tail(e.ctx, key, 0) {
			tail = err
		}
		for what, err := range map[string]error{
			"Get": get, "Put": put, "Head": head, "Append": app, "Read": read, "Tail": tail,
			"Delete": e.Delete(e.ctx, key, store.Any), "Trim": e.Trim(e.ctx, key, 1), "Drop": e.Drop(e.ctx, key),
			"Expire": e.Expire(e.ctx, key, time.Time{}),
		} {
			if err := wantErr(fmt.Sprintf("%s(%q)", what, key), err, store.ErrKey); err != nil {
				return err
			}
		}
	}
	return nil
}

func logBounds(e *env) error {
	_, err := e.Append(e.ctx, "log", 0, make([]byte, 11))
	if l, ok := errors.AsType[*store.LimitError](err); !ok || l.Limit != 10 {
		return fmt.Errorf("Append of 11 bytes: %v, want the limit of 10", err)
	}
	if _, err := e.Append(e.ctx, "log", 0, make([]byte, 10), make([]byte, 10)); err != nil {
		return err
	}
	_, err = e.Append(e.ctx, "log", 2, make([]byte, 6))
	if l, ok := errors.AsType[*store.LimitError](err); !ok || l.Limit != 25 {
		return fmt.Errorf("Append past 25 bytes: %v", err)
	}
	if _, err := e.Append(e.ctx, "log", 2, make([]byte, 5)); err != nil {
		return err
	}
	_, err = e.Append(e.ctx, "log", 3, nil)
	if l, ok := errors.AsType[*store.LimitError](err); !ok || l.Limit != 3 {
		return fmt.Errorf("Append of a fourth: %v", err)
	}
	if err := e.Trim(e.ctx, "log", 1); err != nil { // there is space again
		return err
	}
	if last, err := e.Append(e.ctx, "log", 3, make([]byte, 10)); err != nil || last != 4 {
		return fmt.Errorf("Append after Trim = %d, %v", last, err)
	}
	return nil
}

func logCount(e *env) error {
	if err := errors.Join(e.fill("1", "x"), e.fill("2", "x")); err != nil {
		return err
	}
	if err := wantErr("a third log", e.fill("3", "x"), store.ErrLimit); err != nil {
		return err
	}
	if err := errors.Join(e.fill("1", "x"), e.Drop(e.ctx, "2"), e.fill("3", "x")); err != nil {
		return err
	}
	if err := e.Expire(e.ctx, "1", time.Now().Add(e.short())); err != nil {
		return err
	}
	e.sleep(e.short() + 2*time.Second) // expired entries free their space after a second at most
	return e.fill("4", "x")
}
