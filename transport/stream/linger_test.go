package stream_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/transport/stream"
)

// TestLinger has a peer that still sends when its connection is closed: it reads what was written
// to it, and its writes do not fail before that.
func TestLinger(t *testing.T) {
	peer, conn := connect(t, "tcp", "127.0.0.1:0")
	tr := stream.New(conn, stream.Line, nil)
	if err := tr.Write(burst(`{"jsonrpc":"2.0","result":1,"id":1}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil { // it is never read
		t.Fatal(err)
	}
	tr.Linger()
	closed := make(chan error, 1)
	go func() { closed <- tr.Close() }()
	_ = peer.SetDeadline(time.Now().Add(time.Minute))
	got, err := io.ReadAll(peer)
	if want := `{"jsonrpc":"2.0","result":1,"id":1}` + "\n"; string(got) != want || err != nil {
		t.Errorf("the peer reads %q, %v, want %q and its end", got, err, want)
	}
	if _, err := peer.Write([]byte("more")); err != nil {
		t.Errorf("a write behind that: %v", err)
	}
	peer.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
