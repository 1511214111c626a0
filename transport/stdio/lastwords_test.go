package stdio_test

import (
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// TestLastWordsAreRead checks that what a program printed before it exited is read although a write
// to it failed first.
func TestLastWordsAreRead(t *testing.T) {
	child, err := stdio.Start(t.Context(), []string{"sh", "-c", "echo Starting tool"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	<-child.Exited()
	written := make(chan error, 1)
	go func() {
		text := []byte(`{"jsonrpc":"2.0","method":"x"}` + "\n")
		written <- child.Write(jsonrpc.Burst{Bytes: text, Ends: []int{len(text)}})
	}()
	select { // the write has failed before anything is read
	case err := <-written:
		written <- err
	case <-time.After(50 * time.Millisecond):
	}
	var said []string
	for {
		payload, _, err := child.Read()
		if err != nil {
			said = append(said, err.Error())
			break
		}
		said = append(said, string(payload))
	}
	if text := strings.Join(said, "; "); !strings.Contains(text, "Starting tool") {
		t.Errorf("read %s", text)
	}
	if err := child.Close(); err != nil {
		t.Error(err)
	}
	if <-written == nil {
		t.Error("a program that has exited took a message")
	}
}
