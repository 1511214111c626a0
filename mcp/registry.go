package mcp

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A registry stores values by name, in the order in which they were added. Adding one takes
// constant time; the sorted list is built when it is needed.
type registry[T any] struct {
	mu     sync.RWMutex // guards the fields below
	byName map[string]*entry[T]
	last   uint64
	sorted atomic.Pointer[[]*entry[T]] // by seq; nil after a change. Stored with mu held
}

// An entry is one value, with its JSON text for each version, built when it is first needed.
type entry[T any] struct {
	name  string
	seq   uint64
	value T
	text  func(v Version) jsonrpc.Raw
	made  [V20260728 + 1]atomic.Pointer[jsonrpc.Raw]
}

// textFor returns the text of the entry for a peer of version v.
func (e *entry[T]) textFor(v Version) jsonrpc.Raw {
	if made := e.made[v].Load(); made != nil {
		return *made
	}
	text := e.text(v)
	e.made[v].Store(&text)
	return text
}

// put adds an entry. An entry of the same name is replaced and its position retained.
func (g *registry[T]) put(name string, value T, text func(Version) jsonrpc.Raw) {
	e := &entry[T]{name: name, value: value, text: text}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byName == nil {
		g.byName = map[string]*entry[T]{}
	}
	if old := g.byName[name]; old != nil {
		e.seq = old.seq
	} else {
		g.last++
		e.seq = g.last
	}
	g.byName[name] = e
	g.sorted.Store(nil)
}

// remove removes the named entries, and reports whether there were any.
func (g *registry[T]) remove(names ...string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := false
	for _, name := range names {
		if _, ok := g.byName[name]; ok {
			found = true
			delete(g.byName, name)
		}
	}
	if found {
		g.sorted.Store(nil)
	}
	return found
}

// find is like get, for a name in a borrowed buffer.
func (g *registry[T]) find(name []byte) (T, bool) {
	g.mu.RLock()
	e := g.byName[string(name)]
	g.mu.RUnlock()
	if e == nil {
		var none T
		return none, false
	}
	return e.value, true
}

func (g *registry[T]) get(name string) (T, bool) {
	g.mu.RLock()
	e := g.byName[name]
	g.mu.RUnlock()
	if e == nil {
		return *new(T), false
	}
	return e.value, true
}

func (g *registry[T]) len() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.byName)
}

// list returns all entries, oldest first. The slice must not be changed.
func (g *registry[T]) list() []*entry[T] {
	if l := g.sorted.Load(); l != nil {
		return *l
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := make([]*entry[T], 0, len(g.byName))
	for _, e := range g.byName {
		l = append(l, e)
	}
	slices.SortFunc(l, func(a, b *entry[T]) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
	g.sorted.Store(&l)
	return l
}

// A page is one page of a list on the wire.
type page struct {
	member string
	items  []jsonrpc.Raw
	next   string // "" on the last page
}

// AppendJSON appends the page as a result to dst.
func (p *page) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(jsonrpc.AppendString(append(dst, '{'), p.member), ':', '[')
	for i, item := range p.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, item...)
	}
	dst = append(dst, ']')
	if p.next != "" {
		dst = jsonrpc.AppendString(append(dst, `,"nextCursor":`...), p.next)
	}
	return append(dst, '}'), nil
}

// cursorOf returns a cursor: a list, 0 for the server's and 1 for the session's, and the number of
// the last entry on the page. The next page starts after that entry, so that added and removed
// entries do not shift it.
func cursorOf(list int, seq uint64) string {
	return string(rune('a'+list)) + strconv.FormatUint(seq, 36)
}

// placeOf parses a cursor. A nil cursor means the beginning.
func placeOf(cursor jsonrpc.Raw) (list int, after uint64, err error) {
	if cursor == nil || isNull(cursor) {
		return 0, 0, nil
	}
	text, ok := textOf(cursor)
	if !ok || !strings.HasPrefix(text, "a") && !strings.HasPrefix(text, "b") {
		return 0, 0, invalidParams("cursor was not issued by this server")
	}
	after, perr := strconv.ParseUint(text[1:], 36, 64)
	if perr != nil {
		return 0, 0, invalidParams("cursor was not issued by this server")
	}
	return int(text[0] - 'a'), after, nil
}

// listPage returns one page of the lists, with at most size entries that are visible.
func listPage[T any](member string, cursor jsonrpc.Raw, size int, v Version, visible func(name string) bool, lists ...*registry[T]) (*page, error) {
	at, after, err := placeOf(cursor)
	if err != nil {
		return nil, err
	}
	p := &page{member: member}
	var lastList int
	var lastSeq uint64
	for ; at < len(lists); at, after = at+1, 0 {
		if lists[at] == nil {
			continue
		}
		all := lists[at].list()
		start, _ := slices.BinarySearchFunc(all, after+1, func(e *entry[T], seq uint64) int {
			if e.seq < seq {
				return -1
			} else if e.seq > seq {
				return 1
			}
			return 0
		})
		for _, e := range all[start:] {
			if at == 0 && len(lists) > 1 && lists[1] != nil {
				if _, hidden := lists[1].get(e.name); hidden {
					continue // the session has an entry of the same name
				}
			}
			if visible != nil && !visible(e.name) {
				continue
			}
			if len(p.items) == size {
				p.next = cursorOf(lastList, lastSeq)
				return p, nil
			}
			p.items = append(p.items, e.textFor(v))
			lastList, lastSeq = at, e.seq
		}
	}
	return p, nil
}
