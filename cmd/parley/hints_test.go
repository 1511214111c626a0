package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestFramingHint calls a server on TCP with the framing of the other kind: the error names the
// right one, as that of check does.
func TestFramingHint(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := &parley.Listener{Handler: new(jsonrpc.Mux)}
	var targets []parley.Target
	for _, text := range []string{"tcp://127.0.0.1:0", "tcp://127.0.0.1:0?framing=header"} {
		at, err := parley.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, at)
	}
	running, err := l.Listen(ctx, targets...)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}()
	at := running.Targets()
	lines, frames := at[0].String(), at[1].String()
	for wrong, right := range map[string]string{
		lines + "?framing=header":                     " sends a message per line: try " + lines + "\n",
		strings.TrimSuffix(frames, "?framing=header"): " sends Content-Length before each message: try " + frames + "\n",
	} {
		for _, words := range [][]string{{"call", wrong, "x"}, {"check", wrong, "--timeout", "300ms"}} {
			var stderr bytes.Buffer
			a := &app{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &stderr, getenv: func(string) string { return "" }}
			if code := a.main(t.Context(), words); code != exitAway || !strings.HasSuffix(stderr.String(), right) {
				t.Errorf("%v: exit code %d, %q, want %q", words, code, &stderr, right)
			}
		}
	}
}
