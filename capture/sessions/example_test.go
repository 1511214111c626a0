package sessions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/sessions"
)

// Record into a folder of sessions, and list it.
func Example() {
	root, err := os.MkdirTemp("", "sessions")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	dir := filepath.Join(root, "sessions")

	file, err := sessions.New(dir, "notes", time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	rec, err := capture.New(&capture.Options{File: file, MaxDisk: sessions.MaxFile})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		list, err := sessions.List(dir)
		if err != nil {
			fmt.Println(err)
		}
		for _, s := range list {
			fmt.Println(s.Name, "live:", s.Live)
		}
		_ = rec.Close() // nothing was recorded
	}
	// Output:
	// notes live: true
	// notes live: false
}
