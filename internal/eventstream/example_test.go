package eventstream_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/da1ed7bb/parley/internal/eventstream"
)

// A client reads the events of a response and keeps the last ID, to continue from there.
func Example() {
	answer := httptest.NewRecorder()
	events := eventstream.NewWriter(answer, nil)
	if err := events.Send(context.Background(), eventstream.Event{Type: "tick", ID: "7", Data: []byte("3\n2")}); err != nil {
		fmt.Println(err)
	}
	if err := events.Finish(eventstream.Event{Data: []byte("lift-off")}); err != nil {
		fmt.Println(err)
	}

	fmt.Println(eventstream.IsStream(answer.Result()))
	r := eventstream.NewReader(answer.Body, 0)
	for {
		e, err := r.Next()
		if err != nil {
			fmt.Println(err, "after", r.LastID())
			return
		}
		fmt.Printf("%s %q\n", e.Type, e.Data)
	}
	// Output:
	// true
	// tick "3\n2"
	// message "lift-off"
	// EOF after 7
}
