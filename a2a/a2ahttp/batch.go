package a2ahttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Batch implements [a2a.Link]. The official SDKs (a2a-go 2.3.1, a2a-js 1.3.0) answer an array with one error and id null; such an agent is
// remembered.
func (l *link) Batch(ctx context.Context, items []jsonrpc.Item) error {
	if len(items) == 0 {
		return nil
	}
	if l.singles.Load() {
		return oneByOne(ctx, l, l.o.Parallel, items)
	}
	came, err := l.array(ctx, items)
	if came == 0 && refuses(err) {
		l.singles.Store(true)
		return oneByOne(ctx, l, l.o.Parallel, items)
	}
	missing := err
	if missing == nil {
		missing = fmt.Errorf("%w: none of the batch's has this id", jsonrpc.ErrBadResponse)
	}
	for i := range items {
		if errors.Is(items[i].Err, errNoAnswer) {
			items[i].Err = missing
		}
	}
	return err
}

var errNoAnswer = errors.New("a2ahttp: no answer yet")

// refuses reports whether an agent does not take arrays.
func refuses(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch status.Status {
		case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusNotImplemented:
			return true
		}
		return false
	}
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && (e.Code == jsonrpc.CodeInvalidRequest || e.Code == jsonrpc.CodeInvalidParams || e.Code == jsonrpc.CodeParseError)
}

// array posts all items as one. came counts the answers; the error is for the array as a whole.
func (l *link) array(ctx context.Context, items []jsonrpc.Item) (came int, err error) {
	ctx, end, err := l.begin(ctx, false)
	if err != nil {
		return 0, err
	}
	defer end(nil)
	body := []byte{'['}
	index := map[jsonrpc.ID]int{}
	for i := range items {
		id := jsonrpc.IntID(l.ids.Add(1))
		index[id] = i
		items[i].Err = errNoAnswer
		if i > 0 {
			body = append(body, ',')
		}
		if body, err = jsonrpc.AppendRequest(body, jsonrpc.Version2, id, items[i].Method, items[i].Params); err != nil {
			return 0, err
		}
	}
	req := l.request(ctx, http.MethodPost, l.url, append(body, ']'), "application/json")
	req.Header.Set("Content-Type", "application/json")
	answer, err := l.http.Do(req)
	if err != nil {
		return 0, failed(ctx, err)
	}
	defer answer.Body.Close()
	in := inbox{l: l, ctx: ctx, end: end}
	err = in.read(answer, func(data []byte, _ int64, _ bool) error {
		var whole error
		if e := jsonrpc.Scan(data, func(m *jsonrpc.Message) {
			i, ok := index[m.ID]
			switch {
			case m.Request || m.Bad != nil:
			case ok:
				delete(index, m.ID)
				came++
				items[i].Err = m.Decode(items[i].Result)
			case m.ID.IsNull() && m.Error != nil:
				whole = m.Decode(nil)
			}
		}); e != nil {
			return fmt.Errorf("%w: %w", jsonrpc.ErrBadResponse, errors.New(e.Message))
		}
		if came > 0 {
			return nil
		}
		return whole
	})
	return came, err
}

// oneByOne makes single calls of the items.
func oneByOne(ctx context.Context, l a2a.Link, parallel int, items []jsonrpc.Item) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(parallel, len(items)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				_ = l.Do(ctx, &items[i]) // it is in the item
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
