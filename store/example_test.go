package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/store"
)

// A run writes its events. A reader that was disconnected continues after the last number it saw.
func Example() {
	s := store.NewMemory(store.Limits{})
	defer s.Close()
	ctx := context.Background()

	last, _ := s.Append(ctx, "runs/7", 0, []byte("created"), []byte("working"))
	last, _ = s.Append(ctx, "runs/7", last, []byte("done"))
	fmt.Println("last:", last)

	for e, err := range s.Read(ctx, "runs/7", 1) {
		fmt.Println(e.Seq, string(e.Data), err)
	}

	_, err := s.Append(ctx, "runs/7", 1, []byte("late"))
	fmt.Println(err, errors.Is(err, store.ErrConflict))
	// Output:
	// last: 3
	// 2 working <nil>
	// 3 done <nil>
	// store: "runs/7" is at 3, not at 1 true
}

// Tail yields old events and then new ones.
func ExampleLog_Tail() {
	s := store.NewMemory(store.Limits{})
	defer s.Close()
	ctx := context.Background()

	go func() {
		for _, what := range []string{"created", "working", "done"} {
			// The reader would detect a missing event.
			_, _ = s.Append(ctx, "runs/7", store.Any, []byte(what))
		}
	}()
	for e, err := range s.Tail(ctx, "runs/7", 0) {
		fmt.Println(e.Seq, string(e.Data), err)
		if string(e.Data) == "done" {
			break
		}
	}
	// Output:
	// 1 created <nil>
	// 2 working <nil>
	// 3 done <nil>
}

// Only a writer that has seen the last revision can replace a value.
func ExampleValues() {
	s := store.NewMemory(store.Limits{})
	defer s.Close()
	ctx := context.Background()

	rev, _ := s.Put(ctx, "sessions/a", 0, []byte("idle"), 0)
	_, err := s.Put(ctx, "sessions/a", rev, []byte("busy"), 0)
	fmt.Println(err)
	_, err = s.Put(ctx, "sessions/a", rev, []byte("mine"), 0)
	fmt.Println(errors.Is(err, store.ErrConflict))
	v, _ := s.Get(ctx, "sessions/a")
	fmt.Println(string(v.Data))
	// Output:
	// <nil>
	// true
	// busy
}
