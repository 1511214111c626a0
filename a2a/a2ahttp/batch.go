package a2ahttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Batch implements [a2a.Link]. The official SDKs (a2a-go 2.3.1, a2a-js 1.3.0) respond to an array
// with one error and id null. The link remembers such an agent and sends single calls.
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
		missing = fmt.Errorf("%w: no call of the batch has this id", jsonrpc.ErrBadResponse)
	}
	for i := range items {
		if errors.Is(items[i].Err, errNoAnswer) {
			items[i].Err = missing
		}
	}
	return err
}

var errNoAnswer = errors.New("a2ahttp: no response yet")

// refuses reports whether an agent does not accept arrays.
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

// array posts all items as one array. came counts the responses; the error is for the array as a
// whole.
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
	heard := false
	err = in.read(answer, func(data []byte, _ int64, _ bool) error {
		var whole error
		if e := jsonrpc.Scan(data, func(m *jsonrpc.Message) {
			i, ok := index[m.ID]
			switch {
			case m.Request: // belongs to an item in progress
				heard = true
			case m.Bad != nil:
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
		if came > 0 || heard {
			return nil
		}
		return whole
	})
	return came, err
}

// oneByOne makes a single call for each item.
func oneByOne(ctx context.Context, l a2a.Link, parallel int, items []jsonrpc.Item) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(parallel, len(items)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				// Params and results of the user may panic; the item holds the error.
				if err := rescue.Run(nil, func() { _ = l.Do(ctx, &items[i]) }); err != nil {
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
