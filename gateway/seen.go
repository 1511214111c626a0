package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// seenURIs stores which server a caller got a URI from: tools return links to resources that are in
// no list. Each caller has its own. The zero value is ready for use.
type seenURIs struct {
	mu     sync.Mutex // guards the fields below
	owners map[any]*seenOf
}

// Bounds of seenURIs.
const (
	maxSeen       = 10_000 // URIs of one caller; then all are forgotten
	maxSeenBytes  = 4 << 20
	maxSeenOwners = 1000
)

type seenOf struct {
	from  map[string]string // URI to server
	bytes int
	used  time.Time
}

// seenOwner returns the caller that URIs belong to: the session, or without one the principal.
func seenOwner(ctx context.Context, r *mcp.Request) any {
	if n := r.Session(); n != nil {
		return n
	}
	return principal.Of(ctx)
}

// server returns the server that a caller got a URI from, or "".
func (s *seenURIs) server(who any, uri string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owners[who]; o != nil {
		o.used = time.Now()
		return o.from[uri]
	}
	return ""
}

// note stores the URIs of resources in the result of a call.
func (s *seenURIs) note(who any, server string, result jsonrpc.Raw) {
	var uris []string
	for block := range memberIn(result, "content").Elements() {
		text := memberIn(block, "uri")
		if text == nil {
			text = memberIn(memberIn(block, "resource"), "uri")
		}
		if uri, ok := stringIn(text); ok && uri != "" {
			uris = append(uris, uri)
		}
	}
	if len(uris) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[who]
	if o == nil {
		if s.owners == nil {
			s.owners = map[any]*seenOf{}
		}
		if len(s.owners) >= maxSeenOwners {
			var oldest any
			for name, other := range s.owners {
				if oldest == nil || other.used.Before(s.owners[oldest].used) {
					oldest = name
				}
			}
			delete(s.owners, oldest)
		}
		o = &seenOf{from: map[string]string{}}
		s.owners[who] = o
	}
	o.used = time.Now()
	for _, uri := range uris {
		if len(o.from) >= maxSeen || o.bytes+len(uri) > maxSeenBytes {
			clear(o.from)
			o.bytes = 0
		}
		if _, known := o.from[uri]; !known {
			o.bytes += len(uri)
		}
		o.from[uri] = server
	}
}

// forget forgets what a caller has seen.
func (s *seenURIs) forget(who any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, who)
}

// A viewSum identifies a part of a list.
type viewSum struct{ h hash.Hash }

func newViewSum() *viewSum { return &viewSum{sha256.New()} }

func (v *viewSum) add(i int) { v.h.Write([]byte{byte(i >> 8), byte(i)}) }

func (v *viewSum) text() string { return hex.EncodeToString(v.h.Sum(nil)[:8]) }
