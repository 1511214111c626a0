package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/lessons"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/proc"
	"github.com/da1ed7bb/parley/mcp/oauth"
	"github.com/da1ed7bb/parley/playground"
	"github.com/da1ed7bb/parley/playground/suite"
	"github.com/da1ed7bb/parley/transport/stream"
)

// usualPlace is the page's default address, used if it is free.
const usualPlace = "127.0.0.1:7400"

// upFlags are the flags of the up command.
type upFlags struct {
	config string
	listen string
	open   bool
	noOpen bool
	noDemo bool
	record string
	suites []string
}

func (a *app) upCommand() *cobra.Command {
	var flags upFlags
	cmd := &cobra.Command{
		Use:   "up [TARGET | -- CMD ARG…]",
		Short: "open the web UI: send any message, see all traffic",
		Long: `Open the web UI: send any message, valid or not, to any server, and see all traffic.

  parley up                       with demo services
  parley up :3000/mcp             with your server first
  parley up -- node server.js     the same, with a program that the page starts
  parley up -c mcp.json           also with the servers of a file: parley.yaml, or an MCP client's
  parley up --suite suite.yaml    also with the calls and environments of parley test

On a terminal it opens the browser, unless the session is over SSH, has no display, or runs in CI.

The printed URL contains an access token that is valid until parley exits. Treat it like a password.
The page lists the sessions of parley tap, and shows a live one while it is recorded.

With -c FILE you approve the programs in FILE: the page can start and stop them by name, and no
others. To approve a program that is added to FILE later, restart parley or send it the signal HUP.`,
		RunE: func(cmd *cobra.Command, words []string) error { return a.up(cmd.Context(), flags, words) },
		ValidArgsFunction: func(_ *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(words) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeTargets(flags.config, typed, "http://", "ws://", "tcp://", "unix:", ":3000/mcp")
		},
	}
	f := cmd.Flags()
	f.StringVarP(&flags.config, "config", "c", "", "`FILE` with servers; read again when it changes")
	f.StringVarP(&flags.listen, "listen", "l", "", "local `ADDRESS` of the page, such as 127.0.0.1:8080 (default 127.0.0.1:7400, or a free port)")
	f.BoolVar(&flags.open, "open", false, "open the page in the browser, also without a terminal")
	f.BoolVar(&flags.noOpen, "no-open", false, "do not open the browser")
	f.BoolVar(&flags.noDemo, "no-demo", false, "do not start the demo services")
	f.StringVar(&flags.record, "record", "", "record the traffic in `FILE`, one event per line")
	f.StringArrayVar(&flags.suites, "suite", nil, "list the calls and environments of `FILE`, a suite of parley test; repeatable")
	return cmd
}

// upSuites checks the suites of the command line, and returns their absolute names.
func (a *app) upSuites(names []string) (files []string, err error) {
	for _, name := range names {
		file := a.atHome(name)
		if _, err := suite.Read(file); is[*suite.Error](err) {
			return nil, usagef("--suite %s", inOneLine(err.Error()))
		} else if err != nil {
			return nil, usagef("--suite %s: %v", name, bareReason(err))
		}
		if file, err = filepath.Abs(file); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// up serves the page until ctx ends.
func (a *app) up(ctx context.Context, flags upFlags, words []string) error {
	if flags.open && flags.noOpen {
		return usagef("--open and --no-open cannot be used together")
	}
	first, err := a.upTarget(ctx, flags.config, words)
	if err != nil {
		return err
	}
	file, err := a.upFile(flags.config)
	if err != nil {
		return err
	}
	suites, err := a.upSuites(flags.suites)
	if err != nil {
		return err
	}
	bound, err := bindPage(ctx, flags.listen)
	if err != nil {
		return err
	}
	defer bound.Close()

	reports := &reporter{w: a.stderr}
	log := func(line string) { fmt.Fprintf(a.stderr, "parley: %s\n", visible(line, 2000)) }
	var services []playground.Target
	if !flags.noDemo {
		demo, err := a.startDemo(ctx)
		if err != nil {
			return err
		}
		defer demo.stop()
		services = demo.targets()
	}
	o := &playground.Options{
		Targets: upTargets(first, file, services),
		Lessons: lessons.All(),
		Configs: file,
		Judges:  judges,
		Version: thisBuild().Version,
		Log:     log,

		Sessions: a.sessionsDir(),
		Suites:   suites,
	}
	o.Recording.File = flags.record
	o.Recording.Redact.Values = file.secrets()
	if first != nil {
		o.Recording.Redact.Values = append(o.Recording.Redact.Values, first.Secrets...)
	}
	page, err := playground.New(o)
	if err != nil {
		return recordError(flags.record, err)
	}
	a.tellName("--record", flags.record, page.Recorder())
	if c := file.config(); c != nil {
		page.SetConfig(c)
	}
	origin := "http://" + bound.Addr().String()
	address := origin + "/#token=" + page.Token()
	fmt.Fprintf(a.stderr, "parley is running. Open this URL; its access token is valid until parley exits:\n\n  %s\n\n", address)
	a.tellSessions()
	p := &servedPage{page: page, bound: bound, file: file, first: first, services: services, reports: reports}
	if flags.open || !flags.noOpen && a.canBrowse() {
		p.ticket = newTicket("/#token=" + page.Token())
		p.open = func(ctx context.Context) {
			if err := a.show(ctx, origin+p.ticket.path); err != nil && ctx.Err() == nil {
				log("cannot open the browser: " + err.Error())
			}
		}
	}
	return p.serve(ctx)
}

// upTarget returns the target of the command line, nil without one. A program that the user typed
// is approved by that.
func (a *app) upTarget(ctx context.Context, file string, words []string) (*playground.Target, error) {
	switch {
	case a.hasArgv && len(words) > 0:
		return nil, usagef("%q and the command after -- are two targets; use only one", cut(words[0], 60))
	case a.hasArgv && len(a.argv) == 0:
		return nil, usagef("missing command after --")
	case a.hasArgv:
		return &playground.Target{
			Name: "@" + strings.TrimSuffix(filepath.Base(a.argv[0]), filepath.Ext(a.argv[0])), Command: a.argv, Protocol: playground.ProtocolMCP,
			Show: strings.Join(a.argv, " "), From: playground.FromFile,
		}, nil
	case len(words) > 1:
		return nil, usagef("unexpected argument %q (see parley up --help)", cut(words[1], 60))
	case len(words) == 0:
		return nil, nil
	}
	reach := &reachFlags{config: file}
	t, err := a.parseTarget(ctx, reach, words[0])
	if err != nil {
		return nil, err
	}
	if reach.entry != nil {
		target := targetOf(reach.entry)
		target.Name, target.From = words[0], playground.FromFile
		return &target, nil
	}
	if t.Scheme == "stdio" {
		return nil, usagef("stdio: cannot be opened on the page; use parley up -- CMD")
	}
	return &playground.Target{Name: t.String(), Address: t.String(), Protocol: protocolAt(t), From: playground.FromFile}, nil
}

// protocolAt derives the most likely protocol from an address.
func protocolAt(t parley.Target) string {
	path, _, _ := strings.Cut(t.Path, "?")
	switch {
	case strings.HasPrefix(t.Scheme, "sse+"), strings.HasSuffix(path, "/mcp"):
		return playground.ProtocolMCP
	case strings.HasSuffix(path, "/a2a"):
		return playground.ProtocolA2A
	case strings.HasSuffix(path, "/acp"):
		return playground.ProtocolACP
	case t.Framing == stream.Header:
		return playground.ProtocolLSP
	}
	return playground.ProtocolJSONRPC
}

// upTargets returns the targets of the page in their order. The page opens the first one: that of
// the command line, if there is one.
func upTargets(first *playground.Target, file *upFile, services []playground.Target) []playground.Target {
	if first == nil {
		return slices.Concat(services, file.targets())
	}
	others := slices.DeleteFunc(slices.Concat(file.targets(), services), func(t playground.Target) bool { return t.Name == first.Name })
	return append([]playground.Target{*first}, others...)
}

// canBrowse reports whether a browser can be opened for the user: on a terminal of this machine
// that has a display, and not in CI.
func (a *app) canBrowse() bool {
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) || a.getenv("CI") != "" || a.getenv("SSH_CONNECTION") != "" || a.getenv("SSH_TTY") != "" {
		return false
	}
	switch runtime.GOOS {
	case "windows", "darwin":
		return true
	}
	return a.getenv("DISPLAY") != "" || a.getenv("WAYLAND_DISPLAY") != ""
}

// show shows an address to the user.
func (a *app) show(ctx context.Context, address string) error {
	if a.browse != nil {
		return a.browse(ctx, address)
	}
	return oauth.OpenBrowser(ctx, address)
}

// A servedPage is the page with what it needs to run.
type servedPage struct {
	page     *playground.Playground
	bound    net.Listener
	file     *upFile
	first    *playground.Target // the target of the command line, or nil
	services []playground.Target
	reports  *reporter

	ticket *ticket                   // nil if no browser is started
	open   func(ctx context.Context) // likewise
}

// A ticket is a path that redirects to another address, once and within a minute. A browser is
// started with it, because a command line can be read by all users of the machine, and the address
// of the page contains its token.
type ticket struct {
	path, to string
	until    time.Time
	used     atomic.Bool
}

func newTicket(to string) *ticket {
	return &ticket{path: "/open/" + rand.Text(), to: to, until: time.Now().Add(time.Minute)}
}

// before returns a handler that accepts the ticket, and passes all other requests to next.
func (t *ticket) before(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(t.path)) != 1 || time.Now().After(t.until) || t.used.Swap(true) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		guard.Secure(w.Header())
		http.Redirect(w, r, t.to, http.StatusSeeOther)
	})
}

// serve serves until ctx ends, and then shuts everything down gracefully.
func (p *servedPage) serve(ctx context.Context) error {
	page, file, services := p.page, p.file, p.services
	server := guard.NewServer(p.ticket.before(page), guard.ErrorLog(p.reports.report))
	ended := make(chan error, 1)
	watching, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { ended <- server.Serve(guard.Linger(p.bound)) })
	if p.open != nil {
		tasks.Go(func() { p.open(watching) })
	}
	tasks.Go(func() {
		file.watch(watching, func() {
			page.SetTargets(upTargets(p.first, file, services))
			page.SetConfig(file.config())
		})
	})
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	stop()
	err = errors.Join(err, page.Close()) // also ends the event streams of pages
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = server.Shutdown(last) // remaining connections are closed
	_ = server.Close()        // likewise
	tasks.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	if err == nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// bindPage listens on the address of the page, which must be a loopback address.
func bindPage(ctx context.Context, address string) (net.Listener, error) {
	wanted := address
	if wanted == "" {
		wanted = usualPlace
	}
	host, port, err := net.SplitHostPort(wanted)
	if err == nil && host == "" { // as in :8080
		host, wanted = "127.0.0.1", net.JoinHostPort("127.0.0.1", port)
	}
	if err != nil {
		return nil, usagef("--listen must be an address such as 127.0.0.1:8080")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usagef("the page is available on this machine only: use --listen 127.0.0.1:PORT")
	}
	bound, err := new(net.ListenConfig).Listen(ctx, "tcp", wanted)
	if err != nil && address == "" {
		bound, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("cannot serve the page at %s: %w; without -l any free port is used", wanted, parley.ErrAddressInUse)
		}
		reason := err
		if op, ok := errors.AsType[*net.OpError](err); ok {
			reason = op.Err // without the address again
		}
		return nil, &shownError{fmt.Sprintf("cannot serve the page at %s: %v", wanted, reason), errors.Join(parley.ErrAddressInUse, err)}
	}
	return bound, nil
}

// A demoProcess is "parley demo" in a separate process.
type demoProcess struct {
	process *proc.Process
	self    string
	places  map[string]string // actual addresses by requested address, whose port is 0
	output  sync.WaitGroup
	pipe    *os.File
}

// demoTime is how long the demo services may take to start.
const demoTime = 15 * time.Second

// Listen addresses of the demo services, on ports that the system selects.
var demoPlaces = []string{"http://127.0.0.1:0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0?jsonrpc=1.0", "tcp://127.0.0.1:0?framing=header"}

var demoPlace = regexp.MustCompile(`\b((?:http|tcp)://127\.0\.0\.1:)(\d+)(\?[a-z]+=[a-z0-9.]+)?`)

// startDemo starts the demo services and waits until they print their addresses.
func (a *app) startDemo(ctx context.Context) (*demoProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	words := []string{"demo", "--first", "courier"}
	for _, place := range demoPlaces {
		words = append(words, "--listen", place)
	}
	cmd := exec.Command(self, words...) //nolint:noctx // proc ends it, politely
	cmd.Stderr = w
	d := &demoProcess{self: self, pipe: r, places: make(map[string]string)}
	d.process, err = proc.Start(cmd, proc.Options{})
	_ = w.Close() // the child has its own copy
	if err != nil {
		_ = r.Close() // err is returned
		return nil, fmt.Errorf("cannot start the demo services: %w", err)
	}
	ready := make(chan struct{})
	d.output.Go(func() { d.read(r, ready) })
	late := time.NewTimer(demoTime)
	defer late.Stop()
	select {
	case <-ready:
		return d, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-d.process.Done():
		err = errors.New("the demo services exited immediately; run parley demo to see the reason")
	case <-late.C:
		err = fmt.Errorf("the demo services did not start within %v", demoTime)
	}
	d.stop()
	return nil, err
}

// read reads the output of the services: first their addresses. The rest is not printed.
func (d *demoProcess) read(r io.Reader, ready chan struct{}) {
	lines := bufio.NewScanner(r)
	for lines.Scan() && len(d.places) < len(demoPlaces) {
		m := demoPlace.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if asked := m[1] + "0" + m[3]; d.places[asked] == "" {
			d.places[asked] = m[0]
		}
		if len(d.places) == len(demoPlaces) {
			close(ready)
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line that was too long must not block the services
}

// stop ends the services and waits for them.
func (d *demoProcess) stop() {
	_ = d.process.Terminate() // it may have ended
	select {
	case <-d.process.Done():
	case <-time.After(5 * time.Second):
		_ = d.process.Kill() // likewise
		select {
		case <-d.process.Done():
		case <-time.After(2 * time.Second): // a process blocked in the kernel cannot be waited for
		}
	}
	_ = d.pipe.Close() // nothing more is read
	d.output.Wait()
}

// targets returns the services as targets of the page.
func (d *demoProcess) targets() []playground.Target {
	root := d.places[demoPlaces[0]]
	list := []playground.Target{
		{Name: "@demo", Title: "JSON-RPC 2.0", About: "Arithmetic, errors on demand, slow calls", Address: root + "/rpc"},
		{Name: "@table", Title: "MCP, 5 versions", About: "Books a table, with progress and a question to the user", Protocol: playground.ProtocolMCP, Address: root + mcpPath},
		{Name: "@scribe", Title: "ACP for editors", About: "Writes a note: streams text, requests permission", Protocol: playground.ProtocolEditor,
			Command: []string{d.self, "demo", "--editor", "--stdio"}, Show: "parley demo --editor --stdio"},
		{Name: "@courier", Title: "A2A", About: "Delivers a parcel: a long task that you can leave and rejoin", Protocol: playground.ProtocolA2A, Address: root + a2aPath},
		{Name: "@agents", Title: "ACP", About: "Six agents: echo, words, ask, slow, scribe, courier", Protocol: playground.ProtocolACP, Address: root + acpRPCPath},
		{Name: "@demo-tcp", Title: "JSON-RPC 2.0 over TCP", About: "Like @demo, where both sides can send requests", Address: d.places[demoPlaces[1]]},
		{Name: "@demo-1.0", Title: "JSON-RPC 1.0", About: "Like @demo, in JSON-RPC 1.0 (2005)", Address: d.places[demoPlaces[2]]},
		{Name: "@demo-lsp", Title: "JSON-RPC 2.0 with headers", About: "Like @demo, with the framing of language servers", Protocol: playground.ProtocolJSONRPC, Address: d.places[demoPlaces[3]]},
	}
	for i := range list {
		list[i].From = playground.FromDemo
	}
	return list
}
