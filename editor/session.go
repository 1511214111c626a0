package editor

import (
	"context"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Editor is the client in an agent's handler. Messages sent through it belong to the request
// that is being handled, and are sent before the response, except for an Editor from
// [Session.Outside]. It is safe for concurrent use.
type Editor struct {
	side *side
	peer jsonrpc.Peer
}

func (e *Editor) client() *InitializeParams {
	e.side.mu.Lock()
	defer e.side.mu.Unlock()
	return e.side.client
}

// Info returns the client's name and version, or nil if it has sent none.
func (e *Editor) Info() *Implementation {
	if c := e.client(); c != nil {
		return c.ClientInfo
	}
	return nil
}

// Capabilities returns the client's capabilities.
func (e *Editor) Capabilities() ClientCapabilities {
	if c := e.client(); c != nil {
		return c.ClientCapabilities
	}
	return ClientCapabilities{}
}

// Call calls any method of the client, such as an extension, whose name begins with an underscore.
func (e *Editor) Call(ctx context.Context, method string, params, result any) error {
	return e.peer.Call(ctx, method, params, result)
}

// Notify sends any notification to the client.
func (e *Editor) Notify(ctx context.Context, method string, params any) error {
	return e.peer.Notify(ctx, method, params)
}

// Elicit asks the user for input. It returns ErrNotSupported if the client does not support p.Mode.
func (e *Editor) Elicit(ctx context.Context, p *ElicitParams) (*ElicitResult, error) {
	can := e.Capabilities().Elicitation
	if can == nil || p.Mode == ElicitForm && can.Form == nil || p.Mode == ElicitURL && can.URL == nil {
		return nil, ErrNotSupported
	}
	out := new(ElicitResult)
	return out, e.peer.Call(ctx, MethodElicit, p, out)
}

// ElicitationDone reports that the user has completed what the URL was for.
func (e *Editor) ElicitationDone(ctx context.Context, id string) error {
	return e.peer.Notify(ctx, NotifyElicitationDone, ElicitDoneParams{ElicitationID: id})
}

// A Session is a conversation in an agent's handler.
type Session struct {
	*Editor
	ID  string
	CWD string // absolute

	req *jsonrpc.Request
}

// Outside returns a Session that remains usable after the response to the request. Use it for
// messages that the agent sends on its own initiative.
func (s *Session) Outside() *Session {
	return &Session{Editor: &Editor{side: s.side, peer: s.side.conn}, ID: s.ID, CWD: s.CWD}
}

// After runs f once the response to the request is queued: messages from f follow it. A handler of
// session/new uses it to send updates about a session that the client does not know yet. f must not
// wait for the client. Do not call After when the handler has returned, or on a Session from
// [Session.Outside].
func (s *Session) After(f func(*Session)) {
	s.req.After(func() { f(s.Outside()) })
}

// Update sends an update about the session to the client.
func (s *Session) Update(ctx context.Context, u *Update) error {
	return s.peer.Notify(ctx, NotifyUpdate, &UpdateParams{SessionID: s.ID, Update: u})
}

// Say sends a piece of the agent's message.
func (s *Session) Say(ctx context.Context, text string) error { return s.Update(ctx, Say(text)) }

// RequestPermission asks the user whether a tool may run. If the turn is cancelled meanwhile, the
// outcome reports it, or ctx is canceled.
func (s *Session) RequestPermission(ctx context.Context, tool ToolCall, options ...PermissionOption) (*PermissionResult, error) {
	out := new(PermissionResult)
	return out, s.peer.Call(ctx, MethodRequestPermission, &PermissionParams{SessionID: s.ID, ToolCall: tool, Options: append([]PermissionOption{}, options...)}, out)
}

// ReadTextFile reads a file in its current state in the editor. Line counts from 1, and limit is in
// lines; zero means from the first, and to the last. It returns ErrNotSupported if the client does
// not support reading files.
func (s *Session) ReadTextFile(ctx context.Context, path string, line, limit int) (string, error) {
	if !s.Capabilities().FS.ReadTextFile {
		return "", ErrNotSupported
	}
	var out ReadTextFileResult
	err := s.peer.Call(ctx, MethodReadTextFile, ReadTextFileParams{SessionID: s.ID, Path: path, Line: line, Limit: limit}, &out)
	return out.Content, err
}

// WriteTextFile writes a file through the editor. It returns ErrNotSupported if the client does not
// support writing files.
func (s *Session) WriteTextFile(ctx context.Context, path, content string) error {
	if !s.Capabilities().FS.WriteTextFile {
		return ErrNotSupported
	}
	return s.peer.Call(ctx, MethodWriteTextFile, WriteTextFileParams{SessionID: s.ID, Path: path, Content: content}, nil)
}

// A Terminal is a command that runs on the client's side. Its creator must release it.
type Terminal struct {
	ID      string
	session *Session
}

// CreateTerminal starts a command. It sets p.SessionID. It returns ErrNotSupported if the client
// does not support terminals.
func (s *Session) CreateTerminal(ctx context.Context, p CreateTerminalParams) (*Terminal, error) {
	if !s.Capabilities().Terminal {
		return nil, ErrNotSupported
	}
	p.SessionID = s.ID
	var out CreateTerminalResult
	if err := s.peer.Call(ctx, MethodCreateTerminal, p, &out); err != nil {
		return nil, err
	}
	return &Terminal{ID: out.TerminalID, session: s}, nil
}

func (t *Terminal) callTerminal(ctx context.Context, method string, result any) error {
	return t.session.peer.Call(ctx, method, TerminalParams{SessionID: t.session.ID, TerminalID: t.ID}, result)
}

// Output returns the output of the command so far, and its exit status if it has exited.
func (t *Terminal) Output(ctx context.Context) (*TerminalOutputResult, error) {
	out := new(TerminalOutputResult)
	return out, t.callTerminal(ctx, MethodTerminalOutput, out)
}

// Wait waits until the command has exited.
func (t *Terminal) Wait(ctx context.Context) (*ExitStatus, error) {
	out := new(ExitStatus)
	return out, t.callTerminal(ctx, MethodWaitForExit, out)
}

// Kill ends the command. Its output remains available until Release.
func (t *Terminal) Kill(ctx context.Context) error {
	return t.callTerminal(ctx, MethodKillTerminal, nil)
}

// Release ends the command if it runs, and removes the terminal.
func (t *Terminal) Release(ctx context.Context) error {
	return t.callTerminal(ctx, MethodReleaseTerminal, nil)
}
