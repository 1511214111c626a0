package jsonrpc

import (
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// A nameTable stores method names that were received, so that each name is allocated once, and
// their handlers and modes, so that they are looked up once. A string that shares a pooled buffer
// would change after it was logged.
type nameTable struct {
	known atomic.Pointer[nameIndex] // an index is never changed once it is stored
	mu    sync.Mutex                // held while known is replaced
}

type method struct {
	name    string
	mode    Mode
	handler Handler // the Mux's handler; nil without a Mux, or if it has none
	recent  *budget.Recent
}

const (
	mostNames   = 512
	longestName = 64
)

// A nameIndex is a hash table with open addressing, at most half full. It contains only names that
// the server has a handler or a mode for, so that a peer cannot choose names that collide. A hash
// of four numbers is sufficient for these, at a fifth of the time that a map takes.
type nameIndex struct {
	slots []*method // the length is a power of two
	names int
}

// slot returns the slot where the search for name starts.
func (x *nameIndex) slot(name []byte) int {
	n := len(name)
	return (n + int(name[0])*5 + int(name[n/2])*17 + int(name[n-1])*31) & (len(x.slots) - 1)
}

// with returns a copy of the table with m added.
func (x *nameIndex) with(m *method) *nameIndex {
	next := &nameIndex{slots: make([]*method, 8)}
	if x != nil {
		for len(next.slots) < 2*(x.names+1) {
			next.slots = make([]*method, 2*len(next.slots))
		}
		for _, old := range x.slots {
			if old != nil && old.name != m.name {
				next.put(old)
			}
		}
	}
	next.put(m)
	return next
}

func (x *nameIndex) put(m *method) {
	i := x.slot([]byte(m.name))
	for x.slots[i] != nil {
		i = (i + 1) & (len(x.slots) - 1)
	}
	x.slots[i] = m
	x.names++
}

// find returns the entry for a method name, or nil.
func (t *nameTable) find(name []byte) *method {
	x := t.known.Load()
	if x == nil || len(name) == 0 {
		return nil
	}
	for i := x.slot(name); ; i = (i + 1) & (len(x.slots) - 1) {
		if m := x.slots[i]; m == nil || m.name == string(name) {
			return m
		}
	}
}

// method looks up a method that find did not find. An entry of a Mux is stored. A method that the
// Mux does not have is not stored, because it may still be added. A name with a backslash is not
// stored either: in a message it is the start of an escape.
func (a *Answerer) method(name string, escaped bool) method {
	m := method{name: name, recent: budget.RecentOf(name)}
	if a.Mode != nil {
		m.mode = a.Mode(name)
	}
	mux, isMux := a.Handler.(*Mux)
	if isMux {
		m.handler = mux.find(name)
	}
	settled := m.handler != nil || !isMux && m.mode != 0
	if settled && name != "" && len(name) <= longestName && !escaped {
		t := &a.names
		t.mu.Lock()
		defer t.mu.Unlock()
		if known := t.known.Load(); known == nil || known.names < mostNames {
			kept := m
			t.known.Store(known.with(&kept))
		}
	}
	return m
}

func (a *Answerer) modeOf(text []byte) Mode {
	if m := a.names.find(unquoted(text)); m != nil {
		return m.mode
	}
	return a.method(textOf(text), isEscaped(text)).mode
}

// unquoted returns the bytes between the quotes of text, a checked JSON string. A name with escapes
// is never in the table in this form.
func unquoted(text []byte) []byte { return text[1 : len(text)-1] }
