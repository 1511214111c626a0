package parley

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
)

// openStdio implements Open for stdio: this process's stdin and stdout.
func openStdio(_ context.Context, d *Dialer, t Target) (jsonrpc.Transport, error) {
	return stdio.New(&stdio.Options{Options: stream.Options{MaxMessage: d.maxMessage()}, Framing: t.Framing}), nil
}

// dialStdio implements Dial for stdio.
func dialStdio(ctx context.Context, d *Dialer, t Target) (Caller, error) {
	transport, err := openStdio(ctx, d, t)
	if err != nil {
		return nil, err
	}
	return d.Converse(ctx, transport, t.Version), nil
}

// openChild implements Open for exec: it starts a program and uses its stdin and stdout. Unless the
// target has an environment, the program inherits this process's, as under a shell; no shell is
// involved.
func openChild(ctx context.Context, d *Dialer, t Target) (jsonrpc.Transport, error) {
	child, err := stdio.Start(ctx, t.Argv, &stdio.Options{
		Options: stream.Options{MaxMessage: d.maxMessage()},
		Framing: t.Framing,
		Env:     t.Env,
		Dir:     t.Dir,
		Stderr:  d.Stderr,
	})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// dialChild implements Dial for exec. Close of the client ends the program.
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

// An ownStdio is the connection on this process's stdin and stdout.
type ownStdio struct {
	target    Target
	transport jsonrpc.Transport
	open      connSet
}

// listenStdio implements Listen for stdio.
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

// Serve handles requests until the end of stdin, and until all of them have their responses.
func (s *ownStdio) Serve(ctx context.Context) error {
	conn := s.open.openConn(s.transport, opening{version: s.target.Version})
	if conn == nil {
		return nil // Shutdown was called first
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
