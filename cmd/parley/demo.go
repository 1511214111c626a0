package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/internal/x/trim"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/spf13/cobra"
)

// trimEvery is the interval at which a server checks whether it holds unused memory.
const trimEvery = 5 * time.Second

// serveFlags are the flags of every command that listens.
type serveFlags struct {
	listen      []string
	stdio       bool
	framing     string
	version     string
	tlsCert     string
	tlsKey      string
	tokenFile   string
	allowHost   []string
	allowOrigin []string
	insecure    bool
}

func (s *serveFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&s.listen, "listen", "l", nil, "serve on `TARGET`; repeatable. Port 0 selects a free port")
	f.BoolVar(&s.stdio, "stdio", false, "serve on stdin and stdout, like --listen stdio:")
	f.StringVar(&s.framing, "framing", "", "`FRAMING` of messages with --stdio: line or header")
	f.StringVar(&s.version, "jsonrpc", "", "JSON-RPC `VERSION` with --stdio: 2.0 or 1.0")
	f.StringVar(&s.tlsCert, "tls-cert", "", "PEM `FILE` of the certificate, for https, wss and tls; read again when it changes")
	f.StringVar(&s.tlsKey, "tls-key", "", "PEM `FILE` of its key")
	f.StringVar(&s.tokenFile, "token-file", "", "`FILE` with a bearer token that callers must send")
	f.StringArrayVar(&s.allowHost, "allow-host", nil, "additional host `NAME` that clients may use; repeatable")
	f.StringArrayVar(&s.allowOrigin, "allow-origin", nil, "additional web `ORIGIN` that may call, such as https://app.example; repeatable")
	f.BoolVar(&s.insecure, "insecure-no-auth", false, "serve other machines without authentication")
}

func (a *app) demoCommand() *cobra.Command {
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "serve example methods, MCP tools and agents",
		Long: `Serve example methods, MCP tools and agents.

  parley demo                      http://127.0.0.1:3000, tcp://127.0.0.1:3001 and Unix sockets
  parley demo --listen http://127.0.0.1:0 --listen tcp://127.0.0.1:4000
  parley mcp tools -- parley demo --mcp --stdio
  parley acp run upper hello -- parley demo --acp --stdio --agent 'upper=tr a-z A-Z'

An http address lists the methods on the page at /, and rpc.discover describes them. MCP, in all
versions, is at /mcp (Streamable HTTP and WebSocket), at /sse and /messages (HTTP+SSE), and on
--listen-mcp. The agents are at /acp (REST) and /acp/rpc (JSON-RPC and WebSocket) for ACP, and at
/a2a (JSON-RPC and WebSocket) and /a2a/v1 (REST) for A2A, whose card is at
/.well-known/agent-card.json. For code editors, use --editor --stdio.`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), flags) },
	}
	flags.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.mcp, "mcp", false, "serve MCP with --stdio")
	f.StringArrayVar(&flags.listenMCP, "listen-mcp", nil, "serve MCP on `TARGET`: tcp, tls or unix; repeatable")
	flags.agents.register(f)
	f.StringVar(&flags.weatherURL, "weather-url", "", "`URL` of a weather service for forecasts, such as https://api.open-meteo.com/v1/forecast")
	return cmd
}

// demoFlags are the flags of the demo command.
type demoFlags struct {
	serveFlags
	mcp        bool
	listenMCP  []string
	weatherURL string
	agents     agentFlags
}

func (a *app) demo(ctx context.Context, flags demoFlags) error {
	if a.hasArgv {
		return usagef("parley demo does not start a command; remove -- and the words after it")
	}
	targets, err := a.demoTargets(&flags)
	if err != nil {
		return err
	}
	service := demo.New(thisBuild().Version)
	if a.methods != nil {
		a.methods(service.Mux)
	}
	log := &reporter{w: a.stderr}
	listener, err := a.listener(flags.serveFlags, log)
	if err != nil {
		return err
	}
	listener.Handler = service.Handler()
	listener.Mode = service.Mux.Mode
	page := &page{service: service, prefix: commandName(), locked: len(listener.Tokens) > 0, firstMCP: firstWith(targets, mcpPrefix, acpPrefix, a2aPrefix), firstACP: firstWith(targets, acpPrefix, a2aPrefix), firstA2A: firstWith(targets, a2aPrefix)}
	listener.Pages = page
	agents, err := a.demoAgents(ctx, flags.agents, page.locked, log)
	if err != nil {
		return err
	}
	defer agents.close()
	tools, err := a.demoMCP(ctx, flags, agents, log)
	if err != nil {
		return err
	}
	defer tools.Close()
	agents.addTools(tools.Server)
	if converse := addMCP(listener, tools, agents.store); flags.mcp {
		listener.Converse = converse
	}
	page.agents = agents
	if flags.agents.editor {
		return agents.serveEditor(ctx)
	}
	if err := agents.add(listener, flags.agents); err != nil {
		return err
	}

	server, err := listener.Listen(ctx, targets...)
	if errors.Is(err, parley.ErrAddressInUse) {
		return fmt.Errorf("%w; use --listen with another address (port 0 selects a free port)", err)
	}
	if err != nil {
		return err
	}
	page.targets = server.Targets()
	if !flags.stdio {
		a.announce(page, flags.tokenFile)
	}
	var trimmer sync.WaitGroup
	quiet, stop := context.WithCancel(ctx)
	trimmer.Go(func() { trim.Loop(quiet, trimEvery) })
	trimmer.Go(func() { tools.Run(quiet) })
	// Otherwise subscribed clients would delay the shutdown.
	defer context.AfterFunc(ctx, tools.Close)()
	defer context.AfterFunc(ctx, agents.stop)() // otherwise slow agents would delay the shutdown
	err = server.Run(ctx)
	stop()
	trimmer.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(a.stderr, "parley: stopped; calls that were still running were aborted")
		return &silentError{exitRPC}
	}
	return err
}

// listenTargets returns the listen addresses that the flags specify.
func listenTargets(flags serveFlags) ([]parley.Target, error) {
	words := flags.listen
	if flags.stdio {
		if len(words) > 0 {
			return nil, usagef("--stdio cannot be combined with --listen; use --listen stdio: --listen …")
		}
		words = []string{"stdio:"}
	} else if flags.framing != "" || flags.version != "" {
		return nil, usagef("--framing and --jsonrpc require --stdio; otherwise they are part of the address: tcp://127.0.0.1:3001?framing=header")
	}
	targets := make([]parley.Target, len(words))
	for i, word := range words {
		t, err := parley.ParseTarget(word)
		if err != nil {
			return nil, err
		}
		if err := t.Set(flags.framing, flags.version); err != nil {
			return nil, err
		}
		targets[i] = t
	}
	return targets, nil
}

// maxSocketPath is the longest path of a Unix socket that every system accepts, in bytes.
const maxSocketPath = 100

// socketPath returns the demo's own path for a Unix socket named file: in the user's runtime folder
// if that is writable, else in the temporary folder. It does not use a folder that another user
// owns, who may have created it to place sockets there; it tries other names instead.
func (a *app) socketPath(file string) string {
	var dirs []string
	if dir := a.getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "parley"))
	}
	name := "parley"
	if uid := os.Getuid(); uid >= 0 {
		name = fmt.Sprintf("parley-%d", uid)
	}
	usual := filepath.Join(os.TempDir(), name)
	dirs = append(dirs, usual)
	for i := 2; i <= 9; i++ {
		dirs = append(dirs, fmt.Sprintf("%s-%d", usual, i))
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, file)
		if (len(path) <= maxSocketPath || strings.HasPrefix(dir, usual)) && private.Folder(dir) == nil && private.Place(filepath.Dir(dir)) == nil {
			return path
		}
	}
	return filepath.Join(usual, file) // listening there fails with the reason
}

// listener returns a Listener configured by the flags.
func (a *app) listener(flags serveFlags, log *reporter) (*parley.Listener, error) {
	l := &parley.Listener{
		AllowHost:      flags.allowHost,
		AllowOrigin:    flags.allowOrigin,
		InsecureNoAuth: flags.insecure,
		Report:         log.report,
	}
	if flags.tokenFile != "" {
		content, err := a.readInput(flags.tokenFile)
		if err != nil {
			return nil, err
		}
		token := strings.TrimSpace(string(content))
		if len(token) < minToken {
			return nil, usagef("the token in %s is too short; it needs at least %d characters", flags.tokenFile, minToken)
		}
		l.Tokens = []string{token}
		a.hide(token)
	}
	if (flags.tlsCert == "") != (flags.tlsKey == "") {
		return nil, usagef("--tls-cert and --tls-key must be used together")
	}
	if flags.tlsCert != "" {
		cert, err := parley.LoadCertificate(flags.tlsCert, flags.tlsKey, log.report)
		if err != nil {
			return nil, usagef("--tls-cert: %v", err)
		}
		l.TLS = cert.Config()
	}
	if flags.insecure {
		fmt.Fprintln(a.stderr, "parley: warning: no authentication: everyone who can reach these addresses can call; use --token-file")
	}
	return l, nil
}

// minToken is 128 bits in hexadecimal, the least dense alphabet in use.
const minToken = 32

// announce prints the demo's addresses on stderr, each with a command to paste.
func (a *app) announce(p *page, tokenFile string) {
	var b strings.Builder
	b.WriteString("parley demo is running. Try one of these in another terminal:\n\n")
	for _, address := range p.addresses(tokenFile) {
		fmt.Fprintf(&b, "  %s\n", address.Call)
	}
	if tools := p.toolAddresses(tokenFile); len(tools) > 0 {
		b.WriteString("\nThe same server supports MCP:\n\n")
		for _, address := range tools {
			fmt.Fprintf(&b, "  %s\n", address.Call)
		}
	}
	if agents := p.agents.addresses(p, tokenFile); len(agents) > 0 {
		b.WriteString("\nIts agents support ACP, A2A and, on stdio, the Agent Client Protocol of editors:\n\n")
		for _, address := range agents {
			fmt.Fprintf(&b, "  %s\n", address.Call)
		}
	}
	b.WriteString("\n")
	for _, t := range p.targets {
		if root, ok := pageOf(t); ok {
			fmt.Fprintf(&b, "All methods are listed at %s. ", root)
			break
		}
	}
	b.WriteString("Press Ctrl-C to stop.\n")
	_, _ = io.WriteString(a.stderr, b.String()) // stderr may be closed
}

// pageOf returns the address of the page of an HTTP target.
func pageOf(t parley.Target) (string, bool) {
	switch t.Scheme {
	case "http", "https":
		return t.Scheme + "://" + t.Address + "/", true
	}
	return "", false
}

// commandName returns how this program was started, for commands to paste: "parley", or "go run
// ./cmd/parley" in a checkout.
func commandName() string {
	path, err := os.Executable()
	if err == nil && strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/parley"
	}
	return "parley"
}

// A reporter writes text that must not reach a peer, such as that of a panic, to stderr. It is safe
// for concurrent use.
type reporter struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (r *reporter) report(what string, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return // the peer closed the connection
	}
	if what == jsonrpc.ReportGarbage {
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Fprintf(r.w, "parley: %s\n", strayText(err))
		return
	}
	text := appendHarmless(nil, bytes.ToValidUTF8([]byte(err.Error()), []byte("\uFFFD")))
	text = bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte("\n    ")) // a stack trace
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.w, "parley: %s: %s\n", what, text)
}
