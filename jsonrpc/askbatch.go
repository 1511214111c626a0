package jsonrpc

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Batch sends all items as one array (JSON-RPC 2.0, section 6) and waits for the answers. Each item's Err tells what
// became of it; the error is for the batch as a whole. A peer that refuses arrays is remembered, and gets the items, this time and
// from then on, as single messages, up to Limits.Parallel at once. An empty batch sends nothing.
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
		// Nothing of it was run: an answer with id null is about the array as a whole.
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
		if err != nil { // nothing was sent, or nothing can come
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
			item.Err = err
			b.free()
			return err
		}
	}
	b.bytes = append(b.bytes, ']')
	calls := slices.DeleteFunc(slices.Clone(waits), func(w *waiter) bool { return w == nil })
	if len(calls) > 0 {
		k.mu.Lock()
		k.batches = append(k.batches, calls)
		k.mu.Unlock()
		defer k.forget(calls)
	}
	err = s.Send(ctx, b.bytes)
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

// forget drops a batch from the list of those that wait.
func (k *Asker) forget(calls []*waiter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.batches = slices.DeleteFunc(k.batches, func(other []*waiter) bool { return &other[0] == &calls[0] })
}

// oneByOne sends the items as single messages.
func (k *Asker) oneByOne(ctx context.Context, s Sink, items []Item) error {
	var wait sync.WaitGroup
	places := make(chan struct{}, k.Limits.Parallel)
	for i := range items {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			_ = k.Do(ctx, s, &items[i]) // stays in the item
		})
	}
	wait.Wait()
	return nil
}
