package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/bridge"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/spf13/cobra"
)

// bridgeTime is the default of bridge --timeout.
const bridgeTime = 10 * time.Minute

// bridgeFlags are the flags of the bridge command.
type bridgeFlags struct {
	serveFlags
	reach   reachFlags
	from    []string
	to      string
	share   bool
	env     []string
	servers int

	listenToken string
}

func (a *app) bridgeCommand() *cobra.Command {
	var flags bridgeFlags
	cmd := &cobra.Command{
		Use:   "bridge --from TARGET --to TARGET | --from TARGET -- CMD ARG…",
		Short: "connect clients on one transport with a server on another",
		Long: `Connect clients on one transport with a server on another.

  parley bridge --from http://127.0.0.1:9000/mcp -- ./server     Ctrl-C ends it
  parley call sum 1 2 -- parley bridge --from stdio: --to http://127.0.0.1:3000/rpc
  parley mcp tools -- parley bridge --from stdio: --to http://127.0.0.1:3000/mcp

The bridge listens at --from and dials --to for each client, or starts the command after -- for each
client. With --share, all clients use one server. stdio: is parley's own stdin and stdout, for a
host that starts its servers as programs. Over http, MCP clients of all versions are served, and
each session is a client; requests without a session share one server.

A call is never sent twice. If the server ends, running calls end with error -31006 at once, and the
next call starts it again; for a client of MCP the handshake is repeated. A command that network
clients start gets a clean environment: PATH, HOME, USER, LANG, LC_*, TZ, TMPDIR, and what --env
names.`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bridge(cmd.Context(), flags) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&flags.from, "from", nil, "`TARGET` where clients connect; repeatable. Port 0 selects a free port")
	f.StringVar(&flags.to, "to", "", "`TARGET` of the server; or put a command after --")
	f.BoolVar(&flags.share, "share", false, "use one server for all clients")
	f.StringArrayVar(&flags.env, "env", nil, "pass the environment variable `NAME` to the command, or set NAME=VALUE; repeatable")
	f.IntVar(&flags.servers, "max-servers", 64, "`NUMBER` of servers at one time; a client above it gets error -31001")
	f.StringVar(&flags.listenToken, "listen-token-file", "", "`FILE` with a bearer token that clients must send")
	f.StringVar(&flags.tlsCert, "tls-cert", "", "PEM `FILE` of the certificate, for --from https, wss and tls")
	f.StringVar(&flags.tlsKey, "tls-key", "", "PEM `FILE` of its key")
	f.StringArrayVar(&flags.allowHost, "allow-host", nil, "additional host `NAME` that clients may use; repeatable")
	f.StringArrayVar(&flags.allowOrigin, "allow-origin", nil, "additional web `ORIGIN` that may call; repeatable")
	f.BoolVar(&flags.insecure, "insecure-no-auth", false, "serve other machines without authentication")
	flags.reach.register(cmd)
	timeout := f.Lookup("timeout")
	timeout.DefValue = bridgeTime.String()
	_ = timeout.Value.Set(bridgeTime.String()) // a valid duration
	timeout.Usage = "`TIME` in which a call gets its response; each notification for the call restarts it; 0 means no timeout"
	return cmd
}

func (a *app) bridge(ctx context.Context, flags bridgeFlags) (err error) {
	switch {
	case len(flags.from) == 0:
		return usagef("missing --from TARGET: where clients connect, such as tcp://127.0.0.1:9000 or stdio:")
	case a.hasArgv && flags.to != "":
		return usagef("--to and the command after -- are two servers; use only one")
	case a.hasArgv && len(a.argv) == 0:
		return usagef("missing command after --")
	case !a.hasArgv && flags.to == "":
		return usagef("missing server: use --to TARGET, or a command after --")
	case !a.hasArgv && len(flags.env) > 0:
		return usagef("--env is for a command after --")
	case flags.servers < 1:
		return usagef("--max-servers must be at least 1")
	}
	o, end, err := a.bridgeOptions(ctx, &flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	flags.listen = flags.from
	flags.tokenFile = flags.listenToken
	targets, err := listenTargets(flags.serveFlags)
	if err != nil {
		return err
	}
	own := 0 // uses of our stdin and stdout
	network := false
	for _, t := range targets {
		if t.Scheme == "stdio" {
			own++
		} else {
			network = true
		}
	}
	if o.To.Scheme == "stdio" {
		own++
	}
	if own > 1 {
		return usagef("stdio: can be used only once")
	}
	if a.hasArgv {
		if err := a.bridgeEnv(&o, flags.env, network); err != nil {
			return err
		}
	}
	log := &reporter{w: a.stderr}
	o.Report = log.report
	listener, err := a.listener(flags.serveFlags, log)
	if err != nil {
		return err
	}
	b := bridge.New(o)
	listener.Converse, listener.Endpoint = b.Converse, b.Endpoint()
	running, err := listener.Listen(ctx, targets...)
	if errors.Is(err, parley.ErrAddressInUse) {
		err = fmt.Errorf("%w; use --from with another address (port 0 selects a free port)", err)
	}
	if err != nil {
		return errors.Join(err, b.Close())
	}
	for _, t := range running.Targets() {
		if t.Scheme != "stdio" {
			fmt.Fprintf(a.stderr, "parley: bridge for %s at %s\n", visible(o.To.String(), 300), t)
		}
	}
	err = running.Run(ctx)
	return errors.Join(err, b.Close())
}

// bridgeOptions returns the options for the server. end closes the trace.
func (a *app) bridgeOptions(ctx context.Context, flags *bridgeFlags) (o bridge.Options, end func() error, err error) {
	end = func() error { return nil }
	words := []string{flags.to}
	if a.hasArgv {
		words = nil
	}
	if !a.hasArgv && strings.HasPrefix(flags.to, "stdio:") { // target refuses it, because calls print results there
		if o.To, err = parley.ParseTarget(flags.to); err != nil {
			return o, end, err
		}
	} else if o.To, _, err = a.target(ctx, &flags.reach, words, true); err != nil {
		return o, end, err
	}
	if err := flags.reach.fit(o.To); err != nil {
		return o, end, err
	}
	dialer, err := a.dialer(flags.reach)
	if err != nil {
		return o, end, err
	}
	if flags.reach.trace != "" {
		tracer, err := a.tracer(flags.reach.trace, "auto")
		if err != nil {
			return o, end, err
		}
		dialer.Tap, end = tracer.see, tracer.close
	}
	o.Dialer, o.Share, o.MaxServers = *dialer, flags.share, flags.servers
	o.CallTime = cmp.Or(flags.reach.timeout, -1)
	return o, end, nil
}

// bridgeEnv sets the environment of a child. For the host on our stdin it is ours, as without a
// bridge; clients of a network get the clean one.
func (a *app) bridgeEnv(o *bridge.Options, names []string, network bool) error {
	var named []string
	for _, entry := range names {
		name, _, set := strings.Cut(entry, "=")
		if name == "" {
			return usagef("--env must be NAME or NAME=VALUE, not %q", cut(entry, 60))
		}
		if !set {
			value, found := os.LookupEnv(name)
			if !found {
				return usagef("--env %s: the variable is not set", cut(name, 60))
			}
			entry = name + "=" + value
		}
		named = append(named, entry)
	}
	if !network {
		if len(named) > 0 {
			o.To.Env = append(os.Environ(), named...)
		}
		return nil
	}
	env, risky := stdio.CleanEnv(named...)
	for _, name := range risky {
		fmt.Fprintf(a.stderr, "parley: warning: --env %s changes which code the command runs\n", visible(name, 60))
	}
	o.To.Env = env
	return nil
}
