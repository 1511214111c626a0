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
	"github.com/da1ed7bb/parley/capture/tap"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/spf13/cobra"
)

// tapFlags are the flags of the verb.
type tapFlags struct {
	target, listen string
	framing        string
	record         string
	follow         bool
	ui             bool
	filter         string
	colour         string
	keepHost       bool
	insecure       bool
	hide           hideFlags
}

// hideFlags say what is left out of a recording.
type hideFlags struct {
	keys, values, paths []string
	off                 bool
}

func (h *hideFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&h.keys, "hide", nil, "`NAME` of a member or header whose value is not recorded, besides the usual ones; repeatable")
	f.StringArrayVar(&h.paths, "hide-path", nil, "JSON `PATH` whose value is not recorded, such as $.params.arguments.card; repeatable")
	f.StringArrayVar(&h.values, "hide-env", nil, "`VARIABLE` of the environment whose value is not recorded, wherever it stands; repeatable")
	f.BoolVar(&h.off, "keep-secrets", false, "record passwords, tokens and cookies, too")
}

// redaction is what the flags say.
func (h *hideFlags) redaction(getenv func(string) string) (capture.Redaction, error) {
	r := capture.Redaction{Off: h.off, Paths: h.paths}
	if h.off && len(h.keys)+len(h.paths)+len(h.values) > 0 {
		return r, usagef("--keep-secrets hides nothing; --hide, --hide-path and --hide-env do")
	}
	if len(h.keys) > 0 {
		r.Keys = append(append(r.Keys, capture.DefaultKeys...), h.keys...)
	}
	for _, name := range h.values {
		value := getenv(name)
		if len(value) < 4 {
			return r, usagef("--hide-env %s: it is not set, or shorter than 4 bytes", name)
		}
		r.Values = append(r.Values, value)
	}
	return r, nil
}

func (a *app) tapCommand() *cobra.Command {
	var flags tapFlags
	cmd := &cobra.Command{
		Use:   "tap [--target TARGET --listen TARGET] [-- CMD ARG…]",
		Short: "stand between two programs, and see what they say",
		Long: `Stand between two programs, and see what they say.

  parley tap --record session.jsonl -- my-mcp-server --stdio     put this where the host has the server's command
  parley tap --target http://127.0.0.1:3000/mcp --listen :4000   and point the client to port 4000
  parley tap --target tcp://127.0.0.1:3001 --filter 'method:sum' only what matters
  parley tap --ui --target http://127.0.0.1:3000/mcp             watch it on the page

Bytes pass as they come, whatever they are; what is recorded is a copy. Exit code, signals, stderr and the end of input pass as well.
Of HTTP one thing is changed: a Host header that names the tap names the server instead; --keep-host leaves it. Passwords, tokens and cookies are
left out of the recording.`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.tap(cmd.Context(), flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.target, "target", "", "`TARGET` of the server: http, https, ws, wss, tcp, tls or unix")
	f.StringVarP(&flags.listen, "listen", "l", "", "`TARGET` where clients come; any free port if it is left out")
	f.StringVarP(&flags.record, "record", "r", "", "write what passes to `FILE`, one JSON object per line")
	f.BoolVarP(&flags.follow, "follow", "f", false, "show what passes on stderr; so it is without --record and --ui")
	f.BoolVar(&flags.ui, "ui", false, "show what passes on the page, whose address is printed on stderr; it is there as long as the tap")
	f.StringVar(&flags.filter, "filter", "", "show only what matches `TERMS`, such as 'method:tools/* -kind:notification duration:>500ms'")
	f.StringVar(&flags.framing, "framing", "", "`HOW` messages are kept apart on a stream of bytes: line or header; it is found out if left out")
	f.StringVar(&flags.colour, "color", "auto", "colours with --follow: auto, always or never (`WHEN`)")
	f.BoolVar(&flags.keepHost, "keep-host", false, "leave the Host header of HTTP requests as the client wrote it")
	f.BoolVar(&flags.insecure, "insecure-no-auth", false, "listen where other machines can reach it")
	flags.hide.register(cmd)
	return cmd
}

// A tapping is one run of the verb.
type tapping struct {
	app     *app
	flags   tapFlags
	framing tap.Framing
	rec     *capture.Recorder
	show    func() // ends what follows the recording

	// Of a server that listens elsewhere.
	server, at parley.Target // where it is, and where clients come
	relay      *tap.Relay
	listener   net.Listener
}

func (a *app) tap(ctx context.Context, flags tapFlags) (err error) {
	t := &tapping{app: a, flags: flags}
	switch {
	case a.hasArgv && flags.target != "":
		return usagef("--target and a command are two servers; leave one out")
	case a.hasArgv && flags.listen != "":
		return usagef("with a command, the host is on stdin and stdout; --listen is for --target")
	case a.hasArgv && len(a.argv) == 0:
		return usagef("a command is missing behind --")
	case !a.hasArgv && flags.target == "":
		return usagef("what shall be tapped? --target TARGET, or a command behind --")
	}
	switch flags.framing {
	case "":
	case "line":
		t.framing = tap.Line
	case "header":
		t.framing = tap.Header
	default:
		return usagef("--framing is line or header, not %q", flags.framing)
	}
	if !a.hasArgv { // first, since a page that is there should have something to show
		if err := t.listen(ctx); err != nil {
			return err
		}
		defer t.listener.Close()
	}
	var end func() error
	if flags.ui {
		t.rec, end, err = t.page(ctx)
	} else if t.rec, err = a.recorder(flags.record, flags.hide); err == nil {
		end = t.rec.Close
	}
	if err != nil {
		return err
	}
	defer func() {
		if closing := end(); err == nil && closing != nil {
			err = closing
		}
		if t.show != nil {
			t.show()
		}
	}()
	if flags.follow || flags.record == "" && !flags.ui || flags.filter != "" {
		if t.show, err = a.follow(t.rec, flags.filter, flags.colour); err != nil {
			return err
		}
	}
	if a.hasArgv {
		return t.child(ctx)
	}
	fmt.Fprintf(a.stderr, "parley: tap for %s at %s\n", t.server, t.at)
	t.relay.Record = t.rec
	return t.relay.Serve(ctx, t.listener)
}

// recorder records to file, or to memory if that is empty, and judges by what is known of all protocols.
func (a *app) recorder(file string, hide hideFlags) (*capture.Recorder, error) {
	redaction, err := hide.redaction(a.getenv)
	if err != nil {
		return nil, err
	}
	rec, err := capture.New(&capture.Options{File: file, Redact: redaction, Judges: lens.Judges()})
	if err != nil {
		return nil, recordError(file, err)
	}
	return rec, nil
}

// recordError says why nothing can be recorded.
func recordError(file string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok && file != "" {
		return usagef("--record %s: %v", file, bareReason(err))
	}
	return usagef("%s", strings.TrimPrefix(err.Error(), "capture: "))
}

// child is the tap between the host and a server on stdio.
func (t *tapping) child(ctx context.Context) error {
	signals := make(chan os.Signal, 8)
	kinds := []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
	if !isTerminal(t.app.stdin) {
		kinds = append(kinds, os.Interrupt) // a terminal sends Ctrl-C to the child itself
	}
	signal.Notify(signals, kinds...)
	defer signal.Stop(signals)
	// A host that has closed our stdout must not end us before the child knows and all is recorded.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	child := &tap.Child{
		Argv: t.app.argv, Stdin: t.app.stdin, Stdout: t.app.stdout, Stderr: t.app.stderr,
		Framing: t.framing, Record: t.rec, Signals: signals,
	}
	// The child decides how it ends, not a signal that came to us.
	code, err := child.Run(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return &dialError{parley.Command(t.app.argv...), err}
	case code != 0:
		return &silentError{code}
	}
	return nil
}

// listen prepares the tap in front of a server that listens elsewhere, and takes the place where clients come.
func (t *tapping) listen(ctx context.Context) (err error) {
	server, err := parley.ParseTarget(t.flags.target)
	if err != nil {
		return err
	}
	r := &tap.Relay{Framing: t.framing, Info: capture.WireInfo{Target: server.String(), Carrier: server.Scheme}}
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
	if at.Scheme != "unix" { // whose file says who may come
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
		fmt.Fprintf(t.app.stderr, "parley: %v\n", &dialError{server, err})
	}
	t.server, t.at, t.relay, t.listener = server, at, r, l
	return nil
}

// listenAt is where clients come. It speaks what the server speaks, without TLS: a tap inside of TLS has no certificate.
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
			return at, usagef("--listen unix:/path is missing: where shall clients come?")
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

// dialRaw makes the connections that bytes go over.
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

// dialRaw2 makes those for clients that speak HTTP/2: over TLS, the server must agree to it. Without TLS there is nothing to agree on.
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
			return nil, errors.Join(errors.New("the client speaks HTTP/2, and the server does not"), c.Close())
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

// hostOf is the Host header that a server expects.
func hostOf(t parley.Target) string {
	u := url.URL{Host: t.Address}
	if port := u.Port(); port == "80" && t.Scheme == "http" || port == "443" && t.Scheme == "https" {
		return u.Hostname()
	}
	return t.Address
}

// ownNames are the names that clients reach an address by.
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

// listenRaw takes the connections that bytes come over. A Unix socket is 0600 from its first moment on: it is made in a folder that
// nobody else may enter.
func listenRaw(ctx context.Context, t parley.Target) (net.Listener, error) {
	var config net.ListenConfig
	if t.Scheme != "unix" {
		l, err := config.Listen(ctx, "tcp", t.Address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("%w: %s", parley.ErrAddressInUse, t)
		}
		return l, err
	}
	if info, err := os.Lstat(t.Address); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, usagef("--listen %s: there is a file that is no socket", t)
	}
	there := net.Dialer{Timeout: time.Second}
	if c, err := there.DialContext(ctx, "unix", t.Address); err == nil {
		_ = c.Close() // it was to see whether somebody is there
		return nil, fmt.Errorf("%w: %s", parley.ErrAddressInUse, t)
	}
	dir, err := os.MkdirTemp(filepath.Dir(t.Address), ".tap")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // empty by then
	l, err := config.Listen(ctx, "unix", filepath.Join(dir, "s"))
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(filepath.Join(dir, "s"), 0o600), os.Rename(filepath.Join(dir, "s"), t.Address)); err != nil {
		_ = l.Close() // already failing with err
		return nil, err
	}
	return &unixListener{Listener: l, file: t.Address}, nil
}

// A unixListener removes its file.
type unixListener struct {
	net.Listener
	once sync.Once
	file string
}

func (l *unixListener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() { _ = os.Remove(l.file) }) // somebody may have been faster
	return err
}
