package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/spf13/cobra"
)

// callTimeout is the default of --timeout: how long a call waits for its response.
const callTimeout = 60 * time.Second

// drainTimeout bounds the work after a call, such as sending a cancellation or printing a
// notification.
const drainTimeout = 2 * time.Second

// A call is one execution of the command: its flags and the values derived from them and the words.
type call struct {
	app    *app
	output outputFlags
	reach  reachFlags

	notify bool
	data   string
	raw    bool
	batch  string
	stream bool
	id     string
	answer string

	ignoreStdin bool

	arrived atomic.Int64 // notifications of the call
	last    atomic.Int64 // when the last of them arrived, in Unix nanoseconds

	printer *printer
	tracer  *tracer
	target  parley.Target
	tls     *tls.Config // how the server is trusted

	line sync.Mutex // held while a notification is printed, since several goroutines print them
	// Held while the user at the terminal is asked, so that questions come one at a time.
	question sync.Mutex
}

// reachFlags are the flags of every command that dials.
type reachFlags struct {
	header    []string
	token     string
	tokenFile string
	tlsCA     string
	insecure  bool
	framing   string
	version   string
	timeout   time.Duration
	trace     string
	config    string

	entry *config.Entry // what @NAME stands for, once target has resolved it
}

func (r *reachFlags) register(cmd *cobra.Command) {
	r.registerCommon(cmd)
	f := cmd.Flags()
	f.StringVar(&r.framing, "framing", "", "`FRAMING` of messages of a child process: line or header")
	f.StringVar(&r.version, "jsonrpc", "", "JSON-RPC `VERSION`: 2.0 or 1.0")
}

// registerCommon registers the flags that protocol commands share.
func (r *reachFlags) registerCommon(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.timeout, "timeout", callTimeout, "`TIME` to wait for a response; each notification for the call restarts it; 0 means no timeout")
	f.StringVarP(&r.trace, "trace", "v", "", "log every message to stderr, or record them in `FILE` (--trace=FILE)")
	f.Lookup("trace").NoOptDefVal = traceToStderr
	f.StringArrayVarP(&r.header, "header", "H", nil, "send the header `'NAME: VALUE'` (HTTP and WebSocket; repeatable)")
	f.StringVar(&r.token, "token", "", "bearer `TOKEN`; use --token-file to keep it out of the process list")
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` with the bearer token")
	r.registerServer(cmd)
}

// registerServer registers the flags that select a server and how it is trusted.
func (r *reachFlags) registerServer(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.tlsCA, "tls-ca", "", "`FILE` of certificates to trust instead of the system's")
	f.BoolVarP(&r.insecure, "insecure", "k", false, "accept any certificate; the connection can be intercepted")
	configFlag(cmd, &r.config)
}

func (a *app) callCommand() *cobra.Command {
	c := &call{app: a}
	cmd := &cobra.Command{
		Use:   "call TARGET METHOD [PARAM…]",
		Short: "call one method and print the result",
		Long: `Call one method and print the result.

  parley call :3000/rpc subtract 42 23
  parley call :3000/rpc countdown from:=3 interval_ms:=200 --stream
  parley call subtract 42 23 -- parley demo --stdio

A positional parameter that is valid JSON is sent as that value, any other as a string: 42 is a
number, '"42"' and hello are strings. Named parameters: k=text is a string, k:=json any JSON value;
k=@file and k:=@file read the value from a file. Without parameters, params are read from stdin if
it is a pipe or a file with data, and are else omitted. Params are sent without validation.`,
		ValidArgsFunction: a.completeCall(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.data, "data", "d", "", "params as one `JSON` text, @file or - for stdin")
	f.BoolVar(&c.ignoreStdin, "ignore-stdin", false, "do not read params from stdin")
	f.BoolVarP(&c.notify, "notify", "n", false, "send a notification: no id, no response")
	f.BoolVar(&c.stream, "stream", false, "also print notifications, one message per line, the result last")
	f.StringVar(&c.batch, "batch", "", "send the messages in `FILE` (- for stdin) as one batch")
	f.BoolVar(&c.raw, "raw", false, "send the argument after TARGET, or -d, unchanged, and print the reply")
	f.StringVar(&c.id, "id", "", "request `ID`: JSON, or else a string")
	f.StringVar(&c.answer, "answer", "", "`TEXT` to return when the server calls the method answer; by default the terminal is asked")
	c.output.register(cmd)
	c.reach.register(cmd)
	return cmd
}

func (c *call) run(cmd *cobra.Command, words []string) (err error) {
	c.printer, err = c.app.printer(c.output)
	if err != nil {
		return err
	}
	if c.target, words, err = c.app.target(cmd.Context(), &c.reach, words, false); err != nil {
		return err
	}
	if err := c.reach.fit(c.target); err != nil {
		return err
	}
	dialer, err := c.app.dialer(c.reach)
	if err != nil {
		return err
	}
	c.tls = dialer.TLS
	if c.target.Scheme == "exec" { // the stdout of a child may hold other text than messages
		dialer.Report = (&reporter{w: c.app.stderr}).report
	}
	if c.reach.trace != "" {
		if c.tracer, err = c.app.tracer(c.reach.trace, c.output.colour); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.tracer.close()) }()
		dialer.Tap = c.tracer.see
		c.tracer.note(c.target.String() + " over " + transportOf(c.target))
	}
	ctx := cmd.Context()
	switch {
	case c.raw:
		return c.runRaw(ctx, dialer, words)
	case c.batch != "":
		return c.runBatch(ctx, dialer, words)
	}
	return c.runOne(ctx, cmd, dialer, words)
}

// target returns the server to call: the child after --, or the first word, an address or @NAME.
// For a name it sets r.entry, which dialer uses. uris reports whether words after the target may
// look like one.
func (a *app) target(ctx context.Context, r *reachFlags, words []string, uris bool) (parley.Target, []string, error) {
	var t parley.Target
	switch {
	case a.hasArgv && len(a.argv) == 0:
		return t, nil, usagef("missing command after --")
	case a.hasArgv && !uris && len(words) > 0 && looksLikeTarget(words[0]):
		return t, nil, usagef("%q and the command after -- are two targets; use only one", cut(words[0], 60))
	case a.hasArgv:
		t = parley.Command(a.argv...)
	case len(words) == 0:
		return t, nil, usagef("missing TARGET: an address such as http://127.0.0.1:3000/rpc must come first")
	default:
		var err error
		if t, err = a.parseTarget(ctx, r, words[0]); err != nil {
			return t, nil, err
		}
		if t.Scheme == "stdio" {
			return t, nil, usagef("stdio: cannot be called: frames and results would share stdout; call a child process: parley call METHOD -- CMD")
		}
		words = words[1:]
	}
	return t, words, t.Set(r.framing, r.version)
}

// parseTarget parses an address or @NAME. For a name it sets r.entry.
func (a *app) parseTarget(ctx context.Context, r *reachFlags, word string) (parley.Target, error) {
	r.entry = nil
	if strings.HasPrefix(word, "@") {
		return a.named(ctx, r, word)
	}
	return parley.ParseTarget(word)
}

// hostAndPort matches an address without a scheme.
var hostAndPort = regexp.MustCompile(`^([A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):[0-9]+([/?]\S*)?$`)

func looksLikeTarget(word string) bool {
	return strings.Contains(word, "://") || strings.HasPrefix(word, "unix:") || word == "stdio:" ||
		strings.HasPrefix(word, "@") || hostAndPort.MatchString(word)
}

// fit rejects flags that have no effect on t, because the user expects an effect.
func (r *reachFlags) fit(t parley.Target) error {
	web := strings.HasSuffix(t.Scheme, "http") || strings.HasSuffix(t.Scheme, "https") || t.Scheme == "ws" || t.Scheme == "wss"
	secure := strings.HasSuffix(t.Scheme, "https") || t.Scheme == "wss" || t.Scheme == "tls"
	switch {
	case len(r.header) > 0 && !web:
		return usagef("--header works with HTTP and WebSocket; %s has no headers", t)
	case (r.token != "" || r.tokenFile != "") && !web && t.Scheme != "tcp" && t.Scheme != "tls":
		return usagef("--token works with HTTP, WebSocket, tcp and tls; %s uses none", t)
	case r.tlsCA != "" && !secure:
		return usagef("--tls-ca works with https, wss and tls; %s has no certificate", t)
	case r.insecure && !secure:
		return usagef("--insecure works with https, wss and tls; %s has no certificate", t)
	case r.insecure && r.tlsCA != "":
		return usagef("--insecure and --tls-ca cannot be used together")
	}
	return nil
}

// dialer returns a Dialer configured by the flags, and by the entry that the target's name stands
// for.
func (a *app) dialer(r reachFlags) (*parley.Dialer, error) {
	d := &parley.Dialer{Token: r.token, Stderr: func(line string) { fmt.Fprintln(a.stderr, a.childLine(line)) }}
	d.Limits.CallTime = r.timeout
	if r.timeout == 0 {
		d.Limits.CallTime = -1
	}
	if r.timeout < 0 {
		return nil, usagef("--timeout must not be negative")
	}
	if r.entry != nil {
		d.Header = r.entry.Header.Clone()
		for _, line := range r.header { // a header of the command line replaces the entry's
			name, _, _ := strings.Cut(line, ":")
			d.Header.Del(strings.TrimSpace(name))
		}
	}
	for _, line := range r.header {
		name, value, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(name) == "" {
			return nil, usagef("--header must be 'Name: value', not %q", cut(line, 60))
		}
		if d.Header == nil {
			d.Header = make(http.Header)
		}
		d.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		if secret.Header(strings.TrimSpace(name)) {
			a.hide(value)
		}
	}
	if r.tokenFile != "" {
		if r.token != "" {
			return nil, usagef("--token and --token-file cannot be used together")
		}
		content, err := a.readInput(r.tokenFile)
		if err != nil {
			return nil, err
		}
		d.Token = strings.TrimSpace(string(content))
	}
	a.hide(d.Token)
	if r.tlsCA != "" {
		pem, err := os.ReadFile(r.tlsCA)
		if err != nil {
			return nil, usagef("--tls-ca: %v", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, usagef("--tls-ca: no PEM certificate in %s", r.tlsCA)
		}
		d.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if r.insecure {
		d.TLS = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // the user requested it
	}
	return d, nil
}

// params returns the params of the method: from -d, from the words after the method, or from stdin.
func (c *call) params(cmd *cobra.Command, words []string) (jsonrpc.Raw, error) {
	switch {
	case cmd.Flags().Changed("data"):
	case len(words) == 0 && !c.ignoreStdin && c.reach.tokenFile != "-" && hasInput(c.app.stdin):
		return c.app.stdinParams(cmd.Context(), c.reach.timeout)
	default:
		return c.app.parseParams(words)
	}
	if len(words) > 0 {
		return nil, usagef("-d already has the params; remove the argument %q", cut(words[0], 60))
	}
	content, err := c.app.readData(c.data)
	if err != nil {
		return nil, err
	}
	params, err := jsonrpc.ParseRaw(content)
	if err != nil {
		return nil, usagef("-d: %q is not JSON: %v (use --raw to send any text)", cut(strings.TrimSpace(string(content)), 60), err)
	}
	return params, nil
}

// runOne sends one request or notification.
func (c *call) runOne(ctx context.Context, cmd *cobra.Command, dialer *parley.Dialer, words []string) error {
	if len(words) == 0 {
		if c.app.hasArgv { // METHOD comes before the command of a child
			return usagef("missing METHOD. Usage: parley call METHOD [PARAM…] %s", c.target)
		}
		return usagef("missing METHOD. Usage: parley call %s METHOD [PARAM…]", c.target)
	}
	method := words[0]
	params, err := c.params(cmd, words[1:])
	if err != nil {
		return err
	}
	var result jsonrpc.Raw
	item := &jsonrpc.Item{Method: method, Result: &result, Notify: c.notify, On: c.notification(ctx)}
	if params != nil {
		item.Params = params
	}
	if item.ID, err = c.parseID(cmd); err != nil {
		return err
	}
	dialer.Back = c.back()
	client, err := dialer.Dial(ctx, c.target)
	if err != nil {
		return c.dialFailed(ctx, err)
	}
	err = client.Do(ctx, item)
	return c.finish(ctx, client, func() error {
		switch {
		case errors.Is(err, jsonrpc.ErrMethodNotFound) && ctx.Err() == nil:
			return &hintedError{c.explain(ctx, method, err, item.ID), methodHint(ctx, client, method)}
		case err != nil:
			return c.explain(ctx, method, err, item.ID)
		case c.notify:
			return nil
		case result == nil:
			result = jsonrpc.Raw("null")
		}
		if c.stream {
			return c.printer.line(ctx, append(append(jsonrpc.Raw(`{"result":`), result...), '}'))
		}
		return c.printer.print(ctx, result)
	})
}

// finish waits until the notifications received before the response are printed, calls tell to
// print the outcome, and closes the connection. Closing may take long because it waits for a child.
// Queued messages, such as a cancellation, are still sent.
func (c *call) finish(ctx context.Context, client *parley.Client, tell func() error) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	_ = client.Drain(last) // an error does not matter: the response has arrived
	err := tell()
	why := err
	if err != nil {
		c.app.complain(err)
		err = &silentError{exitCode(err)}
	}
	hangUp(why, func() error { return client.Shutdown(last) })
	return err
}

// hangUpTime bounds how long closing a connection may take after the call has timed out.
const hangUpTime = 500 * time.Millisecond

// hangUp closes a connection and ignores the error. It waits for a child, unless err reports that
// time is up: then the child has half a second (hangUpTime), and ends with this process at the
// latest.
func hangUp(err error, end func() error) {
	if !isLate(err) {
		_ = end() // see above
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = end() // see above
	}()
	timer := time.NewTimer(hangUpTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// parseID parses --id.
func (c *call) parseID(cmd *cobra.Command) (jsonrpc.ID, error) {
	if !cmd.Flags().Changed("id") {
		if c.notify {
			return jsonrpc.ID{}, nil
		}
		return jsonrpc.IntID(1), nil
	}
	if c.notify {
		return jsonrpc.ID{}, usagef("-n and --id cannot be used together: a notification has no id")
	}
	if id, err := jsonrpc.ParseID([]byte(c.id)); err == nil {
		return id, nil
	}
	if _, err := jsonrpc.ParseRaw([]byte(c.id)); err == nil {
		return jsonrpc.ID{}, usagef("--id must be a string, a number or null (JSON-RPC 2.0, section 4); use --raw to send any text")
	}
	return jsonrpc.StringID(c.id), nil
}

// explain turns the error of a call into one for the user. On a timeout it lists the IDs that wait
// for a response.
func (c *call) explain(ctx context.Context, method string, err error, waiting ...jsonrpc.ID) error {
	switch {
	case ctx.Err() != nil:
		return &shownError{method + ": cancelled; the server was notified", context.Cause(ctx)}
	case isLate(err):
		text := fmt.Sprintf("%s: no response within %s (--timeout)%s", method, c.reach.timeout, outstanding(waiting))
		if n := c.arrived.Load(); n > 0 { // how far the call got
			text += fmt.Sprintf("; %s arrived, the last %s ago", countOf(int(n), "notification"), time.Since(time.Unix(0, c.last.Load())).Round(time.Millisecond))
		}
		return &shownError{text, err}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return &dialError{c.target, err}
	}
	if isMCPEndpoint(c.target, err) {
		return &hintedError{fmt.Errorf("%s: %w", method, err), fmt.Sprintf("; this is an MCP endpoint: use parley mcp call %s TOOL", c.target)}
	}
	if found := c.finder().explain(ctx, err); is[*placeError](found) {
		return found
	}
	return fmt.Errorf("%s: %w", method, err)
}

// dialFailed returns the error for a server that could not be reached.
func (c *call) dialFailed(ctx context.Context, err error) error {
	return c.finder().explain(ctx, &dialError{c.target, err})
}

func (c *call) finder() *placeFinder {
	return &placeFinder{target: c.target, tls: c.tls, paths: []string{"/rpc", "/mcp", "/"}}
}

// maxOutstanding is the maximum number of IDs that are listed.
const maxOutstanding = 20

// outstanding returns the list of the IDs without a response.
func outstanding(ids []jsonrpc.ID) string {
	var names []string
	for _, id := range ids {
		if id.IsZero() {
			continue
		}
		if len(names) == maxOutstanding {
			names = append(names, "…")
			break
		}
		names = append(names, visible(id.String(), 40))
	}
	if names == nil {
		return ""
	}
	return "; outstanding: id " + strings.Join(names, ", ")
}

// A shownError replaces the text of err with text for the user.
type shownError struct {
	text string
	err  error
}

func (e *shownError) Error() string { return e.text }
func (e *shownError) Unwrap() error { return e.err }
