package main

import (
	"context"
	"crypto/tls"
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

const mcpHelp = `Use an MCP server, of any version, over any transport.

  parley mcp tools :3000/mcp
  parley mcp call :3000/mcp calculator/add a:=42 b:=23
  parley mcp call book-table restaurant="Zur Linde" guests:=4 -- parley demo --mcp --stdio

An http address uses Streamable HTTP, or HTTP+SSE if the server supports only that; sse+http:// uses
HTTP+SSE only. Questions of the server to the user appear on the terminal. Without a terminal,
--answer answers them, and others are declined.`

// An mcpCommand is one execution of an MCP command: its flags and the values derived from them.
type mcpCommand struct {
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
	uris     bool // the words after the target are URIs

	printer  *printer
	tracer   *tracer
	target   parley.Target
	tls      *tls.Config // how the server is trusted
	patience *patience
	screen   *screen
	client   *mcp.Client
	conn     atomic.Pointer[jsonrpc.Conn] // nil over HTTP
	hangUp   func() error
	trouble  chan struct{} // receives a value when the transport reports a problem
	untold   atomic.Bool   // a cancellation did not reach the server

	question sync.Mutex // held while the user is asked, so that questions come one at a time
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
				return usagef("missing command before --: parley mcp tools -- CMD")
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(a.mcpTools(), a.mcpCall(), a.mcpResources(), a.mcpRead(), a.mcpPrompts(), a.mcpGet(),
		a.mcpComplete(), a.mcpListen(), a.mcpPing(), a.mcpLogout())
	return cmd
}

// mcpSubcommand returns one command. run receives the connected server and the words after the
// target; most is their maximum number.
func (a *app) mcpSubcommand(cmd *cobra.Command, most int, run func(ctx context.Context, v *mcpCommand, words []string) error) (*cobra.Command, *mcpCommand) {
	v := &mcpCommand{app: a, trouble: make(chan struct{}, 1)}
	v.output.registerWith(cmd, formText, append([]string{formText}, forms...))
	v.reach.registerCommon(cmd)
	f := cmd.Flags()
	f.StringVar(&v.protocol, "protocol", "", "protocol `VERSION`, such as 2025-11-25; by default the newest that both sides support")
	f.StringVar(&v.log, "log", "info", "minimum `LEVEL` of the server's log messages to print: debug, info, warning, error …, or none")
	// The flag exists, so the error is nil.
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(revisions(), cobra.ShellCompDirectiveNoFileComp))
	// Likewise.
	_ = cmd.RegisterFlagCompletionFunc("log", cobra.FixedCompletions([]string{"debug", "info", "notice", "warning", "error", "none"}, cobra.ShellCompDirectiveNoFileComp))
	v.login.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		return v.run(cmd.Context(), words, most, run)
	}
	return cmd, v
}

// asking adds the flags of commands during which the server may send requests.
func (v *mcpCommand) asking(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&v.answers, "answer", nil, "answer to a question of the server: `FIELD=VALUE`; repeatable")
	f.BoolVar(&v.decline, "decline", false, "decline all questions of the server")
	f.StringVar(&v.sample, "sample", "", "`TEXT` to return for sampling requests, as the model; by default the terminal is asked")
	f.StringArrayVar(&v.roots, "root", nil, "working `DIR` to list as a root for the server; repeatable")
}

func revisions() []string {
	var names []string
	for _, r := range mcp.Versions() {
		names = append(names, r.String())
	}
	return names
}

func (v *mcpCommand) run(ctx context.Context, words []string, most int, do func(context.Context, *mcpCommand, []string) error) (err error) {
	if v.output.jq != "" && v.output.format == formText {
		v.output.format = "json"
	}
	if v.printer, err = v.app.printer(v.output); err != nil {
		return err
	}
	if v.target, words, err = v.app.target(ctx, &v.reach, words, v.uris); err != nil {
		return err
	}
	if most >= 0 && len(words) > most {
		return usagef("unexpected argument %q; --help shows the arguments of this command", cut(words[most], 60))
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
			text := "no MCP server at " + v.target.String() + ": it returned " + jsonrpc.ErrMethodNotFound.Error()
			probe, end := context.WithTimeout(ctx, probeTime)
			if f := (&placeFinder{target: v.target, tls: v.tls}); isHTTP(v.target) && v.target.Path != "/mcp" && f.answersAt(probe, "/mcp") {
				f.target.Path = "/mcp"
				text += "; try " + f.target.String()
			}
			end()
			err = &shownError{text, err}
		}
		return v.explain(ctx, err)
	}
	err = do(ctx, v, words)
	v.screen.clear()
	why := err
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		// before the message, which says whether the cancellation has reached the server
		hangUp(why, v.hangUp)
		v.hangUp = func() error { return nil }
	}
	if err != nil {
		err = v.explain(ctx, err)
		v.app.complain(err)
		why, err = err, &silentError{exitCode(err)}
	}
	hangUp(why, v.hangUp)
	return err
}

// waiting returns the IDs of the pending calls, if the transport reports them.
func (v *mcpCommand) waiting() []jsonrpc.ID {
	if conn := v.conn.Load(); conn != nil {
		return conn.Pending()
	}
	return nil
}

// options returns the client options: the handlers for requests and notifications of the server.
func (v *mcpCommand) options() (*mcp.ClientOptions, error) {
	o := &mcp.ClientOptions{
		Elicit:       v.elicit,
		ElicitURL:    true,
		CheckResults: true,
		OnLog:        v.heard,
		Report: func(what string, err error) {
			if what == "cancel" {
				v.untold.Store(true)
			}
			switch {
			case what != jsonrpc.ReportGarbage:
			case v.target.Scheme != "exec":
				return // the error of the call describes what is there
			default:
				v.screen.line("parley: " + strayText(err))
				return
			}
			v.screen.line(fmt.Sprintf("parley: %s: %s", what, visible(plainText(err.Error()), 400)))
			select {
			case v.trouble <- struct{}{}:
			default: // a report is pending already
			}
		},
	}
	o.Limits.CallTime = -1 // patience limits the time
	if v.protocol != "" {
		version := mcp.ParseVersion(v.protocol)
		if version == 0 {
			return nil, usagef("--protocol must be one of %s, not %q", strings.Join(revisions(), ", "), cut(v.protocol, 60))
		}
		o.Versions = []mcp.Version{version}
	}
	if v.log != "none" {
		if o.LogLevel = mcp.ParseLevel(v.log); o.LogLevel == mcp.LevelNone {
			return nil, usagef("--log must be debug, info, notice, warning, error, critical, alert, emergency or none, not %q", cut(v.log, 60))
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

// rootOf returns the root for a folder or file.
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

// heard prints a log message of the server.
func (v *mcpCommand) heard(p *mcp.LogParams) {
	v.patience.renew()
	if p.Level < mcp.ParseLevel(v.log) {
		return // a legacy server did not receive the level
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

// presentation returns the client information that this program sends.
func presentation() mcp.Implementation {
	return mcp.Implementation{Name: "parley", Title: "parley", Version: thisBuild().Version}
}

// isWeb reports whether a target is MCP over HTTP, which has its own sessions, streams and headers.
func isWeb(t parley.Target) bool {
	switch t.Scheme {
	case "http", "https", "sse+http", "sse+https":
		return true
	}
	return false
}

// mcpTransport names the transport of MCP to a target.
func mcpTransport(t parley.Target) string {
	if t.Scheme == "http" || t.Scheme == "https" {
		return "HTTP" // Streamable HTTP, or HTTP+SSE if the server supports only that
	}
	return transportOf(t)
}

// connect connects with the newest protocol version that both sides support.
func (v *mcpCommand) connect(ctx context.Context) error {
	if err := v.reach.fit(v.target); err != nil {
		return err
	}
	dialer, err := v.app.dialer(v.reach)
	if err != nil {
		return err
	}
	v.tls = dialer.TLS
	options, err := v.options()
	if err != nil {
		return err
	}
	if v.tracer != nil {
		dialer.Tap = v.tracer.see
	}
	dialer.Stderr = func(line string) { v.screen.line(v.app.childLine(line)) }
	if isWeb(v.target) {
		err = v.connectWeb(ctx, dialer, options)
	} else {
		err = v.connectConn(ctx, dialer, options)
	}
	if err != nil {
		return err
	}
	v.tracer.note(v.target.String() + ": MCP " + v.client.Version().String() + " over " + mcpTransport(v.target))
	if v.log != "info" && !v.client.Version().Modern() && options.LogLevel != mcp.LevelNone && v.client.ServerCapabilities().Logging != nil {
		return v.client.SetLogLevel(ctx, options.LogLevel)
	}
	return nil
}

func (v *mcpCommand) connectWeb(ctx context.Context, dialer *parley.Dialer, options *mcp.ClientOptions) (err error) {
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

// connectConn connects over bidirectional transports.
func (v *mcpCommand) connectConn(ctx context.Context, dialer *parley.Dialer, options *mcp.ClientOptions) error {
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
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
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
		hangUp(context.Cause(ctx), v.hangUp)
		return err
	}
	return nil
}

// explain turns the error of a call into one for the user.
func (v *mcpCommand) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errImpatient):
		return &shownError{fmt.Sprintf("no response within %s (--timeout)%s", v.reach.timeout, outstanding(v.patience.left())), errImpatient}
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted):
		switch {
		case v.client == nil:
			return &shownError{"cancelled", errInterrupted} // nothing ran yet
		case v.untold.Load():
			return &shownError{"cancelled; the server was not notified and may still be working", errInterrupted}
		}
		return &shownError{"cancelled; the server was notified", errInterrupted}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return &dialError{v.target, err}
	}
	if found := (&placeFinder{target: v.target, tls: v.tls, paths: []string{"/mcp", "/sse", "/"}}).explain(ctx, err); is[*placeError](found) {
		return found
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code == mcp.CodeMissingCapability && strings.Contains(string(e.Data), `"sampling"`) {
		return &shownError{err.Error() + ": it requires sampling; use --sample TEXT to answer as the model", err}
	}
	if e, ok := errors.AsType[*oauth.Error](err); ok {
		return &shownError{"the server requires authentication: " + e.Error() + " (use --token-file FILE if you have a token)", err}
	}
	if e, ok := errors.AsType[*mcphttp.StatusError](err); ok && e.Status == http.StatusUnauthorized {
		return &shownError{"the server requires authentication; use --token-file FILE", err}
	}
	return err
}

// errImpatient ends a call that had no response in time.
var errImpatient error = impatience{}

type impatience struct{}

func (impatience) Error() string     { return "no response in time" }
func (impatience) Is(err error) bool { return err == context.DeadlineExceeded }

// A patience cancels a context after a time without messages. The time does not run while the user
// answers a question.
type patience struct {
	limit  time.Duration // 0 means no limit
	end    context.CancelCauseFunc
	before func() []jsonrpc.ID // returns the pending calls; called just before the cancellation

	mu     sync.Mutex // guards the fields below
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

// left returns the IDs that were pending when the time ended.
func (p *patience) left() []jsonrpc.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ids)
}

// renew restarts the time after a message.
func (p *patience) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && p.asking == 0 {
		p.timer.Reset(p.limit)
	}
}

// pause stops the time until resume is called.
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
