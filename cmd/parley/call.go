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
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/spf13/cobra"
)

// callTimeout is how long a call waits for its answer unless --timeout says otherwise.
const callTimeout = 60 * time.Second

// farewell bounds what is left to do at the end: a cancel on its way out, a notification that is being printed.
const farewell = 2 * time.Second

// A call is one run of the verb: its flags, and what they and the words come to.
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

	printer *printer
	tracer  *tracer
	target  parley.Target

	line     sync.Mutex // held while a notification is printed: they come from more than one goroutine
	question sync.Mutex // held while somebody at the terminal is asked: one question at a time
}

// reachFlags are the flags of every verb that dials.
type reachFlags struct {
	header    []string
	token     string
	tokenFile string
	tlsCA     string
	framing   string
	version   string
	timeout   time.Duration
	trace     string
}

func (r *reachFlags) register(cmd *cobra.Command) {
	r.registerCommon(cmd)
	f := cmd.Flags()
	f.StringVar(&r.framing, "framing", "", "`HOW` a child's messages are kept apart: line or header")
	f.StringVar(&r.version, "jsonrpc", "", "`VERSION` to speak: 2.0 or 1.0")
}

// registerCommon registers what verbs of protocols have too.
func (r *reachFlags) registerCommon(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&r.timeout, "timeout", callTimeout, "`TIME` to wait for an answer, renewed by each notification about the call; 0 waits for ever")
	f.StringVar(&r.trace, "trace", "", "tell each message on stderr, or record them in `FILE` (--trace=FILE)")
	f.Lookup("trace").NoOptDefVal = traceToStderr
	f.StringArrayVarP(&r.header, "header", "H", nil, "send the header `'NAME: VALUE'` (HTTP and WebSocket; repeatable)")
	f.StringVar(&r.token, "token", "", "bearer `TOKEN`; --token-file keeps it out of the process list")
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` with the bearer token")
	f.StringVar(&r.tlsCA, "tls-ca", "", "`FILE` of certificates to trust instead of the system's")
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

By position, a word that is JSON is that value, and any other is a string: 42 is a number, '"42"' and hello are
strings. By name, k=text is a string, k:=json a value, k=@file and k:=@file are read from a file. Without words there
are no params. What is typed is sent; nothing is added, checked or asked before.`,
		ValidArgsFunction: a.completeCall(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.data, "data", "d", "", "params as one `JSON` text, @file or - for stdin")
	f.BoolVarP(&c.notify, "notify", "n", false, "send a notification: no id, no answer")
	f.BoolVar(&c.stream, "stream", false, "print notifications too, each line one message, the result last")
	f.StringVar(&c.batch, "batch", "", "send the messages in `FILE` (- for stdin) as one batch")
	f.BoolVar(&c.raw, "raw", false, "send the one word behind TARGET, or -d, byte for byte and print what comes back")
	f.StringVar(&c.id, "id", "", "use this `ID`: JSON, or else a string")
	f.StringVar(&c.answer, "answer", "", "`TEXT` to answer when the server calls answer; without it a terminal is asked")
	c.output.register(cmd)
	c.reach.register(cmd)
	return cmd
}

func (c *call) run(cmd *cobra.Command, words []string) (err error) {
	c.printer, err = c.app.printer(c.output)
	if err != nil {
		return err
	}
	if c.target, words, err = c.app.target(c.reach, words, false); err != nil {
		return err
	}
	if err := c.reach.fit(c.target); err != nil {
		return err
	}
	dialer, err := c.app.dialer(c.reach)
	if err != nil {
		return err
	}
	if c.app.hasArgv { // whose stdout may hold other things than messages
		dialer.Report = (&reporter{w: c.app.stderr}).report
	}
	if c.reach.trace != "" {
		if c.tracer, err = c.app.tracer(c.reach.trace, c.output.colour); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.tracer.close()) }()
		dialer.Tap = c.tracer.see
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

// target finds out which server is meant: the child behind --, or the first word. uris says that words behind the target
// may look like one.
func (a *app) target(r reachFlags, words []string, uris bool) (parley.Target, []string, error) {
	var t parley.Target
	switch {
	case a.hasArgv && len(a.argv) == 0:
		return t, nil, usagef("the command of the child is missing behind --")
	case a.hasArgv && !uris && len(words) > 0 && looksLikeTarget(words[0]):
		return t, nil, usagef("%q and the child behind -- are two targets; leave one out", cut(words[0], 60))
	case a.hasArgv:
		t = parley.Command(a.argv...)
	case len(words) == 0:
		return t, nil, usagef("which server? An address such as http://127.0.0.1:3000/rpc comes first")
	default:
		var err error
		if t, err = parley.ParseTarget(words[0]); err != nil {
			return t, nil, err
		}
		if t.Scheme == "stdio" {
			return t, nil, usagef("on stdio: frames and results would share stdout; call a child instead: parley call METHOD -- CMD")
		}
		words = words[1:]
	}
	return t, words, t.Set(r.framing, r.version)
}

func looksLikeTarget(word string) bool {
	return strings.Contains(word, "://") || strings.HasPrefix(word, "unix:") || strings.HasPrefix(word, ":") || word == "stdio:"
}

// fit refuses flags that would have no effect on t: who typed them expects one.
func (r *reachFlags) fit(t parley.Target) error {
	web := strings.HasSuffix(t.Scheme, "http") || strings.HasSuffix(t.Scheme, "https") || t.Scheme == "ws" || t.Scheme == "wss"
	secure := strings.HasSuffix(t.Scheme, "https") || t.Scheme == "wss" || t.Scheme == "tls"
	switch {
	case len(r.header) > 0 && !web:
		return usagef("--header goes with HTTP and WebSocket; %s has no headers", t)
	case (r.token != "" || r.tokenFile != "") && !web && t.Scheme != "tcp" && t.Scheme != "tls":
		return usagef("--token goes with HTTP, WebSocket, tcp and tls; %s asks for none", t)
	case r.tlsCA != "" && !secure:
		return usagef("--tls-ca goes with https, wss and tls; %s has no certificate", t)
	}
	return nil
}

// dialer makes a Dialer of the flags.
func (a *app) dialer(r reachFlags) (*parley.Dialer, error) {
	d := &parley.Dialer{Token: r.token, Stderr: func(line string) { fmt.Fprintln(a.stderr, line) }}
	d.Limits.CallTime = r.timeout
	if r.timeout == 0 {
		d.Limits.CallTime = -1
	}
	if r.timeout < 0 {
		return nil, usagef("--timeout is not negative")
	}
	for _, line := range r.header {
		name, value, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(name) == "" {
			return nil, usagef("--header is 'Name: value', not %q", cut(line, 60))
		}
		if d.Header == nil {
			d.Header = make(http.Header)
		}
		d.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if r.tokenFile != "" {
		if r.token != "" {
			return nil, usagef("--token and --token-file are two tokens; leave one out")
		}
		content, err := a.readInput(r.tokenFile)
		if err != nil {
			return nil, err
		}
		d.Token = strings.TrimSpace(string(content))
	}
	if r.tlsCA != "" {
		pem, err := os.ReadFile(r.tlsCA)
		if err != nil {
			return nil, usagef("--tls-ca: %v", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, usagef("--tls-ca: there is no PEM certificate in %s", r.tlsCA)
		}
		d.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return d, nil
}

// params is what goes with the method: -d, or the words behind it.
func (c *call) params(cmd *cobra.Command, words []string) (jsonrpc.Raw, error) {
	if !cmd.Flags().Changed("data") {
		return c.app.parseParams(words)
	}
	if len(words) > 0 {
		return nil, usagef("-d holds the params already; the word %q is one too many", cut(words[0], 60))
	}
	content, err := c.app.readData(c.data)
	if err != nil {
		return nil, err
	}
	params, err := jsonrpc.ParseRaw(content)
	if err != nil {
		return nil, usagef("-d: %q is no JSON: %v (--raw sends anything)", cut(strings.TrimSpace(string(content)), 60), err)
	}
	return params, nil
}

// runOne sends one request or notification.
func (c *call) runOne(ctx context.Context, cmd *cobra.Command, dialer *parley.Dialer, words []string) error {
	if len(words) == 0 {
		return usagef("which method? It stands behind the address: parley call %s METHOD", c.target)
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
		return &dialError{c.target, err}
	}
	err = client.Do(ctx, item)
	return c.finish(ctx, client, func() error {
		switch {
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

// finish lets the notifications that stood before the answer be printed, then tells the outcome, then ends the connection,
// which may take long: a child is waited for. What is on its way out, such as a cancel, goes out.
func (c *call) finish(ctx context.Context, client *parley.Client, tell func() error) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	_ = client.Drain(last) // or not: the answer is here
	err := tell()
	if err != nil {
		c.app.complain(err)
		err = &silentError{exitCode(err)}
	}
	_ = client.Shutdown(last) // how the connection ends changes nothing
	return err
}

// parseID reads --id.
func (c *call) parseID(cmd *cobra.Command) (jsonrpc.ID, error) {
	if !cmd.Flags().Changed("id") {
		if c.notify {
			return jsonrpc.ID{}, nil
		}
		return jsonrpc.IntID(1), nil
	}
	if c.notify {
		return jsonrpc.ID{}, usagef("a notification has no id: -n or --id, not both")
	}
	if id, err := jsonrpc.ParseID([]byte(c.id)); err == nil {
		return id, nil
	}
	if _, err := jsonrpc.ParseRaw([]byte(c.id)); err == nil {
		return jsonrpc.ID{}, usagef("--id is a string, a number or null (JSON-RPC 2.0, section 4); --raw sends anything")
	}
	return jsonrpc.StringID(c.id), nil
}

// explain puts into words what a call met, and names the ids that wait for an answer when time is up.
func (c *call) explain(ctx context.Context, method string, err error, waiting ...jsonrpc.ID) error {
	switch {
	case ctx.Err() != nil:
		return &toldError{method + ": cancelled; the server was told", context.Cause(ctx)}
	case errors.Is(err, context.DeadlineExceeded):
		return &toldError{fmt.Sprintf("%s: no answer within %s (--timeout)%s", method, c.reach.timeout, outstanding(waiting)), err}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return &dialError{c.target, err}
	}
	return fmt.Errorf("%s: %w", method, err)
}

// maxOutstanding is how many ids are named.
const maxOutstanding = 20

// outstanding names the ids that nobody has answered.
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

// A toldError says in our words what err is.
type toldError struct {
	text string
	err  error
}

func (e *toldError) Error() string { return e.text }
func (e *toldError) Unwrap() error { return e.err }
