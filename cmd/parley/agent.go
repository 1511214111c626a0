package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// Code shared by the commands of ACP, A2A and the Agent Client Protocol: one agent works, and the
// terminal shows its output as it arrives.

// An agentCommand is one execution of such a command: its flags and the values derived from them.
type agentCommand struct {
	app    *app
	output outputFlags
	reach  reachFlags

	data    string
	files   []string
	session string
	answers []string
	yes, no bool
	detach  bool
	skill   string // A2A
	state   string // A2A
	binding string // ACP
	cwd     string // editor
	noWrite bool   // editor
	auth    string // editor

	printer *printer
	tracer  *tracer
	target  parley.Target
	tls     *tls.Config // how the server is trusted
	words   []string
	screen  *screen

	patience *patience
	runs     *agent.Client // nil if the protocol has no runs
	acp      *acp.Client
	a2a      *a2a.Client
	card     *a2a.AgentCard
	hangUp   func() error

	again string // the command line that returns to a run, without its ID

	question sync.Mutex // held while the user answers a question
	mu       sync.Mutex // guards the fields below
	asked    int        // number of answers used
	run      string     // run ID
	midLine  bool       // stdout is in the middle of a line
	told     string     // the last progress message without numbers
}

// agentVerbCommand returns one command. connect creates the client; do receives the words after the
// target.
func (a *app) agentVerbCommand(cmd *cobra.Command, connect, do func(ctx context.Context, v *agentCommand) error) (*cobra.Command, *agentCommand) {
	v := &agentCommand{app: a, hangUp: func() error { return nil }}
	v.output.registerWith(cmd, formText, append([]string{formText}, forms...))
	v.reach.registerCommon(cmd)
	cmd.RunE = func(cmd *cobra.Command, words []string) error { return v.do(cmd.Context(), words, connect, do) }
	return cmd, v
}

// running adds the flags of commands that run an agent.
func (v *agentCommand) running(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&v.answers, "answer", nil, "`TEXT` to answer a question of the agent; repeatable, in the order of the questions")
	f.BoolVar(&v.yes, "yes", false, "allow everything that the agent requests permission for")
	f.BoolVar(&v.no, "no", false, "reject everything that the agent requests permission for")
}

// sending adds the flags of commands that send input to an agent.
func (v *agentCommand) sending(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&v.data, "data", "d", "", "read the message from a file (`@FILE`) or stdin (-) instead of the arguments")
	f.StringArrayVar(&v.files, "file", nil, "send `FILE` along; repeatable")
	f.StringVar(&v.session, "session", "", "continue the conversation `ID`")
	v.running(cmd)
}

func (v *agentCommand) do(ctx context.Context, words []string, connect, do func(context.Context, *agentCommand) error) (err error) {
	if v.output.jq != "" && v.output.format == formText {
		v.output.format = "json"
	}
	if v.printer, err = v.app.printer(v.output); err != nil {
		return err
	}
	if v.yes && v.no {
		return usagef("--yes and --no cannot be used together")
	}
	if v.target, v.words, err = v.app.target(ctx, &v.reach, words, true); err != nil {
		return err
	}
	if err := v.reach.fit(v.target); err != nil {
		return err
	}
	if v.reach.trace != "" {
		if v.tracer, err = v.app.tracer(v.reach.trace, v.output.colour); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.tracer.close()) }()
	}
	v.screen = &screen{w: v.app.stderr, bar: isTerminal(v.app.stderr) && v.reach.trace != traceToStderr}
	var stop func()
	ctx, v.patience, stop = newPatience(ctx, v.reach.timeout, func() []jsonrpc.ID { return nil })
	defer stop()
	if err = connect(ctx, v); err == nil {
		err = do(ctx, v)
	}
	v.screen.clear()
	v.endLine()
	why := err
	if err != nil {
		err = v.explain(ctx, err)
		v.app.complainAs(err, agentExit(err))
		why, err = err, &silentError{agentExit(err)}
	}
	hangUp(why, v.hangUp)
	return err
}

// agentExit maps an error to an exit code. An agent that fails counts as a failed tool.
func agentExit(err error) int {
	switch e := (*acp.Error)(nil); {
	case is[*loginError](err):
		return exitAuth
	case is[*placeError](err):
		return exitAway
	case is[*agent.Failure](err), errors.Is(err, agent.ErrNoAnswer):
		return exitTool
	case errors.Is(err, agent.ErrCancelled):
		return exitCancelled
	case errors.As(err, &e):
		return exitRPC
	case errors.Is(err, httprpc.ErrUnauthorized), errors.Is(err, httprpc.ErrForbidden):
		return exitAuth
	case is[*httprpc.StatusError](err):
		if e, _ := errors.AsType[*httprpc.StatusError](err); e.Status >= 500 {
			return exitAway
		}
		return exitProtocol
	}
	return exitCode(err)
}

// explain turns err into an error for the user.
func (v *agentCommand) explain(ctx context.Context, err error) error {
	v.mu.Lock()
	run := v.run
	v.mu.Unlock()
	if e := v.loginError(ctx, err); e != nil {
		return e
	}
	switch {
	case errors.Is(context.Cause(ctx), errImpatient):
		text := fmt.Sprintf("no message from the agent for %s (--timeout)", v.reach.timeout)
		if run != "" {
			text += "; outstanding: " + visible(run, 60)
		}
		return &shownError{text, errImpatient}
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted):
		if v.again != "" && run != "" {
			return &shownError{"detached; to attach again, run: " + v.again + " " + shellWord(run), errInterrupted}
		}
		return &shownError{"cancelled; the agent was notified", errInterrupted}
	case errors.Is(err, agent.ErrCancelled):
		return &shownError{"the run was cancelled", agent.ErrCancelled}
	case errors.Is(err, agent.ErrNoAnswer):
		return &shownError{"the agent's question has no answer; use --answer TEXT, --yes or --no", err}
	case errors.Is(err, httprpc.ErrUnauthorized):
		return &shownError{"the server requires authentication; use --token-file FILE", err}
	}
	if f, ok := errors.AsType[*agent.Failure](err); ok {
		what := "the agent failed: "
		if f.State == agent.Rejected {
			what = "the agent refused: "
		}
		if strings.EqualFold(what, f.Text+": ") || f.Text == "The agent failed." {
			return &shownError{"the agent failed", err}
		}
		return &shownError{what + f.Text, err}
	}
	if found := (&placeFinder{target: v.target, tls: v.tls, paths: []string{"/rpc", "/a2a", "/acp", "/"}}).explain(ctx, err); is[*placeError](found) && status(err) != http.StatusNotFound {
		return found
	}
	if errors.Is(err, jsonrpc.ErrMethodNotFound) {
		return &shownError{v.target.String() + " does not support this protocol: it returned " + jsonrpc.ErrMethodNotFound.Error(), err}
	}
	if e, ok := errors.AsType[*httprpc.StatusError](err); ok && e.Status == http.StatusNotFound {
		return &placeError{"no server for this protocol at " + v.target.String() + " (HTTP 404)", err}
	}
	if e, ok := errors.AsType[*acp.Error](err); ok {
		return &shownError{e.Message, err}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return &dialError{v.target, err}
	}
	return err
}

// isHTTP reports whether the target uses HTTP requests.
func isHTTP(t parley.Target) bool { return t.Scheme == "http" || t.Scheme == "https" }

// dialer returns a Dialer for an agent protocol.
func (v *agentCommand) dialer() (*parley.Dialer, error) {
	d, err := v.app.dialer(v.reach)
	if err != nil {
		return nil, err
	}
	v.tls = d.TLS
	d.Limits.CallTime = -1 // patience limits the time
	d.Stderr = func(line string) { v.screen.line(v.app.childLine(line)) }
	d.Report = v.report
	if v.tracer != nil {
		d.Tap = v.see
	}
	return d, nil
}

// see prints one message of the trace on its own line, even if output of the agent is being written
// to the same terminal.
func (v *agentCommand) see(f parley.Frame) {
	v.mu.Lock()
	if v.midLine && v.printer.terminal && v.tracer.asLines {
		fmt.Fprintln(v.app.stderr)
		v.midLine = false
	}
	v.mu.Unlock()
	v.tracer.see(f)
}

// report prints an error that is reported nowhere else.
func (v *agentCommand) report(what string, err error) {
	v.screen.line(fmt.Sprintf("parley: %s: %s", what, visible(err.Error(), 400)))
}

// httpClient returns the client for bindings that send their requests themselves, or nil if their
// default suffices.
func (v *agentCommand) httpClient(d *parley.Dialer) *http.Client {
	if v.tracer == nil {
		return nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = d.TLS
	return &http.Client{Transport: &tracedTransport{next: t, tracer: v.tracer}}
}

// input returns the agent's input: the words from the first on, -d, and files.
func (v *agentCommand) input(words []string) ([]agent.Message, error) {
	text := strings.Join(words, " ")
	if v.data != "" {
		if text != "" {
			return nil, usagef("-d already has the message; remove the argument %q", cut(words[0], 60))
		}
		content, err := v.app.readData(v.data)
		if err != nil {
			return nil, err
		}
		text = string(content)
	}
	var parts []agent.Part
	if text != "" {
		parts = append(parts, agent.Text(strings.ToValidUTF8(text, "\uFFFD")))
	}
	for _, name := range v.files {
		p, err := filePart(name)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	if parts == nil {
		return nil, usagef("missing message: add it as arguments, with -d @FILE, or with -d - for stdin")
	}
	return agent.User(parts...), nil
}

// maxFile is the maximum size of one attached file, in bytes.
const maxFile = 4 << 20

func filePart(name string) (agent.Part, error) {
	f, err := os.Open(name)
	if err != nil {
		return agent.Part{}, usagef("--file: %v", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return agent.Part{}, usagef("--file: %v", err)
	}
	if len(content) > maxFile {
		return agent.Part{}, usagef("--file %s: larger than %s", name, bytesOf(maxFile))
	}
	kind := mime.TypeByExtension(filepath.Ext(name))
	p := agent.Bytes(orElse(kind, "application/octet-stream"), content)
	if utf8.Valid(content) && (kind == "" || strings.HasPrefix(kind, "text/")) {
		p = agent.Text(string(content))
		p.MediaType = orElse(kind, "text/plain")
	}
	p.Filename = filepath.Base(name)
	return p, nil
}

// follow shows a run until it ends, and prints the result.
func (v *agentCommand) follow(ctx context.Context, run func(agent.Caller) (*agent.Result, error)) error {
	result, err := run(agent.Funcs{OnEvent: v.heard, OnAsk: v.ask})
	v.screen.clear()
	if result != nil {
		if e := v.printResult(ctx, result); e != nil {
			return e
		}
	}
	return err
}

// heard shows one event.
func (v *agentCommand) heard(ctx context.Context, e agent.Event) error {
	v.patience.renew()
	if e.Kind == agent.EventStarted {
		v.mu.Lock()
		v.run = e.ID
		v.mu.Unlock()
	}
	if v.output.format == "ndjson" {
		return v.printLine(ctx, e)
	}
	switch {
	case e.Kind == agent.EventProgress:
		v.progress(e.Progress)
	case v.output.format != formText:
	case e.Kind == agent.EventOutput:
		return v.printParts(e.Parts)
	case e.Kind == agent.EventOther:
		v.other(e.Metadata)
	}
	return nil
}

// progress shows the agent's progress. It draws no bar if stdout is in the middle of a line.
func (v *agentCommand) progress(p *agent.Progress) {
	v.mu.Lock()
	crowded := v.midLine && v.screen.bar && v.printer.terminal
	same := p.Total == 0 && p.Done == 0 && p.Message == v.told
	v.told = p.Message
	v.mu.Unlock()
	switch {
	case crowded || same:
	case p.Total == 0 && p.Done == 0:
		v.screen.line(harmless.Gutter + visible(p.Message, 400))
	default:
		v.screen.progress(p.Done, p.Total, p.Message)
	}
}

// printParts writes parts of the output: text to stdout as it arrives, and descriptions of other
// parts to stderr.
func (v *agentCommand) printParts(parts []agent.Part) error {
	v.screen.clear()
	for _, p := range parts {
		if !p.IsText() || p.Name != "" {
			v.endLine()
			v.screen.line(aboutPart(&p))
			continue
		}
		if p.Text == "" {
			continue
		}
		v.mu.Lock()
		q := quoter{person: v.printer.terminal, midLine: v.midLine}
		text := q.append(nil, p.Text)
		v.midLine = q.midLine
		v.mu.Unlock()
		if _, err := v.printer.w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// aboutPart returns the description of a part that is not plain text.
func aboutPart(p *agent.Part) string {
	name := visible(orElse(p.Name, orElse(p.Filename, "a part")), 80)
	switch {
	case p.URL != "":
		return fmt.Sprintf("[%s, %s: %s]", name, visible(p.Type(), 60), visible(p.URL, 400))
	case p.JSON != nil:
		return fmt.Sprintf("[%s: %s]", name, visible(string(appendCompact(nil, p.JSON, palette{})), 400))
	}
	return fmt.Sprintf("[%s, %s, %s; use -o json to get it]", name, visible(p.Type(), 60), bytesOf(len(p.Data)+len(p.Text)))
}

// endLine ends the current line of stdout.
func (v *agentCommand) endLine() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.midLine {
		_, _ = v.printer.w.Write([]byte("\n")) // the write before reported a closed reader
		v.midLine = false
	}
}

// printResult prints how a run ended.
func (v *agentCommand) printResult(ctx context.Context, r *agent.Result) error {
	v.endLine()
	switch v.output.format {
	case formText:
	case "ndjson":
		if err := v.printLine(ctx, agent.Event{Kind: agent.EventEnded, Result: r}); err != nil {
			return err
		}
	default:
		if err := v.print(ctx, r); err != nil {
			return err
		}
	}
	if r.State == agent.Waiting && r.Question != nil {
		note := "the agent asks: " + visible(agent.TextOf(r.Question.Content()), 400)
		if choices := r.Question.Choices(); choices != "" {
			note += " (" + visible(choices, 400) + ")"
		}
		if again := v.resumeWith(); again != "" {
			note += "\nto answer, run " + again + " " + visible(shellWord(r.ID), 300) + " ANSWER"
		}
		v.screen.line(note)
	}
	return nil
}

// resumeWith returns the command line that answers a waiting run, without the run's ID.
func (v *agentCommand) resumeWith() string {
	name := "acp"
	switch {
	case v.a2a != nil:
		name = "a2a"
	case v.acp == nil:
		return ""
	}
	return commandName() + " " + name + " resume " + shellWord(v.target.String())
}

func (v *agentCommand) print(ctx context.Context, value any) error {
	raw, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return err
	}
	return v.printer.print(ctx, raw)
}

func (v *agentCommand) printLine(ctx context.Context, value any) error {
	raw, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return err
	}
	return v.printer.line(ctx, raw)
}

// listing returns a listing for people, with lines that fit the terminal.
func (v *agentCommand) listing() *listing {
	b := &listing{palette: v.printer.palette, width: textWidth}
	if v.printer.terminal {
		b.width = min(textWidth, widthOf(v.printer.w)-1)
	}
	return b
}

// one returns the only word after the target. what describes it in the usage error.
func (v *agentCommand) one(what string) (string, error) {
	switch {
	case len(v.words) == 0:
		return "", usagef("missing %s after the address", what)
	case len(v.words) > 1:
		return "", usagef("unexpected argument %q after %s; quote a text with blanks", cut(v.words[1], 60), what)
	}
	return v.words[0], nil
}
