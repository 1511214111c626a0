package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// notification returns the handler for notifications about our own call, which prints them to
// stdout or stderr.
func (c *call) notification(ctx context.Context) func(*jsonrpc.Request) error {
	return func(req *jsonrpc.Request) error { return c.printNotification(ctx, req) }
}

func (c *call) printNotification(ctx context.Context, req *jsonrpc.Request) error {
	c.arrived.Add(1)
	c.last.Store(time.Now().UnixNano())
	c.line.Lock()
	defer c.line.Unlock()
	if c.stream {
		name, err := quote(req.Method)
		if err != nil {
			return err
		}
		line := append(jsonrpc.Raw(`{"method":`), name...)
		if req.Params != nil {
			line = append(append(line, `,"params":`...), req.Params...)
		}
		return c.printer.line(ctx, append(line, '}'))
	}
	if c.tracer != nil && c.tracer.asLines {
		return nil // reported already
	}
	_, err := fmt.Fprintf(c.app.stderr, "← %s %s\n", visible(req.Method, 60), appendCompact(nil, req.Params, palette{}))
	return err
}

// back handles messages that the server sends on its own: notifications are printed, and calls of
// "answer" are answered by --answer or by the user at the terminal. Other methods are not found.
func (c *call) back() jsonrpc.Handler {
	return jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		if req.IsNotification() {
			return nil, c.printNotification(ctx, req)
		}
		if req.Method != "answer" {
			return nil, jsonrpc.ErrMethodNotFound
		}
		return c.reply(req.Params)
	})
}

// reply returns the response to a question of the server.
func (c *call) reply(params jsonrpc.Raw) (any, error) {
	if c.answer != "" {
		return c.answer, nil
	}
	c.question.Lock()
	defer c.question.Unlock()
	if !isTerminal(c.app.stdin) || !isTerminal(c.app.stderr) {
		return nil, jsonrpc.ErrMethodNotFound
	}
	var asked struct {
		Question string `json:"question"`
	}
	if json.Unmarshal(params, &asked) != nil || asked.Question == "" {
		asked.Question = string(params)
	}
	fmt.Fprintf(c.app.stderr, "the server asks: %s\n> ", visible(asked.Question, 400))
	line, err := bufio.NewReader(c.app.stdin).ReadString('\n')
	if err != nil && line == "" {
		return nil, jsonrpc.NewError(jsonrpc.CodeUnavailable, "No answer")
	}
	return strings.TrimRight(line, "\r\n"), nil
}
