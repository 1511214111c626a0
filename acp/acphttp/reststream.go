package acphttp

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/guard"
)

// stream sends the events of a run after a number, until the run ends or awaits input. It returns
// the error that ended the stream. If the server caused it, the client has already received it.
func (v *visit) stream(id string, after int64) error {
	events := v.NewStream()
	err := events.Open(v.ctx) // the run may be silent for long
	if err == nil {
		_, err = v.server.Follow(v.ctx, id, after, func(page []acp.Record) error {
			out := make([]eventstream.Event, len(page))
			for i, record := range page {
				out[i] = eventstream.Event{ID: strconv.FormatInt(record.Seq, 10), Data: record.Event}
			}
			return events.Send(v.ctx, out...)
		})
	}
	if public, ok := errors.AsType[*acp.Error](err); ok {
		return errors.Join(err, events.Finish(eventstream.Event{Data: errorEvent(public)}))
	}
	return errors.Join(err, events.Finish())
}

// errorEvent returns the event that reports a failed stream.
func errorEvent(e *acp.Error) []byte {
	text, err := json.Marshal(acp.Event{Type: acp.EventError, Error: e})
	if err != nil {
		return []byte(`{"type":"error","error":{"code":"server_error","message":"Internal error"}}`)
	}
	return text
}

// events writes a list of events, or a stream if the client prefers that.
func (v *visit) events(id string) error {
	after, err := v.after()
	if err != nil {
		return err
	}
	text, _ := guard.Quality(v.r.Header["Accept"], "application/json")
	stream, named := guard.Quality(v.r.Header["Accept"], eventstream.ContentType)
	if stream > text || named && stream == text && stream > 0 {
		return v.rejoin(id, after)
	}
	if !v.Skip() {
		return nil
	}
	page, err := v.server.Events(v.ctx, id, after)
	if err != nil {
		return err
	}
	v.w.Header().Set(headerAfter, strconv.FormatInt(after, 10))
	return v.answer(http.StatusOK, acp.EventList(page))
}

// after returns the number of the last event that the client has: 0 for none.
func (v *visit) after() (int64, error) {
	if text := v.r.Header.Get("Last-Event-ID"); text != "" {
		return parseNumber("Last-Event-ID", text, 0)
	}
	return v.number("after", -1)
}

// rejoin streams a run that is active. If the run is over and no events remain, the status is 204,
// which prevents an EventSource from reconnecting (WHATWG HTML, section 9.2.2).
func (v *visit) rejoin(id string, after int64) error {
	run, err := v.server.Run(v.ctx, id)
	if err != nil {
		return err
	}
	ahead, err := v.server.Ahead(v.ctx, id, after)
	if err != nil {
		return err
	}
	v.w.Header()[headerRunID] = []string{id}
	if run.Status.Terminal() && ahead == 0 {
		v.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	_ = v.stream(id, after) // stream has reported the error
	return nil
}
