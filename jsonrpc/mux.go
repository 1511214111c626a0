package jsonrpc

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Mux finds the Handler of a method by its name. The zero Mux answers "Method not found" to all. Methods may be
// added while it is in use. Its Mode goes into [Answerer].
type Mux struct {
	mu    sync.Mutex // held to change table
	table atomic.Pointer[muxTable]
}

// muxTable is never changed once it is in use, so that looking up takes no lock.
type muxTable struct {
	byName map[string]muxEntry
	names  []string // in the order they were added
}

type muxEntry struct {
	handler Handler
	mode    Mode
}

// Add makes h answer method. It panics if there is a handler already, if the name is empty, or if it
// begins with "rpc.", which is reserved (JSON-RPC 2.0, section 4.3).
func (m *Mux) Add(method string, h Handler, mode ...Mode) {
	if strings.HasPrefix(method, "rpc.") {
		panic(fmt.Sprintf("jsonrpc: method %q: names that begin with rpc. are reserved", method))
	}
	m.AddReserved(method, h, mode...)
}

// AddReserved is Add for extensions such as OpenRPC's rpc.discover, which may begin with "rpc.".
func (m *Mux) AddReserved(method string, h Handler, mode ...Mode) {
	if method == "" || h == nil {
		panic("jsonrpc: a method needs a name and a handler")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := &muxTable{byName: map[string]muxEntry{}}
	if old := m.table.Load(); old != nil {
		next.byName, next.names = maps.Clone(old.byName), slices.Clone(old.names)
	}
	if _, twice := next.byName[method]; twice {
		panic(fmt.Sprintf("jsonrpc: method %q has a handler already", method))
	}
	var all Mode
	for _, one := range mode {
		all |= one
	}
	next.byName[method] = muxEntry{h, all}
	next.names = append(next.names, method)
	m.table.Store(next)
}

// Mode returns the mode that method was added with.
func (m *Mux) Mode(method string) Mode {
	if t := m.table.Load(); t != nil {
		return t.byName[method].mode
	}
	return 0
}

// All yields the methods and their handlers in the order they were added.
func (m *Mux) All() iter.Seq2[string, Handler] {
	return func(yield func(string, Handler) bool) {
		t := m.table.Load()
		if t == nil {
			return
		}
		for _, name := range t.names {
			if !yield(name, t.byName[name].handler) {
				return
			}
		}
	}
}

// Handle calls the handler of the method, or returns ErrMethodNotFound.
func (m *Mux) Handle(ctx context.Context, req *Request) (any, error) {
	if h := m.find(req.Method); h != nil {
		return h.Handle(ctx, req)
	}
	return nil, ErrMethodNotFound
}

func (m *Mux) find(method string) Handler {
	if t := m.table.Load(); t != nil {
		return t.byName[method].handler
	}
	return nil
}
