package sqlite_test

import (
	"context"
	"fmt"
	"os"

	"github.com/da1ed7bb/parley/store/sqlite"
)

// The data is still there when the directory is opened again.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	s, err := sqlite.Open(dir, nil)
	if err != nil {
		panic(err)
	}
	last, err := s.Append(ctx, "runs/7", 0, []byte("created"))
	fmt.Println(last, err)
	fmt.Println(s.Close())

	s, err = sqlite.Open(dir, nil)
	if err != nil {
		panic(err)
	}
	defer s.Close()
	for e, err := range s.Read(ctx, "runs/7", 0) {
		fmt.Println(e.Seq, string(e.Data), err)
	}
	// Output:
	// 1 <nil>
	// <nil>
	// 1 created <nil>
}
