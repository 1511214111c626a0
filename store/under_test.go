package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/storetest"
)

// A closing is a part of a store whose Close closes the whole store, which the contract requires
// but Under leaves to the owner. It also accepts keys that are longer by the prefix.
type closing struct {
	store.Store
	whole store.Store
}

func (c closing) Close() error { return c.whole.Close() }

// A part of a store conforms to the contract of a store.
func TestUnderIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, l store.Limits) store.Store {
		whole := store.NewMemory(l)
		return closing{store.Under(whole, ""), whole}
	}, nil)
}

func TestUnder(t *testing.T) {
	whole := store.NewMemory(store.Limits{})
	defer whole.Close()
	ctx := t.Context()
	alice, bob := store.Under(whole, "alice/"), store.Under(whole, "bob/")
	for _, s := range []store.Store{alice, bob} {
		for _, key := range []string{"x/1", "x/2", "y"} {
			if _, err := s.Append(ctx, key, 0, []byte("e")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Put(ctx, key, 0, []byte("v"), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(bob.Drop(ctx, "x/1"), bob.Delete(ctx, "x/1", store.Any)); err != nil {
		t.Fatal(err)
	}
	heads, err := alice.Heads(ctx, "x/", "x/1", 0)
	if err != nil || len(heads) != 1 || heads[0].Key != "x/2" {
		t.Errorf("Heads = %v, %v", heads, err)
	}
	values, err := alice.List(ctx, "", "", 0)
	var keys []string
	for _, v := range values {
		keys = append(keys, v.Key)
	}
	if err != nil || strings.Join(keys, " ") != "x/1 x/2 y" {
		t.Errorf("List = %v, %v", keys, err)
	}
	if v, err := alice.Get(ctx, "x/1"); err != nil || v.Key != "x/1" {
		t.Errorf("Get = %+v, %v", v, err)
	}
	if _, err := bob.Get(ctx, "x/1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get of what is deleted: %v", err)
	}
	_, err = alice.Append(ctx, "y", 7, nil)
	if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Key != "y" {
		t.Errorf("a conflict is %v", err)
	}
	if _, err := alice.Put(ctx, "", 0, nil, 0); !errors.Is(err, store.ErrKey) {
		t.Errorf("an empty key: %v", err)
	}
	if h, err := whole.Head(ctx, "alice/y"); err != nil || h.Last != 1 {
		t.Errorf("in the whole: %+v, %v", h, err)
	}
	if err := alice.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Head(ctx, "y"); err != nil {
		t.Errorf("after Close of another part: %v", err)
	}
}
