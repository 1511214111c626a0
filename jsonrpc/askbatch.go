package jsonrpc

import (
	"context"
	"errors"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// Batch sends all items as one array (JSON-RPC 2.0, section 6) and waits for the responses. Each
// item's Err holds its result; the returned error is about the batch as a whole. If the peer
// rejects arrays, the Asker remembers that: these items, and those of later batches, are sent as
// single messages, up to Limits.Parallel at once. A rejection is an error -32600 with id null that
// cannot be about anything else that was sent (see refusal.go). After any other such error the
// items continue to wait, because some may have run. An empty batch sends nothing.
func (k *Asker) Batch(ctx context.Context, s Sink, items []Item) error {
	k.init()
	if len(items) == 0 {
		return nil
	}
	if k.single.Load() {
		return k.oneByOne(ctx, s, items)
	}
	err := k.array(ctx, s, items)
	if errors.Is(err, ErrBatchRefused) {
		// No item was run: a response with id null is about the array as a whole.
		k.single.Store(true)
		return k.oneByOne(ctx, s, items)
	}
	return err
}

func (k *Asker) array(ctx context.Context, s Sink, items []Item) (err error) {
	b := buffers.Get().(*buffer)
	b.bytes = append(b.bytes[:0], '[')
	waits := make([]*waiter, len(items))
	defer func() {
		if err != nil { // nothing was sent, or no response can arrive
			for _, w := range waits {
				if w != nil && k.take(w) {
					k.free(w)
				}
			}
		}
	}()
	for i := range items {
		item := &items[i]
		if i > 0 {
			b.bytes = append(b.bytes, ',')
		}
		if item.Notify {
			b.bytes, err = AppendNotification(b.bytes, k.Version, item.Method, item.Params)
		} else if b.bytes, err = appendCall(b.bytes, k.Version, item.Method, item.Params); err == nil {
			if waits[i], err = k.reserve(ctx, item.ID, item.Method, false); err == nil {
				b.bytes = append(waits[i].id.Append(b.bytes), '}')
			}
		}
		if err != nil {
			err = AsNotSent(err)
			item.Err = err
			b.free()
			return err
		}
	}
	b.bytes = append(b.bytes, ']')
	if k.join(waits) {
		err = sendCall(ctx, s, b.bytes)
	} else {
		err = s.Send(ctx, b.bytes)
	}
	b.free()
	if err != nil {
		return err
	}
	refused := error(nil)
	for i, w := range waits {
		if w == nil {
			continue
		}
		waits[i] = nil
		items[i].Err = k.await(ctx, w, items[i].Method, items[i].Result, nil)
		if errors.Is(items[i].Err, ErrBatchRefused) {
			refused = items[i].Err
		}
	}
	return refused
}

// join makes the calls of an array one batch before it is sent, and reports whether there are any.
func (k *Asker) join(calls []*waiter) bool {
	b := &askBatch{}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range calls {
		if w == nil {
			continue
		}
		b.calls++
		if w.waiting { // otherwise the Asker has failed
			b.left++
			w.batch = b
		}
	}
	if b.left > 0 {
		k.batches = append(k.batches, b)
	}
	return b.calls > 0
}

// oneByOne sends the items as single messages.
func (k *Asker) oneByOne(ctx context.Context, s Sink, items []Item) error {
	var wait sync.WaitGroup
	places := make(chan struct{}, k.Limits.Parallel)
	for i := range items {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			// Params and results of the user may panic. The item holds the error.
			defer rescue.Catch(nil, func(err error) { items[i].Err = err })
			_ = k.Do(ctx, s, &items[i])
		})
	}
	wait.Wait()
	return nil
}
