package editor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ClientOptions say what a [Client] does for agents. The zero value is a client without files and terminals that grants nothing. All
// functions are called on many goroutines at once, but for one session not before all updates that came earlier were handed over.
type ClientOptions struct {
	// Permission asks the user. ctx ends when the turn is cancelled; the answer is then OutcomeCancelled, whatever it returns. Nil: the first option
	// that rejects is chosen, and OutcomeCancelled if there is none.
	Permission func(ctx context.Context, p *PermissionParams) (*PermissionResult, error)

	// ReadTextFile and WriteTextFile are the editor's files. An error that wraps fs.ErrNotExist is answered "Resource not found". Nil: not offered.
	ReadTextFile  func(ctx context.Context, p *ReadTextFileParams) (string, error)
	WriteTextFile func(ctx context.Context, p *WriteTextFileParams) error

	// Terminals run commands. Nil: not offered.
	Terminals Terminals

	// Elicit asks the user. ElicitURL says that it takes the mode ElicitURL too. Nil: not offered.
	Elicit            func(ctx context.Context, p *ElicitParams) (*ElicitResult, error)
	ElicitURL         bool
	OnElicitationDone func(id string)

	// OnUpdate gets the updates that no call of this client takes: those between turns, and all of a turn whose Prompt has none to give
	// them to. It gets one after the other, in the order they came; while it runs no notification is handled. Nil drops them.
	OnUpdate func(*UpdateParams)

	// Extension answers requests and hears notifications whose method begins with an underscore. Nil: "Method not found".
	Extension func(ctx context.Context, req *jsonrpc.Request) (any, error)

	// Capabilities, when not nil, gets the capabilities before they go out, to add what the fields above cannot say.
	Capabilities func(*ClientCapabilities)

	// Meta goes into initialize.
	Meta Meta

	// CancelWait is how long Prompt waits for the agent's answer after its context has ended. Zero means 5 s.
	CancelWait time.Duration

	// Limits of the conversation. Events, which bounds the updates that wait for a slow receiver, is 65,536 when zero.
	Limits jsonrpc.Limits

	// Report gets what nobody else hears, as [jsonrpc.Answerer.Report] does. Nil drops it.
	Report func(what string, err error)
}

// Terminals run commands for agents. All methods may be called at the same time.
type Terminals interface {
	Create(ctx context.Context, p *CreateTerminalParams) (*CreateTerminalResult, error)
	Output(ctx context.Context, p *TerminalParams) (*TerminalOutputResult, error)
	Wait(ctx context.Context, p *TerminalParams) (*ExitStatus, error)
	Kill(ctx context.Context, p *TerminalParams) error
	Release(ctx context.Context, p *TerminalParams) error
}

// A Client talks to one agent. It is safe for concurrent use.
type Client struct {
	opts    ClientOptions
	conn    *jsonrpc.Conn
	agent   InitializeResult
	ids     atomic.Int64
	serving sync.WaitGroup

	mu       sync.Mutex // guards what follows
	sessions map[string]*conversation
	early    map[string]int // updates by session that were read and not counted, and which the Handler has not had yet
	opening  int            // calls that will name a new session
	opened   chan struct{}  // closed and replaced when one of those is over
}

// A conversation is what a client keeps of a session: which of its calls takes the updates, and how many it has taken.
type conversation struct {
	id        jsonrpc.ID // of that call; zero for none
	seen      int        // updates for it that were read
	taken     int        // of those, how many were handed over
	news      chan struct{}
	cancelled chan struct{} // closed when the turn was cancelled; nil for no turn
}

// maxEvents is how many updates may wait for whoever takes them.
const maxEvents = 65_536

// Connect opens a conversation on t, which it owns from then on. [Client.Close] ends it.
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
	c.serving.Go(func() { _ = conn.Serve(context.WithoutCancel(ctx)) }) // its cause shows in every call
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

// capabilities are what the client says of itself.
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

// Close ends the conversation and waits for what it started.
func (c *Client) Close() error {
	err := c.conn.Close()
	c.serving.Wait()
	return err
}

// Agent returns what the agent said of itself.
func (c *Client) Agent() InitializeResult { return c.agent }

// Call asks the agent for any method, such as an extension's, which begins with an underscore.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.do(ctx, method, params, result, jsonrpc.ID{}, nil)
}

// Notify sends the agent any notification.
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	return c.conn.Notify(ctx, method, params)
}

// do makes one call. All calls of a client have ids of its own making, so that the next one is known before it is sent.
func (c *Client) do(ctx context.Context, method string, params, result any, id jsonrpc.ID, on func(*jsonrpc.Request) error) error {
	if id.IsZero() {
		id = jsonrpc.IntID(c.ids.Add(1))
	}
	return c.conn.Do(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result, ID: id, On: on})
}

// Authenticate logs in.
func (c *Client) Authenticate(ctx context.Context, methodID string) error {
	return c.Call(ctx, MethodAuthenticate, AuthenticateParams{MethodID: methodID}, nil)
}

// Logout ends what Authenticate began.
func (c *Client) Logout(ctx context.Context) error {
	if auth := c.agent.AgentCapabilities.Auth; auth == nil || auth.Logout == nil {
		return ErrNotSupported
	}
	return c.Call(ctx, MethodLogout, Empty{}, nil)
}

// ListSessions returns one page of the sessions that can be loaded.
func (c *Client) ListSessions(ctx context.Context, p *ListSessionsParams) (*ListSessionsResult, error) {
	if c.agent.AgentCapabilities.SessionCapabilities.List == nil {
		return nil, ErrNotSupported
	}
	out := new(ListSessionsResult)
	return out, c.Call(ctx, MethodListSessions, p, out)
}

// CloseSession ends a session, and what runs in it.
func (c *Client) CloseSession(ctx context.Context, sessionID string) error {
	if c.agent.AgentCapabilities.SessionCapabilities.Close == nil {
		return ErrNotSupported
	}
	if err := c.Call(ctx, MethodCloseSession, SessionParams{SessionID: sessionID}, nil); err != nil {
		return err
	}
	c.forget(sessionID)
	return nil
}

// DeleteSession takes a session out of the list.
func (c *Client) DeleteSession(ctx context.Context, sessionID string) error {
	if c.agent.AgentCapabilities.SessionCapabilities.Delete == nil {
		return ErrNotSupported
	}
	if err := c.Call(ctx, MethodDeleteSession, SessionParams{SessionID: sessionID}, nil); err != nil {
		return err
	}
	c.forget(sessionID)
	return nil
}

func (c *Client) forget(sessionID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.sessions[sessionID]; v != nil && v.id.IsZero() {
		delete(c.sessions, sessionID)
	}
}

// SetMode chooses one of a session's modes.
func (c *Client) SetMode(ctx context.Context, sessionID, modeID string) error {
	return c.Call(ctx, MethodSetMode, SetModeParams{SessionID: sessionID, ModeID: modeID}, nil)
}

// SetConfigOption chooses a value of one of a session's options, a string or a bool, and returns all options.
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
