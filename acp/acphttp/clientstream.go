package acphttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// silence is the time in which a server that sends a comment every 15 s sends three.
const silence = 45 * time.Second

// stream creates or resumes a run and receives its events.
func (c *call) stream(ctx context.Context, path string) error {
	answer, err := c.send(ctx, http.MethodPost, path, eventstream.ContentType, c.body, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if eventstream.MediaType(answer) != eventstream.ContentType {
		return fmt.Errorf("acphttp: %w: it is %.64q, not a stream", jsonrpc.ErrBadResponse, answer.Header.Get("Content-Type"))
	}
	t := &track{call: c, id: c.in.RunID, fresh: c.item.Method == acp.MethodRunsCreate}
	if id := answer.Header.Get(headerRunID); id != "" {
		t.id = id
	}
	return t.finish(t.read(answer.Body))
}

// A track is the state of a stream that is being received.
type track struct {
	call  *call
	id    string // of the run
	last  int64  // number of the last event; 0 if the server does not send it
	fresh bool   // the stream began with the run, so that events can be counted

	run *acp.Run // from the last event, if it contains the run
}

// read receives a stream. It returns nil at its end.
func (t *track) read(body io.Reader) error {
	events := eventstream.NewReader(body, t.call.link.opts.MaxMessage)
	events.OnSilence(silence, func() { t.call.cancel(jsonrpc.ErrTimeout) })
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("acphttp: %w", err)
		case e.Type != "message" || len(e.Data) == 0:
			continue
		}
		seq, err := strconv.ParseInt(e.ID, 10, 64)
		if err != nil || seq <= 0 {
			seq = 0
		}
		raw, err := jsonrpc.ParseRaw(e.Data)
		if err != nil {
			return fmt.Errorf("acphttp: %w: an event begins with %.64q", jsonrpc.ErrBadResponse, e.Data)
		}
		if err := t.applyEvent(seq, raw); err != nil {
			return err
		}
	}
}

// applyEvent handles one event. For an error event it returns the error in it.
func (t *track) applyEvent(seq int64, raw jsonrpc.Raw) error {
	var e acp.Event
	if err := raw.Decode(&e); err != nil {
		return fmt.Errorf("acphttp: %w: %w", jsonrpc.ErrBadResponse, err)
	}
	if e.Type == acp.EventError && e.Error != nil {
		return e.Error
	}
	if t.run = e.Run; e.Run != nil && t.id == "" {
		t.id = e.Run.ID
	}
	if seq == 0 && t.fresh {
		seq = t.last + 1
	}
	t.last = seq
	params, err := (&acp.RunEvent{RunID: t.id, Seq: seq, RequestID: jsonrpc.NullID, Event: raw}).AppendJSON(nil)
	if err != nil || t.call.item.On == nil {
		return err
	}
	t.call.refused = t.call.item.On(&jsonrpc.Request{Method: acp.NotifyRunEvent, Params: params})
	return t.call.refused
}

// settled reports whether the last event is one that ends a stream.
func (t *track) settled() bool {
	return t.run != nil && (t.run.Status.Terminal() || t.run.Status == acp.RunAwaiting)
}

// finish sets the result from the last event. If the last event does not end a stream, the stream
// broke.
func (t *track) finish(err error) error {
	switch {
	case err != nil:
		return err
	case !t.settled():
		return fmt.Errorf("acphttp: %w: the stream ended before the run", jsonrpc.ErrBadResponse)
	}
	if out, ok := t.call.item.Result.(*acp.Run); ok {
		*out = *t.run
	}
	return nil
}

// events requests a list of events.
func (c *call) events(ctx context.Context, path string) error {
	list, err := c.list(ctx, path, c.in.After)
	if err != nil {
		return err
	}
	return acp.EventList(list).Decode(c.item.Result)
}

// list requests the events after a number. Servers that do not support this return all events.
func (c *call) list(ctx context.Context, path string, after int64) ([]acp.Record, error) {
	if after != 0 {
		path += "?after=" + strconv.FormatInt(after, 10)
	}
	answer, err := c.send(ctx, http.MethodGet, path, "application/json", nil, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return c.records(answer, after)
}

func (c *call) records(answer *http.Response, after int64) ([]acp.Record, error) {
	var in acp.RunEventsListResponse
	if err := c.decode(answer, &in); err != nil {
		return nil, err
	}
	first := int64(1)
	if n, err := strconv.ParseInt(answer.Header.Get(headerAfter), 10, 64); err == nil {
		first = max(n, 0) + 1
	} else if after < 0 {
		after = int64(len(in.Events))
	}
	var out []acp.Record
	for i, raw := range in.Events {
		if seq := first + int64(i); seq > after {
			out = append(out, acp.Record{Seq: seq, Event: raw})
		}
	}
	return out, nil
}

// subscribe follows a run: with a stream if the server has one, and otherwise by polling.
func (c *call) subscribe(ctx context.Context, path string) error {
	t := &track{call: c, id: c.in.RunID, last: c.in.After}
	header := http.Header{}
	query := ""
	if t.last > 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(t.last, 10))
	} else if t.last < 0 {
		query = "?" + url.Values{"after": {"-1"}}.Encode()
	}
	answer, err := c.send(ctx, http.MethodGet, path+"/events"+query, eventstream.ContentType+", application/json;q=0.5", nil, header)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNoContent:
		return c.get(ctx, path)
	case eventstream.MediaType(answer) != eventstream.ContentType:
		list, err := c.records(answer, t.last)
		if err != nil {
			return err
		}
		return c.poll(ctx, t, path, list)
	}
	if err := t.read(answer.Body); err != nil {
		return err
	}
	if t.run == nil && t.last == c.in.After {
		return c.quiet(ctx, path)
	}
	return t.finish(nil)
}

// quiet handles a stream without events: the stream of a run that awaits input.
func (c *call) quiet(ctx context.Context, path string) error {
	var run acp.Run
	if err := c.look(ctx, path, &run); err != nil {
		return err
	}
	if run.Status != acp.RunAwaiting {
		return fmt.Errorf("acphttp: %w: the stream ended before the run", jsonrpc.ErrBadResponse)
	}
	if out, ok := c.item.Result.(*acp.Run); ok {
		*out = run
	}
	return nil
}

// look requests the state of a run.
func (c *call) look(ctx context.Context, path string, run *acp.Run) error {
	answer, err := c.send(ctx, http.MethodGet, path, "application/json", nil, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return c.decode(answer, run)
}

// poll polls a server that has no such streams.
func (c *call) poll(ctx context.Context, t *track, path string, list []acp.Record) error {
	for {
		for _, record := range list {
			if err := t.applyEvent(record.Seq, record.Event); err != nil {
				return err
			}
		}
		if t.settled() {
			return t.finish(nil)
		}
		var run acp.Run
		if err := c.look(ctx, path, &run); err != nil {
			return err
		}
		var err error
		if list, err = c.list(ctx, path+"/events", max(t.last, 0)); err != nil {
			return err
		}
		if len(list) == 0 && (run.Status.Terminal() || run.Status == acp.RunAwaiting) {
			t.run = &run // all events were received before
			return t.finish(nil)
		}
		if len(list) == 0 {
			if err := pause.For(ctx, c.link.opts.Poll); err != nil {
				return err
			}
		}
	}
}
