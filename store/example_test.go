package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/store"
)

// A run writes its events; whoever was away reads on from the last number seen.
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

// Tail goes over from old events to new ones.
func ExampleLog_Tail() {
	s := store.NewMemory(store.Limits{})
	defer s.Close()
	ctx := context.Background()

	go func() {
		for _, what := range []string{"created", "working", "done"} {
			_, _ = s.Append(ctx, "runs/7", store.Any, []byte(what)) // the reader sees what is missing
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

// A value is replaced by the one who saw it last.
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
