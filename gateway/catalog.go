package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/da1ed7bb/parley/internal/x/glob"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// Bounds of what one MCP server may list.
const (
	maxListed      = 1000     // entries of one list; further ones are left out
	maxListedPages = 100      // pages of one list
	maxListedEntry = 64 << 10 // bytes of one entry; longer ones are left out
	listTime       = 10 * time.Second
	keepLists      = 24 * time.Hour // of a server that is down
	refreshLists   = 5 * time.Minute
	defaultTTL     = time.Minute // of lists whose server names none
)

// An offer is what one MCP server offers, as it listed it at one time. It never changes.
type offer struct {
	version      mcp.Version
	capabilities mcp.ServerCapabilities
	at           time.Time
	ttl          time.Duration // how long clients may store the lists
	lists        [mcp.ListOfTemplates + 1][]offered
	sum          [32]byte // of the lists
}

// An offered is one entry of a list, with its original name.
type offered struct {
	name     string // or the URI, or the URI template
	text     jsonrpc.Raw
	headers  []mcp.HeaderParam
	template *mcp.URITemplate // of a template
	asTask   bool             // a tool that must be called as a task of 2025-11-25
	digest   string           // of a tool or a prompt, for its pin
}

// fetchOffer lists everything that a server offers. left is called with what was left out.
func fetchOffer(ctx context.Context, c *mcp.Client, left func(error)) (*offer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTime, errTimeout)
	defer cancel()
	o := &offer{version: c.Version(), capabilities: c.ServerCapabilities(), at: time.Now(), ttl: -1}
	has := map[mcp.ListKind]bool{
		mcp.ListOfTools:     o.capabilities.Tools != nil,
		mcp.ListOfPrompts:   o.capabilities.Prompts != nil,
		mcp.ListOfResources: o.capabilities.Resources != nil,
		mcp.ListOfTemplates: o.capabilities.Resources != nil,
	}
	sum := sha256.New()
	for _, kind := range mcp.ListKinds() {
		if !has[kind] {
			continue
		}
		if err := o.fetchList(ctx, c, kind, left); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.Method(), err)
		}
		for _, e := range o.lists[kind] {
			fmt.Fprintf(sum, "%d %d ", kind, len(e.text))
			sum.Write(e.text)
		}
	}
	sum.Sum(o.sum[:0])
	if o.ttl < 0 {
		o.ttl = defaultTTL
	}
	return o, nil
}

// fetchList fetches all pages of one list.
func (o *offer) fetchList(ctx context.Context, c *mcp.Client, kind mcp.ListKind, left func(error)) error {
	cursor := ""
	for range maxListedPages {
		params := jsonrpc.Raw("{}")
		if cursor != "" {
			params = append(jsonrpc.AppendString([]byte(`{"cursor":`), cursor), '}')
		}
		page, err := c.Invoke(ctx, kind.Method(), params, nil)
		if errors.Is(err, jsonrpc.ErrMethodNotFound) {
			return nil // many servers have resources but no templates
		}
		if err != nil {
			return err
		}
		var next struct {
			Cursor *string `json:"nextCursor"`
			TTLMs  *int64  `json:"ttlMs"`
		}
		if err := page.Decode(&next); err != nil {
			return err
		}
		if next.TTLMs != nil {
			if ttl := time.Duration(min(max(*next.TTLMs, 0), keepLists.Milliseconds())) * time.Millisecond; o.ttl < 0 || ttl < o.ttl {
				o.ttl = ttl
			}
		}
		for text := range memberIn(page, kind.Member()).Elements() {
			if len(o.lists[kind]) >= maxListed {
				left(fmt.Errorf("%s: more than %d entries", kind.Method(), maxListed))
				return nil
			}
			e, err := readOffered(kind, text)
			if err != nil {
				left(fmt.Errorf("%s: %w", kind.Method(), err))
				continue
			}
			o.lists[kind] = append(o.lists[kind], e)
		}
		if next.Cursor == nil || *next.Cursor == "" || *next.Cursor == cursor {
			return nil
		}
		cursor = *next.Cursor
	}
	left(fmt.Errorf("%s: more than %d pages", kind.Method(), maxListedPages))
	return nil
}

var nameMembers = [...]string{mcp.ListOfTools: "name", mcp.ListOfPrompts: "name", mcp.ListOfResources: "uri", mcp.ListOfTemplates: "uriTemplate"}

// readOffered checks one entry of a list.
func readOffered(kind mcp.ListKind, text jsonrpc.Raw) (e offered, err error) {
	name, ok := stringIn(memberIn(text, nameMembers[kind]))
	switch {
	case !ok || name == "":
		return e, fmt.Errorf("an entry without a %s", nameMembers[kind])
	case len(text) > maxListedEntry:
		return e, fmt.Errorf("%.64q is longer than %d KiB", name, maxListedEntry>>10)
	}
	e.name, e.text = name, text.Clone()
	if _, ok := pinKinds[kind]; ok {
		e.digest = digestOf(e.text)
	}
	switch kind {
	case mcp.ListOfTools:
		schema := memberIn(text, "inputSchema")
		if len(schema) == 0 || schema[0] != '{' {
			return e, fmt.Errorf("tool %.64q has no input schema", name)
		}
		if e.headers, err = mcp.HeaderParams(schema); err != nil {
			return e, fmt.Errorf("tool %.64q: %w", name, err)
		}
		support, _ := stringIn(memberIn(memberIn(text, "execution"), "taskSupport"))
		e.asTask = support == "required"
	case mcp.ListOfTemplates:
		if e.template, err = mcp.ParseURITemplate(name); err != nil {
			return e, fmt.Errorf("template %.64q: %w", name, err)
		}
	}
	return e, nil
}

// An owner is where a name of a set leads.
type owner struct {
	server *mcpServer
	offer  *offer
	entry  *offered // nil for a resource that is in no list
	name   string   // the original name or URI
}

// A catalog is what a set offers at one time: the offers of its servers, with the names that
// clients see. It never changes.
type catalog struct {
	id          string   // of this content
	plan        *setPlan // from which it was made
	offers      []*offer
	lists       [mcp.ListOfTemplates + 1][]mcp.Entry
	owners      [mcp.ListOfTemplates + 1][]owner // of the entries of lists
	byName      [mcp.ListOfTemplates + 1]map[string]int
	unavailable []string // servers that were not heard of yet
	ttl         time.Duration
	hidden      []string // names that collide
	accepted    uint64   // the version of the pins

	// the servers of tools and prompts that wait for approval, by the names that clients would see
	unapproved [mcp.ListOfTemplates + 1]map[string]string
}

// pinKinds are the lists whose entries are pinned.
var pinKinds = map[mcp.ListKind]string{mcp.ListOfTools: pinTool, mcp.ListOfPrompts: pinPrompt}

// pinned returns what of an offer is pinned.
func (o *offer) pinned(instructions string) (list []pinned) {
	for kind, name := range pinKinds {
		for i := range o.lists[kind] {
			e := &o.lists[kind][i]
			list = append(list, pinned{pinKey{name, e.name}, e.text})
		}
	}
	if instructions != "" {
		list = append(list, pinned{pinKey{pinInstructions, ""}, quoted(instructions)})
	}
	return list
}

// newCatalog merges the offers of servers, in their order. An offer is nil if the server was not
// heard of.
func newCatalog(servers []*mcpServer, offers []*offer, noPrefix bool) *catalog {
	c := &catalog{offers: offers, ttl: -1}
	sum := sha256.New()
	for kind := range c.byName {
		c.byName[kind], c.unapproved[kind] = map[string]int{}, map[string]string{}
	}
	for i, s := range servers {
		o := offers[i]
		if o == nil {
			c.unavailable = append(c.unavailable, s.name)
			fmt.Fprintf(sum, "%s is unavailable\n", s.name)
			continue
		}
		if c.ttl < 0 || o.ttl < c.ttl {
			c.ttl = o.ttl
		}
		fmt.Fprintf(sum, "%s %x %v\n", s.name, o.sum, noPrefix)
		for _, kind := range mcp.ListKinds() {
			for j := range o.lists[kind] {
				c.add(kind, owner{s, o, &o.lists[kind][j], o.lists[kind][j].name}, noPrefix)
			}
		}
	}
	if c.ttl < 0 {
		c.ttl = 0
	}
	for kind := range c.unapproved {
		for _, name := range slices.Sorted(maps.Keys(c.unapproved[kind])) {
			fmt.Fprintf(sum, "%d %q waits\n", kind, name)
		}
	}
	c.id = hex.EncodeToString(sum.Sum(nil)[:12])
	return c
}

// add adds one entry under the name that clients see.
func (c *catalog) add(kind mcp.ListKind, o owner, noPrefix bool) {
	name := o.name
	switch kind {
	case mcp.ListOfTools, mcp.ListOfPrompts:
		if kind == mcp.ListOfTools && !o.server.admits(o.name) {
			return
		}
		if !noPrefix {
			name = exposedName(o.server.name, o.name)
		}
	case mcp.ListOfResources:
		if _, taken := c.byName[kind][name]; taken {
			name = wrapURI(o.server.name, o.name)
		}
	}
	if k, ok := pinKinds[kind]; ok && !o.server.pins.accepts(o.server.name, pinKey{k, o.name}, o.entry.digest) {
		if _, taken := c.byName[kind][name]; !taken {
			c.unapproved[kind][name] = o.server.name
		}
		return
	}
	if _, taken := c.byName[kind][name]; taken {
		c.hidden = append(c.hidden, fmt.Sprintf("%s of %s: another one is named %s", o.name, o.server.name, name))
		return
	}
	text := o.entry.text
	if name != o.name {
		text = withMember(text, nameMembers[kind], quoted(name))
	}
	c.byName[kind][name] = len(c.lists[kind])
	c.lists[kind] = append(c.lists[kind], mcp.Entry{Name: name, Text: text, Headers: o.entry.headers})
	c.owners[kind] = append(c.owners[kind], o)
}

// find returns the owner of a name of a list.
func (c *catalog) find(kind mcp.ListKind, name string) (owner, *mcp.Entry, bool) {
	i, ok := c.byName[kind][name]
	if !ok {
		return owner{}, nil, false
	}
	return c.owners[kind][i], &c.lists[kind][i], true
}

// admits reports whether the configuration makes a tool visible.
func (s *mcpServer) admits(tool string) bool {
	u := &s.entry.Upstream
	return (u.AllowTools == nil || glob.Any(u.AllowTools, tool)) && !glob.Any(u.DenyTools, tool)
}
