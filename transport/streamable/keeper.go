package streamable

import (
	"bytes"
	"context"
	"iter"

	"github.com/da1ed7bb/parley/internal/eventstream"
)

// A Keeper stores the events of sessions, for clients that reconnect. It is safe for concurrent
// use; Keep is called sequentially for the events of one stream.
type Keeper interface {
	// Keep stores an event of a session. The event is sent after that. On an error it is sent too,
	// but a client that reconnects for it, or for earlier events, may get the response that they
	// are no longer stored.
	Keep(ctx context.Context, session string, e Kept) error

	// Replay yields the stored events of one stream of a session after the place after, in order,
	// and stops after an error. If an event is missing, the events that follow it are ignored.
	Replay(ctx context.Context, session string, stream, after uint64) iter.Seq2[Kept, error]

	// Forget drops all events of a session that is over.
	Forget(session string)
}

// A Kept is a stored event.
type Kept struct {
	Stream, Place uint64 // its ID is "Stream-Place"; Place starts at 1 and increases by one
	Data          []byte // must not be changed
}

// mostAnswered bounds the number of responses of a session that a Keeper can replay.
const mostAnswered = 1000

func (n *Session) makeLog(number uint64, r *reader) *eventLog {
	l := &eventLog{session: n, number: number, next: 1, reader: r}
	if n.server.Keeper != nil {
		l.turn = make(chan struct{}, 1)
	}
	return l
}

// take waits for the turn to add events.
func (l *eventLog) take(ctx context.Context) error {
	if l.turn == nil {
		return nil
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pass releases the turn.
func (l *eventLog) pass() {
	if l.turn != nil {
		<-l.turn
	}
}

// addLocked adds an event to a log that is not over. The caller holds the turn. If there is a
// Keeper it stores the event first, and the lock is released meanwhile; addLocked returns false if
// the log is over by then.
func (l *eventLog) addLocked(ctx context.Context, payload []byte) bool {
	s := l.session
	if keeper := s.server.Keeper; keeper != nil {
		s.kept = true
		place := l.next
		s.mu.Unlock()
		// The event has its place: a cancel must not leave it half stored.
		err := keeper.Keep(context.WithoutCancel(ctx), s.ID, Kept{l.number, place, payload})
		s.mu.Lock()
		if s.ended || l.closed {
			return false
		}
		if err != nil {
			l.floor = place
		}
	}
	l.appendLocked(bytes.Clone(payload))
	return true
}

// answeredLocked drops the oldest responses if there are too many. It is called for each complete
// response.
func (n *Session) answeredLocked(l *eventLog) {
	if n.server.Keeper == nil {
		return
	}
	n.answered = append(n.answered, l.number)
	if len(n.answered) > mostAnswered {
		delete(n.logs, n.answered[0])
		n.answered = n.answered[1:]
	}
}

// missingLocked reports whether the next event for the reader has left the log.
func (l *eventLog) missingLocked() bool { return l.next-1-l.sent > uint64(len(l.events)) }

// catchUp writes to r the events that have left the log. If that is not possible it finishes the
// writer and returns false.
func (l *eventLog) catchUp(ctx context.Context, r *reader) bool {
	s := l.session
	s.mu.Lock()
	at, until := l.sent, l.next-1-uint64(len(l.events))
	s.mu.Unlock()
	var events []eventstream.Event
	size := 0
	send := func() bool {
		if len(events) == 0 {
			return true
		}
		s.mu.Lock()
		r.upTo = max(r.upTo, at)
		s.mu.Unlock()
		if r.out.Send(ctx, events...) != nil {
			_ = r.out.Finish() // it failed already
			return false
		}
		l.reached(r, at)
		events, size = events[:0], 0
		return true
	}
	for e, err := range s.server.Keeper.Replay(ctx, s.ID, l.number, at) {
		if err != nil || e.Place != at+1 {
			break
		}
		at++
		events = append(events, eventstream.Event{ID: l.id(at), Data: e.Data})
		if size += len(e.Data); (len(events) == burstEvents || size > burstBytes) && !send() {
			return false
		}
		if at == until {
			break
		}
	}
	if !send() {
		return false
	}
	if at < until {
		// if the client is gone, the error has no receiver
		_ = r.out.Finish(eventstream.Event{Type: "error", Data: lost})
		return false
	}
	return true
}

// reached advances the position to a place that was written from the Keeper.
func (l *eventLog) reached(r *reader, place uint64) {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.reader == r {
		l.sent = place
		s.trimLocked()
		s.goOnLocked()
	}
}
