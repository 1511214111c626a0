package jsonrpc

import "fmt"

// A response with id null does not name a call. By section 5 of JSON-RPC 2.0 a peer sends one if it
// cannot read a message. Many peers send it for a message above their limits, for an array, or for
// a notification. Two rules prevent it from ending the wrong call, because a call that seems
// rejected may be made a second time:
//
//   - It must be an error with code -32600, sent as a single message and not as a member of an
//     array.
//   - It cannot be about anything else that this side has sent: exactly one call, or one batch,
//     waits. No member of the batch has its response or was given up. Every other message,
//     whether a notification, a response or a cancellation, was sent before a call that has since
//     received its response. No call was given up whose response has not arrived yet.
//
// Any other error with id null is reported and dropped. The calls then end by their own timeouts.

// An askBatch is an array of waiting calls. The Asker's mu guards it.
type askBatch struct {
	calls int // in the array
	left  int // the calls that still wait
}

// isRefusal reports whether m is an error that a peer sends in place of the response to a message
// that it rejected.
func isRefusal(m *message, payload []byte) bool {
	if m.kind != kindResponse || !m.id.IsNull() || m.err.absent() {
		return false
	}
	e, err := decodeError(m.err.of(payload), m.version)
	return err == nil && e.Code == CodeInvalidRequest
}

// refused ends the call or batch that a rejection is about, and reports whether it can be about
// only one thing. The lock is held on entry and released.
func (k *Asker) refused(m *message, payload []byte) bool {
	if k.besides == nil || k.doubts.any() || k.besides.Load() > k.doubts.proved {
		k.mu.Unlock()
		return false
	}
	waiting := k.waiting()
	batched := false
	switch {
	case len(k.batches) == 0 && len(waiting) == 1:
	case len(k.batches) == 1 && len(waiting) > 0:
		b := k.batches[0]
		if batched = b.left == b.calls && b.left == len(waiting); !batched {
			waiting = nil
		}
	default:
		waiting = nil
	}
	for _, w := range waiting {
		k.remove(w)
	}
	k.mu.Unlock()
	e, err := decodeError(m.err.of(payload), m.version)
	for _, w := range waiting {
		switch {
		case err != nil:
			w.fail = err
		case batched:
			w.fail = fmt.Errorf("%w: %w", ErrBatchRefused, e)
		default:
			w.peer = e
		}
		w.finish()
	}
	return len(waiting) > 0
}

// mostDoubts is the maximum number of given-up calls that an Asker remembers until their responses
// arrive.
const mostDoubts = 256

// doubts records what an error without an id can be about, besides the waiting calls. The Asker's
// mu guards it.
type doubts struct {
	// the number of messages that are not calls and were sent before a call that got its response
	proved uint64
	lost   map[ID]struct{} // calls that were given up and have no response yet
	many   bool            // there were too many to remember
}

// add records a call that was given up.
func (d *doubts) add(id ID) {
	if len(d.lost) >= mostDoubts || len(id.s) > 64 {
		d.many, d.lost = true, nil
	}
	if d.many {
		return
	}
	if d.lost == nil {
		d.lost = map[ID]struct{}{}
	}
	d.lost[id] = struct{}{}
}

// answered removes a given-up call whose response has arrived.
func (d *doubts) answered(id ID) { delete(d.lost, id) }

func (d *doubts) any() bool { return d.many || len(d.lost) > 0 }
