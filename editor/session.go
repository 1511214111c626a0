package editor

import (
	"context"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Editor is the client as an agent's handler sees it. What is sent through it belongs to the request that is being answered, and leaves before
// the answer; see [Editor.Outside]. It is safe for concurrent use.
type Editor struct {
	side *side
	peer jsonrpc.Peer
}

func (e *Editor) client() *InitializeParams {
	e.side.mu.Lock()
	defer e.side.mu.Unlock()
	return e.side.client
}

// Info returns how the client presented itself, and nil when it did not.
func (e *Editor) Info() *Implementation {
	if c := e.client(); c != nil {
		return c.ClientInfo
	}
	return nil
}

// Capabilities returns what the client can be asked for.
func (e *Editor) Capabilities() ClientCapabilities {
	if c := e.client(); c != nil {
		return c.ClientCapabilities
	}
	return ClientCapabilities{}
}

// Call asks the client for any method, such as an extension's, which begins with an underscore.
func (e *Editor) Call(ctx context.Context, method string, params, result any) error {
	return e.peer.Call(ctx, method, params, result)
}

// Notify sends the client any notification.
func (e *Editor) Notify(ctx context.Context, method string, params any) error {
	return e.peer.Notify(ctx, method, params)
}

// Elicit asks the user something. It returns ErrNotSupported when the client does not take p.Mode.
func (e *Editor) Elicit(ctx context.Context, p *ElicitParams) (*ElicitResult, error) {
	can := e.Capabilities().Elicitation
	if can == nil || p.Mode == ElicitForm && can.Form == nil || p.Mode == ElicitURL && can.URL == nil {
		return nil, ErrNotSupported
	}
	out := new(ElicitResult)
	return out, e.peer.Call(ctx, MethodElicit, p, out)
}

// ElicitationDone tells that what the user was sent to a URL for is done.
func (e *Editor) ElicitationDone(ctx context.Context, id string) error {
	return e.peer.Notify(ctx, NotifyElicitationDone, ElicitDoneParams{ElicitationID: id})
}

// A Session is a conversation as an agent's handler sees it.
type Session struct {
	*Editor
	ID  string
	CWD string // absolute

	req *jsonrpc.Request
}

// Outside returns the session with a voice that does not end with the answer to the request: for what the agent says of its own accord.
func (s *Session) Outside() *Session {
	return &Session{Editor: &Editor{side: s.side, peer: s.side.conn}, ID: s.ID, CWD: s.CWD}
}

// After runs f once the answer to the request is on its way: what f sends follows it. So a handler of session/new tells more about a session
// that the client does not know yet. f is not to wait for the client. It is not for use after the handler has returned, or in a Session
// that [Session.Outside] made.
func (s *Session) After(f func(*Session)) {
	s.req.After(func() { f(s.Outside()) })
}

// Update tells the client something about the session.
func (s *Session) Update(ctx context.Context, u *Update) error {
	return s.peer.Notify(ctx, NotifyUpdate, &UpdateParams{SessionID: s.ID, Update: u})
}

// Say sends a piece of the agent's answer.
func (s *Session) Say(ctx context.Context, text string) error { return s.Update(ctx, Say(text)) }

// RequestPermission asks the user whether a tool may run. When the turn is cancelled meanwhile the outcome says so, or ctx ends.
func (s *Session) RequestPermission(ctx context.Context, tool ToolCall, options ...PermissionOption) (*PermissionResult, error) {
	out := new(PermissionResult)
	return out, s.peer.Call(ctx, MethodRequestPermission, &PermissionParams{SessionID: s.ID, ToolCall: tool, Options: append([]PermissionOption{}, options...)}, out)
}

// ReadTextFile reads a file as the editor has it. Line counts from 1, and limit is in lines; zero means from the first, and to the last. It returns
// ErrNotSupported when the client has no files to read.
func (s *Session) ReadTextFile(ctx context.Context, path string, line, limit int) (string, error) {
	if !s.Capabilities().FS.ReadTextFile {
		return "", ErrNotSupported
	}
	var out ReadTextFileResult
	err := s.peer.Call(ctx, MethodReadTextFile, ReadTextFileParams{SessionID: s.ID, Path: path, Line: line, Limit: limit}, &out)
	return out.Content, err
}

// WriteTextFile writes a file through the editor. It returns ErrNotSupported when the client lets none be written.
func (s *Session) WriteTextFile(ctx context.Context, path, content string) error {
	if !s.Capabilities().FS.WriteTextFile {
		return ErrNotSupported
	}
	return s.peer.Call(ctx, MethodWriteTextFile, WriteTextFileParams{SessionID: s.ID, Path: path, Content: content}, nil)
}

// A Terminal is a command that runs at the client's. Whoever creates one releases it.
type Terminal struct {
	ID      string
	session *Session
}

// CreateTerminal starts a command; p.SessionID is set here. It returns ErrNotSupported when the client runs none.
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

func (t *Terminal) call(ctx context.Context, method string, result any) error {
	return t.session.peer.Call(ctx, method, TerminalParams{SessionID: t.session.ID, TerminalID: t.ID}, result)
}

// Output returns what the command has printed so far, and how it ended if it has.
func (t *Terminal) Output(ctx context.Context) (*TerminalOutputResult, error) {
	out := new(TerminalOutputResult)
	return out, t.call(ctx, MethodTerminalOutput, out)
}

// Wait returns when the command has ended.
func (t *Terminal) Wait(ctx context.Context) (*ExitStatus, error) {
	out := new(ExitStatus)
	return out, t.call(ctx, MethodWaitForExit, out)
}

// Kill ends the command. Its output stays until Release.
func (t *Terminal) Kill(ctx context.Context) error { return t.call(ctx, MethodKillTerminal, nil) }

// Release ends the command if it runs, and forgets the terminal.
func (t *Terminal) Release(ctx context.Context) error { return t.call(ctx, MethodReleaseTerminal, nil) }
