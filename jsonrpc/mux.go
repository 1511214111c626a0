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

// A Mux selects the Handler of a method by its name. The zero Mux responds "Method not found" to
// every request. Methods may be added while it is in use. Set [Answerer.Mode] to its Mode.
type Mux struct {
	mu    sync.Mutex // held while table is replaced
	table atomic.Pointer[muxTable]
}

// A muxTable is never changed while it is in use, so that lookups take no lock.
type muxTable struct {
	byName map[string]muxEntry
	names  []string // in the order they were added
}

type muxEntry struct {
	handler Handler
	mode    Mode
}

// Add sets h as the handler of method. It panics if the method has a handler already, if the name
// is empty, or if it begins with "rpc.", which is reserved (JSON-RPC 2.0, section 4.3).
func (m *Mux) Add(method string, h Handler, mode ...Mode) {
	if strings.HasPrefix(method, "rpc.") {
		panic(fmt.Sprintf("jsonrpc: method %q: names that start with rpc. are reserved", method))
	}
	m.AddReserved(method, h, mode...)
}

// AddReserved is Add for extensions such as OpenRPC's rpc.discover: the name may begin with "rpc.".
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
		panic(fmt.Sprintf("jsonrpc: method %q already has a handler", method))
	}
	var all Mode
	for _, one := range mode {
		all |= one
	}
	next.byName[method] = muxEntry{h, all}
	next.names = append(next.names, method)
	m.table.Store(next)
}

// Mode returns the mode of method, as set by Add.
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
