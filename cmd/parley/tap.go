package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/capture/sessions"
	"github.com/da1ed7bb/parley/capture/tap"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/spf13/cobra"
)

// tapFlags are the flags of the tap command.
type tapFlags struct {
	target, listen string
	reach          reachFlags // for a target that is a name
	framing        string
	record         string
	noRecord       bool
	name           string
	follow         bool
	quiet          bool // --follow=false
	ui             bool
	filter         string
	colour         string
	keepHost       bool
	insecure       bool
	hide           hideFlags
}

// hideFlags select what is removed from a recording.
type hideFlags struct {
	keys, values, paths []string
	off                 bool
}

func (h *hideFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&h.keys, "hide", nil, "additional `NAME` of a member or header whose value is not recorded; repeatable")
	f.StringArrayVar(&h.paths, "hide-path", nil, "JSON `PATH` whose value is not recorded, such as $.params.arguments.card; repeatable")
	f.StringArrayVar(&h.values, "hide-env", nil, "environment `VARIABLE` whose value is never recorded; repeatable")
	f.BoolVar(&h.off, "keep-secrets", false, "also record passwords, tokens and cookies")
}

// redaction returns the redaction that the flags select.
func (h *hideFlags) redaction(getenv func(string) string) (capture.Redaction, error) {
	r := capture.Redaction{Off: h.off, Paths: h.paths}
	if h.off && len(h.keys)+len(h.paths)+len(h.values) > 0 {
		return r, usagef("--keep-secrets cannot be used with --hide, --hide-path or --hide-env")
	}
	if len(h.keys) > 0 {
		r.Keys = append(append(r.Keys, capture.DefaultKeys...), h.keys...)
	}
	for _, name := range h.values {
		value := getenv(name)
		if len(value) < 4 {
			return r, usagef("--hide-env %s: the variable is not set, or shorter than 4 bytes", name)
		}
		r.Values = append(r.Values, value)
	}
	return r, nil
}

func (a *app) tapCommand() *cobra.Command {
	var flags tapFlags
	cmd := &cobra.Command{
		Use:   "tap [--target TARGET --listen TARGET] [-- CMD ARG…]",
		Short: "record the traffic between a client and a server",
		Long: `Record the traffic between a client and a server.

  parley tap -- my-mcp-server --stdio                            use it as the host's server command
  parley tap --target http://127.0.0.1:3000/mcp --listen :4000   point the client to port 4000
  parley tap --target tcp://127.0.0.1:3001 --filter 'method:sum' print only some messages
  parley tap --ui --target http://127.0.0.1:3000/mcp             show the traffic in the browser
  parley tap --target @notes -c mcp.json                         a server of a configuration file

All bytes pass unchanged; the recording is a copy. Exit code, signals, stderr and the end of input
pass as well. The only change to HTTP: a Host header that names the tap is rewritten to the target,
unless --keep-host is set. A server that cannot be reached gets the client a response 502 with the
reason. Passwords, tokens and cookies are not recorded.

Without --record, each tap records to a file of its own in $XDG_STATE_HOME/parley/sessions. Sessions
are removed there after 30 days, and beyond 1,000 files or 1 GiB. parley replay last prints the
newest; parley up lists all. parley wrap puts the tap into the configuration of a desktop client.`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.quiet = cmd.Flags().Changed("follow") && !flags.follow
			return a.tap(cmd.Context(), flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.target, "target", "", "`TARGET` of the server: http, https, ws, wss, tcp, tls or unix, or @NAME")
	configFlag(cmd, &flags.reach.config)
	f.StringVarP(&flags.listen, "listen", "l", "", "`TARGET` where clients connect; a free port by default")
	f.StringVarP(&flags.record, "record", "r", "", "append the traffic to the session file `FILE`, one JSON object per line")
	f.BoolVar(&flags.noRecord, "no-record", false, "write no file")
	f.StringVar(&flags.name, "name", "", "`NAME` of the session in lists (default: the server)")
	f.BoolVarP(&flags.follow, "follow", "f", false, "print the traffic to stderr (default without --record and --ui)")
	f.BoolVar(&flags.ui, "ui", false, "show the traffic on a local page while the tap runs; stderr has its URL")
	f.StringVar(&flags.filter, "filter", "", "show only messages that match `TERMS`, such as 'method:tools/* -kind:notification duration:>500ms'")
	f.StringVar(&flags.framing, "framing", "", "`FRAMING` of messages on a byte stream: line or header; detected by default")
	f.StringVar(&flags.colour, "color", "auto", "`WHEN` to use colour with --follow: auto, always or never")
	f.BoolVar(&flags.keepHost, "keep-host", false, "do not rewrite the Host header of HTTP requests")
	f.BoolVar(&flags.insecure, "insecure-no-auth", false, "allow --listen on an address that other machines can reach")
	flags.hide.register(cmd)
	return cmd
}

// A tapping is one execution of the tap command.
type tapping struct {
	app     *app
	flags   tapFlags
	framing tap.Framing
	rec     *capture.Recorder
	program parley.Target // the server, if it is a program
	own     bool          // the session is in a file of the folder of sessions
	show    func()        // stops displaying the recording

	// For servers that listen on an address.
	server, at parley.Target // the server's address and the tap's own address
	relay      *tap.Relay
	listener   net.Listener
}

func (a *app) tap(ctx context.Context, flags tapFlags) (err error) {
	t := &tapping{app: a, flags: flags}
	switch {
	case a.hasArgv && flags.target != "":
		return usagef("--target and a command cannot be used together")
	case a.hasArgv && flags.listen != "":
		return usagef("with a command, the client is on stdin and stdout; --listen requires --target")
	case a.hasArgv && len(a.argv) == 0:
		return usagef("missing command after --")
	case !a.hasArgv && flags.target == "":
		return usagef("missing server: use --target TARGET, or a command after --")
	case flags.noRecord && flags.record != "":
		return usagef("--record and --no-record cannot be used together")
	}
	switch flags.framing {
	case "":
	case "line":
		t.framing = tap.Line
	case "header":
		t.framing = tap.Header
	default:
		return usagef("--framing must be line or header, not %q", flags.framing)
	}
	if a.hasArgv {
		t.program = parley.Command(a.argv...)
	} else { // first, so that the page has something to show
		if err := t.listen(ctx); err != nil {
			return err
		}
		if !t.runs() {
			defer t.listener.Close()
		}
	}
	var end func() error
	if t.own = flags.record == "" && !flags.noRecord; t.own {
		t.flags.record = a.sessionFile(t.title())
	}
	if flags.ui {
		t.rec, end, err = t.page(ctx)
	} else {
		t.rec, end, err = t.recorder()
	}
	if err != nil {
		return err
	}
	defer func() {
		closing := end()
		switch {
		case closing == nil:
		case t.own: // the user did not request the file, so the client must not fail with it
			fmt.Fprintf(a.stderr, "parley: %s\n", visible(strings.TrimPrefix(closing.Error(), "capture: "), 1000))
		case err == nil:
			err = closing
		}
		if t.show != nil {
			t.show()
		}
	}()
	if t.own && t.rec.Name() != "" {
		fmt.Fprintf(a.stderr, "parley: records to %s\n", visible(t.rec.Name(), 1000))
	}
	if flags.follow || flags.record == "" && !flags.ui && !flags.quiet || flags.filter != "" {
		if t.show, err = a.follow(t.rec, flags.filter, flags.colour); err != nil {
			return err
		}
	}
	if t.runs() {
		return t.child(ctx)
	}
	fmt.Fprintf(a.stderr, "parley: %s\n", visible(a.secrets.Address(fmt.Sprintf("tap for %s at %s", t.server, t.at)), 2000))
	for _, line := range t.pointers(isTerminal(a.stderr)) {
		fmt.Fprintf(a.stderr, "parley: %s\n", visible(a.secrets.Address(line), 2000))
	}
	t.relay.Record = t.rec
	return t.relay.Serve(ctx, t.listener)
}

// runs reports whether the server is a program.
func (t *tapping) runs() bool { return len(t.program.Argv) > 0 }

// recorder records to the file of the session, or to memory without one, and applies the rules of
// all protocols.
func (t *tapping) recorder() (rec *capture.Recorder, end func() error, err error) {
	redaction, err := t.flags.hide.redaction(t.app.getenv)
	if err != nil {
		return nil, nil, err
	}
	// Only the display reads rows, soon after they are recorded. Older rows are in the file.
	o := capture.Options{File: t.flags.record, MaxDisk: t.maxDisk(), Redact: redaction, Judges: lens.Judges(), MaxRows: 10_000}
	rec, err = capture.New(&o)
	if err != nil && t.own {
		t.noFile(err)
		o.File = ""
		rec, err = capture.New(&o)
	}
	if err != nil {
		return nil, nil, recordError(t.flags.record, err)
	}
	t.app.hideIn(rec)
	if !t.own {
		t.app.tellName("--record", t.flags.record, rec)
	}
	return rec, rec.Close, nil
}

// maxDisk returns the maximum size of the session's file; 0 for the default.
func (t *tapping) maxDisk() int64 {
	if t.own {
		return sessions.MaxFile
	}
	return 0
}

// noFile reports that the session is recorded to memory only. The server is more important than its
// recording, so this is no error of a tap that was not asked for a file.
func (t *tapping) noFile(err error) {
	t.flags.record = ""
	fmt.Fprintf(t.app.stderr, "parley: the session is not stored: %s\n", visible(strings.TrimPrefix(err.Error(), "capture: "), 1000))
}

// title returns the name of the session in lists.
func (t *tapping) title() string {
	switch {
	case t.flags.name != "":
		return t.flags.name
	case t.runs() && t.flags.target != "":
		return strings.TrimPrefix(t.flags.target, "@")
	case t.runs():
		return filepath.Base(t.program.Argv[0])
	}
	server := t.server // without the query, which may contain a secret
	server.Path, _, _ = strings.Cut(server.Path, "?")
	return server.String()
}

// sessionsDir returns the folder of the sessions of taps, or "".
func (a *app) sessionsDir() string {
	if dir := a.stateDir(); dir != "" {
		return filepath.Join(dir, "sessions")
	}
	return ""
}

// sessionFile returns the name of a new file in the folder of sessions, and removes old ones there.
// It returns "" if the folder cannot be used.
func (a *app) sessionFile(name string) string {
	dir := a.sessionsDir()
	err := errors.New("the environment defines no folder: set HOME or XDG_STATE_HOME")
	path := ""
	if dir != "" {
		path, err = sessions.New(dir, name, time.Now())
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "parley: the session is not stored: %s\n", visible(err.Error(), 1000))
		return ""
	}
	if err := sessions.Prune(dir, time.Now()); err != nil { // a session that stays is no reason to fail
		fmt.Fprintf(a.stderr, "parley: old sessions: %s\n", visible(err.Error(), 1000))
	}
	return path
}

// recordError returns the error for a file that cannot be recorded to.
func recordError(file string, err error) error { return fileError("--record", file, err) }

// fileError returns the error for a file of a flag that cannot be written.
func fileError(flag, file string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok && file != "" {
		return usagef("%s %s: %v", flag, file, bareReason(err))
	}
	if refused, ok := errors.AsType[*private.RefusedError](err); ok {
		return usagef("%s %v", flag, refused)
	}
	return usagef("%s", strings.TrimPrefix(err.Error(), "capture: "))
}

// tellName prints the name of the session file if another process writes the named file.
func (a *app) tellName(flag, file string, rec *capture.Recorder) {
	if file != "" && rec.Name() != file {
		fmt.Fprintf(a.stderr, "parley: %s: another process writes %s; this session is in %s\n", flag, visible(file, 1000), visible(rec.Name(), 1000))
	}
}

// child runs the tap between the host and a server on stdio.
func (t *tapping) child(ctx context.Context) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, os.Interrupt)
	defer signal.Stop(signals)
	// If the host closes our stdout, SIGPIPE must not end us before the child is notified and
	// everything is recorded.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	child := &tap.Child{
		Argv: t.program.Argv, Dir: t.program.Dir, Env: t.program.Env, Stdin: t.app.stdin, Stdout: through(t.app.stdout), Stderr: through(t.app.stderr),
		Framing: t.framing, Record: t.rec, Title: t.flags.name, Signals: signals, Terminal: isTerminal(t.app.stdin),
	}
	// The child decides how it ends, not a signal sent to us.
	code, err := child.Run(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return &dialError{t.program, err}
	case code != 0:
		return &silentError{code}
	}
	return nil
}

// listen prepares a tap for a server that listens on an address, and listens for clients. If the
// target is the name of a program, it only sets t.program.
func (t *tapping) listen(ctx context.Context) (err error) {
	server, err := t.app.parseTarget(ctx, &t.flags.reach, t.flags.target)
	if err != nil {
		return err
	}
	switch entry := t.flags.reach.entry; {
	case server.Scheme != "exec":
		if entry != nil && len(entry.Header) > 0 {
			fmt.Fprintf(t.app.stderr, "parley: the tap adds no headers; the client must send those of %s: %s\n", visible(t.flags.target, 100),
				visible(strings.Join(sortedNames(entry.Header), ", "), 1000))
		}
	case t.flags.listen != "":
		return usagef("%s is a program: the client is on stdin and stdout; remove --listen", t.flags.target)
	default:
		t.program = server
		if server.Framing == stream.Header && t.flags.framing == "" {
			t.framing = tap.Header
		}
		return nil
	}
	r := &tap.Relay{Framing: t.framing, Info: capture.WireInfo{Target: server.String(), Carrier: server.Scheme, Title: t.flags.name}}
	if server.Framing == stream.Header {
		r.Framing = tap.Header
	}
	if r.Dial, err = dialRaw(server); err != nil {
		return err
	}
	web := server.Scheme != "tcp" && server.Scheme != "tls" && server.Scheme != "unix"
	at, err := t.listenAt(server, web)
	if err != nil {
		return err
	}
	if at.Scheme != "unix" { // a Unix socket is protected by file permissions
		if err := (&parley.Listener{InsecureNoAuth: t.flags.insecure}).Admit(ctx, at); err != nil {
			return err
		}
	}
	l, err := listenRaw(ctx, at)
	if err != nil {
		return err
	}
	if at.Scheme != "unix" {
		at.Address = l.Addr().String()
	}
	if web {
		r.Carrier, r.Dial2 = tap.HTTP, dialRaw2(server)
		if !t.flags.keepHost {
			r.Host, r.Names = hostOf(server), ownNames(l.Addr())
		}
	}
	r.Failed = func(err error) {
		fmt.Fprintf(t.app.stderr, "parley: %s\n", visible((&dialError{server, err}).Error(), 2000))
	}
	t.server, t.at, t.relay, t.listener = server, at, r, l
	return nil
}

// pointers returns lines that show how a client is pointed to the tap: where to, and with setup for
// an MCP server also the lines for its configuration.
func (t *tapping) pointers(setup bool) []string {
	at, server := t.at.String(), t.server.String()
	lines := []string{fmt.Sprintf("point the client to %s instead of %s; waiting for the first message", at, server)}
	address := strings.TrimPrefix(at, "sse+")
	if place := strings.TrimRight(t.at.Path, "/"); !setup || !strings.HasSuffix(t.at.Scheme, "http") || address == at && !strings.HasSuffix(place, "mcp") && !strings.HasSuffix(place, "sse") {
		return lines
	}
	kind := "http"
	if address != at || strings.HasSuffix(t.at.Path, "/sse") {
		kind = "sse"
	}
	quoted := string(jsonrpc.AppendString(nil, address))
	lines = append(lines,
		`  Claude Code  claude mcp add --transport `+kind+` tapped `+shellWord(address),
		`  Cursor       {"mcpServers": {"tapped": {"url": `+quoted+`}}}`,
		`  VS Code      {"servers": {"tapped": {"type": "`+kind+`", "url": `+quoted+`}}}`,
		`  Gemini CLI   {"mcpServers": {"tapped": {"`+map[string]string{"http": "httpUrl", "sse": "url"}[kind]+`": `+quoted+`}}}`,
		`  Zed          {"context_servers": {"tapped": {"url": `+quoted+`}}}`)
	if kind == "http" { // Codex does not support the older transport
		lines = append(lines, `  Codex        codex mcp add tapped --url `+shellWord(address))
	}
	return lines
}

// listenAt returns the address for clients. It uses the server's scheme without TLS, because the
// tap has no certificate.
func (t *tapping) listenAt(server parley.Target, web bool) (parley.Target, error) {
	at := server
	switch server.Scheme {
	case "https":
		at.Scheme = "http"
	case "wss":
		at.Scheme = "ws"
	case "tls":
		at.Scheme = "tcp"
	case "sse+https":
		at.Scheme = "sse+http"
	}
	if t.flags.listen == "" {
		if server.Scheme == "unix" {
			return at, usagef("missing --listen unix:/path: the address for clients")
		}
		at.Address = "127.0.0.1:0"
		return at, nil
	}
	want, err := parley.ParseTarget(t.flags.listen)
	if err != nil {
		return at, err
	}
	switch {
	case want.Scheme == "unix" && !web, want.Scheme == "tcp" && !web, web && (want.Scheme == "http" || want.Scheme == "ws" || want.Scheme == "tcp"):
	default:
		return at, usagef("a tap for %s cannot listen on %s", server.Scheme, want.Scheme)
	}
	if web {
		at.Address = want.Address
		return at, nil
	}
	return want, nil
}

// dialRaw returns the function that opens byte-stream connections to the server.
func dialRaw(t parley.Target) (func(ctx context.Context) (net.Conn, error), error) {
	var d net.Dialer
	switch t.Scheme {
	case "http", "ws", "sse+http", "tcp":
		return func(ctx context.Context) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", withPort(t.Address, "80"))
		}, nil
	case "https", "wss", "sse+https", "tls":
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if t.Scheme != "tls" {
			config.NextProtos = []string{"http/1.1"}
		}
		secure := tls.Dialer{NetDialer: &d, Config: config}
		return func(ctx context.Context) (net.Conn, error) {
			return secure.DialContext(ctx, "tcp", withPort(t.Address, "443"))
		}, nil
	case "unix":
		return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "unix", t.Address) }, nil
	}
	return nil, usagef("%s cannot be tapped", t.Scheme)
}

// dialRaw2 returns the function for clients that use HTTP/2. Over TLS, the server must negotiate
// it. Without TLS there is no negotiation.
func dialRaw2(t parley.Target) func(ctx context.Context) (net.Conn, error) {
	if t.Scheme != "https" {
		return nil
	}
	secure := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}}
	return func(ctx context.Context) (net.Conn, error) {
		c, err := secure.DialContext(ctx, "tcp", withPort(t.Address, "443"))
		if err != nil {
			return nil, err
		}
		if c.(*tls.Conn).ConnectionState().NegotiatedProtocol != "h2" {
			return nil, errors.Join(errors.New("the client uses HTTP/2, but the server does not support it"), c.Close())
		}
		return c, nil
	}
}

func withPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return net.JoinHostPort(strings.Trim(address, "[]"), port)
	}
	return address
}

// hostOf returns the Host header that a server expects.
func hostOf(t parley.Target) string {
	u := url.URL{Host: t.Address}
	if port := u.Port(); port == "80" && t.Scheme == "http" || port == "443" && t.Scheme == "https" {
		return u.Hostname()
	}
	return t.Address
}

// ownNames returns the names by which clients reach an address.
func ownNames(at net.Addr) []string {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil
	}
	var names []string
	for _, h := range []string{host, "localhost", "127.0.0.1", "::1"} {
		names = append(names, net.JoinHostPort(h, port))
	}
	return names
}

// listenRaw listens for byte-stream connections. A Unix socket has mode 0600 from the start: it is
// created in a folder that no other user can enter.
func listenRaw(ctx context.Context, t parley.Target) (net.Listener, error) {
	var config net.ListenConfig
	if t.Scheme != "unix" {
		l, err := config.Listen(ctx, "tcp", t.Address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("listen on %s: %w; without --listen any free port is used", t, parley.ErrAddressInUse)
		}
		return l, err
	}
	if info, err := os.Lstat(t.Address); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, usagef("--listen %s: the file exists and is not a socket", t)
	}
	there := net.Dialer{Timeout: time.Second}
	if c, err := there.DialContext(ctx, "unix", t.Address); err == nil {
		_ = c.Close() // the connection only tested whether a server is running
		return nil, fmt.Errorf("%w: %s", parley.ErrAddressInUse, t)
	}
	if err := private.Place(filepath.Dir(t.Address)); err != nil {
		return nil, usagef("--listen %v", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(t.Address), ".tap")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty by then
	l, err := config.Listen(ctx, "unix", filepath.Join(dir, "s"))
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(filepath.Join(dir, "s"), 0o600), os.Rename(filepath.Join(dir, "s"), t.Address)); err != nil {
		_ = l.Close() // err is returned
		return nil, err
	}
	return &unixListener{Listener: l, file: t.Address}, nil
}

// A unixListener removes its socket file when it is closed.
type unixListener struct {
	net.Listener
	once sync.Once
	file string
}

func (l *unixListener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() { _ = os.Remove(l.file) }) // the file may already be removed
	return err
}
