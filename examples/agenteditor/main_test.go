package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// Agent and editor in one process.
func Example() {
	dir, err := os.MkdirTemp("", "beds")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "beds.txt")
	if err := os.WriteFile(file, []byte("tulips   \n\n\n\nroses\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	here, there := inproc.Pipe(nil)
	go func() { _ = newAgent().Serve(ctx, there) }()
	o := &office{in: bufio.NewScanner(strings.NewReader("1\n"))}
	c, err := editor.Connect(ctx, here, editor.Implementation{Name: "office", Version: "1.0"}, o.options())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	session, err := c.NewSession(ctx, &editor.NewSessionParams{CWD: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		end, err := c.Prompt(ctx, &editor.PromptParams{SessionID: session.SessionID, Prompt: []editor.Content{editor.Text(file)}}, show)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(end.StopReason)
	}
	text, err := os.ReadFile(file)
	fmt.Printf("%q %v\n", text, err)
	// Output:
	// Tidy up beds.txt?
	// 1. Write it
	// 2. Leave it
	// completed
	// 5 bytes less.
	// end_turn
	// It is tidy already.
	// end_turn
	// "tulips\n\nroses\n" <nil>
}
