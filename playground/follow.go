package playground

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

const (
	pageRows = 1000                  // rows in one notification
	breath   = 50 * time.Millisecond // how long changes other than rows are collected
)

// follow sends the page what is new: rows of the traffic, targets, questions, lessons. It returns
// when the request or the recording ends.
func (p *Playground) follow(ctx context.Context, page jsonrpc.Peer, in followParams) (followResult, error) {
	log, err := p.log(in.Log)
	if err != nil {
		return followResult{}, err
	}
	name := orDefault(in.Log, "live")
	if name != "live" {
		next, err := p.followRows(ctx, page, log, name, in)
		return followResult{next}, err
	}
	open := ctx
	ctx, cancel := context.WithCancel(open)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		p.followState(ctx, page)
	}()
	next, err := p.followRows(ctx, page, log, name, in)
	cancel()
	<-done
	if p.ctx.Err() != nil || open.Err() != nil {
		err = nil // the program is exiting, or the page has disconnected
	}
	return followResult{next}, err
}

func (p *Playground) followRows(ctx context.Context, page jsonrpc.Peer, log *capture.Log, name string, in followParams) (int64, error) {
	since := in.Since
	for first := true; ; first = false {
		changes := log.Since(since, pageRows)
		if len(changes.Rows) > 0 || changes.Reset || first {
			if err := page.Notify(ctx, "rows", rowsMessage(log, name, &changes, in.Short)); err != nil {
				return since, err
			}
		}
		since = changes.Next
		if changes.More {
			continue
		}
		err := log.Wait(ctx, since)
		if errors.Is(err, capture.ErrGone) {
			return since, nil
		}
		if err != nil {
			return since, err
		}
	}
}

// rowsMessage returns the params of "rows".
func rowsMessage(log *capture.Log, name string, page *capture.Page, short bool) jsonrpc.Raw {
	dst := append(make([]byte, 0, 256+320*len(page.Rows)), `{"log":`...)
	dst = strconv.AppendQuote(dst, name) // name is generated, and needs no JSON escapes
	if short && len(page.Rows) > 0 {
		dst = appendShort(dst, page.Rows)
	} else {
		dst = appendRows(append(dst, `,"rows":`...), page.Rows)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"next", page.Next}, {"total", int64(log.Len())}, {"memory", log.Memory()}, {"lost", log.Lost()}} {
		dst = append(append(append(dst, `,"`...), n.name...), `":`...)
		dst = strconv.AppendInt(dst, n.value, 10)
	}
	if page.Reset {
		dst = append(dst, `,"reset":true`...)
	}
	return append(dst, '}')
}

func appendRows(dst []byte, rows []capture.Row) []byte {
	dst = append(dst, '[')
	for i := range rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, _ = rows[i].AppendJSON(dst) // never fails
	}
	return append(dst, ']')
}

// followState sends the changes other than rows: each list as a whole, when it differs from the
// last one sent.
func (p *Playground) followState(ctx context.Context, page jsonrpc.Peer) {
	last := make(map[string][]byte)
	var look <-chan time.Time // at the folder of sessions, which does not report its changes
	if p.folder.dir != "" {
		tick := time.NewTicker(folderTime)
		defer tick.Stop()
		look = tick.C
	}
	for {
		changed := p.changes.next()
		for _, m := range p.state() {
			text := raw(m.params)
			if bytes.Equal(last[m.method], text) {
				continue
			}
			last[m.method] = text
			if page.Notify(ctx, m.method, text) != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-look:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(breath):
		case <-ctx.Done():
			return
		}
	}
}

type message struct {
	method string
	params any
}

func (p *Playground) state() []message {
	list := []message{
		{"targets", targetsResult{p.targetViews()}},
		{"questions", map[string][]questionView{"questions": p.questionViews()}},
	}
	if p.folder.dir != "" {
		list = append(list, message{"sessions", p.storedSessions()})
	}
	if progress, ok := p.progress(); ok {
		list = append(list, message{"lesson", progress})
	}
	if file := p.configs.started(); file != nil {
		list = append(list, message{"config", file})
	}
	return list
}
