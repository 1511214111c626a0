package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ServerOptions tune a [Server]. The zero value is ready for use.
type ServerOptions struct {
	Instructions string    // for the model: how to use this server
	Versions     []Version // which are spoken; nil means all

	// Tools, Resources and Prompts make the server offer these also while it has none, so that they may come later.
	Tools, Resources, Prompts bool

	// Complete answers completion/complete, of which completions of single prompts and templates come first. Nil: none.
	Complete func(ctx context.Context, r *Request, p *CompleteParams) (*Completion, error)

	// Visible tells whether a request sees something: a tool or prompt by name, a resource by URI or URI template. What it does not
	// see does not exist for it. Nil: all see all. With it, lists are private to whoever asked.
	Visible func(ctx context.Context, r *Request, name string) bool

	// Principal tells who sent a request, as a text that differs for different callers; tasks and sealed state belong to it. Nil: all
	// callers are one.
	Principal func(ctx context.Context) string

	// CacheTTL is how long clients of the modern era may keep lists. Zero means not at all.
	CacheTTL time.Duration

	// PageSize is how many entries one page of a list has. Zero means 1,000.
	PageSize int

	// StateKey seals what a question of the modern era has to remember while the client looks for an answer: 32 bytes, the
	// same in all processes that serve one endpoint. Nil: made at random.
	StateKey []byte

	// StateTTL is how long the client has to answer. Zero means 1 h.
	StateTTL time.Duration

	// Tasks keeps tasks. Nil: memory, at most 10,000 of them. [NewTaskStore] keeps them over a restart.
	Tasks TaskStore

	// TaskTTL is how long a task is kept, and the most a client gets. Zero means 1 h.
	TaskTTL time.Duration

	// TaskPoll is how often clients are asked to look how their tasks are. Zero means 500 ms.
	TaskPoll time.Duration

	// Experimental and Extensions go into the capabilities, beside what the server itself offers.
	Experimental map[string]Settings
	Extensions   map[string]Settings

	// Limits of each conversation that [Server.Serve] opens. Calls that the user has to answer do not count as a handler's time.
	Limits jsonrpc.Limits

	// Report gets what must not go out: errors of tools whole, and what [jsonrpc.Answerer.Report] gets. Nil drops it.
	Report func(what string, err error)
}

// A Server answers the requests of clients of any revision. It is a [jsonrpc.Handler] for carriers without sessions: a modern request
// needs none, and a legacy one is served as of 2025-03-26 without what needs a session. Conversations have a [Session] each, which is a
// Handler too; [Server.Serve] makes one. Tools, resources and prompts may come and go while it serves. It is safe for concurrent use.
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
	prefix   []byte // how each modern result begins
	sealer   *sealer
	tasks    *taskKeeper
	clients  capabilityCache
	serials  atomic.Uint64 // of sessions
	stopping chan struct{}
	stop     sync.Once

	mu        sync.Mutex // guards what follows
	sessions  map[*Session]struct{}
	listeners map[*listener]struct{}
}

// NewServer makes a server. It starts nothing. It panics if StateKey is neither nil nor of 32 bytes.
func NewServer(info Implementation, o *ServerOptions) *Server {
	if o == nil {
		o = &ServerOptions{}
	}
	s := &Server{info: info, opts: *o, stopping: make(chan struct{}), sessions: map[*Session]struct{}{}, listeners: map[*listener]struct{}{}}
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
	s.tasks = newTaskKeeper(s)
	s.prefix = append([]byte(completePrefix+`,"_meta":{"`+MetaServerInfo+`":`), mustEncode(info)...)
	return s
}

// lastWords is how long handlers may finish after the client's last byte: printf … | server, and a client that closes its side and waits.
const lastWords = 2 * time.Second

// Serve answers one client over t until it hangs up or ctx ends, and waits for its handlers. What the client has sent before it hung up is still
// answered, as far as that takes no more than 2 s.
func (s *Server) Serve(ctx context.Context, t jsonrpc.Transport) error {
	end := &endOfInput{Transport: t}
	conn := jsonrpc.NewConn(end)
	session := s.Attach(conn)
	defer session.Close()
	session.over, conn.Grace = make(chan struct{}), lastWords
	end.seen = sync.OnceFunc(func() { close(session.over) })
	err := conn.Serve(ctx)
	select {
	case <-session.over:
		if ctx.Err() == nil {
			return nil // the client has gone, and may not have waited for the last answers
		}
	default:
	}
	return err
}

// endOfInput tells when the client has sent its last byte.
type endOfInput struct {
	jsonrpc.Transport
	seen func()
}

func (t *endOfInput) Read() (payload []byte, more bool, err error) {
	if payload, more, err = t.Transport.Read(); errors.Is(err, io.EOF) {
		t.seen()
	}
	return payload, more, err
}

// Attach makes the server answer on conn, whose fields it sets. Whoever serves the Conn closes the Session when it has ended.
func (s *Server) Attach(conn *jsonrpc.Conn) *Session {
	session := s.NewSession(SessionOptions{Voice: conn})
	s.Configure(&conn.Answerer, session)
	conn.Open = OpenForServer
	return session
}

// Configure sets what an [jsonrpc.Answerer] needs to answer for this server: h is the Server itself or one of its Sessions.
func (s *Server) Configure(a *jsonrpc.Answerer, h jsonrpc.Handler) {
	a.Handler, a.Mode, a.Cancellation = h, Mode, Cancellation
	a.Limits, a.Report, a.NoNull = s.opts.Limits, s.opts.Report, true
}

// Close ends the tasks that run, all listening of clients, and waits for both. Conversations are their owners' to end.
func (s *Server) Close() {
	s.stop.Do(func() { close(s.stopping) })
	s.tasks.close()
}

func (s *Server) report(what string, err error) {
	if s.opts.Report != nil {
		s.opts.Report(what, err)
	}
}

// Handle answers a request that belongs to no session.
func (s *Server) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	return s.serve(ctx, nil, req)
}

// serve is the door: it decides once which version a request is in, and lets it pass.
func (s *Server) serve(ctx context.Context, n *Session, req *jsonrpc.Request) (any, error) {
	if isFractional(req.ID) {
		return nil, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: an id is a string or an integer")
	}
	if len(req.Params) > 0 && req.Params[0] != '{' {
		return nil, invalidParams("params are an object")
	}
	r := &Request{server: s, rpc: req, Method: req.Method}
	if n != nil {
		r.over = n.over
	}
	r.p.read(req.Params)
	if r.p.twice {
		return nil, invalidParams("a member comes twice")
	}
	if r.p.progressToken != nil && !isProgressToken(r.p.progressToken) {
		return nil, invalidParams("progressToken is a string or an integer")
	}
	if r.p.modern() || isModernOnly(req.Method) {
		if err := s.modernDoor(r); err != nil {
			return nil, err
		}
		return s.handleModern(ctx, r)
	}
	r.session = n
	if err := s.legacyDoor(r); err != nil {
		return nil, err
	}
	return s.handleLegacy(ctx, r)
}

func isModernOnly(method string) bool { return method == MethodDiscover || method == MethodListen }

// modernDoor checks the envelope of a request that describes itself (MCP 2026-07-28, Base Protocol, Requests).
func (s *Server) modernDoor(r *Request) error {
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

// unsupported is the answer to a version that is not spoken.
func (s *Server) unsupported(requested string) error {
	data := UnsupportedVersionData{Supported: []string{}, Requested: requested}
	for _, v := range Versions() {
		if s.spoken[v] {
			data.Supported = append(data.Supported, v.String())
		}
	}
	return ErrUnsupportedVersion.WithData(data)
}

// legacyDoor looks up what the handshake agreed on.
func (s *Server) legacyDoor(r *Request) error {
	n := r.session
	if n == nil {
		r.version = V20250326 // what a client without a version header speaks (MCP 2025-11-25, Transports)
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
			return jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: initialize stands alone")
		}
	case r.version == 0 && r.Method != MethodPing && !r.rpc.IsNotification():
		return jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: not initialized, and no "+MetaProtocolVersion+" in _meta")
	case n == nil && !s.spoken[r.version] && r.Method != MethodPing:
		return s.unsupported(r.version.String())
	}
	return nil
}

// handleModern finds the method of a modern request.
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
	case MethodToolsCall:
		body, err = s.callTool(ctx, r)
	case MethodToolsList:
		cache = s.listCache()
		body, err = s.listTools(ctx, r)
	default:
		var known bool
		if body, cache, known, err = s.handleShared(ctx, r); !known {
			body, cache, known, err = s.handleExtension(ctx, r)
			if !known {
				return nil, jsonrpc.ErrMethodNotFound
			}
		}
	}
	if err != nil {
		return s.refused(ctx, r, err)
	}
	if done, ok := body.(*modernResult); ok {
		return done, nil
	}
	return &modernResult{s: s, body: body, cache: cache}, nil
}

// handleShared finds a method that both eras have. Tools, the busiest, were looked for before.
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

// handleLegacy finds the method of a request in a conversation with a handshake, or in none.
func (s *Server) handleLegacy(ctx context.Context, r *Request) (any, error) {
	switch r.Method {
	case MethodToolsCall:
		return s.callTool(ctx, r)
	case MethodToolsList:
		return s.listTools(ctx, r)
	case MethodInitialize:
		return s.initialize(r)
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
func (s *Server) initialize(r *Request) (any, error) {
	var in InitializeParams
	if err := r.rpc.Params.Decode(&in); err != nil || in.ProtocolVersion == "" {
		return nil, invalidParams("initialize needs protocolVersion, capabilities and clientInfo")
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
	if n := r.session; n != nil && !n.begin(v, &in) {
		return nil, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: initialized already")
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

// capabilitiesFor says what the server offers to a peer of v.
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
	if v.HasAudio() && s.completes() {
		c.Completions = &Mark{}
	}
	tasks := s.tasks.offered.Load()
	if tasks && v.HasCoreTasks() && n != nil {
		c.Tasks = &TasksCapability{List: &Mark{}, Cancel: &Mark{}, Requests: &TasksRequests{Tools: &TasksTools{Call: &Mark{}}}}
	}
	if v.HasExtensions() || v.HasCoreTasks() { // the last legacy revision tolerates them
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

// listCache is how long what the server tells about itself may be kept.
func (s *Server) listCache() *Caching {
	c := &Caching{TTLMs: s.opts.CacheTTL.Milliseconds(), CacheScope: CachePublic}
	if s.opts.Visible != nil {
		c.CacheScope = CachePrivate
	}
	return c
}

// refused turns a handler's error into what a modern client gets: an error, a question or a task.
func (s *Server) refused(ctx context.Context, r *Request, err error) (any, error) {
	if ask, ok := errors.AsType[*questions](err); ok {
		return s.inputRequired(ctx, r, ask)
	}
	if need, ok := errors.AsType[*CapabilityError](err); ok {
		return nil, need.answer()
	}
	return nil, err
}
