package transporttest_test

import (
	"fmt"
	"io"

	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// A Tape shows how a transport handles bytes that arrive in pieces of any size.
func ExamplePlay() {
	tape := transporttest.Play(io.EOF, []byte(`{"n":`), []byte("1}\n{\"n\":2}\n"))
	t := stream.New(tape, stream.Line, nil)
	for {
		payload, more, err := t.Read()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s more=%v\n", payload, more)
	}
	// Output:
	// {"n":1} more=true
	// {"n":2} more=false
	// EOF
}
