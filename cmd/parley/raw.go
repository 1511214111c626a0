package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// runRaw sends a frame unchanged and prints the received payloads, one per line: unchanged into a
// pipe or a file, and with hidden characters escaped on a terminal. It ends after the first
// response, or at once if the frame requests none. With --stream it continues until the server
// closes the connection, the time is up or Ctrl-C is pressed.
func (c *call) runRaw(ctx context.Context, dialer *parley.Dialer, words []string) error {
	if c.notify || c.batch != "" || c.id != "" {
		return usagef("--raw sends the frame unchanged; remove -n, --batch and --id")
	}
	word := c.data
	switch {
	case c.data != "" && len(words) > 0:
		return usagef("-d already has the frame; remove the argument %q", cut(words[0], 60))
	case c.data == "" && len(words) == 1:
		word = words[0]
	case c.data == "":
		return usagef("--raw requires the frame as one argument, or as -d FRAME|@file|-")
	}
	frame, err := c.app.readData(word)
	if err != nil {
		return err
	}
	if c.reach.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.reach.timeout)
		defer cancel()
	}
	switch c.target.Scheme {
	case "http", "https":
		return c.rawPost(ctx, dialer, frame)
	}
	return c.rawFrame(ctx, dialer, frame)
}

// rawFrame implements runRaw for bidirectional transports.
func (c *call) rawFrame(ctx context.Context, dialer *parley.Dialer, frame []byte) (err error) {
	transport, err := dialer.Open(ctx, c.target)
	if err != nil {
		return c.dialFailed(ctx, err)
	}
	defer func() { hangUp(err, transport.Close) }()
	// Unblocks Read; ctx holds the error.
	stop := context.AfterFunc(ctx, func() { _ = transport.Close() })
	defer stop()

	frame = bytes.TrimRight(frame, "\r\n")
	var burst jsonrpc.Burst
	burst.Add(bytes.Clone(frame))
	if err := transport.Write(burst); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if !c.stream && !wantsAnswer(frame) {
		return nil
	}
	for {
		payload, _, err := transport.Read()
		if err != nil {
			return c.rawEnd(ctx, err)
		}
		if err := c.printer.peerRaw(payload); err != nil {
			return err
		}
		if answers, failed := inspect(payload); answers && !c.stream {
			if failed {
				return &silentError{exitRPC}
			}
			return nil
		}
	}
}

// rawEnd returns the reason why reading ended.
func (c *call) rawEnd(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && c.stream && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil // the stream was meant to last until then
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("no response within %s (--timeout): %w", c.reach.timeout, ctx.Err())
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF) && c.stream:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the server closed the connection without a response: %w", err)
	}
	return err
}

// wantsAnswer reports whether a server should respond to the frame: it contains a request with an
// id, or something invalid.
func wantsAnswer(frame []byte) bool {
	wants := false
	bad := jsonrpc.Scan(frame, func(m *jsonrpc.Message) {
		wants = wants || m.Bad != nil || m.Request && !m.ID.IsZero()
	})
	return wants || bad != nil
}

// inspect reports whether the payload contains a response, and whether one of its responses is an
// error.
func inspect(payload []byte) (answers, failed bool) {
	bad := jsonrpc.Scan(payload, func(m *jsonrpc.Message) {
		answers = answers || !m.Request
		failed = failed || m.Error != nil
	})
	return answers || bad != nil, failed
}

// A poster is a client that sends payloads unchanged, as the HTTP client does.
type poster interface {
	Send(ctx context.Context, payload []byte, each func(payload []byte) error) error
}

// rawPost implements runRaw for HTTP: the response is the body, or each event of a stream.
func (c *call) rawPost(ctx context.Context, dialer *parley.Dialer, frame []byte) error {
	client, err := dialer.Dial(ctx, c.target)
	if err != nil {
		return c.dialFailed(ctx, err)
	}
	defer client.Close()
	over, ok := client.Caller.(poster)
	if !ok {
		return usagef("--raw does not support %s", c.target.Scheme)
	}
	failed := false
	err = over.Send(ctx, frame, func(payload []byte) error {
		if _, bad := inspect(payload); bad {
			failed = true
		}
		return c.printer.peerRaw(bytes.TrimRight(payload, "\r\n"))
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return c.rawEnd(ctx, err)
	case err != nil && failed && status(err) >= http.StatusBadRequest:
		return &silentError{exitRPC} // the response is printed; servers of MCP send it with such a status
	case err != nil:
		return c.finder().explain(ctx, err)
	case failed:
		return &silentError{exitRPC}
	}
	return nil
}
