package httprpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Batch posts all items in one array and returns when the answer is in; each item then has its own result or error
// (JSON-RPC 2.0, section 6). The error is nil unless the batch as a whole failed; then all items without an answer have it too.
// An item that cannot be encoded fails the batch before anything is sent. An empty batch sends nothing.
//
// A server that does not take arrays says so with one -32600, or with HTTP status 400, 415, 422 or 501. It gets the items as single
// calls then, Options.Parallel at once and in no order, and so does every later batch. JSON-RPC 1.0 has no batches, so there it is single calls at once.
func (c *Client) Batch(ctx context.Context, items []jsonrpc.Item) error {
	for i := range items {
		items[i].Err = nil
	}
	if c.o.Version == jsonrpc.Version1 || c.singles.Load() {
		return c.oneByOne(ctx, items)
	}
	if len(items) == 0 {
		return nil // an empty array is an error for every server
	}
	b := batch{client: c, items: items}
	body, err := b.encode()
	if err != nil {
		return err
	}
	err = b.send(ctx, body)
	if refusesArrays(err) && b.came == 0 {
		if c.o.Parallel < 0 {
			err = fmt.Errorf("%w: %w", jsonrpc.ErrBatchRefused, err)
		} else if err := c.oneByOne(ctx, items); err != nil || b.understood() {
			c.singles.Store(err == nil)
			return err
		}
	}
	return b.settle(err)
}

// refusesArrays reports whether a batch failed in a way that single calls may not.
func refusesArrays(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch status.Status {
		case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusNotImplemented:
			return true
		}
		return false
	}
	return errors.Is(err, jsonrpc.ErrInvalidRequest)
}

// A batch is one array under way.
type batch struct {
	client *Client
	items  []jsonrpc.Item
	ids    []jsonrpc.ID // by index; zero for notifications and what was not sent
	index  map[jsonrpc.ID]int
	left   int   // calls without an answer
	came   int   // answers that came
	blind  error // an error in the array that names no call
}

var (
	errDouble = errors.New("httprpc: two items of a batch have the same id")
	errOn     = errors.New("httprpc: an item of a batch cannot have On")
)

// encode returns the array. An item that cannot be sent fails the batch, and has the error.
func (b *batch) encode() ([]byte, error) {
	b.ids = make([]jsonrpc.ID, len(b.items))
	b.index = make(map[jsonrpc.ID]int, len(b.items))
	body := make([]byte, 0, 128*len(b.items)+2)
	for i := range b.items {
		var err error
		if body, err = b.add(append(body, ','), i); err != nil {
			b.items[i].Err = err
			return nil, err
		}
	}
	body[0] = '['
	return append(body, ']'), nil
}

func (b *batch) add(body []byte, i int) ([]byte, error) {
	item := &b.items[i]
	id := item.ID
	switch {
	case item.On != nil:
		return nil, errOn
	case item.Notify:
		id = jsonrpc.ID{}
	case id.IsZero():
		id = jsonrpc.IntID(b.client.ids.Add(1))
	}
	if _, double := b.index[plainID(id)]; double && !item.Notify {
		return nil, errDouble
	}
	body, err := appendItem(body, b.client.o.Version, id, item)
	if err != nil {
		return nil, fmt.Errorf("httprpc: %s: %w", item.Method, err)
	}
	if !item.Notify {
		b.ids[i], b.index[plainID(id)] = id, i
		b.left++
	}
	return body, nil
}

func (b *batch) send(ctx context.Context, body []byte) error {
	k, err := b.client.begin(ctx, false)
	if err != nil {
		return err
	}
	defer k.end()
	in := inbox{client: b.client, call: k, take: b.take}
	answer, err := b.client.post(k, body, nil)
	if b.left == 0 {
		return in.notified(answer, err)
	}
	return in.answered(answer, err)
}

// take gives an answer to its item.
func (b *batch) take(m *jsonrpc.Message, array bool) (done bool, err error) {
	i, ok := b.index[plainID(m.ID)]
	switch {
	case ok && !b.ids[i].IsZero():
		b.ids[i] = jsonrpc.ID{}
		b.left--
		b.came++
		b.items[i].Err = m.Decode(b.items[i].Result)
	case m.ID.IsNull() && m.Error != nil && !array:
		return true, m.Decode(nil) // it is about the batch
	case m.ID.IsNull() && m.Error != nil:
		b.blind = m.Decode(nil)
	default:
		b.client.report("answer with an unknown id in a batch", nil)
	}
	return b.left == 0, nil
}

// settle gives every call without an answer its error, and returns the batch's.
func (b *batch) settle(err error) error {
	if err == nil && b.left == 0 {
		return nil
	}
	missing := err
	if missing == nil || b.came > 0 && errors.Is(err, jsonrpc.ErrBadResponse) {
		missing = fmt.Errorf("%w: none of the batch's has this id", jsonrpc.ErrBadResponse)
		if b.left == 1 && b.blind != nil {
			missing = b.blind // there is only one call that it can be about
		}
	}
	for i := range b.items {
		if !b.ids[i].IsZero() {
			b.items[i].Err = missing
		}
	}
	if b.came > 0 && errors.Is(err, jsonrpc.ErrBadResponse) {
		return nil // the batch worked, some of its answers are missing
	}
	return err
}

// understood reports whether the server answered one of the single calls with JSON-RPC: then arrays were all that it minded.
func (b *batch) understood() bool {
	for i := range b.items {
		if _, status := errors.AsType[*StatusError](b.items[i].Err); !status {
			return true
		}
	}
	return false
}

// oneByOne sends the items as single calls. The error is that of ctx or of a closed Client.
func (c *Client) oneByOne(ctx context.Context, items []jsonrpc.Item) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(max(c.o.Parallel, 1), len(items)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				if items[i].On != nil {
					items[i].Err = errOn
					continue
				}
				_ = c.Do(ctx, &items[i]) // it is in the item
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
