package jsonrpc

import (
	"sync"
	"sync/atomic"
)

// A nameTable keeps the method names that were seen, so that each costs one allocation in all, and what is known of them, so
// that they are looked up once. A string over a pooled buffer would change under whoever logs it.
type nameTable struct {
	known atomic.Pointer[nameIndex] // never changed once it is here
	mu    sync.Mutex                // held to replace it
}

type method struct {
	name    string
	mode    Mode
	handler Handler // what a Mux would find; nil if there is no Mux, or nothing in it
}

const (
	mostNames   = 512
	longestName = 64
)

// A nameIndex is a hash table with open addressing, at most half full. Only names that the server knows are in it, so that nobody can
// choose names which collide; for those a hash over four numbers does, at a fifth of what a map takes.
type nameIndex struct {
	slots []*method // a power of two
	names int
}

// slot is where the search for a name begins.
func (x *nameIndex) slot(name []byte) int {
	n := len(name)
	return (n + int(name[0])*5 + int(name[n/2])*17 + int(name[n-1])*31) & (len(x.slots) - 1)
}

// with returns a table that has m too.
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

// find returns what is known of the method that the checked JSON string in text names, or nil.
func (t *nameTable) find(text []byte) *method {
	x, name := t.known.Load(), text[1:len(text)-1]
	if x == nil || len(name) == 0 {
		return nil
	}
	for i := x.slot(name); ; i = (i + 1) & (len(x.slots) - 1) {
		if m := x.slots[i]; m == nil || m.name == string(name) {
			return m
		}
	}
}

// method asks Handler and Mode for what find did not find. What a Mux has under a name is kept, but a method that it does not have may
// still be added.
func (a *Answerer) method(text []byte) method {
	m := method{name: textOf(text)}
	if a.Mode != nil {
		m.mode = a.Mode(m.name)
	}
	mux, isMux := a.Handler.(*Mux)
	if isMux {
		m.handler = mux.find(m.name)
	}
	settled := m.handler != nil || !isMux && m.mode != 0
	if settled && m.name != "" && len(m.name) <= longestName && !isEscaped(text) {
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
	if m := a.names.find(text); m != nil {
		return m.mode
	}
	return a.method(text).mode
}
