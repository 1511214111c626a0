package editor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/interop/editor/tourist"
	"github.com/da1ed7bb/parley/transport/stream"
)

var quiet = slog.New(slog.DiscardHandler)

// goAgent is coder/acp-go-sdk as an agent: the tour, without elicitation.
type goAgent struct {
	acp.Agent // for the methods that are not called

	conn  *acp.AgentSideConnection
	mu    sync.Mutex
	stops map[acp.SessionId]context.CancelFunc
}

func (a *goAgent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{ProtocolVersion: acp.ProtocolVersionNumber, AgentCapabilities: acp.AgentCapabilities{LoadSession: true}}, nil
}

func (a *goAgent) NewSession(context.Context, acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	return acp.NewSessionResponse{SessionId: "go-1"}, nil
}

func (a *goAgent) LoadSession(ctx context.Context, p acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	err := a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: p.SessionId, Update: acp.UpdateUserMessageText("before")})
	return acp.LoadSessionResponse{}, errors.Join(err, a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: p.SessionId, Update: acp.UpdateAgentMessageText("as well")}))
}

func (a *goAgent) Cancel(_ context.Context, p acp.CancelNotification) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if stop := a.stops[p.SessionId]; stop != nil {
		stop()
	}
	return nil
}

func (a *goAgent) Prompt(_ context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	a.mu.Lock()
	a.stops[p.SessionId] = stop
	a.mu.Unlock()
	reason, err := a.turn(ctx, p.SessionId, p.Prompt[0].Text.Text)
	if ctx.Err() != nil {
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
	}
	return acp.PromptResponse{StopReason: reason, Meta: map[string]any{"miles": 12}}, err
}

func (a *goAgent) turn(ctx context.Context, id acp.SessionId, words string) (acp.StopReason, error) {
	update := func(u acp.SessionUpdate) error {
		return a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: id, Update: u})
	}
	ask := func(tool acp.ToolCallId, title string) (acp.RequestPermissionResponse, error) {
		return a.conn.RequestPermission(ctx, acp.RequestPermissionRequest{SessionId: id, ToolCall: acp.ToolCallUpdate{ToolCallId: tool, Title: &title}, Options: []acp.PermissionOption{
			{OptionId: "no", Name: "No", Kind: acp.PermissionOptionKindRejectOnce}, {OptionId: "yes", Name: "Yes", Kind: acp.PermissionOptionKindAllowOnce}}})
	}
	switch words {
	case "wait":
		if err := update(acp.UpdateAgentMessageText("waiting")); err != nil {
			return "", err
		}
		<-ctx.Done()
		return acp.StopReasonCancelled, nil
	case "question":
		said, err := ask("q", "May I?")
		if err == nil && said.Outcome.Cancelled != nil {
			return acp.StopReasonCancelled, nil
		}
		return acp.StopReasonEndTurn, err
	case "flood":
		for i := range 1000 {
			if err := update(acp.UpdateAgentMessageText(fmt.Sprintf("%d ", i))); err != nil {
				return "", err
			}
		}
		return acp.StopReasonMaxTokens, nil
	}
	const notes = "/tour/notes.txt"
	one := 1
	err := errors.Join(
		update(acp.UpdateAgentThoughtText("hm")),
		update(acp.UpdatePlan(acp.PlanEntry{Content: "look around", Priority: acp.PlanEntryPriorityHigh, Status: acp.PlanEntryStatusInProgress})),
		update(acp.StartToolCall("edit", "Edit the notes", acp.WithStartKind(acp.ToolKindEdit))))
	if err != nil {
		return "", err
	}
	file, err := a.conn.ReadTextFile(ctx, acp.ReadTextFileRequest{SessionId: id, Path: notes, Line: &one, Limit: &one})
	if err != nil {
		return "", err
	}
	said, err := ask("edit", "Edit the notes")
	if err != nil {
		return "", err
	}
	if said.Outcome.Selected == nil || said.Outcome.Selected.OptionId != "yes" {
		return acp.StopReasonRefusal, nil
	}
	if _, err := a.conn.WriteTextFile(ctx, acp.WriteTextFileRequest{SessionId: id, Path: notes, Content: file.Content + "!"}); err != nil {
		return "", err
	}
	if err := update(acp.UpdateToolCall("edit", acp.WithUpdateStatus(acp.ToolCallStatusCompleted), acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolDiffContent(notes, file.Content+"!", file.Content)}))); err != nil {
		return "", err
	}
	term, err := a.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{SessionId: id, Command: "echo", Args: []string{"hello"}})
	if err != nil {
		return "", err
	}
	exit, err := a.conn.WaitForTerminalExit(ctx, acp.WaitForTerminalExitRequest{SessionId: id, TerminalId: term.TerminalId})
	if err != nil {
		return "", err
	}
	out, err := a.conn.TerminalOutput(ctx, acp.TerminalOutputRequest{SessionId: id, TerminalId: term.TerminalId})
	if err != nil {
		return "", err
	}
	if _, err := a.conn.ReleaseTerminal(ctx, acp.ReleaseTerminalRequest{SessionId: id, TerminalId: term.TerminalId}); err != nil {
		return "", err
	}
	return acp.StopReasonEndTurn, update(acp.UpdateAgentMessageText(fmt.Sprintf("%s %s %d nobody", file.Content, out.Output, *exit.ExitCode)))
}

func TestClientOfGoAgent(t *testing.T) {
	walk(t, func(o *editor.ClientOptions) *editor.Client {
		here, there := net.Pipe()
		a := &goAgent{stops: map[acp.SessionId]context.CancelFunc{}}
		a.conn = acp.NewAgentSideConnection(a, there, there)
		a.conn.SetLogger(quiet)
		c, err := editor.Connect(t.Context(), stream.New(here, stream.Line, nil), editor.Implementation{Name: "traveller", Version: "1.0"}, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Close()
			<-a.conn.Done()
		})
		return c
	}, false, "nobody")
}

// goClient is coder/acp-go-sdk as a client.
type goClient struct {
	acp.Client // for the methods that are not called

	mu    sync.Mutex
	log   []string
	text  strings.Builder
	grant acp.PermissionOptionId
	asked chan struct{}
	said  chan string
	lists chan struct{} // capacity 1; signals a list of commands
}

func (c *goClient) note(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, line)
}

func (c *goClient) SessionUpdate(_ context.Context, p acp.SessionNotification) error {
	u := p.Update
	switch {
	case u.AgentMessageChunk != nil:
		c.mu.Lock()
		c.text.WriteString(u.AgentMessageChunk.Content.Text.Text)
		c.mu.Unlock()
		select {
		case c.said <- u.AgentMessageChunk.Content.Text.Text:
		default:
		}
	case u.AgentThoughtChunk != nil:
		c.note("thought " + u.AgentThoughtChunk.Content.Text.Text)
	case u.Plan != nil:
		c.note("plan " + u.Plan.Entries[0].Content)
	case u.ToolCall != nil:
		c.note("tool " + u.ToolCall.Title)
	case u.ToolCallUpdate != nil:
		c.note("changed " + u.ToolCallUpdate.Content[0].Diff.NewText)
	case u.AvailableCommandsUpdate != nil:
		c.note("commands " + u.AvailableCommandsUpdate.AvailableCommands[0].Name)
		select {
		case c.lists <- struct{}{}:
		default:
		}
	}
	return nil
}

func (c *goClient) RequestPermission(ctx context.Context, p acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	if c.grant == "" {
		close(c.asked)
		<-ctx.Done()
		return acp.RequestPermissionResponse{Outcome: acp.RequestPermissionOutcome{Cancelled: &acp.RequestPermissionOutcomeCancelled{}}}, nil
	}
	c.note("asked " + *p.ToolCall.Title)
	return acp.RequestPermissionResponse{Outcome: acp.RequestPermissionOutcome{Selected: &acp.RequestPermissionOutcomeSelected{OptionId: c.grant}}}, nil
}

func (c *goClient) ReadTextFile(_ context.Context, p acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	c.note(fmt.Sprintf("read %s %d %d", p.Path, *p.Line, *p.Limit))
	return acp.ReadTextFileResponse{Content: "sea"}, nil
}

func (c *goClient) WriteTextFile(_ context.Context, p acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	c.note("write " + p.Content)
	return acp.WriteTextFileResponse{}, nil
}

func (c *goClient) CreateTerminal(_ context.Context, p acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.CreateTerminalResponse{TerminalId: strings.Join(p.Args, " ")}, nil
}

func (c *goClient) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{ExitCode: new(int)}, nil
}

func (c *goClient) TerminalOutput(_ context.Context, p acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{Output: p.TerminalId}, nil
}

func (c *goClient) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	return acp.ReleaseTerminalResponse{}, nil
}

func TestGoClientOfOurAgent(t *testing.T) {
	here, there := net.Pipe()
	agent := editor.NewAgent(editor.Implementation{Name: "tourist", Version: "1.0"}, tourist.Options())
	var serving sync.WaitGroup
	serving.Go(func() { _ = agent.Serve(context.WithoutCancel(t.Context()), stream.New(there, stream.Line, nil)) })
	defer serving.Wait()
	defer here.Close()
	c := &goClient{grant: "yes", asked: make(chan struct{}), said: make(chan string, 1), lists: make(chan struct{}, 1)}
	conn := acp.NewClientSideConnection(c, here, here)
	conn.SetLogger(quiet)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	info, err := conn.Initialize(ctx, acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber, ClientCapabilities: acp.ClientCapabilities{
		Fs: acp.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}, Terminal: true}})
	if err != nil || info.ProtocolVersion != 1 || info.AgentInfo.Name != "tourist" || !info.AgentCapabilities.LoadSession {
		t.Fatalf("Initialize = %+v, %v", info, err)
	}
	session, err := conn.NewSession(ctx, acp.NewSessionRequest{Cwd: "/tour", McpServers: []acp.McpServer{}})
	if err != nil || session.Modes.CurrentModeId != "ask" {
		t.Fatalf("NewSession = %+v, %v", session, err)
	}
	select { // it follows the response: a prompt that is sent earlier may be handled before it
	case <-c.lists:
	case <-ctx.Done():
		t.Fatal("no list of commands")
	}
	prompt := func(words string) acp.PromptResponse {
		t.Helper()
		end, err := conn.Prompt(ctx, acp.PromptRequest{SessionId: session.SessionId, Prompt: []acp.ContentBlock{acp.TextBlock(words)}})
		if err != nil {
			t.Fatalf("Prompt(%s): %v", words, err)
		}
		return end
	}
	if end := prompt("tour"); end.StopReason != acp.StopReasonEndTurn || c.text.String() != "sea hello 0 nobody" {
		t.Errorf("the tour ended with %s, %q", end.StopReason, c.text.String())
	}
	want := []string{"commands tour", "thought hm", "plan look around", "tool Edit the notes", "read /tour/notes.txt 1 1", "asked Edit the notes", "write sea!", "changed sea!"}
	// The library delivers requests concurrently with its queue of updates, so only the order
	// within each is defined.
	requests := func(line string) bool {
		return strings.HasPrefix(line, "read") || strings.HasPrefix(line, "asked") || strings.HasPrefix(line, "write")
	}
	split := func(lines []string, keep bool) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return requests(line) != keep })
	}
	for _, keep := range []bool{true, false} {
		if diff := cmp.Diff(split(want, keep), split(c.log, keep)); diff != "" {
			t.Errorf("what came (-want +got):\n%s", diff)
		}
	}
	c.grant = "no"
	if end := prompt("tour"); end.StopReason != acp.StopReasonRefusal {
		t.Errorf("refused: %s", end.StopReason)
	}
	select { // the updates of the tour
	case <-c.said:
	default:
	}
	var turn sync.WaitGroup
	turn.Go(func() {
		if end := prompt("wait"); end.StopReason != acp.StopReasonCancelled {
			t.Errorf("cancelled: %s", end.StopReason)
		}
	})
	<-c.said
	if err := conn.Cancel(ctx, acp.CancelNotification{SessionId: session.SessionId}); err != nil {
		t.Fatal(err)
	}
	turn.Wait()
	c.grant = ""
	turn.Go(func() {
		if end := prompt("question"); end.StopReason != acp.StopReasonCancelled {
			t.Errorf("cancelled while asked: %s", end.StopReason)
		}
	})
	<-c.asked
	if err := conn.Cancel(ctx, acp.CancelNotification{SessionId: session.SessionId}); err != nil {
		t.Fatal(err)
	}
	turn.Wait()
	c.mu.Lock()
	c.text.Reset()
	c.mu.Unlock()
	if end := prompt("flood"); end.StopReason != acp.StopReasonMaxTokens || !strings.HasSuffix(c.text.String(), "998 999 ") {
		t.Errorf("the flood ended with %s, %d bytes", end.StopReason, c.text.Len())
	}
}
