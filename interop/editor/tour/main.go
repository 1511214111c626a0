// Command tour is an agent of the Agent Client Protocol on stdio that uses every feature of an
// agent, for tests with other clients.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/interop/editor/tourist"
	"github.com/da1ed7bb/parley/transport/stdio"
)

func main() {
	agent := editor.NewAgent(editor.Implementation{Name: "tourist", Version: "1.0"}, tourist.Options())
	if err := agent.Serve(context.Background(), stdio.New(nil)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
