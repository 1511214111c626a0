package httprpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Batch posts all items in one array and returns when the response has arrived; each item then has
// its own result or error (JSON-RPC 2.0, section 6). The error is nil unless the batch as a whole
// failed; then it is also the error of all items without a response. An item that cannot be encoded
// fails the batch before anything is sent. An empty batch sends nothing.
//
// A server that does not accept arrays responds with one -32600, or with HTTP status 400, 415, 422
// or 501. It then gets the items as single calls, Options.Parallel at once and in no order, and so
// does every later batch. JSON-RPC 1.0 has no batches: the items are sent as single calls at once.
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
	if refusesArrays(err) && b.came == 0 && !b.heard {
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
	ids    []jsonrpc.ID // by index; zero for notifications and for items that were not sent
	index  map[jsonrpc.ID]int
	left   int   // calls without a response
	came   int   // responses received
	heard  bool  // another message was received, a sign that an item ran
	blind  error // an error in the array that names no call
}

var (
	errDouble = errors.New("httprpc: two items of a batch have the same id")
	errOn     = errors.New("httprpc: an item of a batch cannot have On")
)

// encode returns the array. An item that cannot be sent fails the batch, and holds the error.
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
	defer func() { b.heard = in.heard }()
	if b.left == 0 {
		return in.notified(answer, err)
	}
	return in.answered(answer, err)
}

// take assigns a response to its item.
func (b *batch) take(m *jsonrpc.Message, array bool) (done bool, err error) {
	i, ok := b.index[plainID(m.ID)]
	switch {
	case ok && !b.ids[i].IsZero():
		b.ids[i] = jsonrpc.ID{}
		b.left--
		b.came++
		b.items[i].Err = m.Decode(b.items[i].Result)
	case m.ID.IsNull() && m.Error != nil && !array:
		return true, m.Decode(nil) // the error is about the batch
	case m.ID.IsNull() && m.Error != nil:
		b.blind = m.Decode(nil)
	default:
		b.client.report(ReportUnknownResponse, fmt.Errorf("it has id %.64s", m.ID))
	}
	return b.left == 0, nil
}

// settle gives every call without a response its error, and returns the error of the batch.
func (b *batch) settle(err error) error {
	if err == nil && b.left == 0 {
		return nil
	}
	missing := err
	if missing == nil || b.came > 0 && errors.Is(err, jsonrpc.ErrBadResponse) {
		missing = fmt.Errorf("%w: no call of the batch has this id", jsonrpc.ErrBadResponse)
		if b.left == 1 && b.blind != nil {
			missing = b.blind // it can only be about this call
		}
	}
	for i := range b.items {
		if !b.ids[i].IsZero() {
			b.items[i].Err = missing
		}
	}
	if b.came > 0 && errors.Is(err, jsonrpc.ErrBadResponse) {
		return nil // the batch succeeded, but some responses are missing
	}
	return err
}

// understood reports whether the server answered one of the single calls with JSON-RPC: then it
// rejected only arrays.
func (b *batch) understood() bool {
	for i := range b.items {
		if _, status := errors.AsType[*StatusError](b.items[i].Err); !status {
			return true
		}
	}
	return false
}

// oneByOne sends the items as single calls. The error is ctx's, or the error of a closed Client.
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
				// Params and results of the user may panic; the item holds the error.
				if err := rescue.Run(c.o.Report, func() { _ = c.Do(ctx, &items[i]) }); err != nil {
					items[i].Err = err
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
