//go:build unix

package stdio_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/transport/stdio"
)

func ExampleStart() {
	c, err := stdio.Start(context.Background(), []string{"cat"}, nil) // echoes its input
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	if err := c.Write(one(`{"jsonrpc":"2.0","method":"hello"}`)); err != nil {
		fmt.Println(err)
	}
	payload, _, err := c.Read()
	fmt.Printf("%s %v\n", payload, err)
	// Output: {"jsonrpc":"2.0","method":"hello"} <nil>
}

// A child that exits with an error reports how it ended to every call that waits.
func ExampleExitError() {
	c, err := stdio.Start(context.Background(), []string{"sh", "-c", "echo no such table >&2; exit 3"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, _, err = c.Read()
	fmt.Println(err)
	if exit, ok := errors.AsType[*stdio.ExitError](err); ok {
		fmt.Print(exit.Code, " ", exit.LastStderr)
	}
	// Output:
	// stdio: the program exited with code 3
	// 3 no such table
}
