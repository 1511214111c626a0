package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/mcp/oauth"
	"github.com/spf13/cobra"
)

const mcpHelp = `Use an MCP server, of any revision, on any carrier.

  parley mcp tools :3000/mcp
  parley mcp call :3000/mcp calculator/add a:=42 b:=23
  parley mcp call book-table restaurant="Zur Linde" guests:=4 -- parley demo --mcp --stdio

An http address is Streamable HTTP, or the older HTTP+SSE where that is all a server has; sse+http:// is that alone. What
the server asks the user is asked on the terminal; without one, --answer says it, or it is declined.`

// An mcpVerb is one run of a verb of MCP: its flags, and what they come to.
type mcpVerb struct {
	app    *app
	output outputFlags
	reach  reachFlags
	login  loginFlags

	protocol string
	log      string
	answers  []string
	decline  bool
	sample   string
	roots    []string
	uris     bool // words behind the target are URIs

	printer  *printer
	tracer   *tracer
	target   parley.Target
	patience *patience
	screen   *screen
	client   *mcp.Client
	conn     atomic.Pointer[jsonrpc.Conn] // nil over HTTP
	hangUp   func() error
	trouble  chan struct{} // gets something when the carrier reports something

	question sync.Mutex // held while somebody is asked: one question at a time
}

func (a *app) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "use an MCP server: its tools, resources and prompts",
		Long:  mcpHelp,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(cmd, plain(args[0]))
			}
			if a.hasArgv {
				return usagef("a verb is missing in front of --: parley mcp tools -- CMD")
			}
			return cmd.Help()
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(a.mcpTools(), a.mcpCall(), a.mcpResources(), a.mcpRead(), a.mcpPrompts(), a.mcpGet(),
		a.mcpComplete(), a.mcpListen(), a.mcpPing(), a.mcpLogout())
	return cmd
}

// mcpVerbCommand makes the command of one verb. run gets the words behind the target, with the server connected.
func (a *app) mcpVerbCommand(cmd *cobra.Command, most int, run func(ctx context.Context, v *mcpVerb, words []string) error) (*cobra.Command, *mcpVerb) {
	v := &mcpVerb{app: a, trouble: make(chan struct{}, 1)}
	v.output.registerWith(cmd, formText, append([]string{formText}, forms...))
	v.reach.registerCommon(cmd)
	f := cmd.Flags()
	f.StringVar(&v.protocol, "protocol", "", "`REVISION` to speak, such as 2025-11-25; the newest that both sides know if absent")
	f.StringVar(&v.log, "log", "info", "`LEVEL` from which on to tell what the server logs: debug, info, warning, error …, or none")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(revisions(), cobra.ShellCompDirectiveNoFileComp))                                                // the flag exists
	_ = cmd.RegisterFlagCompletionFunc("log", cobra.FixedCompletions([]string{"debug", "info", "notice", "warning", "error", "none"}, cobra.ShellCompDirectiveNoFileComp)) // likewise
	v.login.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		return v.run(cmd.Context(), words, most, run)
	}
	return cmd, v
}

// asking adds the flags of verbs in which the server may ask something.
func (v *mcpVerb) asking(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&v.answers, "answer", nil, "answer a question of the server: `FIELD=VALUE`; repeatable")
	f.BoolVar(&v.decline, "decline", false, "decline all questions of the server")
	f.StringVar(&v.sample, "sample", "", "`TEXT` to answer as the model, when the server asks for one; without it a terminal is asked")
	f.StringArrayVar(&v.roots, "root", nil, "tell the server that we work on `DIR`; repeatable")
}

func revisions() []string {
	var names []string
	for _, r := range mcp.Versions() {
		names = append(names, r.String())
	}
	return names
}

func (v *mcpVerb) run(ctx context.Context, words []string, most int, do func(context.Context, *mcpVerb, []string) error) (err error) {
	if v.output.jq != "" && v.output.format == formText {
		v.output.format = "json"
	}
	if v.printer, err = v.app.printer(v.output); err != nil {
		return err
	}
	if v.target, words, err = v.app.target(v.reach, words, v.uris); err != nil {
		return err
	}
	if most >= 0 && len(words) > most {
		return usagef("%q is one word too many", cut(words[most], 60))
	}
	if v.reach.trace != "" {
		if v.tracer, err = v.app.tracer(v.reach.trace, v.output.colour); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.tracer.close()) }()
	}
	v.screen = &screen{w: v.app.stderr, bar: isTerminal(v.app.stderr) && v.reach.trace != traceToStderr}
	var stop func()
	ctx, v.patience, stop = newPatience(ctx, v.reach.timeout, v.waiting)
	defer stop()
	if err := v.connect(ctx); err != nil {
		if errors.Is(err, jsonrpc.ErrMethodNotFound) {
			err = &toldError{"there is no MCP at " + v.target.String() + ": it answers " + jsonrpc.ErrMethodNotFound.Error(), err}
		}
		return v.explain(ctx, err)
	}
	err = do(ctx, v, words)
	v.screen.clear()
	if err != nil {
		err = v.explain(ctx, err)
		v.app.complain(err)
		err = &silentError{exitCode(err)}
	}
	_ = v.hangUp() // how the conversation ends changes nothing
	return err
}

// waiting are the calls that wait for an answer, as far as the carrier tells.
func (v *mcpVerb) waiting() []jsonrpc.ID {
	if conn := v.conn.Load(); conn != nil {
		return conn.Pending()
	}
	return nil
}

// options are what this client can be asked, and what it hears.
func (v *mcpVerb) options() (*mcp.ClientOptions, error) {
	o := &mcp.ClientOptions{
		Elicit:       v.elicit,
		ElicitURL:    true,
		CheckResults: true,
		OnLog:        v.heard,
		Report: func(what string, err error) {
			v.screen.line(fmt.Sprintf("parley: %s: %s", what, visible(err.Error(), 400)))
			select {
			case v.trouble <- struct{}{}:
			default: // it is known already
			}
		},
	}
	o.Limits.CallTime = -1 // patience has it
	if v.protocol != "" {
		version := mcp.ParseVersion(v.protocol)
		if version == 0 {
			return nil, usagef("--protocol is one of %s, not %q", strings.Join(revisions(), ", "), cut(v.protocol, 60))
		}
		o.Versions = []mcp.Version{version}
	}
	if v.log != "none" {
		if o.LogLevel = mcp.ParseLevel(v.log); o.LogLevel == mcp.LevelNone {
			return nil, usagef("--log is debug, info, notice, warning, error, critical, alert, emergency or none, not %q", cut(v.log, 60))
		}
	} else {
		o.OnLog = nil
	}
	if v.sample != "" || v.interactive() {
		o.Sample = v.model
	}
	if len(v.roots) > 0 {
		var roots []mcp.Root
		for _, dir := range v.roots {
			root, err := rootOf(dir)
			if err != nil {
				return nil, err
			}
			roots = append(roots, root)
		}
		o.Roots = func(context.Context) ([]mcp.Root, error) { return roots, nil }
	}
	return o, nil
}

// rootOf makes a root of a folder or file.
func rootOf(dir string) (mcp.Root, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return mcp.Root{}, usagef("--root: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		return mcp.Root{}, usagef("--root: %v", err)
	}
	return mcp.Root{URI: fileURI(path), Name: filepath.Base(path)}, nil
}

// heard tells what the server logs.
func (v *mcpVerb) heard(p *mcp.LogParams) {
	v.patience.renew()
	if p.Level < mcp.ParseLevel(v.log) {
		return // a legacy server was not told
	}
	name := p.Level.String()
	if p.Logger != "" {
		name += " " + visible(p.Logger, 40)
	}
	var text string
	if p.Data.Decode(&text) != nil {
		text = string(appendCompact(nil, p.Data, palette{}))
	}
	v.screen.line(name + ": " + visible(text, 2000))
}

// presentation is how this program presents itself.
func presentation() mcp.Implementation {
	return mcp.Implementation{Name: "parley", Title: "parley", Version: thisBuild().Version}
}

// isWeb reports whether a target is MCP over HTTP: with sessions, streams and headers of its own.
func isWeb(t parley.Target) bool {
	switch t.Scheme {
	case "http", "https", "sse+http", "sse+https":
		return true
	}
	return false
}

// connect opens a conversation in the newest revision that both sides know.
func (v *mcpVerb) connect(ctx context.Context) error {
	if err := v.reach.fit(v.target); err != nil {
		return err
	}
	dialer, err := v.app.dialer(v.reach)
	if err != nil {
		return err
	}
	options, err := v.options()
	if err != nil {
		return err
	}
	if v.tracer != nil {
		dialer.Tap = v.tracer.see
	}
	dialer.Stderr = v.screen.line
	if isWeb(v.target) {
		err = v.connectWeb(ctx, dialer, options)
	} else {
		err = v.connectConn(ctx, dialer, options)
	}
	if err != nil {
		return err
	}
	if v.log != "info" && !v.client.Version().Modern() && options.LogLevel != mcp.LevelNone && v.client.ServerCapabilities().Logging != nil {
		return v.client.SetLogLevel(ctx, options.LogLevel)
	}
	return nil
}

func (v *mcpVerb) connectWeb(ctx context.Context, dialer *parley.Dialer, options *mcp.ClientOptions) (err error) {
	o := &mcphttp.ClientOptions{
		Client: *options, TLS: dialer.TLS, Header: dialer.Header, Token: dialer.Token, MaxMessage: dialer.MaxMessage, CallTime: -1,
	}
	if dialer.Tap != nil {
		o.Tap = func(out bool, payload []byte) { dialer.Tap(parley.Frame{Time: time.Now(), Out: out, Payload: payload}) }
	}
	authorization, err := v.authorization(dialer)
	if err != nil {
		return err
	}
	if authorization != nil {
		o.HTTP, o.TLS = &http.Client{Transport: authorization}, nil
	}
	v.client, err = mcphttp.Connect(ctx, v.target.URL(), presentation(), o)
	if err != nil {
		return errors.Join(err, closeAuthorization(authorization))
	}
	v.hangUp = func() error { return errors.Join(v.client.Close(), closeAuthorization(authorization)) }
	return nil
}

func closeAuthorization(c *oauth.Client) error {
	if c == nil {
		return nil
	}
	return c.Close()
}

// connectConn is for carriers on which both sides speak.
func (v *mcpVerb) connectConn(ctx context.Context, dialer *parley.Dialer, options *mcp.ClientOptions) error {
	transport, err := dialer.Open(ctx, v.target)
	if err != nil {
		return &dialError{v.target, err}
	}
	conn := jsonrpc.NewConn(transport)
	client := mcp.NewClient(presentation(), options)
	client.Attach(conn)
	conn.Ending = func(error) { client.Gone() }
	conn.Start(context.WithoutCancel(ctx))
	v.client = client
	v.conn.Store(conn)
	v.hangUp = func() error {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		return errors.Join(conn.Shutdown(last), client.Close())
	}
	if dialer.Token != "" && (v.target.Scheme == "tcp" || v.target.Scheme == "tls") {
		err = conn.Call(ctx, parley.MethodAuthenticate, map[string]string{"token": dialer.Token}, nil)
	}
	if err == nil {
		err = client.Open(ctx, conn)
	}
	if err != nil {
		return errors.Join(err, v.hangUp())
	}
	return nil
}

// explain puts into words what a call met.
func (v *mcpVerb) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errImpatient):
		return &toldError{fmt.Sprintf("no answer within %s (--timeout)%s", v.reach.timeout, outstanding(v.patience.left())), errImpatient}
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted):
		return &toldError{"cancelled; the server was told", errInterrupted}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return &dialError{v.target, err}
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code == mcp.CodeMissingCapability && strings.Contains(string(e.Data), `"sampling"`) {
		return &toldError{err.Error() + ": it wants a model to ask; --sample TEXT answers as one", err}
	}
	if e, ok := errors.AsType[*oauth.Error](err); ok {
		return &toldError{"the server wants to know who asks: " + e.Error() + " (--token-file FILE shows a token that you have)", err}
	}
	if e, ok := errors.AsType[*mcphttp.StatusError](err); ok && e.Status == http.StatusUnauthorized {
		return &toldError{"the server wants to know who asks: --token-file FILE has a token for it", err}
	}
	return err
}

// errImpatient ends a call that had no answer in time.
var errImpatient error = impatience{}

type impatience struct{}

func (impatience) Error() string     { return "no answer in time" }
func (impatience) Is(err error) bool { return err == context.DeadlineExceeded }

// A patience ends a context when nothing was heard for a time. It does not run out while the user is asked something.
type patience struct {
	limit  time.Duration // 0: for ever
	end    context.CancelCauseFunc
	before func() []jsonrpc.ID // what waits; asked just before the end

	mu     sync.Mutex // guards what is below
	timer  *time.Timer
	asking int
	ids    []jsonrpc.ID
}

func newPatience(ctx context.Context, limit time.Duration, before func() []jsonrpc.ID) (context.Context, *patience, func()) {
	ctx, end := context.WithCancelCause(ctx)
	p := &patience{limit: limit, end: end, before: before}
	if limit > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(limit, p.over)
	}
	return ctx, p, func() {
		if p.timer != nil {
			p.timer.Stop()
		}
		end(nil)
	}
}

func (p *patience) over() {
	ids := p.before()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking == 0 {
		p.ids = ids
		p.end(errImpatient)
	}
}

// left are the ids that waited at the end.
func (p *patience) left() []jsonrpc.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ids)
}

// renew begins the time anew: something was heard.
func (p *patience) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && p.asking == 0 {
		p.timer.Reset(p.limit)
	}
}

// pause stops the time until the function that it returns is called.
func (p *patience) pause() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking++
	if p.timer != nil {
		p.timer.Stop()
	}
	return func() {
		p.mu.Lock()
		p.asking--
		p.mu.Unlock()
		p.renew()
	}
}
