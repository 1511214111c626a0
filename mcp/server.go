package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/internal/x/seal"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// ServerOptions configure a [Server]. The zero value is ready for use.
type ServerOptions struct {
	Instructions string    // for the model: how to use this server
	Versions     []Version // the protocol versions to support; nil means all

	// Tools, Resources and Prompts declare these capabilities even before any are added, so that
	// they can be added later.
	Tools, Resources, Prompts bool

	// Complete handles completion/complete for arguments without completions of their prompt or
	// template. If nil, these have no completions.
	Complete func(ctx context.Context, r *Request, p *CompleteParams) (*Completion, error)

	// Visible reports whether a request may see an item: a tool or prompt by name, a resource by
	// URI or URI template. For a request that may not see it, the item does not exist. If nil, all
	// callers see everything. If set, lists are cached as private.
	Visible func(ctx context.Context, r *Request, name string) bool

	// Principal returns the principal that sent a request, as a text that differs between callers.
	// Tasks and encrypted state belong to a principal. If nil, the principal is the one that access
	// checks stored in the context; without access checks, all callers are one principal.
	Principal func(ctx context.Context) string

	// CacheTTL is how long clients of the modern era may cache lists. Zero means that they may not.
	CacheTTL time.Duration

	// PageSize is the maximum number of entries on one page of a list. Zero means 1,000.
	PageSize int

	// StateKey encrypts the state that a modern question needs while the client obtains an answer.
	// It has 32 bytes and must be the same in all processes that serve one endpoint. If nil, a
	// random key is generated.
	StateKey []byte

	// StateTTL is how long the client has to answer. Zero means 1 h.
	StateTTL time.Duration

	// AcceptUnboundAnswers accepts the inputResponses of a call without requestState (MCP
	// 2026-07-28). Such answers are not bound to a question that was asked: the client answers in
	// advance. By default they are ignored and the question is asked.
	AcceptUnboundAnswers bool

	// Tasks stores tasks. If nil, they are stored in memory, at most 10,000 of them. [NewTaskStore]
	// stores them across restarts.
	Tasks TaskStore

	// TaskTTL is how long a task is stored, also if a client requests more. Zero means 1 h.
	TaskTTL time.Duration

	// TaskPoll is the poll interval that clients are given for tasks. Zero means 500 ms.
	TaskPoll time.Duration

	// Experimental and Extensions are added to the server's own capabilities.
	Experimental map[string]Settings
	Extensions   map[string]Settings

	// Source, if not nil, offers everything that this server offers. Tools, prompts and resources
	// that are added to the server are then not used, and neither are Complete, Visible and
	// CacheTTL. Tools, Resources and Prompts declare what the Source offers.
	Source Source

	// OnEnd is called once for each session after its handshake, when it ends. OnRoots is called
	// when a session's client reports that its roots have changed. Both must not block. They may be
	// nil.
	OnEnd, OnRoots func(*Session)

	// Limits are the limits of each conversation that [Server.Serve] opens. Calls that the user has
	// to answer do not count as a handler's time.
	Limits jsonrpc.Limits

	// Report receives what must not be sent to a client: complete errors of tools, and everything
	// passed to [jsonrpc.Answerer.Report]. If nil, slog's default logger receives each report as
	// one line: errors and panics of handlers with level Error, rejected or dropped messages with
	// level Debug.
	Report func(what string, err error)
}

// A Server handles the requests of clients of any protocol version. It is a [jsonrpc.Handler] for
// transports without sessions: a modern request needs no session, and a legacy request is handled
// as in 2025-03-26, without the features that need a session. Each conversation has a [Session],
// which is also a Handler; [Server.Serve] creates one. Tools, resources and prompts may be added
// and removed at any time. A Server is safe for concurrent use.
type Server struct {
	info Implementation
	opts ServerOptions

	tools     registry[*tool]
	resources registry[*resource]
	templates registry[*template]
	prompts   registry[*prompt]
	skills    skillSet
	schemas   schemaCache

	spoken   [V20260728 + 1]bool
	prefix   []byte // the beginning of each modern result
	sealer   *seal.Sealer
	tasks    *taskTable
	clients  capabilityCache
	serials  atomic.Uint64 // of sessions
	room     budget.Pool   // for what sessions hold
	stopping chan struct{}
	stop     sync.Once

	mu        sync.Mutex // guards the fields below
	sessions  map[*Session]struct{}
	listeners map[*listener]struct{}
}

// NewServer returns a server. It starts nothing. It panics if StateKey is neither nil nor 32 bytes
// long.
func NewServer(info Implementation, o *ServerOptions) *Server {
	if o == nil {
		o = &ServerOptions{}
	}
	s := &Server{info: info, opts: *o, stopping: make(chan struct{}), sessions: map[*Session]struct{}{}, listeners: map[*listener]struct{}{}, room: budget.Pool{Max: maxSessionRoom}}
	s.opts.Report = report.Or(s.opts.Report, "mcp")
	if s.opts.Versions == nil {
		s.opts.Versions = Versions()
	}
	for _, v := range s.opts.Versions {
		s.spoken[v] = true
	}
	if s.opts.PageSize <= 0 {
		s.opts.PageSize = 1000
	}
	if s.opts.StateTTL <= 0 {
		s.opts.StateTTL = time.Hour
	}
	if s.opts.TaskTTL <= 0 {
		s.opts.TaskTTL = time.Hour
	}
	if s.opts.TaskPoll <= 0 {
		s.opts.TaskPoll = 500 * time.Millisecond
	}
	if s.opts.StateKey == nil {
		s.opts.StateKey = make([]byte, 32)
		_, _ = rand.Read(s.opts.StateKey) // never fails (crypto/rand)
	}
	s.sealer = newSealer(s.opts.StateKey)
	s.tasks = newTaskTable(s)
	s.prefix = append([]byte(completePrefix+`,"_meta":{"`+MetaServerInfo+`":`), mustEncode(info)...)
	return s
}

// drainTimeout is how long handlers may continue after the end of the client's input, for example
// in printf … | server, or when a client closes its sending direction and waits.
const drainTimeout = 2 * time.Second

// Serve serves one client over t until the client closes the connection or ctx ends, and waits for
// the handlers. Requests that the client sent before it closed are still answered if that takes at
// most 2 s.
func (s *Server) Serve(ctx context.Context, t jsonrpc.Transport) error {
	conn := jsonrpc.NewConn(t)
	session := s.Attach(conn)
	defer session.Close()
	session.over, conn.Grace = make(chan struct{}), drainTimeout
	conn.InputEnded = func() { close(session.over) }
	err := conn.Serve(ctx)
	select {
	case <-session.over:
		if ctx.Err() == nil {
			return nil // the client has gone, and may not have waited for the last responses
		}
	default:
	}
	return err
}

// Attach sets the fields of conn so that this server handles its requests. The caller serves conn
// and closes the Session when conn is closed.
func (s *Server) Attach(conn *jsonrpc.Conn) *Session {
	session := s.NewSession(SessionOptions{Voice: conn})
	s.Configure(&conn.Answerer, session)
	conn.Open = OpenForServer
	return session
}

// Configure sets the fields of an [jsonrpc.Answerer] for this server. h is the Server itself or one
// of its Sessions.
func (s *Server) Configure(a *jsonrpc.Answerer, h jsonrpc.Handler) {
	a.Handler, a.Mode, a.Cancellation = h, Mode, Cancellation
	a.Limits, a.Report, a.NoNull = s.opts.Limits, s.opts.Report, true
}

// Close stops the running tasks and all listen requests of clients, and waits for the tasks, at
// most 5 s. It does not close conversations; their owners do.
func (s *Server) Close() {
	s.stop.Do(func() { close(s.stopping) })
	s.tasks.close()
}

func (s *Server) report(what string, err error) { s.opts.Report(what, err) }

// Handle handles a request without a session.
func (s *Server) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	return s.serve(ctx, nil, req)
}

// serve determines the version of a request once, checks it, and calls its method.
func (s *Server) serve(ctx context.Context, n *Session, req *jsonrpc.Request) (any, error) {
	if isFractional(req.ID) {
		return nil, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: an id must be a string or an integer")
	}
	if len(req.Params) > 0 && req.Params[0] != '{' {
		return nil, invalidParams("params must be an object")
	}
	r := &Request{server: s, rpc: req, Method: req.Method, live: ctx}
	if n != nil {
		r.over = n.over
	}
	r.p.read(req.Params)
	if r.p.twice {
		return nil, invalidParams("duplicate member")
	}
	if r.p.progressToken != nil && !isProgressToken(r.p.progressToken) {
		return nil, invalidParams("progressToken must be a string or an integer")
	}
	if r.p.modern() || isModernOnly(req.Method) {
		if err := s.checkModern(r); err != nil {
			return nil, err
		}
		return s.handleModern(ctx, r)
	}
	r.session = n
	if err := s.checkLegacy(r); err != nil {
		return nil, err
	}
	return s.handleLegacy(ctx, r)
}

func isModernOnly(method string) bool { return method == MethodDiscover || method == MethodListen }

// checkModern checks the envelope of a modern request (MCP 2026-07-28, Base Protocol, Requests).
func (s *Server) checkModern(r *Request) error {
	if r.rpc.IsNotification() && r.p.version == nil {
		return nil // notifications have no envelope
	}
	name, ok := unquoted(r.p.version)
	if !ok {
		return invalidParams("_meta has no " + MetaProtocolVersion)
	}
	v := ParseVersion(string(name))
	if !v.Modern() || !s.spoken[v] {
		return s.unsupported(string(name))
	}
	if r.rpc.Batched() {
		return jsonrpc.ErrInvalidRequest
	}
	r.version = v
	if !isObject(r.p.capabilities) {
		return invalidParams("_meta has no " + MetaClientCapabilities)
	}
	caps, err := s.clients.read(r.p.capabilities)
	if err != nil {
		return invalidParams(MetaClientCapabilities + " is malformed")
	}
	r.capabilities = caps
	if r.p.clientInfo != nil && !isObject(r.p.clientInfo) {
		return invalidParams(MetaClientInfo + " is malformed")
	}
	if r.p.logLevel != nil {
		text, _ := textOf(r.p.logLevel)
		if r.level = ParseLevel(text); r.level == LevelNone {
			return invalidParams("unknown log level")
		}
	}
	return nil
}

// unsupported returns the error response for an unsupported version.
func (s *Server) unsupported(requested string) error {
	data := UnsupportedVersionData{Supported: []string{}, Requested: requested}
	for _, v := range Versions() {
		if s.spoken[v] {
			data.Supported = append(data.Supported, v.String())
		}
	}
	return ErrUnsupportedVersion.WithData(data)
}

// checkLegacy sets the version and the capabilities that the handshake agreed on, and checks the
// request.
func (s *Server) checkLegacy(r *Request) error {
	n := r.session
	if n == nil {
		// the version of a client without a version header (MCP 2025-11-25, Transports)
		r.version = V20250326
		r.capabilities = &ClientCapabilities{}
	} else if v := n.Version(); v != 0 {
		r.version, r.capabilities = v, n.capabilities.Load()
		r.level = Level(n.level.Load())
	}
	if r.rpc.Batched() && !r.version.HasBatches() {
		return jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: no batches in this version")
	}
	switch {
	case r.Method == MethodInitialize:
		if r.rpc.Batched() {
			return jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: initialize must not be in a batch")
		}
	case r.version == 0 && r.Method != MethodPing && !r.rpc.IsNotification():
		return jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: not initialized, and no "+MetaProtocolVersion+" in _meta")
	case n == nil && !s.spoken[r.version] && r.Method != MethodPing:
		return s.unsupported(r.version.String())
	}
	return nil
}

// handleModern calls the method of a modern request.
func (s *Server) handleModern(ctx context.Context, r *Request) (any, error) {
	var body any
	var cache *Caching
	var err error
	if r.p.requestState != nil || r.p.inputResponses != nil {
		if r.Method == MethodToolsCall || r.Method == MethodPromptsGet || r.Method == MethodResourcesRead {
			if err := r.recall(ctx); err != nil {
				return nil, err
			}
		}
	}
	switch r.Method {
	case MethodDiscover:
		cache = s.listCache()
		body = s.discover()
	case MethodListen:
		return s.listen(ctx, r)
	default:
		var known bool
		if body, cache, known, err = s.handleOwn(ctx, r); !known {
			return nil, jsonrpc.ErrMethodNotFound
		}
	}
	if err != nil {
		return s.refused(ctx, r, err)
	}
	switch done := body.(type) {
	case *modernResult:
		return done, nil
	case *rawResult:
		return done, nil
	}
	return &modernResult{s: s, body: body, cache: cache}, nil
}

// handleOwn calls the method of a modern request that is about what the server offers. The most
// frequent methods are first.
func (s *Server) handleOwn(ctx context.Context, r *Request) (body any, cache *Caching, known bool, err error) {
	switch {
	case s.opts.Source != nil:
		return s.handleSource(ctx, r)
	case r.Method == MethodToolsCall:
		body, err = s.callTool(ctx, r)
		return body, nil, true, err
	case r.Method == MethodToolsList:
		body, err = s.listTools(ctx, r)
		return body, s.listCache(), true, err
	}
	if body, cache, known, err = s.handleShared(ctx, r); !known {
		body, cache, known, err = s.handleExtension(ctx, r)
	}
	return body, cache, known, err
}

// handleShared calls a method that both eras have. Its callers have checked for the tool methods,
// the most frequent ones, before.
func (s *Server) handleShared(ctx context.Context, r *Request) (body any, cache *Caching, known bool, err error) {
	switch r.Method {
	case MethodResourcesList:
		body, err = s.listResources(ctx, r)
		return body, s.listCache(), true, err
	case MethodResourceTemplatesList:
		body, err = s.listTemplates(ctx, r)
		return body, s.listCache(), true, err
	case MethodResourcesRead:
		body, cache, err = s.readResource(ctx, r)
		return body, cache, true, err
	case MethodPromptsList:
		body, err = s.listPrompts(ctx, r)
		return body, s.listCache(), true, err
	case MethodPromptsGet:
		body, err = s.getPrompt(ctx, r)
		return body, nil, true, err
	case MethodComplete:
		body, err = s.completeArgument(ctx, r)
		return body, nil, true, err
	}
	return nil, nil, false, nil
}

// handleLegacy calls the method of a request from a session, or without one.
func (s *Server) handleLegacy(ctx context.Context, r *Request) (any, error) {
	if s.opts.Source != nil {
		if body, _, known, err := s.handleSource(ctx, r); known {
			return body, err
		}
	}
	switch r.Method {
	case MethodToolsCall:
		return s.callTool(ctx, r)
	case MethodToolsList:
		return s.listTools(ctx, r)
	case MethodInitialize:
		return s.initialize(ctx, r)
	case MethodPing:
		return empty, nil
	case NotifyInitialized:
		if r.session != nil {
			r.session.ready()
		}
		return nil, nil
	case NotifyRootsChanged:
		if r.session != nil && r.session.onRoots != nil {
			r.session.onRoots()
		}
		if r.session != nil && s.opts.OnRoots != nil {
			s.opts.OnRoots(r.session)
		}
		return nil, nil
	case MethodSetLevel:
		return s.setLevel(r)
	case MethodResourcesSubscribe, MethodResourcesUnsubscribe:
		return s.subscribe(ctx, r)
	}
	if body, _, known, err := s.handleShared(ctx, r); known {
		return body, err
	}
	if r.version.HasCoreTasks() {
		if body, known, err := s.handleCoreTasks(ctx, r); known {
			return body, err
		}
	}
	if body, _, known, err := s.handleSkills(ctx, r); known {
		return body, err
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// initialize agrees on a version (MCP 2025-11-25, Lifecycle).
func (s *Server) initialize(ctx context.Context, r *Request) (any, error) {
	var in InitializeParams
	for _, need := range []struct {
		name string
		is   func(jsonrpc.Raw) bool
		want string
	}{
		{"protocolVersion", func(v jsonrpc.Raw) bool { _, ok := textOf(v); return ok }, "a string"},
		{"capabilities", isObject, "an object"},
		{"clientInfo", isObject, "an object"},
	} {
		switch v := lastMember(r.rpc.Params, need.name); {
		case v == nil:
			return nil, invalidParams("initialize needs " + need.name)
		case !need.is(v):
			return nil, invalidParams(need.name + " is " + need.want)
		}
	}
	if err := r.rpc.Params.Decode(&in); err != nil {
		return nil, invalidParams("initialize is malformed")
	}
	caps, info := len(lastMember(r.rpc.Params, "capabilities")), len(lastMember(r.rpc.Params, "clientInfo"))
	if caps > maxCapabilities {
		return nil, invalidParams(fmt.Sprintf("capabilities is longer than %d KiB", maxCapabilities>>10))
	}
	v := ParseVersion(in.ProtocolVersion)
	if !v.HasHandshake() || !s.spoken[v] {
		v = 0
		for _, other := range Versions() {
			if other.HasHandshake() && s.spoken[other] {
				v = other
				break
			}
		}
	}
	if v == 0 {
		return nil, s.unsupported(in.ProtocolVersion)
	}
	if n := r.session; n != nil {
		if err := n.begin(s.principal(ctx), v, &in, caps, info); err != nil {
			return nil, err
		}
	}
	return &InitializeResult{ProtocolVersion: v.String(), Capabilities: s.capabilitiesFor(v, r.session), ServerInfo: s.info,
		Instructions: s.opts.Instructions}, nil
}

func (s *Server) discover() *DiscoverResult {
	d := &DiscoverResult{SupportedVersions: []string{}, Capabilities: s.capabilitiesFor(V20260728, nil), Instructions: s.opts.Instructions}
	for _, v := range Versions() {
		if s.spoken[v] {
			d.SupportedVersions = append(d.SupportedVersions, v.String())
		}
	}
	return d
}

// capabilitiesFor returns the server's capabilities for a peer of version v.
func (s *Server) capabilitiesFor(v Version, n *Session) ServerCapabilities {
	c := ServerCapabilities{Experimental: s.opts.Experimental, Logging: &Mark{}}
	told := n != nil || v.Modern()
	if s.opts.Tools || s.tools.len() > 0 || n != nil && n.tools.Load() != nil {
		c.Tools = &ListCapability{ListChanged: told}
	}
	if s.opts.Resources || s.resources.len() > 0 || s.templates.len() > 0 {
		c.Resources = &ResourcesCapability{Subscribe: told, ListChanged: told}
	}
	if s.opts.Prompts || s.prompts.len() > 0 {
		c.Prompts = &ListCapability{ListChanged: told}
	}
	if v.HasAudio() && (s.opts.Source != nil || s.completes()) {
		c.Completions = &Mark{}
	}
	tasks := s.tasks.offered.Load()
	if tasks && v.HasCoreTasks() && n != nil {
		c.Tasks = &TasksCapability{List: &Mark{}, Cancel: &Mark{}, Requests: &TasksRequests{Tools: &TasksTools{Call: &Mark{}}}}
	}
	if v.HasExtensions() || v.HasCoreTasks() { // the last legacy version tolerates them
		all := maps.Clone(s.opts.Extensions)
		if all == nil {
			all = map[string]Settings{}
		}
		if tasks && v.HasExtensions() {
			all[ExtensionTasks] = Settings{}
		}
		if s.skills.offered.Load() {
			all[ExtensionSkills] = s.skills.settings()
		}
		if len(all) > 0 {
			c.Extensions = all
		}
	}
	return c
}

// listCache returns the caching of lists and of the server's description.
func (s *Server) listCache() *Caching {
	c := &Caching{TTLMs: s.opts.CacheTTL.Milliseconds(), CacheScope: CachePublic}
	if s.opts.Visible != nil {
		c.CacheScope = CachePrivate
	}
	return c
}

// refused converts a handler's error into the response for a modern client: an error, a question or
// a task.
func (s *Server) refused(ctx context.Context, r *Request, err error) (any, error) {
	if ask, ok := errors.AsType[*questions](err); ok {
		return s.inputRequired(ctx, r, ask)
	}
	if need, ok := errors.AsType[*CapabilityError](err); ok {
		return nil, need.answer()
	}
	return nil, err
}
