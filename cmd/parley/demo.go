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
	"github.com/da1ed7bb/parley/internal/x/trim"
	"github.com/spf13/cobra"
)

// trimEvery is how often a server looks whether it holds memory that it no longer uses.
const trimEvery = 5 * time.Second

// serveFlags are the flags of every verb that listens.
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
	f.StringArrayVarP(&s.listen, "listen", "l", nil, "serve on `TARGET`; repeatable. Port 0 is any free port")
	f.BoolVar(&s.stdio, "stdio", false, "serve on stdin and stdout, like --listen stdio:")
	f.StringVar(&s.framing, "framing", "", "`HOW` messages are kept apart with --stdio: line or header")
	f.StringVar(&s.version, "jsonrpc", "", "`VERSION` to speak with --stdio: 2.0 or 1.0")
	f.StringVar(&s.tlsCert, "tls-cert", "", "PEM `FILE` of the certificate, for https, wss and tls; read again when it changes")
	f.StringVar(&s.tlsKey, "tls-key", "", "PEM `FILE` of its key")
	f.StringVar(&s.tokenFile, "token-file", "", "`FILE` with a bearer token that callers must show")
	f.StringArrayVar(&s.allowHost, "allow-host", nil, "further `NAME` that clients may call this host by; repeatable")
	f.StringArrayVar(&s.allowOrigin, "allow-origin", nil, "further web `ORIGIN`, such as https://app.example, that may call; repeatable")
	f.BoolVar(&s.insecure, "insecure-no-auth", false, "serve other machines without any authentication")
}

func (a *app) demoCommand() *cobra.Command {
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "serve methods, MCP's tools and agents, to try things on",
		Long: `Serve methods, MCP's tools and agents, to try things on.

  parley demo                                   http://127.0.0.1:3000, tcp://127.0.0.1:3001 and Unix sockets
  parley demo --listen http://127.0.0.1:0 --listen tcp://127.0.0.1:4000
  parley mcp tools -- parley demo --mcp --stdio
  parley acp run upper hello -- parley demo --acp --stdio --agent 'upper=tr a-z A-Z'

The methods are on the page at / of an http address, and in the answer to rpc.discover. MCP in all its revisions is at
/mcp of an http address (Streamable HTTP and WebSocket), at /sse and /messages (HTTP+SSE), and where --listen-mcp says.
The agents are at /acp (REST) and /acp/rpc (JSON-RPC and WebSocket) for ACP, at /a2a (JSON-RPC and WebSocket) and /a2a/v1
(REST) for A2A, whose card is at /.well-known/agent-card.json; --editor speaks to code editors.`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), flags) },
	}
	flags.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.mcp, "mcp", false, "speak MCP with --stdio")
	f.StringArrayVar(&flags.listenMCP, "listen-mcp", nil, "speak MCP on `TARGET`: tcp, tls or unix; repeatable")
	flags.agents.register(f)
	f.StringVar(&flags.weatherURL, "weather-url", "", "ask the weather service at `URL` for forecasts, such as https://api.open-meteo.com/v1/forecast")
	return cmd
}

// demoFlags are those of the verb.
type demoFlags struct {
	serveFlags
	mcp        bool
	listenMCP  []string
	weatherURL string
	agents     agentFlags
}

func (a *app) demo(ctx context.Context, flags demoFlags) error {
	if a.hasArgv {
		return usagef("parley demo starts no child; leave out what stands behind --")
	}
	targets, err := a.demoTargets(&flags)
	if err != nil {
		return err
	}
	service := demo.New(thisBuild().Version)
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
		return fmt.Errorf("%w; --listen serves elsewhere, port 0 is any free one", err)
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
	defer context.AfterFunc(ctx, tools.Close)() // or clients that listen would hold up the end
	defer context.AfterFunc(ctx, agents.stop)() // or agents that take their time would
	err = server.Run(ctx)
	stop()
	trimmer.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(a.stderr, "parley: stopped; calls that were still running were cut off")
		return &silentError{exitRPC}
	}
	return err
}

// listenTargets is where the flags say to listen.
func listenTargets(flags serveFlags) ([]parley.Target, error) {
	words := flags.listen
	if flags.stdio {
		if len(words) > 0 {
			return nil, usagef("--stdio stands alone; for more targets write --listen stdio: --listen …")
		}
		words = []string{"stdio:"}
	} else if flags.framing != "" || flags.version != "" {
		return nil, usagef("--framing and --jsonrpc go with --stdio; elsewhere they are part of the address: tcp://127.0.0.1:3001?framing=header")
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

// maxSocketPath is what every system takes as the path of a Unix socket, in bytes.
const maxSocketPath = 100

// socketPath is the demo's own place for a Unix socket of that name: in the user's runtime folder if there is one to write in, else
// in the one for temporary files.
func (a *app) socketPath(file string) string {
	if dir := a.getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dir = filepath.Join(dir, "parley")
		path := filepath.Join(dir, file)
		if len(path) <= maxSocketPath && os.MkdirAll(dir, 0o700) == nil {
			return path
		}
	}
	name := "parley"
	if uid := os.Getuid(); uid >= 0 {
		name = fmt.Sprintf("parley-%d", uid)
	}
	return filepath.Join(os.TempDir(), name, file)
}

// listener makes a Listener of the flags.
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
			return nil, usagef("the token in %s is short enough to be guessed; at least %d letters, please", flags.tokenFile, minToken)
		}
		l.Tokens = []string{token}
	}
	if (flags.tlsCert == "") != (flags.tlsKey == "") {
		return nil, usagef("--tls-cert and --tls-key go together")
	}
	if flags.tlsCert != "" {
		cert, err := parley.LoadCertificate(flags.tlsCert, flags.tlsKey, log.report)
		if err != nil {
			return nil, usagef("--tls-cert: %v", err)
		}
		l.TLS = cert.Config()
	}
	if flags.insecure {
		fmt.Fprintln(a.stderr, "parley: warning: anybody who reaches these addresses may call; --token-file closes that")
	}
	return l, nil
}

// minToken is 128 bits in the poorest alphabet that people use, hexadecimal.
const minToken = 32

// announce says on stderr where the demo is, with a line to paste for each address.
func (a *app) announce(p *page, tokenFile string) {
	var b strings.Builder
	b.WriteString("parley demo is up. Paste one of these into another terminal:\n\n")
	for _, address := range p.addresses(tokenFile) {
		fmt.Fprintf(&b, "  %s\n", address.Call)
	}
	if tools := p.toolAddresses(tokenFile); len(tools) > 0 {
		b.WriteString("\nThe same place speaks MCP:\n\n")
		for _, address := range tools {
			fmt.Fprintf(&b, "  %s\n", address.Call)
		}
	}
	if agents := p.agents.addresses(p, tokenFile); len(agents) > 0 {
		b.WriteString("\nIts agents speak ACP, A2A and, on stdio, the editor protocol:\n\n")
		for _, address := range agents {
			fmt.Fprintf(&b, "  %s\n", address.Call)
		}
	}
	b.WriteString("\n")
	for _, t := range p.targets {
		if root, ok := pageOf(t); ok {
			fmt.Fprintf(&b, "All methods are at %s. ", root)
			break
		}
	}
	b.WriteString("Ctrl-C ends the demo.\n")
	_, _ = io.WriteString(a.stderr, b.String()) // nobody may be reading
}

// pageOf is where the page of an HTTP target is.
func pageOf(t parley.Target) (string, bool) {
	switch t.Scheme {
	case "http", "https":
		return t.Scheme + "://" + t.Address + "/", true
	}
	return "", false
}

// commandName is how this program was started, for lines to paste: "parley", or "go run ./cmd/parley" in a checkout.
func commandName() string {
	path, err := os.Executable()
	if err == nil && strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/parley"
	}
	return "parley"
}

// A reporter writes what must not reach a peer, such as the text of a panic, to stderr. It is safe for concurrent use.
type reporter struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (r *reporter) report(what string, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return // somebody hung up
	}
	text := appendHarmless(nil, bytes.ToValidUTF8([]byte(err.Error()), []byte("\uFFFD")))
	text = bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte("\n    ")) // a stack
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.w, "parley: %s: %s\n", what, text)
}
