package main

import (
	"context"
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
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// What the verbs of ACP, A2A and the editor protocol have in common: one agent does something, and the terminal shows it as it comes.

// An agentVerb is one run of such a verb: its flags, and what they come to.
type agentVerb struct {
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

	printer *printer
	tracer  *tracer
	target  parley.Target
	words   []string
	screen  *screen

	patience *patience
	runs     *agent.Client // nil: no runs
	acp      *acp.Client
	a2a      *a2a.Client
	card     *a2a.AgentCard
	hangUp   func() error

	again string // what to type to come back to a run, up to its id

	question sync.Mutex // held while somebody is asked
	mu       sync.Mutex // guards what is below
	asked    int        // of answers
	run      string     // id
	midLine  bool       // stdout stands in the middle of a line
	told     string     // the last message of progress without numbers
}

// agentVerbCommand makes the command of one verb. connect makes the client; do gets the words behind the target.
func (a *app) agentVerbCommand(cmd *cobra.Command, connect, do func(ctx context.Context, v *agentVerb) error) (*cobra.Command, *agentVerb) {
	v := &agentVerb{app: a, hangUp: func() error { return nil }}
	v.output.registerWith(cmd, formText, append([]string{formText}, forms...))
	v.reach.registerCommon(cmd)
	cmd.RunE = func(cmd *cobra.Command, words []string) error { return v.do(cmd.Context(), words, connect, do) }
	return cmd, v
}

// running adds the flags of verbs in which an agent is at work.
func (v *agentVerb) running(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&v.answers, "answer", nil, "`TEXT` to answer when the agent asks; repeatable, for one question after the other")
	f.BoolVar(&v.yes, "yes", false, "allow whatever the agent wants to do")
	f.BoolVar(&v.no, "no", false, "allow nothing of what the agent wants to do")
}

// sending adds the flags of verbs that tell an agent what to do.
func (v *agentVerb) sending(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&v.data, "data", "d", "", "what to do, from a file (`@FILE`) or stdin (-), instead of words")
	f.StringArrayVar(&v.files, "file", nil, "send `FILE` along; repeatable")
	f.StringVar(&v.session, "session", "", "go on with the conversation `ID`")
	v.running(cmd)
}

func (v *agentVerb) do(ctx context.Context, words []string, connect, do func(context.Context, *agentVerb) error) (err error) {
	if v.output.jq != "" && v.output.format == formText {
		v.output.format = "json"
	}
	if v.printer, err = v.app.printer(v.output); err != nil {
		return err
	}
	if v.yes && v.no {
		return usagef("--yes and --no are two answers; leave one out")
	}
	if v.target, v.words, err = v.app.target(v.reach, words, true); err != nil {
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
	if err != nil {
		err = v.explain(ctx, err)
		v.app.complain(err)
		err = &silentError{agentExit(err)}
	}
	_ = v.hangUp() // how the conversation ends changes nothing
	return err
}

// agentExit sorts an error into the classes of exit codes: an agent that did not do it is as a tool that failed.
func agentExit(err error) int {
	switch e := (*acp.Error)(nil); {
	case is[*agent.Failure](err), errors.Is(err, agent.ErrNoAnswer):
		return exitTool
	case errors.Is(err, agent.ErrCancelled):
		return exitCancelled
	case errors.As(err, &e):
		return exitRPC
	case errors.Is(err, sse.ErrUnauthorized), errors.Is(err, sse.ErrForbidden):
		return exitAuth
	case is[*sse.StatusError](err):
		if e, _ := errors.AsType[*sse.StatusError](err); e.Status >= 500 {
			return exitAway
		}
		return exitProtocol
	}
	return exitCode(err)
}

// explain puts into words what was met.
func (v *agentVerb) explain(ctx context.Context, err error) error {
	v.mu.Lock()
	run := v.run
	v.mu.Unlock()
	switch {
	case errors.Is(context.Cause(ctx), errImpatient):
		text := fmt.Sprintf("nothing was heard for %s (--timeout)", v.reach.timeout)
		if run != "" {
			text += "; outstanding: " + visible(run, 60)
		}
		return &toldError{text, errImpatient}
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted):
		if v.again != "" && run != "" {
			return &toldError{"left; it goes on: " + v.again + " " + shellWord(run), errInterrupted}
		}
		return &toldError{"cancelled; the agent was told", errInterrupted}
	case errors.Is(err, agent.ErrCancelled):
		return &toldError{"the run was cancelled", agent.ErrCancelled}
	case errors.Is(err, agent.ErrNoAnswer):
		return &toldError{"the agent asked, and nobody answered; --answer TEXT, --yes or --no would", err}
	case errors.Is(err, sse.ErrUnauthorized):
		return &toldError{"the server wants to know who asks: --token-file FILE has a token for it", err}
	}
	if f, ok := errors.AsType[*agent.Failure](err); ok {
		what := "the agent failed: "
		if f.State == agent.Rejected {
			what = "the agent refused: "
		}
		if strings.EqualFold(what, f.Text+": ") || f.Text == "The agent failed." {
			return &toldError{"the agent failed", err}
		}
		return &toldError{what + f.Text, err}
	}
	if errors.Is(err, jsonrpc.ErrMethodNotFound) {
		return &toldError{v.target.String() + " does not speak this protocol: it answers " + jsonrpc.ErrMethodNotFound.Error(), err}
	}
	if e, ok := errors.AsType[*sse.StatusError](err); ok && e.Status == http.StatusNotFound {
		return &toldError{"nobody speaks this protocol at " + v.target.String() + " (HTTP 404)", err}
	}
	if e, ok := errors.AsType[*acp.Error](err); ok {
		return &toldError{e.Message, err}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return &dialError{v.target, err}
	}
	return err
}

// isHTTP reports whether a target is reached by requests over HTTP.
func isHTTP(t parley.Target) bool { return t.Scheme == "http" || t.Scheme == "https" }

// dialer makes a Dialer for a protocol of agents.
func (v *agentVerb) dialer() (*parley.Dialer, error) {
	d, err := v.app.dialer(v.reach)
	if err != nil {
		return nil, err
	}
	d.Limits.CallTime = -1 // patience has it
	d.Stderr = v.screen.line
	d.Report = v.report
	if v.tracer != nil {
		d.Tap = v.see
	}
	return d, nil
}

// see tells one message of the trace, on a line of its own also where the answer is being written on the same screen.
func (v *agentVerb) see(f parley.Frame) {
	v.mu.Lock()
	if v.midLine && v.printer.terminal && v.tracer.asLines {
		fmt.Fprintln(v.app.stderr)
		v.midLine = false
	}
	v.mu.Unlock()
	v.tracer.see(f)
}

// report tells what nobody else hears.
func (v *agentVerb) report(what string, err error) {
	v.screen.line(fmt.Sprintf("parley: %s: %s", what, visible(err.Error(), 400)))
}

// httpClient is for bindings that make their requests themselves; nil where theirs will do.
func (v *agentVerb) httpClient(d *parley.Dialer) *http.Client {
	if v.tracer == nil {
		return nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = d.TLS
	return &http.Client{Transport: &tracedTransport{next: t, tracer: v.tracer}}
}

// input is what the agent is told: the words from the first on, -d, and files.
func (v *agentVerb) input(words []string) ([]agent.Message, error) {
	text := strings.Join(words, " ")
	if v.data != "" {
		if text != "" {
			return nil, usagef("-d holds what to do already; the word %q is one too many", cut(words[0], 60))
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
		return nil, usagef("what shall the agent do? Words behind it say so, or -d @FILE, or -d - for stdin")
	}
	return agent.User(parts...), nil
}

// maxFile bounds one file that is sent along, in bytes.
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
		return agent.Part{}, usagef("--file %s: more than %s", name, bytesOf(maxFile))
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

// follow shows a run until it ends, and prints what came of it.
func (v *agentVerb) follow(ctx context.Context, run func(agent.Caller) (*agent.Result, error)) error {
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
func (v *agentVerb) heard(ctx context.Context, e agent.Event) error {
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
		return v.say(e.Parts)
	case e.Kind == agent.EventOther:
		v.other(e.Metadata)
	}
	return nil
}

// progress shows how far the agent is. In the middle of a line of text there is no room for a bar.
func (v *agentVerb) progress(p *agent.Progress) {
	v.mu.Lock()
	crowded := v.midLine && v.screen.bar && v.printer.terminal
	same := p.Total == 0 && p.Done == 0 && p.Message == v.told
	v.told = p.Message
	v.mu.Unlock()
	switch {
	case crowded || same:
	case p.Total == 0 && p.Done == 0:
		v.screen.line(visible(p.Message, 400))
	default:
		v.screen.progress(p.Done, p.Total, p.Message)
	}
}

// say writes parts of the answer: text to stdout as it comes, and of others what they are to stderr.
func (v *agentVerb) say(parts []agent.Part) error {
	v.screen.clear()
	for _, p := range parts {
		if !p.IsText() || p.Name != "" {
			v.endLine()
			v.screen.line(aboutPart(&p))
			continue
		}
		text := []byte(p.Text)
		if v.printer.terminal {
			text = appendHarmless(nil, text)
		}
		if len(text) == 0 {
			continue
		}
		if _, err := v.printer.w.Write(text); err != nil {
			return err
		}
		v.mu.Lock()
		v.midLine = text[len(text)-1] != '\n'
		v.mu.Unlock()
	}
	return nil
}

// aboutPart is what a terminal can tell of a part that is no plain text.
func aboutPart(p *agent.Part) string {
	name := visible(orElse(p.Name, orElse(p.Filename, "a part")), 80)
	switch {
	case p.URL != "":
		return fmt.Sprintf("[%s, %s: %s]", name, visible(p.Type(), 60), visible(p.URL, 400))
	case p.JSON != nil:
		return fmt.Sprintf("[%s: %s]", name, visible(string(appendCompact(nil, p.JSON, palette{})), 400))
	}
	return fmt.Sprintf("[%s, %s, %s; -o json has it]", name, visible(p.Type(), 60), bytesOf(len(p.Data)+len(p.Text)))
}

// endLine ends the line that stdout stands in.
func (v *agentVerb) endLine() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.midLine {
		_, _ = v.printer.w.Write([]byte("\n")) // what came before it has told of a reader that is gone
		v.midLine = false
	}
}

// printResult prints how a run ended.
func (v *agentVerb) printResult(ctx context.Context, r *agent.Result) error {
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
		if again := v.resumeWith(); again != "" {
			note += "\nanswer it with " + again + " " + shellWord(r.ID) + " ANSWER"
		}
		v.screen.line(note)
	}
	return nil
}

// resumeWith is what to type to answer a run that waits, up to its id.
func (v *agentVerb) resumeWith() string {
	name := "acp"
	switch {
	case v.a2a != nil:
		name = "a2a"
	case v.acp == nil:
		return ""
	}
	return commandName() + " " + name + " resume " + shellWord(v.target.String())
}

func (v *agentVerb) print(ctx context.Context, value any) error {
	raw, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return err
	}
	return v.printer.print(ctx, raw)
}

func (v *agentVerb) printLine(ctx context.Context, value any) error {
	raw, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return err
	}
	return v.printer.line(ctx, raw)
}

// listing makes a page of text for people, whose lines fit.
func (v *agentVerb) listing() *listing {
	b := &listing{palette: v.printer.palette, width: textWidth}
	if v.printer.terminal {
		b.width = min(textWidth, widthOf(v.printer.w)-1)
	}
	return b
}

// one returns the only word behind the target, which is what.
func (v *agentVerb) one(what string) (string, error) {
	switch {
	case len(v.words) == 0:
		return "", usagef("%s is missing behind the address", what)
	case len(v.words) > 1:
		return "", usagef("%q is one word too many", cut(v.words[1], 60))
	}
	return v.words[0], nil
}
