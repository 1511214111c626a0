package streamable

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A session's events are stored in logs, one for each of its streams: number 0 has the messages
// that the server initiates, the others have the responses to POSTs. Handlers append to a log; the
// goroutine of an HTTP request that is a stream follows the log and writes. So a handler does not
// notice when its client disconnects, and a client that reconnects follows from its last position.
// An event's ID is the number of its stream and its place in it: "3-17". With a Keeper, events that
// have left the log are read from the Keeper.

// An eventLog is one stream of a session. Its fields are guarded by the session's mu.
type eventLog struct {
	session *Session
	number  uint64
	// capacity 1; held from giving an event its place until it is stored and added; nil without a
	// Keeper
	turn chan struct{}

	events []event // stored, oldest first; their places are consecutive
	next   uint64  // the place of the next event; the first has 1
	sent   uint64  // the reader has written the events up to this place
	floor  uint64  // events up to this place may be missing from the Keeper
	unsent int     // bytes after sent
	closed bool    // no more events follow
	reader *reader // the request that follows the log; may be nil
	pause  bool    // the reader must end, and its client must reconnect
	// when the client must reconnect, if pause
	retryAfter time.Duration
}

type event struct {
	place uint64
	data  []byte
}

// A reader is an HTTP request that follows a log.
type reader struct {
	wake chan struct{} // capacity 1
	// the place after which it began, and up to which events were passed to it; guarded by the
	// session's mu
	from uint64
	upTo uint64
	// another reader has replaced it, or it was too slow; guarded by the session's mu
	cut bool
	out *eventstream.Writer // nil until the HTTP request begins to follow; until then guarded like cut
}

// Bounds of a log before appending has to wait: until its reader has caught up or is gone, and on
// the stream of the GET until it has a reader. The response to a POST whose client is gone accepts
// all events, and drops its oldest.
const (
	mostUnsent      = 256
	mostUnsentBytes = 1 << 20
	mostUnheard     = 64
)

// perEvent is the memory of an event in addition to its data, in bytes.
const perEvent = 64

// Send makes a log a [jsonrpc.Sink]. It waits for room until ctx ends.
func (l *eventLog) Send(ctx context.Context, payload []byte) error {
	s := l.session
	s.noteQuestion(l, payload)
	for {
		if err := l.take(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		if s.ended || l.closed {
			s.mu.Unlock()
			l.pass()
			return jsonrpc.ErrClosed
		}
		if l.roomLocked() {
			ok := l.addLocked(ctx, payload)
			s.mu.Unlock()
			l.pass()
			if !ok {
				return jsonrpc.ErrClosed
			}
			s.server.relieve()
			return nil
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		l.pass()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// roomLocked reports whether the log has room for one more event.
func (l *eventLog) roomLocked() bool {
	behind := l.next - 1 - l.sent
	switch {
	case l.session.stuffedLocked():
		return false
	case l.reader == nil:
		return l.number != 0 || behind < mostUnheard
	}
	return behind < mostUnsent && l.unsent < mostUnsentBytes || behind == 0
}

// appendLocked adds an event and makes room for it.
func (l *eventLog) appendLocked(data []byte) {
	s := l.session
	l.events = append(l.events, event{l.next, data})
	l.next++
	l.unsent += len(data)
	s.order = append(s.order, l)
	s.bytes += len(data) + perEvent
	s.server.kept.Add(int64(len(data) + perEvent))
	s.newest = time.Now()
	s.trimLocked()
	l.wakeLocked()
}

// finish ends the log, with a last event if last is not nil.
func (l *eventLog) finish(last []byte) {
	s := l.session
	ctx := context.Background()
	if l.take(ctx) != nil {
		return // it never ends
	}
	s.mu.Lock()
	if !s.ended && !l.closed && (len(last) == 0 || l.addLocked(ctx, last)) {
		l.closed = true
		l.wakeLocked()
		l.forgetLocked()
		s.answeredLocked(l)
	}
	s.mu.Unlock()
	l.pass()
	s.server.relieve()
}

func (l *eventLog) wakeLocked() {
	if l.reader != nil {
		select {
		case l.reader.wake <- struct{}{}:
		default:
		}
	}
}

// goOnLocked wakes the goroutines that wait for room.
func (s *Session) goOnLocked() {
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// dropLocked drops the oldest event.
func (l *eventLog) dropLocked() {
	s := l.session
	e := l.events[0]
	l.events[0].data = nil
	l.events = l.events[1:]
	if e.place > l.sent {
		l.unsent -= len(e.data)
		if s.server.Keeper == nil {
			l.sent = e.place
		}
	}
	s.bytes -= len(e.data) + perEvent
	s.server.kept.Add(-int64(len(e.data) + perEvent))
	l.forgetLocked()
}

// forgetLocked removes a log that has ended and has no unread events.
func (l *eventLog) forgetLocked() {
	if l.closed && len(l.events) == 0 && l.reader == nil && l.session.server.Keeper == nil {
		delete(l.session.logs, l.number)
	}
}

// trimLocked drops the oldest events above the bounds, up to the first that a reader is about to
// write.
func (s *Session) trimLocked() {
	maxEvents, maxBytes := s.bounds()
	for (len(s.order) > maxEvents || s.bytes > maxBytes) && !s.stuckLocked() {
		l := s.order[0]
		s.order[0] = nil
		s.order = s.order[1:]
		l.dropLocked()
	}
}

func (s *Session) bounds() (events, bytes int) {
	if s.server.Keeper != nil {
		return orInt(s.server.MaxEvents, mostUnsent), orInt(s.server.MaxEventBytes, mostUnsentBytes)
	}
	return orInt(s.server.MaxEvents, 1000), orInt(s.server.MaxEventBytes, 4<<20)
}

// stuffedLocked reports whether more than twice the bounds is stored because a reader is about to
// write the oldest event: then all goroutines have to wait for it. The reader has the time of one
// write.
func (s *Session) stuffedLocked() bool {
	maxEvents, maxBytes := s.bounds()
	return (len(s.order) > 2*maxEvents || s.bytes > 2*maxBytes) && s.stuckLocked()
}

// stuckLocked reports whether a reader is about to write the oldest event.
func (s *Session) stuckLocked() bool {
	if len(s.order) == 0 {
		return false
	}
	l := s.order[0]
	return l.reader != nil && l.events[0].place > l.sent
}

// cutLocked ends the reader.
func (l *eventLog) cutLocked() {
	r := l.reader
	if r == nil {
		return
	}
	r.cut = true
	if r.out != nil {
		r.out.Stop()
	}
	l.wakeLocked()
	l.reader = nil
	l.session.goOnLocked()
}

// relieve makes room for new events when all sessions together store too much.
func (s *Server) relieve() {
	most := s.EventMemory
	if most <= 0 {
		most = 256 << 20
	}
	for s.kept.Load() > most {
		var oldest *Session
		var since time.Time
		s.mu.RLock()
		for _, n := range s.sessions {
			n.mu.Lock()
			if len(n.order) > 0 && !n.stuckLocked() && (oldest == nil || n.newest.Before(since)) {
				oldest, since = n, n.newest
			}
			n.mu.Unlock()
		}
		s.mu.RUnlock()
		if oldest == nil {
			return // the reader is about to write all of it
		}
		oldest.dropSent()
	}
}

// dropSent drops all events up to the first that a reader is about to write.
func (s *Session) dropSent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 && !s.stuckLocked() {
		l := s.order[0]
		s.order[0] = nil
		s.order = s.order[1:]
		l.dropLocked()
	}
}

// id returns the ID of an event on the wire.
func (l *eventLog) id(place uint64) string {
	return strconv.FormatUint(l.number, 10) + "-" + strconv.FormatUint(place, 10)
}

// parseEventID parses the ID of an event.
func parseEventID(text string) (number, place uint64, ok bool) {
	a, b, ok := strings.Cut(text, "-")
	if !ok {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	place, err = strconv.ParseUint(b, 10, 64)
	return number, place, err == nil
}

// begin starts a reader that newLog has attached. It returns false if the reader is no longer
// needed.
func (l *eventLog) begin(r *reader, out *eventstream.Writer) bool {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	r.out = out
	return !r.cut
}

// attachLocked makes r the reader, starting after the event at place.
func (l *eventLog) attachLocked(r *reader, place uint64) {
	r.from = place
	l.reader, l.sent, l.unsent, l.pause = r, place, 0, false
	l.session.goOnLocked()
	for _, e := range l.events {
		if e.place > place {
			l.unsent += len(e.data)
		}
	}
}

// wasSentLocked reports whether the event at place was sent to the current reader.
func (l *eventLog) wasSentLocked(place uint64) bool {
	return place > l.reader.from && place <= l.reader.upTo
}

// hasLocked reports whether all events after the one at place are still stored.
func (l *eventLog) hasLocked(place uint64) bool {
	if place >= l.next {
		return false
	}
	return l.next-1-place <= uint64(len(l.events)) || l.session.server.Keeper != nil && place >= l.floor
}

// place returns the place up to which the reader has written.
func (l *eventLog) place() uint64 {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	return l.sent
}

// detach reverses attachLocked.
func (l *eventLog) detach(r *reader) {
	s := l.session
	s.mu.Lock()
	if l.reader == r {
		l.reader = nil
		l.forgetLocked()
		s.trimLocked()
		s.goOnLocked()
	}
	s.mu.Unlock()
	s.server.relieve()
}

// Bounds of a single write.
const (
	burstEvents = 64
	burstBytes  = 256 << 10
)

// burstLocked collects the next events for the reader, and reports whether they are the end of the
// log.
func (l *eventLog) burstLocked(dst []eventstream.Event) (events []eventstream.Event, size int, last bool) {
	first := len(l.events) - int(l.next-1-l.sent)
	for _, e := range l.events[first:] {
		if len(dst) == burstEvents || size > burstBytes {
			return dst, size, false
		}
		dst = append(dst, eventstream.Event{ID: l.id(e.place), Data: e.data})
		size += len(e.data)
	}
	return dst, size, l.closed
}

// follow writes the log to r until its end, or until the reader must end or its client is gone. It
// finishes the writer.
func (l *eventLog) follow(ctx context.Context, r *reader) {
	defer l.detach(r)
	s := l.session
	var events []eventstream.Event
	for {
		s.mu.Lock()
		if r.cut || s.ended {
			s.mu.Unlock()
			break
		}
		if l.missingLocked() {
			s.mu.Unlock()
			if !l.catchUp(ctx, r) {
				return
			}
			continue
		}
		var last bool
		var size int
		events, size, last = l.burstLocked(events[:0])
		r.upTo = max(r.upTo, l.sent+uint64(len(events)))
		pause := l.pause && len(events) == 0
		l.pause = l.pause && !pause
		retryAfter := l.retryAfter
		s.mu.Unlock()
		switch {
		case last:
			_ = r.out.Finish(events...) // if the client is gone, it may reconnect
			return
		case len(events) > 0:
			if r.out.Send(ctx, events...) != nil {
				_ = r.out.Finish() // it failed already
				return
			}
			l.wrote(r, len(events), size)
			clear(events) // the log may drop them while the reader waits
			continue
		case pause:
			_ = r.out.SetRetry(ctx, retryAfter) // if the client is gone, it may reconnect
			_ = r.out.Finish()
			return
		}
		select {
		case <-r.wake:
			continue
		case <-ctx.Done():
		}
		break
	}
	_ = r.out.Finish() // nothing was added
}

// wrote advances the position of the reader after a write.
func (l *eventLog) wrote(r *reader, events, size int) {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.reader != r {
		return
	}
	l.sent += uint64(events)
	l.unsent -= size
	s.trimLocked()
	s.goOnLocked()
}
