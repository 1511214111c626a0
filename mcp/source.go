package mcp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A ListKind is one of the lists of a server.
type ListKind uint8

// The lists of a server.
const (
	ListOfTools ListKind = iota + 1
	ListOfPrompts
	ListOfResources
	ListOfTemplates
)

// ListKinds returns all kinds.
func ListKinds() []ListKind {
	return []ListKind{ListOfTools, ListOfPrompts, ListOfResources, ListOfTemplates}
}

var listWords = [...]struct{ method, member, changed string }{
	ListOfTools:     {MethodToolsList, "tools", NotifyToolsChanged},
	ListOfPrompts:   {MethodPromptsList, "prompts", NotifyPromptsChanged},
	ListOfResources: {MethodResourcesList, "resources", NotifyResourcesChanged},
	ListOfTemplates: {MethodResourceTemplatesList, "resourceTemplates", NotifyResourcesChanged},
}

// Method returns the method that requests the list, such as "tools/list".
func (k ListKind) Method() string { return listWords[k].method }

// Member returns the member of the result that has the entries, such as "tools".
func (k ListKind) Member() string { return listWords[k].member }

// Changed returns the notification about changes of the list. Resources and templates share one.
func (k ListKind) Changed() string { return listWords[k].changed }

// A Source offers tools, prompts and resources that its server does not have itself: it replaces
// everything that [AddTool] and the other methods add. Entries and results are raw JSON, so that
// what this package does not know passes unchanged. The [Server] does the rest: versions, sessions,
// pages, subscriptions, the log level, checks of headers, and the members of a result that depend
// on the version. A Source is called concurrently.
type Source interface {
	// List returns a list as the request may see it. snapshot is empty for the first page. For a
	// later page it is the Snapshot of the Listing that the first page was taken from. If that state
	// of the list is no longer known, List returns [ErrCursor].
	List(ctx context.Context, r *Request, kind ListKind, snapshot string) (*Listing, error)

	// Find returns an entry by name or URI, if the request may see it.
	Find(ctx context.Context, r *Request, kind ListKind, name string) (*Entry, bool)

	// Call handles tools/call, prompts/get, resources/read and completion/complete, and in versions
	// and for clients that have tasks the methods of tasks. r.Name is the name, the URI or the ID of
	// the task. The result is an object in the form of any version. Call may ask the client with
	// [Request.AskRaw]. Errors have the same effect as those of a [ToolFunc], except that for
	// methods other than tools/call an error that is not a *jsonrpc.Error becomes "Internal error".
	Call(ctx context.Context, r *Request) (jsonrpc.Raw, error)

	// Subscribe begins a subscription to the changes of a resource. updated is called for each of
	// them, and must not be called by Subscribe itself. stop is called once, when the client
	// unsubscribes, its session ends or its listen request ends. The subscription belongs to the
	// caller of r, which is in ctx; r is only valid until Subscribe returns.
	Subscribe(ctx context.Context, r *Request, uri string, updated func()) (stop func(), err error)
}

// A Listing is one state of a list.
type Listing struct {
	Entries []Entry // they must not change

	// Snapshot identifies this state of the list in cursors. It is at most 128 bytes long.
	Snapshot string

	Caching      // for modern clients. An empty CacheScope means CachePrivate
	Meta    Meta // the _meta of each page
}

// An Entry is one element of a list.
type Entry struct {
	Name    string        // or the URI, or the URI template
	Text    jsonrpc.Raw   // the whole element
	Headers []HeaderParam // of a tool; see [HeaderParams]
}

// ErrCursor is the response to a cursor that this server did not issue, or whose list is no longer
// known.
var ErrCursor = invalidParams("cursor was not issued by this server, or is too old")

// handleSource handles the methods of a server with a Source.
func (s *Server) handleSource(ctx context.Context, r *Request) (body any, cache *Caching, known bool, err error) {
	switch r.Method {
	case MethodToolsList:
		body, cache, err = s.listSource(ctx, r, ListOfTools)
	case MethodPromptsList:
		body, cache, err = s.listSource(ctx, r, ListOfPrompts)
	case MethodResourcesList:
		body, cache, err = s.listSource(ctx, r, ListOfResources)
	case MethodResourceTemplatesList:
		body, cache, err = s.listSource(ctx, r, ListOfTemplates)
	case MethodToolsCall, MethodPromptsGet, MethodResourcesRead, MethodComplete:
		body, err = s.callSource(ctx, r)
	case MethodTasksGet, MethodTasksCancel, MethodTasksUpdate, MethodTasksList, MethodTasksResult:
		switch {
		case r.version.Modern() && (r.Method == MethodTasksList || r.Method == MethodTasksResult),
			!r.version.Modern() && (r.Method == MethodTasksUpdate || !r.version.HasCoreTasks()):
			return nil, nil, false, nil
		case r.version.Modern() && !hasExtension(r.capabilities, ExtensionTasks):
			return nil, nil, true, needsExtension(ExtensionTasks)
		}
		body, err = s.callSource(ctx, r)
	default:
		return nil, nil, false, nil
	}
	return body, cache, true, err
}

// maxPageBytes is about the maximum size of a page of a Source's list. A page has at least one
// entry.
const maxPageBytes = 4 << 20

// listSource returns one page of a list of the Source.
func (s *Server) listSource(ctx context.Context, r *Request, kind ListKind) (any, *Caching, error) {
	snapshot, at, err := s.openCursor(ctx, r, kind)
	if err != nil {
		return nil, nil, err
	}
	list, err := s.opts.Source.List(ctx, r, kind, snapshot)
	if err != nil {
		return nil, nil, err
	}
	if at > len(list.Entries) || snapshot != "" && list.Snapshot != snapshot {
		return nil, nil, ErrCursor
	}
	p := &sourcePage{page: page{member: kind.Member()}, meta: list.Meta}
	bytes := 0
	for i := at; i < len(list.Entries); i++ {
		text := list.Entries[i].Text
		if kind == ListOfTools && !r.version.HasAnyStructure() {
			text = toolForObjects(text)
		}
		if n := len(p.items); n > 0 && (n == s.opts.PageSize || bytes+len(text) > maxPageBytes) {
			p.next = s.sealer.Seal([]byte(strconv.Itoa(i)+" "+list.Snapshot), s.cursorBinding(ctx, kind))
			break
		}
		bytes += len(text)
		p.items = append(p.items, text)
	}
	cache := list.Caching
	if cache.CacheScope != CachePublic {
		cache.CacheScope = CachePrivate
	}
	if r.version.Modern() {
		return p, &cache, nil
	}
	return p.withMeta(), nil, nil
}

// cursorBinding returns what a cursor is bound to: its list and its caller.
func (s *Server) cursorBinding(ctx context.Context, kind ListKind) []byte {
	sum := sha256.Sum256([]byte("cursor " + kind.Method() + "\n" + s.principal(ctx)))
	return sum[:]
}

// openCursor returns the snapshot and the position in a cursor.
func (s *Server) openCursor(ctx context.Context, r *Request, kind ListKind) (snapshot string, at int, err error) {
	if r.p.cursor == nil || isNull(r.p.cursor) {
		return "", 0, nil
	}
	text, ok := textOf(r.p.cursor)
	if !ok {
		return "", 0, ErrCursor
	}
	plain, err := unseal(s.sealer, text, s.cursorBinding(ctx, kind))
	if err != nil {
		return "", 0, ErrCursor
	}
	number, snapshot, _ := strings.Cut(string(plain), " ")
	at, err = strconv.Atoi(number)
	if err != nil || at < 0 || snapshot == "" {
		return "", 0, ErrCursor
	}
	return snapshot, at, nil
}

// A sourcePage is one page of a list of a Source.
type sourcePage struct {
	page
	meta Meta
}

// AppendJSON appends the page without its _meta.
func (p *sourcePage) AppendJSON(dst []byte) ([]byte, error) { return p.page.AppendJSON(dst) }

// withMeta returns the page with its _meta as a member, for a legacy client.
func (p *sourcePage) withMeta() any {
	if len(p.meta) == 0 {
		return &p.page
	}
	return &metaPage{p}
}

type metaPage struct{ *sourcePage }

// AppendJSON appends the page with its _meta.
func (p *metaPage) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"_meta":`...)
	dst, err := appendValue(dst, p.meta)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	if dst, err = p.page.AppendJSON(dst); err == nil {
		dst[start] = ','
	}
	return dst, err
}

// toolForObjects returns a tool for a client whose structured results must be objects: an output
// schema of another type is wrapped, as the result is.
func toolForObjects(text jsonrpc.Raw) jsonrpc.Raw {
	schema := lastMember(text, "outputSchema")
	if schema == nil || isObjectSchema(schema) {
		return text
	}
	wrapped := wrapSchema(schema)
	out := []byte{'{'}
	for name, value := range text.Members() {
		if string(name) == "outputSchema" {
			if value = wrapped; value == nil {
				continue
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, string(name)), ':'), value...)
	}
	return append(out, '}')
}

// isObjectSchema reports whether a schema names the type object.
func isObjectSchema(schema jsonrpc.Raw) bool {
	kind, ok := unquoted(lastMember(schema, "type"))
	return ok && string(kind) == "object"
}

// callSource passes a call to the Source.
func (s *Server) callSource(ctx context.Context, r *Request) (any, error) {
	if err := r.readTarget(); err != nil {
		return nil, err
	}
	raw, err := s.opts.Source.Call(ctx, r)
	if err != nil {
		if r.Method == MethodToolsCall {
			result, err := s.toolTrouble(ctx, r, r.Name, err)
			if err != nil {
				return nil, err
			}
			return result, nil
		}
		if errors.Is(err, errNoResource) {
			return nil, s.noResource(r.version, r.Name)
		}
		return nil, s.legacyNeed(r, err)
	}
	if !isObject(raw) {
		return nil, fmt.Errorf("mcp: %s: the result of the Source is not an object", r.Method)
	}
	if r.version.Modern() {
		return &rawResult{s: s, text: raw, caches: r.Method == MethodResourcesRead}, nil
	}
	return legacyResult(r, raw)
}

// readTarget reads the name, the URI or the task ID of a call, and its arguments.
func (r *Request) readTarget() error {
	var ok bool
	switch r.Method {
	case MethodToolsCall, MethodPromptsGet:
		if r.Name, ok = textOf(r.p.name); !ok {
			return invalidParams("name must be a string")
		}
	case MethodResourcesRead:
		if r.Name, ok = textOf(r.p.uri); !ok || r.Name == "" {
			return invalidParams("uri must be a string")
		}
	case MethodComplete:
		ref := lastMember(r.rpc.Params, "ref")
		kind, _ := textOf(lastMember(ref, "type"))
		switch kind {
		case RefPrompt:
			r.Name, ok = textOf(lastMember(ref, "name"))
		case RefResource:
			r.Name, ok = textOf(lastMember(ref, "uri"))
		default:
			return invalidParams("ref/type must be ref/prompt or ref/resource")
		}
		argument := lastMember(r.rpc.Params, "argument")
		_, named := textOf(lastMember(argument, "name"))
		_, valued := textOf(lastMember(argument, "value"))
		if !ok || !named || !valued {
			return invalidParams("completion/complete needs ref and argument")
		}
		return nil
	case MethodTasksList:
		return nil
	default:
		if r.Name, ok = textOf(lastMember(r.rpc.Params, "taskId")); !ok || r.Name == "" {
			return invalidParams("taskId must be a string")
		}
		return nil
	}
	if r.p.arguments != nil && !isNull(r.p.arguments) {
		if !isObject(r.p.arguments) {
			return invalidParams("arguments must be an object")
		}
		r.Arguments = r.p.arguments
	}
	return nil
}

// Params returns the params of the request without the members that belong to one message: _meta,
// inputResponses and requestState. It is an object, for [Client.Invoke].
func (r *Request) Params() jsonrpc.Raw {
	out := []byte{'{'}
	for name, value := range r.rpc.Params.Members() {
		switch string(name) {
		case "_meta", "inputResponses", "requestState":
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, string(name)), ':'), value...)
	}
	return append(out, '}')
}

// LogLevel returns the least severe level of messages that the client requested: by the request in
// the modern era, by logging/setLevel before. It is LevelNone if the client requested nothing;
// legacy clients then receive messages from LevelInfo on.
func (r *Request) LogLevel() Level { return r.level }

// ID returns the ID of the request, for logs.
func (r *Request) ID() jsonrpc.ID { return r.rpc.ID }

// WantsProgress reports whether the client requested the progress of the request.
func (r *Request) WantsProgress() bool { return r.p.progressToken != nil }

// Principal returns the principal that sent the request; see [ServerOptions] Principal.
func (r *Request) Principal() string { return r.server.principal(r.live) }

// A rawResult encodes a result of a Source for a modern client: without the members that the server
// writes itself.
type rawResult struct {
	s      *Server
	text   jsonrpc.Raw
	caches bool // the result has ttlMs and cacheScope
}

// AppendJSON appends the result to dst.
func (m *rawResult) AppendJSON(dst []byte) ([]byte, error) {
	kind, meta := ResultComplete, jsonrpc.Raw(nil)
	cache := Caching{CacheScope: CachePrivate}
	body := make([]byte, 0, len(m.text))
	for name, value := range m.text.Members() {
		switch string(name) {
		case "resultType":
			if text, ok := unquoted(value); ok && string(text) == ResultTask {
				kind = ResultTask
			}
			continue
		case "_meta":
			meta = value
			continue
		case "ttlMs":
			if ms, err := strconv.ParseInt(string(value), 10, 64); err == nil {
				cache.TTLMs = max(ms, 0)
			}
			if m.caches {
				continue
			}
		case "cacheScope":
			if text, ok := unquoted(value); ok && string(text) == CachePublic {
				cache.CacheScope = CachePublic
			}
			if m.caches {
				continue
			}
		}
		body = append(append(jsonrpc.AppendString(append(body, ','), string(name)), ':'), value...)
	}
	dst = jsonrpc.AppendString(append(dst, `{"resultType":`...), kind)
	dst = append(dst, m.s.prefix[len(completePrefix):]...)
	for name, value := range meta.Members() {
		if string(name) != MetaServerInfo {
			dst = append(append(jsonrpc.AppendString(append(dst, ','), string(name)), ':'), value...)
		}
	}
	dst = append(dst, '}')
	if m.caches {
		dst = fmt.Appendf(dst, `,"ttlMs":%d,"cacheScope":%q`, cache.TTLMs, cache.CacheScope)
	}
	return append(append(dst, body...), '}'), nil
}

// legacyResult returns a result of a Source for a legacy client: without the members that only
// modern results have, and with content that the client's version has.
func legacyResult(r *Request, text jsonrpc.Raw) (any, error) {
	if r.Method == MethodToolsCall {
		structured := lastMember(text, "structuredContent")
		flat := structured == nil || isObject(structured)
		if !flat || !r.version.HasStructuredContent() {
			result := new(ToolResult)
			if err := result.read(text, false); err != nil {
				return nil, fmt.Errorf("mcp: the result of the Source: %w", err)
			}
			if !flat && r.version.HasStructuredContent() {
				if result.Content == nil {
					result.Content = []Content{Text(string(structured))}
				}
				result.Structured = append(append([]byte(`{"result":`), structured...), '}')
			}
			delete(result.Meta, MetaServerInfo)
			return result.forVersion(r.version), nil
		}
	}
	if !slices.ContainsFunc(modernMembers, func(name string) bool { return strings.Contains(string(text), name) }) {
		return text, nil
	}
	out := []byte{'{'}
	for name, value := range text.Members() {
		switch string(name) {
		case "resultType", "ttlMs", "cacheScope":
			continue
		case "_meta":
			meta := []byte{'{'}
			for key, one := range value.Members() {
				if string(key) != MetaServerInfo {
					if len(meta) > 1 {
						meta = append(meta, ',')
					}
					meta = append(append(jsonrpc.AppendString(meta, string(key)), ':'), one...)
				}
			}
			if value = append(meta, '}'); len(value) == 2 {
				continue
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, string(name)), ':'), value...)
	}
	return jsonrpc.Raw(append(out, '}')), nil
}

// modernMembers are the names that a legacy result is not sent with.
var modernMembers = []string{`"resultType"`, `"ttlMs"`, `"cacheScope"`, `"` + MetaServerInfo + `"`}

// Changed notifies clients that a list has changed: these sessions, or without any, all sessions
// and all listen requests.
func (s *Server) Changed(kind ListKind, sessions ...*Session) {
	m := note{method: kind.Changed()}
	if len(sessions) == 0 {
		s.notify(m)
		return
	}
	for _, n := range sessions {
		n.notify(m)
	}
}

// ChangedFor is Changed for the sessions and listen requests of the principals that to selects. It
// calls to while it holds a lock.
func (s *Server) ChangedFor(kind ListKind, to func(principal string) bool) {
	m := note{method: kind.Changed()}
	s.mu.Lock()
	var sessions []*Session
	for n := range s.sessions {
		if to(n.principal) {
			sessions = append(sessions, n)
		}
	}
	for l := range s.listeners {
		if l.filter.wants(m.method, "", nil) && to(l.principal) {
			l.queue.push(m)
		}
	}
	s.mu.Unlock()
	for _, n := range sessions {
		n.notify(m)
	}
}

// subscribeSource begins the subscriptions of a listen request, and returns the function that ends
// them. Resources without a subscription leave the filter.
func (s *Server) subscribeSource(ctx context.Context, r *Request, l *listener) (stop func()) {
	var stops []func()
	l.filter.ResourceSubscriptions = slices.DeleteFunc(l.filter.ResourceSubscriptions, func(uri string) bool {
		end, err := s.opts.Source.Subscribe(ctx, r, uri, func() { l.queue.push(note{method: NotifyResourceUpdated, uri: uri}) })
		if err == nil {
			stops = append(stops, end)
		}
		return err != nil
	})
	return func() {
		for _, end := range stops {
			end()
		}
	}
}

// subscribeSession begins or ends a subscription of a session at the Source.
func (s *Server) subscribeSession(ctx context.Context, r *Request, uri string) (any, error) {
	n := r.session
	if r.Method == MethodResourcesUnsubscribe {
		n.mu.Lock()
		stop := n.stops[uri]
		if stop != nil {
			delete(n.stops, uri)
			n.releaseLocked(weightOfURI(uri))
		}
		n.mu.Unlock()
		if stop != nil {
			stop()
		}
		return empty, nil
	}
	n.mu.Lock()
	err := n.roomLocked(uri)
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	stop, err := s.opts.Source.Subscribe(ctx, r, uri, func() { n.notify(note{method: NotifyResourceUpdated, uri: uri}) })
	if err != nil {
		if errors.Is(err, errNoResource) {
			return nil, s.noResource(r.version, uri)
		}
		return nil, err
	}
	n.mu.Lock()
	// another request may have subscribed meanwhile, or the session may have ended
	if err = n.roomLocked(uri); err == nil {
		if n.stops[uri] == nil {
			if n.holdLocked(weightOfURI(uri)) {
				if n.stops == nil {
					n.stops = map[string]func(){}
				}
				n.stops[uri], stop = stop, nil
			} else {
				err = errFull
			}
		}
	}
	n.mu.Unlock()
	if stop != nil {
		stop()
	}
	if err != nil {
		return nil, err
	}
	return empty, nil
}

// roomLocked returns the reason why a session may not subscribe, or nil.
func (n *Session) roomLocked(uri string) error {
	switch {
	case n.closed:
		return jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the session has ended")
	case n.stops[uri] == nil && len(n.stops) >= maxSubscriptions:
		return invalidParams("too many subscriptions")
	}
	return nil
}

// Log queues a message for the log of the client that belongs to no request, if it wants messages
// of this level. If too many messages wait, the oldest is dropped.
func (n *Session) Log(p *LogParams) {
	wanted := Level(n.level.Load())
	if wanted == LevelNone {
		wanted = LevelInfo
	}
	if p.Level >= wanted {
		n.notify(note{method: NotifyMessage, other: p})
	}
}

// Principal returns the principal that opened the session; see [ServerOptions] Principal.
func (n *Session) Principal() string { return n.principal }
