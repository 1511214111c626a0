package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// runBatch sends the messages of a file in one array and prints the responses in the order of the
// calls.
func (c *call) runBatch(ctx context.Context, dialer *parley.Dialer, words []string) error {
	if len(words) > 0 || c.notify || c.data != "" || c.id != "" {
		return usagef("with --batch, methods, params and ids are in the file; remove them from the command line")
	}
	text, err := c.app.readInput(c.batch)
	if err != nil {
		return err
	}
	items, results, err := parseBatch(text)
	if err != nil {
		return err
	}
	dialer.Back = c.back()
	client, err := dialer.Dial(ctx, c.target)
	if err != nil {
		return c.dialFailed(ctx, err)
	}
	err = client.Batch(ctx, items)
	if errors.Is(err, jsonrpc.ErrBatchRefused) {
		fmt.Fprintln(c.app.stderr, "parley: the server does not support batches; sending the messages one by one")
		err = oneByOne(ctx, client, items)
	}
	return c.finish(ctx, client, func() error {
		if err != nil {
			return c.explain(ctx, "batch", err, unanswered(items)...)
		}
		return c.printBatch(ctx, items, results)
	})
}

// unanswered returns the IDs of the calls that timed out.
func unanswered(items []jsonrpc.Item) (ids []jsonrpc.ID) {
	for _, item := range items {
		if isLate(item.Err) {
			ids = append(ids, item.ID)
		}
	}
	return ids
}

// oneByOne sends the items one at a time, for servers that do not accept batches. The outcome of
// each is in its item.
func oneByOne(ctx context.Context, client *parley.Client, items []jsonrpc.Item) error {
	for i := range items {
		items[i].Err = client.Do(ctx, &items[i])
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// An entry is a message in a batch file.
type entry struct {
	Version *string     `json:"jsonrpc"`
	ID      jsonrpc.ID  `json:"id"`
	Method  string      `json:"method"`
	Params  jsonrpc.Raw `json:"params"`
	Notify  bool        `json:"notify"`
}

// parseBatch parses a list of messages, or one message per line. A message with a version is used
// unchanged: without an id it is a notification. A message without a version is a call, unless it
// has "notify": true.
func parseBatch(text []byte) ([]jsonrpc.Item, []jsonrpc.Raw, error) {
	var entries []entry
	if list, err := jsonrpc.ParseRaw(text); err == nil && kind(list) == '[' {
		for element := range list.Elements() {
			e, err := parseEntry(element)
			if err != nil {
				return nil, nil, usagef("--batch: message %d: %v", len(entries)+1, err)
			}
			entries = append(entries, e)
		}
	} else if entries, err = parseLines(text); err != nil {
		return nil, nil, err
	}
	if len(entries) == 0 {
		return nil, nil, usagef("--batch: the file contains no message; to send an empty batch use --raw '[]'")
	}
	items := make([]jsonrpc.Item, len(entries))
	results := make([]jsonrpc.Raw, len(entries))
	for i, e := range entries {
		items[i] = jsonrpc.Item{Method: e.Method, ID: e.ID, Result: &results[i]}
		if e.Params != nil {
			items[i].Params = e.Params
		}
		items[i].Notify = e.Notify || e.Version != nil && e.ID.IsZero()
		if items[i].Notify && !e.ID.IsZero() {
			return nil, nil, usagef("--batch: message %d: a notification has no id", i+1)
		}
	}
	number(items)
	return items, results, nil
}

// number assigns ids to the calls that have none: their position in the file, or a larger number if
// that id is used.
func number(items []jsonrpc.Item) {
	taken := make(map[jsonrpc.ID]bool)
	for _, item := range items {
		taken[item.ID] = true
	}
	for i := range items {
		if items[i].Notify || !items[i].ID.IsZero() {
			continue
		}
		n := int64(i + 1)
		for taken[jsonrpc.IntID(n)] {
			n += int64(len(items))
		}
		items[i].ID = jsonrpc.IntID(n)
	}
}

func parseLines(text []byte) (entries []entry, err error) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		e, err := parseEntry(line)
		if err != nil {
			return nil, usagef("--batch: line %d: %v", number, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func parseEntry(text []byte) (e entry, err error) {
	raw, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return e, fmt.Errorf("%q is not JSON: %w", cut(strings.TrimSpace(string(text)), 60), err)
	}
	if kind(raw) != '{' {
		return e, fmt.Errorf("%q is not an object with a method", cut(string(raw), 60))
	}
	if err := raw.Decode(&e); err != nil {
		return e, err
	}
	if e.Method == "" {
		return e, errors.New("missing method")
	}
	if e.Version != nil && *e.Version != "2.0" {
		return e, fmt.Errorf("jsonrpc is %q, not 2.0; use --raw to send it anyway", cut(*e.Version, 20))
	}
	return e, nil
}

// printBatch prints one object for each call: the result or the error. Notifications are not
// printed.
func (c *call) printBatch(ctx context.Context, items []jsonrpc.Item, results []jsonrpc.Raw) error {
	var list []byte
	calls, failed := 0, 0
	var first error
	for i, item := range items {
		if item.Notify {
			if item.Err != nil && first == nil {
				first = item.Err
			}
			continue
		}
		calls++
		outcome, err := appendOutcome(nil, &items[i], results[i])
		if err != nil {
			if first == nil {
				first = err
			}
			failed++
			continue
		}
		if item.Err != nil {
			failed++
		}
		if c.stream {
			if err := c.printer.line(ctx, outcome); err != nil {
				return err
			}
			continue
		}
		list = appendComma(list, outcome)
	}
	if list != nil {
		if err := c.printer.print(ctx, jsonrpc.Raw("["+string(list)+"]")); err != nil {
			return err
		}
	}
	if first != nil {
		return c.explain(ctx, "batch", first, unanswered(items)...)
	}
	if failed > 0 {
		c.app.complainAs(fmt.Errorf("%d of %d calls failed", failed, calls), exitRPC)
		return &silentError{exitRPC}
	}
	return nil
}

// appendOutcome appends the outcome of one call. It returns a failure that is not an error response
// of the server.
func appendOutcome(dst []byte, item *jsonrpc.Item, result jsonrpc.Raw) ([]byte, error) {
	method, err := quote(item.Method)
	if err != nil {
		return nil, err
	}
	dst = append(append(dst, `{"method":`...), method...)
	if item.Err == nil {
		if result == nil {
			result = jsonrpc.Raw("null")
		}
		return append(append(append(dst, `,"result":`...), result...), '}'), nil
	}
	e, ok := errors.AsType[*jsonrpc.Error](item.Err)
	if !ok {
		return nil, item.Err
	}
	return append(appendErrorObject(append(dst, `,"error":`...), e), '}'), nil
}

// appendErrorObject appends an error in its wire format (JSON-RPC 2.0, section 5.1).
func appendErrorObject(dst []byte, e *jsonrpc.Error) []byte {
	message, err := quote(strings.ToValidUTF8(e.Message, "\uFFFD"))
	if err != nil {
		message = jsonrpc.Raw(`""`)
	}
	dst = fmt.Appendf(dst, `{"code":%d,"message":%s`, e.Code, message)
	if e.Data != nil {
		dst = append(append(dst, `,"data":`...), e.Data...)
	}
	return append(dst, '}')
}
