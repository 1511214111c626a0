package editor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// ClientOptions configures what a [Client] offers to agents. The zero value is a client without
// files and terminals that grants no permissions. All functions are called concurrently from many
// goroutines. For one session, they are called only after all earlier updates were delivered.
type ClientOptions struct {
	// Permission asks the user for permission. ctx is canceled when the turn is cancelled; the
	// response is then OutcomeCancelled, whatever Permission returns. If nil, the first rejecting
	// option is selected; if there is no such option, the outcome is OutcomeCancelled.
	Permission func(ctx context.Context, p *PermissionParams) (*PermissionResult, error)

	// ReadTextFile and WriteTextFile access the editor's files. An error that wraps fs.ErrNotExist
	// is sent as "Resource not found". If nil, the method is not supported.
	ReadTextFile  func(ctx context.Context, p *ReadTextFileParams) (string, error)
	WriteTextFile func(ctx context.Context, p *WriteTextFileParams) error

	// Terminals runs commands. If nil, terminals are not supported.
	Terminals Terminals

	// Elicit asks the user for input. ElicitURL reports that it supports the mode ElicitURL too. If
	// nil, elicitation is not supported.
	Elicit            func(ctx context.Context, p *ElicitParams) (*ElicitResult, error)
	ElicitURL         bool
	OnElicitationDone func(id string)

	// OnUpdate is called with the updates that no call of this client receives: those between
	// turns, and all updates of a turn whose Prompt has no on function. Calls are sequential, in
	// the order of arrival; no other notification is handled meanwhile. If nil, the updates are
	// dropped.
	OnUpdate func(*UpdateParams)

	// Extension handles requests and notifications whose method begins with an underscore. If nil,
	// the response is "Method not found".
	Extension func(ctx context.Context, req *jsonrpc.Request) (any, error)

	// Capabilities, if not nil, is called with the capabilities before they are sent, to add what
	// the other fields cannot express.
	Capabilities func(*ClientCapabilities)

	// Meta is sent in initialize.
	Meta Meta

	// CancelWait is how long Prompt waits for the agent's response after its context is canceled.
	// If zero, it is 5 s.
	CancelWait time.Duration

	// Limits of the conversation. If zero, Events, which bounds the updates that wait for a slow
	// receiver, is 65,536.
	Limits jsonrpc.Limits

	// Report gets errors that no caller gets, as [jsonrpc.Answerer.Report] does.
	Report func(what string, err error)
}

// Terminals runs commands for agents. All methods must be safe for concurrent use.
type Terminals interface {
	Create(ctx context.Context, p *CreateTerminalParams) (*CreateTerminalResult, error)
	Output(ctx context.Context, p *TerminalParams) (*TerminalOutputResult, error)
	Wait(ctx context.Context, p *TerminalParams) (*ExitStatus, error)
	Kill(ctx context.Context, p *TerminalParams) error
	Release(ctx context.Context, p *TerminalParams) error
}

// A Client is connected to one agent. It is safe for concurrent use.
type Client struct {
	opts    ClientOptions
	conn    *jsonrpc.Conn
	agent   InitializeResult
	ids     atomic.Int64
	serving sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	sessions map[string]*conversation
	// early counts, per session, the updates that were read but not counted, and that have not been
	// handled yet.
	early   map[string]int
	opening int           // calls in progress that return a new session
	opened  chan struct{} // closed and replaced when one of these calls returns
}

// A conversation is the client's state of a session: which call receives the updates, and how many
// it has received.
type conversation struct {
	id        jsonrpc.ID // of that call, or zero
	seen      int        // updates for the call that were read
	taken     int        // of these, those that were delivered
	news      chan struct{}
	cancelled chan struct{} // closed when the turn is cancelled; nil if there is no turn
}

// maxEvents bounds the updates that wait for their receiver.
const maxEvents = 65_536

// Connect opens a conversation on t, which the client owns from then on. [Client.Close] closes it.
func Connect(ctx context.Context, t jsonrpc.Transport, info Implementation, o *ClientOptions) (*Client, error) {
	if o == nil {
		o = &ClientOptions{}
	}
	c := &Client{opts: *o, conn: jsonrpc.NewConn(t), sessions: map[string]*conversation{}, opened: make(chan struct{})}
	if c.opts.CancelWait <= 0 {
		c.opts.CancelWait = 5 * time.Second
	}
	conn := c.conn
	conn.Handler, conn.Mode, conn.Cancellation = jsonrpc.HandlerFunc(c.handle), ClientMode, Cancellation
	conn.NoBatch, conn.Open, conn.Related, conn.Quiet = true, openForClient, c.related, true
	conn.Limits, conn.Report = c.opts.Limits, c.opts.Report
	if conn.Limits.Events == 0 {
		conn.Limits.Events = maxEvents
	}
	// every call returns its cause
	c.serving.Go(func() { _ = conn.Serve(context.WithoutCancel(ctx)) })
	params := InitializeParams{ProtocolVersion: Version, ClientCapabilities: c.capabilities(), ClientInfo: &info, Meta: c.opts.Meta}
	err := c.Call(ctx, MethodInitialize, &params, &c.agent)
	switch {
	case err != nil:
		err = fmt.Errorf("editor: initialize: %w", err)
	case c.agent.ProtocolVersion != Version:
		err = fmt.Errorf("%w: %d", ErrVersion, c.agent.ProtocolVersion)
	default:
		return c, nil
	}
	return nil, errors.Join(err, c.Close())
}

// capabilities returns the client's capabilities.
func (c *Client) capabilities() ClientCapabilities {
	caps := ClientCapabilities{FS: FileSystemCapabilities{ReadTextFile: c.opts.ReadTextFile != nil, WriteTextFile: c.opts.WriteTextFile != nil},
		Terminal: c.opts.Terminals != nil}
	if c.opts.Elicit != nil {
		caps.Elicitation = &ElicitationCapabilities{Form: &Mark{}}
		if c.opts.ElicitURL {
			caps.Elicitation.URL = &Mark{}
		}
	}
	if c.opts.Capabilities != nil {
		c.opts.Capabilities(&caps)
	}
	return caps
}

// Close closes the conversation and waits for its goroutines.
func (c *Client) Close() error {
	err := c.conn.Close()
	grace.Wait(&c.serving, grace.Time) // the caller's callbacks may not return
	return err
}

// Agent returns the agent's initialize result.
func (c *Client) Agent() InitializeResult { return c.agent }

// Call calls any method of the agent, such as an extension, whose name begins with an underscore.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.doCall(ctx, method, params, result, jsonrpc.ID{}, nil)
}

// Notify sends any notification to the agent.
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	return c.conn.Notify(ctx, method, params)
}

// doCall makes one call. The client generates the ids of all its calls, so that an id is known
// before the call is sent.
func (c *Client) doCall(ctx context.Context, method string, params, result any, id jsonrpc.ID, on func(*jsonrpc.Request) error) error {
	if id.IsZero() {
		id = jsonrpc.IntID(c.ids.Add(1))
	}
	return c.conn.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result, ID: id, On: on})
}

// Authenticate logs in.
func (c *Client) Authenticate(ctx context.Context, methodID string) error {
	return c.Call(ctx, MethodAuthenticate, AuthenticateParams{MethodID: methodID}, nil)
}

// Logout logs out after Authenticate.
func (c *Client) Logout(ctx context.Context) error {
	if auth := c.agent.AgentCapabilities.Auth; auth == nil || auth.Logout == nil {
		return ErrNotSupported
	}
	return c.Call(ctx, MethodLogout, Empty{}, nil)
}

// ListSessions returns one page of the stored sessions.
func (c *Client) ListSessions(ctx context.Context, p *ListSessionsParams) (*ListSessionsResult, error) {
	if c.agent.AgentCapabilities.SessionCapabilities.List == nil {
		return nil, ErrNotSupported
	}
	out := new(ListSessionsResult)
	return out, c.Call(ctx, MethodListSessions, p, out)
}

// CloseSession closes a session, and stops what runs in it.
func (c *Client) CloseSession(ctx context.Context, sessionID string) error {
	if c.agent.AgentCapabilities.SessionCapabilities.Close == nil {
		return ErrNotSupported
	}
	if err := c.Call(ctx, MethodCloseSession, SessionParams{SessionID: sessionID}, nil); err != nil {
		return err
	}
	c.forgetSession(sessionID)
	return nil
}

// DeleteSession removes a session from the list.
func (c *Client) DeleteSession(ctx context.Context, sessionID string) error {
	if c.agent.AgentCapabilities.SessionCapabilities.Delete == nil {
		return ErrNotSupported
	}
	if err := c.Call(ctx, MethodDeleteSession, SessionParams{SessionID: sessionID}, nil); err != nil {
		return err
	}
	c.forgetSession(sessionID)
	return nil
}

func (c *Client) forgetSession(sessionID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.sessions[sessionID]; v != nil && v.id.IsZero() {
		delete(c.sessions, sessionID)
	}
}

// SetMode selects one of a session's modes.
func (c *Client) SetMode(ctx context.Context, sessionID, modeID string) error {
	return c.Call(ctx, MethodSetMode, SetModeParams{SessionID: sessionID, ModeID: modeID}, nil)
}

// SetConfigOption sets one of a session's options to a value, a string or a bool, and returns all
// options.
func (c *Client) SetConfigOption(ctx context.Context, sessionID, configID string, value any) ([]ConfigOption, error) {
	text, err := appendValue(nil, value)
	if err != nil {
		return nil, err
	}
	p := SetConfigOptionParams{SessionID: sessionID, ConfigID: configID, Value: text}
	if _, ok := value.(bool); ok {
		p.Type = OptionBoolean
	}
	var out SetConfigOptionResult
	err = c.Call(ctx, MethodSetConfigOption, p, &out)
	return out.ConfigOptions, err
}
