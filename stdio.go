package parley

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
)

// openStdio is Open of stdio: our own stdin and stdout.
func openStdio(_ context.Context, d *Dialer, t Target) (jsonrpc.Transport, error) {
	return stdio.New(&stdio.Options{Options: stream.Options{MaxMessage: d.maxMessage()}, Framing: t.Framing}), nil
}

// dialStdio is Dial of stdio.
func dialStdio(ctx context.Context, d *Dialer, t Target) (Caller, error) {
	transport, err := openStdio(ctx, d, t)
	if err != nil {
		return nil, err
	}
	return d.Converse(ctx, transport, t.Version), nil
}

// openChild is Open of exec: the stdin and stdout of a program that is started now. It has our environment, as under any
// shell; there is no shell.
func openChild(ctx context.Context, d *Dialer, t Target) (jsonrpc.Transport, error) {
	child, err := stdio.Start(ctx, t.Argv, &stdio.Options{
		Options: stream.Options{MaxMessage: d.maxMessage()},
		Framing: t.Framing,
		Stderr:  d.Stderr,
	})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// dialChild is Dial of exec. Close of the client ends the program.
func dialChild(ctx context.Context, d *Dialer, t Target) (Caller, error) {
	transport, err := openChild(ctx, d, t)
	if err != nil {
		return nil, err
	}
	conn := d.conn(transport, t.Version)
	conn.Quiet = true // programs print other things too
	conn.Start(context.WithoutCancel(ctx))
	return conn, nil
}

// An ownStdio is the one conversation on our stdin and stdout.
type ownStdio struct {
	target    Target
	transport jsonrpc.Transport
	open      conversations
}

// listenStdio is Listen of stdio.
func listenStdio(_ context.Context, l *Listener, t Target) (Service, error) {
	s := &ownStdio{
		target:    t,
		transport: stdio.New(&stdio.Options{Options: stream.Options{MaxMessage: l.MaxMessage}, Framing: t.Framing}),
	}
	s.open.listener = l
	s.open.grace = halfClosed
	return s, nil
}

func (s *ownStdio) Target() Target { return s.target }

// Serve answers until the end of stdin, and until what came before it is answered.
func (s *ownStdio) Serve(ctx context.Context) error {
	conn := s.open.begin(s.transport, opening{version: s.target.Version})
	if conn == nil {
		return nil // Shutdown was first
	}
	if err := s.open.serve(ctx, conn); err != nil {
		return fmt.Errorf("stdio: %w", err)
	}
	return nil
}

func (s *ownStdio) Shutdown(ctx context.Context) error {
	err := s.open.shutdown(ctx)
	_ = s.transport.Close() // Serve may not have begun
	return err
}
