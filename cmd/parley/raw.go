package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// runRaw sends a frame as it is and prints what comes back as it is, one payload per line. It ends with the first answer,
// and at once when the frame asks for none. With --stream it goes on until the server hangs up, time is up or Ctrl-C.
func (c *call) runRaw(ctx context.Context, dialer *parley.Dialer, words []string) error {
	if c.notify || c.batch != "" || c.id != "" {
		return usagef("--raw sends the frame as it is; -n, --batch and --id would change it")
	}
	word := c.data
	switch {
	case c.data != "" && len(words) > 0:
		return usagef("-d holds the frame already; the word %q is one too many", cut(words[0], 60))
	case c.data == "" && len(words) == 1:
		word = words[0]
	case c.data == "":
		return usagef("--raw wants the frame as one word, or as -d FRAME|@file|-")
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

// rawFrame is runRaw on a carrier on which both sides speak.
func (c *call) rawFrame(ctx context.Context, dialer *parley.Dialer, frame []byte) error {
	transport, err := dialer.Open(ctx, c.target)
	if err != nil {
		return &dialError{c.target, err}
	}
	defer transport.Close()
	stop := context.AfterFunc(ctx, func() { _ = transport.Close() }) // unblocks Read; the error is ctx's
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
		if _, err := fmt.Fprintf(c.app.stdout, "%s\n", payload); err != nil {
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

// rawEnd tells why reading ended.
func (c *call) rawEnd(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && c.stream && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil // it was to go on until then
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s (--timeout): %w", c.reach.timeout, ctx.Err())
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF) && c.stream:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the server hung up without an answer: %w", err)
	}
	return err
}

// wantsAnswer reports whether a server should answer the frame: it holds a request with an id, or something wrong.
func wantsAnswer(frame []byte) bool {
	wants := false
	bad := jsonrpc.Scan(frame, func(m *jsonrpc.Message) {
		wants = wants || m.Bad != nil || m.Request && !m.ID.IsZero()
	})
	return wants || bad != nil
}

// inspect reports whether the payload answers something, and whether one of the answers is an error.
func inspect(payload []byte) (answers, failed bool) {
	bad := jsonrpc.Scan(payload, func(m *jsonrpc.Message) {
		answers = answers || !m.Request
		failed = failed || m.Error != nil
	})
	return answers || bad != nil, failed
}

// A poster is a client that sends payloads as they are, as the one over HTTP does.
type poster interface {
	Send(ctx context.Context, payload []byte, each func(payload []byte) error) error
}

// rawPost is runRaw over HTTP: the answer is the body, or each event of a stream.
func (c *call) rawPost(ctx context.Context, dialer *parley.Dialer, frame []byte) error {
	client, err := dialer.Dial(ctx, c.target)
	if err != nil {
		return &dialError{c.target, err}
	}
	defer client.Close()
	over, ok := client.Caller.(poster)
	if !ok {
		return usagef("--raw does not go over %s", c.target.Scheme)
	}
	failed := false
	err = over.Send(ctx, frame, func(payload []byte) error {
		if _, bad := inspect(payload); bad {
			failed = true
		}
		_, err := fmt.Fprintf(c.app.stdout, "%s\n", bytes.TrimRight(payload, "\r\n"))
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return c.rawEnd(ctx, err)
	case err != nil:
		return err
	case failed:
		return &silentError{exitRPC}
	}
	return nil
}
