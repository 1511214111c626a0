package acphttp

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/transport/sse"
)

// stream sends the events of a run behind a number, up to its end or its question. The error is why it broke off; if the server is to
// blame, the client was told.
func (v *visit) stream(id string, after int64) error {
	events := sse.NewWriter(v.w, &sse.WriterOptions{KeepAlive: v.opts.KeepAlive, Timeout: v.opts.WriteTimeout})
	err := events.Open(v.ctx) // the run may have nothing to say for long
	if err == nil {
		_, err = v.server.Follow(v.ctx, id, after, func(page []acp.Record) error {
			out := make([]sse.Event, len(page))
			for i, record := range page {
				out[i] = sse.Event{ID: strconv.FormatInt(record.Seq, 10), Data: record.Event}
			}
			return events.Send(v.ctx, out...)
		})
	}
	if public, ok := errors.AsType[*acp.Error](err); ok {
		return errors.Join(err, events.Finish(sse.Event{Data: errorEvent(public)}))
	}
	return errors.Join(err, events.Finish())
}

// errorEvent is the event that says that a stream failed.
func errorEvent(e *acp.Error) []byte {
	text, err := json.Marshal(acp.Event{Type: acp.EventError, Error: e})
	if err != nil {
		return []byte(`{"type":"error","error":{"code":"server_error","message":"Internal error"}}`)
	}
	return text
}

// events answers with a list, or with a stream if that is what the client likes best.
func (v *visit) events(id string) error {
	after, err := v.after()
	if err != nil {
		return err
	}
	text, _ := guard.Quality(v.r.Header["Accept"], "application/json")
	stream, named := guard.Quality(v.r.Header["Accept"], sse.ContentType)
	if stream > text || named && stream == text && stream > 0 {
		return v.rejoin(id, after)
	}
	page, err := v.server.Events(v.ctx, id, after)
	if err != nil {
		return err
	}
	v.w.Header().Set(headerAfter, strconv.FormatInt(after, 10))
	return v.answer(http.StatusOK, acp.EventList(page))
}

// after is the number of the last event that the client has: 0 for none.
func (v *visit) after() (int64, error) {
	if text := v.r.Header.Get("Last-Event-ID"); text != "" {
		return parseNumber("Last-Event-ID", text, 0)
	}
	return v.number("after", -1)
}

// rejoin streams a run that goes on. One that is over, with nothing left to say, is 204: that keeps an EventSource from asking again
// (WHATWG HTML, section 9.2.2).
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
	_ = v.stream(id, after) // the client was told, or is gone
	return nil
}
