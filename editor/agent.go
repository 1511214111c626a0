package editor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// AgentOptions say what an [Agent] does. All functions are called on many goroutines at once. What one returns goes out: a
// [*jsonrpc.Error] as it is, any other error as "Internal error", and whole to Report.
type AgentOptions struct {
	// Prompt does one turn. ctx ends, with ErrTurnCancelled as its cause, when the client cancels the turn; whatever Prompt then returns, the
	// answer is Cancelled. An empty reason means EndTurn. Nil: every prompt is answered EndTurn.
	Prompt func(ctx context.Context, t *Turn) (StopReason, error)

	// NewSession is asked for each new session. It may return nil, or a result with its own SessionID. Nil: there is
	// nothing to say. [Session.After] is how it tells the client more.
	NewSession func(ctx context.Context, s *Session, p *NewSessionParams) (*NewSessionResult, error)

	// LoadSession tells again what was said, by s.Update, and then returns. ResumeSession goes on without. Nil: not offered.
	LoadSession   func(ctx context.Context, s *Session, p *LoadSessionParams) (*LoadSessionResult, error)
	ResumeSession func(ctx context.Context, s *Session, p *LoadSessionParams) (*LoadSessionResult, error)

	// CloseSession frees what a session holds; its turn was cancelled and has ended. DeleteSession and ListSessions are about those that can be loaded.
	// Nil: not offered, except that a client can always close.
	CloseSession  func(ctx context.Context, s *Session) error
	DeleteSession func(ctx context.Context, e *Editor, sessionID string) error
	ListSessions  func(ctx context.Context, e *Editor, p *ListSessionsParams) (*ListSessionsResult, error)

	// Ended is called once for each session that is over: closed, deleted, or its connection gone, whose turn has ended by then. Nil: nothing.
	Ended func(sessionID string)

	// SetMode and SetConfigOption get what the user chose. Nil: there are no modes, no options.
	SetMode         func(ctx context.Context, s *Session, modeID string) error
	SetConfigOption func(ctx context.Context, s *Session, p *SetConfigOptionParams) (*SetConfigOptionResult, error)

	// Authenticate logs in by one of AuthMethods. A NewSession that needs it returns ErrAuthRequired. Logout may be nil.
	AuthMethods  []AuthMethod
	Authenticate func(ctx context.Context, e *Editor, methodID string) error
	Logout       func(ctx context.Context, e *Editor) error

	// Extension answers requests and hears notifications whose method begins with an underscore. Nil: "Method not found".
	Extension func(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error)

	// What the agent takes beside text and links, beside MCP servers on stdio, and beside one directory.
	Prompts               PromptCapabilities
	MCP                   MCPCapabilities
	AdditionalDirectories bool

	// Capabilities, when not nil, gets the capabilities before they go out, to add what the fields above cannot say.
	Capabilities func(*AgentCapabilities)

	// Meta goes into the answer to initialize.
	Meta Meta

	// MaxSessions bounds the sessions of one connection. Zero means 1,000. One more is answered -31001.
	MaxSessions int

	// Limits of each conversation. A turn has no deadline.
	Limits jsonrpc.Limits

	// Report gets what must not go out, as [jsonrpc.Answerer.Report] does. Nil drops it.
	Report func(what string, err error)
}

// An Agent answers editors. It is safe for concurrent use; each connection has sessions of its own.
type Agent struct {
	info Implementation
	opts AgentOptions
}

// NewAgent makes an agent. It starts nothing.
func NewAgent(info Implementation, o *AgentOptions) *Agent {
	if o == nil {
		o = &AgentOptions{}
	}
	a := &Agent{info: info, opts: *o}
	if a.opts.MaxSessions <= 0 {
		a.opts.MaxSessions = 1000
	}
	return a
}

// grace is how long what runs may finish when the client has said its last; turns are told to end at once.
const grace = 5 * time.Second

// Serve answers one client over t until it hangs up or ctx ends, and waits for the turns that run, whose contexts end then.
func (a *Agent) Serve(ctx context.Context, t jsonrpc.Transport) error {
	s := &side{agent: a, sessions: map[string]*session{}, announced: map[jsonrpc.ID]*turn{}}
	conn := jsonrpc.NewConn(&door{t, s})
	s.conn = conn
	conn.Handler, conn.Mode, conn.Cancellation = s, AgentMode, Cancellation
	conn.NoBatch, conn.Open = true, openForAgent // no batches in this protocol
	conn.Grace = grace
	conn.Limits, conn.Report = a.opts.Limits, a.opts.Report
	err := conn.Serve(ctx)
	s.over()
	return err
}

// A side is the agent's end of one connection.
type side struct {
	agent *Agent
	conn  *jsonrpc.Conn

	mu        sync.Mutex // guards what follows
	client    *InitializeParams
	sessions  map[string]*session
	announced map[jsonrpc.ID]*turn // prompts that were read, and whose handlers have not begun
}

// A session is what is known of a conversation.
type session struct {
	id, cwd string
	turn    *turn // that runs; nil for none
}

// A turn is a prompt that was read and is not answered.
type turn struct {
	session   string
	cancel    context.CancelCauseFunc // nil until it runs
	cancelled bool
	over      chan struct{} // closed when it ran and its answer is on its way
}

// A door sees each payload before anybody else does. It notes the prompts, so that a cancel, which overtakes, meets the
// turn that stood before it on the wire even when that has not begun, and never the next one.
type door struct {
	jsonrpc.Transport
	side *side
}

func (d *door) Read() ([]byte, bool, error) {
	payload, more, err := d.Transport.Read()
	var frame *jsonrpc.FrameError
	switch {
	case err == nil:
		d.side.note(payload)
	case !errors.As(err, &frame):
		d.side.abandon()
	}
	return payload, more, err
}

// Handle finds the method.
func (s *side) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if len(req.Params) > 0 && req.Params[0] != '{' {
		return nil, invalidParams("params are an object")
	}
	e := &Editor{side: s, peer: req.Peer()}
	if isExtension(req.Method) {
		if s.agent.opts.Extension == nil {
			return nil, jsonrpc.ErrMethodNotFound
		}
		return s.agent.opts.Extension(ctx, e, req)
	}
	switch req.Method {
	case NotifyCancel:
		return nil, s.cancelTurn(req)
	case MethodInitialize:
		return s.initialize(req)
	case MethodAuthenticate:
		return s.authenticate(ctx, e, req)
	case MethodLogout:
		if s.agent.opts.Logout == nil {
			return nil, jsonrpc.ErrMethodNotFound
		}
		return empty, s.agent.opts.Logout(ctx, e)
	}
	if e.client() == nil && len(req.Method) > 8 && req.Method[:8] == "session/" {
		return nil, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: not initialized")
	}
	switch req.Method {
	case MethodPrompt:
		return s.prompt(ctx, e, req)
	case MethodNewSession:
		return s.newSession(ctx, e, req)
	case MethodLoadSession:
		return s.loadSession(ctx, e, req, s.agent.opts.LoadSession)
	case MethodResumeSession:
		return s.loadSession(ctx, e, req, s.agent.opts.ResumeSession)
	case MethodCloseSession:
		return s.closeSession(ctx, e, req)
	case MethodDeleteSession:
		return s.deleteSession(ctx, e, req)
	case MethodListSessions:
		return s.listSessions(ctx, e, req)
	case MethodSetMode, MethodSetConfigOption:
		return s.choose(ctx, e, req)
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// decode reads the params of a method, of which none may be absent.
func decode(req *jsonrpc.Request, v any) error {
	params := req.Params
	if params == nil {
		params = empty
	}
	if err := params.Decode(v); err != nil {
		return invalidParams(req.Method + " is malformed")
	}
	return nil
}

// initialize agrees on the version (Agent Client Protocol v1, Initialization): the one that the client wants, or the newest of ours.
func (s *side) initialize(req *jsonrpc.Request) (any, error) {
	in := InitializeParams{ProtocolVersion: -1}
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	if in.ProtocolVersion < 0 {
		return nil, invalidParams("protocolVersion is missing")
	}
	s.mu.Lock()
	s.client = &in
	s.mu.Unlock()
	o := &s.agent.opts
	caps := AgentCapabilities{LoadSession: o.LoadSession != nil, PromptCapabilities: o.Prompts, MCPCapabilities: o.MCP}
	caps.SessionCapabilities.Close = &Mark{}
	if o.ResumeSession != nil {
		caps.SessionCapabilities.Resume = &Mark{}
	}
	if o.DeleteSession != nil {
		caps.SessionCapabilities.Delete = &Mark{}
	}
	if o.ListSessions != nil {
		caps.SessionCapabilities.List = &Mark{}
	}
	if o.AdditionalDirectories {
		caps.SessionCapabilities.AdditionalDirectories = &Mark{}
	}
	if o.Logout != nil {
		caps.Auth = &AgentAuthCapabilities{Logout: &Mark{}}
	}
	if o.Capabilities != nil {
		o.Capabilities(&caps)
	}
	methods := make([]AuthMethod, 0, len(o.AuthMethods))
	for _, m := range o.AuthMethods {
		if m.Type != AuthTerminal || in.ClientCapabilities.Auth != nil && in.ClientCapabilities.Auth.Terminal {
			methods = append(methods, m)
		}
	}
	return &InitializeResult{ProtocolVersion: Version, AgentCapabilities: caps, AuthMethods: methods, AgentInfo: &s.agent.info, Meta: o.Meta}, nil
}

func (s *side) authenticate(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error) {
	if s.agent.opts.Authenticate == nil {
		return nil, jsonrpc.ErrMethodNotFound
	}
	var in AuthenticateParams
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	for _, m := range s.agent.opts.AuthMethods {
		if m.ID == in.MethodID && m.Type != AuthTerminal {
			return empty, s.agent.opts.Authenticate(ctx, e, in.MethodID)
		}
	}
	return nil, invalidParams("unknown methodId")
}

// open makes room for a session, and returns it.
func (s *side) open(id, cwd string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.sessions[id]; n != nil {
		n.cwd = cwd
		return n, nil
	}
	if len(s.sessions) >= s.agent.opts.MaxSessions {
		return nil, jsonrpc.NewError(jsonrpc.CodeBusy, "Too many sessions").WithData(jsonrpc.FaultData{Reason: "busy", Retryable: true})
	}
	n := &session{id: id, cwd: cwd}
	s.sessions[id] = n
	return n, nil
}

func (s *side) forget(id string) {
	s.mu.Lock()
	_, known := s.sessions[id]
	delete(s.sessions, id)
	s.mu.Unlock()
	if known && s.agent.opts.Ended != nil {
		s.agent.opts.Ended(id)
	}
}

// over ends all sessions with their connection.
func (s *side) over() {
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.sessions))
	s.mu.Unlock()
	for _, id := range ids {
		s.forget(id)
	}
}

// view makes what a handler sees of a session.
func (s *side) view(e *Editor, n *session, req *jsonrpc.Request) *Session {
	return &Session{Editor: e, ID: n.id, CWD: n.cwd, req: req}
}

func (s *side) newSession(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error) {
	var in NewSessionParams
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	if in.CWD == "" {
		return nil, invalidParams("cwd is missing")
	}
	n, err := s.open(newID(), in.CWD)
	if err != nil {
		return nil, err
	}
	out := &NewSessionResult{}
	view := s.view(e, n, req)
	if f := s.agent.opts.NewSession; f != nil {
		given, err := f(ctx, view, &in)
		if err != nil {
			s.forget(n.id)
			return nil, err
		}
		if given != nil {
			out = given
		}
	}
	if out.SessionID == "" || out.SessionID == n.id {
		out.SessionID = n.id
		return out, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, n.id)
	n.id, view.ID = out.SessionID, out.SessionID
	s.sessions[n.id] = n
	return out, nil
}

func (s *side) loadSession(ctx context.Context, e *Editor, req *jsonrpc.Request, f func(context.Context, *Session, *LoadSessionParams) (*LoadSessionResult, error)) (any, error) {
	if f == nil {
		return nil, jsonrpc.ErrMethodNotFound
	}
	var in LoadSessionParams
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	if in.SessionID == "" || in.CWD == "" {
		return nil, invalidParams("sessionId and cwd are required")
	}
	_, known := s.find(in.SessionID)
	n, err := s.open(in.SessionID, in.CWD)
	if err != nil {
		return nil, err
	}
	out, err := f(ctx, s.view(e, n, req), &in)
	switch {
	case err != nil && !known:
		s.forget(n.id)
		return nil, err
	case err != nil:
		return nil, err
	case out == nil:
		return empty, nil
	}
	return out, nil
}

func (s *side) find(id string) (*session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.sessions[id]
	return n, ok
}

func (s *side) closeSession(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error) {
	var in SessionParams
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	n, ok := s.find(in.SessionID)
	if !ok {
		return nil, noSession(in.SessionID)
	}
	if t := s.stop(n.id); t != nil {
		select {
		case <-t.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s.forget(n.id)
	if f := s.agent.opts.CloseSession; f != nil {
		if err := f(ctx, s.view(e, n, req)); err != nil {
			return nil, err
		}
	}
	return empty, nil
}

func (s *side) deleteSession(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error) {
	f := s.agent.opts.DeleteSession
	if f == nil {
		return nil, jsonrpc.ErrMethodNotFound
	}
	var in SessionParams
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	if err := f(ctx, e, in.SessionID); err != nil {
		return nil, err
	}
	s.stop(in.SessionID)
	s.forget(in.SessionID)
	return empty, nil
}

func (s *side) listSessions(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error) {
	f := s.agent.opts.ListSessions
	if f == nil {
		return nil, jsonrpc.ErrMethodNotFound
	}
	var in ListSessionsParams
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	out, err := f(ctx, e, &in)
	if err == nil && out == nil {
		out = &ListSessionsResult{}
	}
	return out, err
}

// choose answers session/set_mode and session/set_config_option.
func (s *side) choose(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error) {
	var in struct {
		SetConfigOptionParams
		ModeID string `json:"modeId"`
	}
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	n, ok := s.find(in.SessionID)
	o := &s.agent.opts
	switch {
	case req.Method == MethodSetMode && o.SetMode == nil, req.Method == MethodSetConfigOption && o.SetConfigOption == nil:
		return nil, jsonrpc.ErrMethodNotFound
	case !ok:
		return nil, noSession(in.SessionID)
	case req.Method == MethodSetMode:
		if in.ModeID == "" {
			return nil, invalidParams("modeId is missing")
		}
		return empty, o.SetMode(ctx, s.view(e, n, req), in.ModeID)
	case in.ConfigID == "" || in.Value == nil:
		return nil, invalidParams("configId and value are required")
	}
	out, err := o.SetConfigOption(ctx, s.view(e, n, req), &in.SetConfigOptionParams)
	if err == nil && out == nil {
		err = errors.New("editor: SetConfigOption returned no options")
	}
	return out, err
}

// newID makes the id of a session: 130 random bits.
func newID() string { return fmt.Sprintf("sess-%s", rand.Text()) }
