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

	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// AgentOptions configures an [Agent]. All functions are called concurrently from many goroutines.
// An error that one returns is sent to the client: a [*jsonrpc.Error] unchanged, any other error as
// "Internal error", with its details passed to Report.
type AgentOptions struct {
	// Prompt executes one turn. If the client cancels the turn, ctx is canceled with
	// ErrTurnCancelled as its cause, and the response is Cancelled, whatever Prompt returns. An
	// empty reason means EndTurn. If nil, the response to every prompt is EndTurn.
	Prompt func(ctx context.Context, t *Turn) (StopReason, error)

	// NewSession is called for each new session. It may return nil, or a result with its own
	// SessionID. If NewSession is nil, the result has only an id. Use [Session.After] to send
	// updates after the response.
	NewSession func(ctx context.Context, s *Session, p *NewSessionParams) (*NewSessionResult, error)

	// LoadSession sends the past messages of a session with s.Update, and then returns.
	// ResumeSession continues a session without them. If nil, the method is not supported.
	LoadSession   func(ctx context.Context, s *Session, p *LoadSessionParams) (*LoadSessionResult, error)
	ResumeSession func(ctx context.Context, s *Session, p *LoadSessionParams) (*LoadSessionResult, error)

	// CloseSession releases the resources of a session, after its turn was cancelled and has ended.
	// DeleteSession and ListSessions apply to stored sessions. If nil, the method is not supported,
	// except that a client can always close a session.
	CloseSession  func(ctx context.Context, s *Session) error
	DeleteSession func(ctx context.Context, e *Editor, sessionID string) error
	ListSessions  func(ctx context.Context, e *Editor, p *ListSessionsParams) (*ListSessionsResult, error)

	// Ended is called once for each session that is over: closed, deleted, or its connection
	// closed. Its turn has ended by then. It may be nil.
	Ended func(sessionID string)

	// SetMode and SetConfigOption are called with the user's choice. If nil, there are no modes or
	// no options.
	SetMode         func(ctx context.Context, s *Session, modeID string) error
	SetConfigOption func(ctx context.Context, s *Session, p *SetConfigOptionParams) (*SetConfigOptionResult, error)

	// Authenticate logs in with one of AuthMethods. If a login is required, NewSession returns
	// ErrAuthRequired. Logout may be nil.
	AuthMethods  []AuthMethod
	Authenticate func(ctx context.Context, e *Editor, methodID string) error
	Logout       func(ctx context.Context, e *Editor) error

	// Extension handles requests and notifications whose method begins with an underscore. If nil,
	// the response is "Method not found".
	Extension func(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error)

	// What the agent supports besides text and links, MCP servers on stdio, and one directory.
	Prompts               PromptCapabilities
	MCP                   MCPCapabilities
	AdditionalDirectories bool

	// Capabilities, if not nil, is called with the capabilities before they are sent, to add what
	// the other fields cannot express.
	Capabilities func(*AgentCapabilities)

	// Meta is sent in the response to initialize.
	Meta Meta

	// MaxSessions bounds the sessions of one connection. If zero, it is 1,000. Further sessions get
	// a -31001 error.
	MaxSessions int

	// Limits bounds each conversation. A turn has no deadline.
	Limits jsonrpc.Limits

	// Report gets what must not go out, as [jsonrpc.Answerer.Report] does. If nil, slog's default
	// logger gets it, as one escaped line each.
	Report func(what string, err error)
}

// An Agent serves editors. It is safe for concurrent use. Each connection has its own sessions.
type Agent struct {
	info Implementation
	opts AgentOptions
}

// NewAgent returns an agent. It starts nothing.
func NewAgent(info Implementation, o *AgentOptions) *Agent {
	if o == nil {
		o = &AgentOptions{}
	}
	a := &Agent{info: info, opts: *o}
	a.opts.Report = report.Or(a.opts.Report, "editor")
	if a.opts.MaxSessions <= 0 {
		a.opts.MaxSessions = 1000
	}
	return a
}

// drainTime is how long running requests may take to finish after the client has sent its last
// byte. The contexts of turns are canceled at once.
const drainTime = 5 * time.Second

// Serve serves one client over t until it disconnects or ctx is canceled. Then it cancels the
// contexts of running turns and waits for them.
func (a *Agent) Serve(ctx context.Context, t jsonrpc.Transport) error {
	s := &side{agent: a, sessions: map[string]*session{}, announced: map[jsonrpc.ID]*turn{}}
	conn := jsonrpc.NewConn(&door{t, s})
	s.conn = conn
	conn.Handler, conn.Mode, conn.Cancellation = s, AgentMode, Cancellation
	conn.NoBatch, conn.Open = true, openForAgent // the protocol has no batches
	conn.Grace = drainTime
	conn.Limits, conn.Report = a.opts.Limits, a.opts.Report
	err := conn.Serve(ctx)
	s.endSessions()
	return err
}

// A side is the agent's side of one connection.
type side struct {
	agent *Agent
	conn  *jsonrpc.Conn

	mu        sync.Mutex // guards the fields below
	client    *InitializeParams
	sessions  map[string]*session
	announced map[jsonrpc.ID]*turn // received prompts whose handlers have not begun
}

// A session is the agent's state of a conversation.
type session struct {
	id, cwd string
	turn    *turn // the running turn, or nil
}

// A turn is a received prompt whose response has not been sent.
type turn struct {
	session   string
	cancel    context.CancelCauseFunc // nil until it runs
	cancelled bool
	over      chan struct{} // closed when it has run and its response is queued
}

// A door inspects each payload before it is handled. It records the prompts, because a cancel
// overtakes them: the cancel must apply to the turn before it on the wire, even if that turn has
// not begun, and never to the next one.
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

// Handle calls the handler of the method.
func (s *side) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if len(req.Params) > 0 && req.Params[0] != '{' {
		return nil, invalidParams("params must be an object")
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

// decode decodes the params of a method. Missing params are treated as an empty object.
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

// initialize negotiates the version (Agent Client Protocol v1, Initialization): the client's
// version if supported, or else our newest.
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

// openSession adds a session, and returns it.
func (s *side) openSession(id, cwd string) (*session, error) {
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

func (s *side) forgetSession(id string) {
	s.mu.Lock()
	_, known := s.sessions[id]
	delete(s.sessions, id)
	s.mu.Unlock()
	if known && s.agent.opts.Ended != nil {
		s.agent.opts.Ended(id)
	}
}

// endSessions ends all sessions when their connection closes.
func (s *side) endSessions() {
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.sessions))
	s.mu.Unlock()
	for _, id := range ids {
		s.forgetSession(id)
	}
}

// view returns the Session that is passed to a handler.
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
	n, err := s.openSession(newID(), in.CWD)
	if err != nil {
		return nil, err
	}
	out := &NewSessionResult{}
	view := s.view(e, n, req)
	if f := s.agent.opts.NewSession; f != nil {
		given, err := f(ctx, view, &in)
		if err != nil {
			s.forgetSession(n.id)
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
	_, known := s.findSession(in.SessionID)
	n, err := s.openSession(in.SessionID, in.CWD)
	if err != nil {
		return nil, err
	}
	out, err := f(ctx, s.view(e, n, req), &in)
	switch {
	case err != nil && !known:
		s.forgetSession(n.id)
		return nil, err
	case err != nil:
		return nil, err
	case out == nil:
		return empty, nil
	}
	return out, nil
}

func (s *side) findSession(id string) (*session, bool) {
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
	n, ok := s.findSession(in.SessionID)
	if !ok {
		return nil, noSession(in.SessionID)
	}
	if t := s.stopTurn(n.id); t != nil {
		select {
		case <-t.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s.forgetSession(n.id)
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
	s.stopTurn(in.SessionID)
	s.forgetSession(in.SessionID)
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

// choose handles session/set_mode and session/set_config_option.
func (s *side) choose(ctx context.Context, e *Editor, req *jsonrpc.Request) (any, error) {
	var in struct {
		SetConfigOptionParams
		ModeID string `json:"modeId"`
	}
	if err := decode(req, &in); err != nil {
		return nil, err
	}
	n, ok := s.findSession(in.SessionID)
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

// newID returns a new session id with 130 random bits.
func newID() string { return fmt.Sprintf("sess-%s", rand.Text()) }
