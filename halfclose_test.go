package parley

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// held returns a handler that blocks until leave is closed. Its result is true unless it was
// cancelled meanwhile.
func held(entered chan<- struct{}, leave <-chan struct{}) jsonrpc.Handler {
	return jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		entered <- struct{}{}
		<-leave
		return ctx.Err() == nil, nil
	})
}

// TestHalfClosedStreamsAreAnswered checks that a client that closes its sending side, as printf … |
// nc -N does, gets its response.
func TestHalfClosedStreamsAreAnswered(t *testing.T) {
	for _, target := range []string{"tcp://127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "s")} {
		t.Run(target, func(t *testing.T) {
			entered, leave := make(chan struct{}), make(chan struct{})
			mux := new(jsonrpc.Mux)
			mux.Add("held", held(entered, leave))
			at := serve(t, &Listener{Handler: mux}, target).Targets()[0]
			conn, err := net.Dial(at.Scheme, at.Address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// the last line needs no newline
			if _, err := io.WriteString(conn, `{"jsonrpc":"2.0","id":1,"method":"held"}`); err != nil {
				t.Fatal(err)
			}
			if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			<-entered
			close(leave)
			answer, err := io.ReadAll(conn)
			if want := `{"jsonrpc":"2.0","result":true,"id":1}` + "\n"; string(answer) != want || err != nil {
				t.Errorf("the answer is %q, %v, want %q", answer, err, want)
			}
		})
	}
}

// TestNobodyCancelsForOthersOverHTTP checks that a cancel notification by POST has no effect: each
// caller chooses its own IDs, so that the ID could be the ID of another caller's call.
func TestNobodyCancelsForOthersOverHTTP(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	mux := new(jsonrpc.Mux)
	mux.Add("held", held(entered, leave))
	target := serve(t, &Listener{Handler: mux}, "http://127.0.0.1:0").Targets()[0]
	ours, theirs := dial(t, &Dialer{}, target), dial(t, &Dialer{}, target)
	done := make(chan error, 1)
	go func() {
		untouched := false
		err := ours.Do(context.Background(), &jsonrpc.Item{Method: "held", ID: jsonrpc.IntID(1), Result: &untouched})
		if err == nil && !untouched {
			err = fmt.Errorf("the call was cancelled by somebody else")
		}
		done <- err
	}()
	<-entered
	if err := theirs.Notify(t.Context(), "$/cancelRequest", map[string]int{"id": 1}); err != nil {
		t.Fatal(err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
