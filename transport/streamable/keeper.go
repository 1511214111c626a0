package streamable

import (
	"bytes"
	"context"
	"iter"

	"github.com/da1ed7bb/parley/transport/sse"
)

// A Keeper keeps what sessions say, for clients that come back. It is safe for concurrent use; events of one stream come one after the other.
type Keeper interface {
	// Keep keeps an event of a session. It goes out after that. On an error it goes out all the same, but clients that come back for it, or
	// for what came before, may be told that it is not kept any more.
	Keep(ctx context.Context, session string, e Kept) error

	// Replay yields what is kept of one stream of a session behind the place after, in order, and stops after an error. Where something is
	// missing it does not matter what comes.
	Replay(ctx context.Context, session string, stream, after uint64) iter.Seq2[Kept, error]

	// Forget drops all of a session that is over.
	Forget(session string)
}

// A Kept is an event as it is kept.
type Kept struct {
	Stream, Place uint64 // its id is "Stream-Place"; the first of a stream has Place 1, and each one more
	Data          []byte // not to be changed
}

// mostAnswered bounds the answers of a session that can be had from a Keeper.
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

// pass is the other half of take.
func (l *eventLog) pass() {
	if l.turn != nil {
		<-l.turn
	}
}

// addLocked adds an event to a log that is not over, for which it needs the turn. If there is a Keeper it keeps the event first, and leaves
// the lock meanwhile; it reports false if the log is over by then.
func (l *eventLog) addLocked(ctx context.Context, payload []byte) bool {
	s := l.session
	if keeper := s.server.Keeper; keeper != nil {
		s.kept = true
		place := l.next
		s.mu.Unlock()
		// It has its place: a cancel must not leave it half kept.
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

// answeredLocked lets go of the oldest answers when there are too many. It is told of each that is complete.
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

// missingLocked reports whether what comes next for the reader has left the log.
func (l *eventLog) missingLocked() bool { return l.next-1-l.sent > uint64(len(l.events)) }

// catchUp writes to r what has left the log. If that cannot be done it finishes the writer and reports false.
func (l *eventLog) catchUp(ctx context.Context, r *reader) bool {
	s := l.session
	s.mu.Lock()
	at, until := l.sent, l.next-1-uint64(len(l.events))
	s.mu.Unlock()
	var events []sse.Event
	size := 0
	send := func() bool {
		if len(events) == 0 {
			return true
		}
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
		events = append(events, sse.Event{ID: l.id(at), Data: e.Data})
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
		_ = r.out.Finish(sse.Event{Type: "error", Data: lost}) // if the client is gone there is nobody to tell
		return false
	}
	return true
}

// reached moves on to a place that was written from the Keeper.
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
