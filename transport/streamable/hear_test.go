package streamable

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// A closing is a body that counts its closes.
type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

// TestTheBodyOfAStreamIsClosed checks that the body of a session's stream is closed when it ends,
// so that its connection is released.
func TestTheBodyOfAStreamIsClosed(t *testing.T) {
	body := &closing{Reader: strings.NewReader(": hello\n\n")}
	if err := new(Client).readEvents(t.Context(), body, new(clientPlace)); !errors.Is(err, io.EOF) {
		t.Errorf("hear = %v", err)
	}
	if body.closed == 0 {
		t.Error("the body is not closed")
	}
}
