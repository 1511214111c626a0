package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/gateway"
)

// gateFlags are the flags of the gate command.
type gateFlags struct {
	config   string
	listen   []string
	tlsCert  string
	tlsKey   string
	insecure bool
	check    bool
	live     bool
	timeout  time.Duration
}

func (a *app) gateCommand() *cobra.Command {
	var flags gateFlags
	cmd := &cobra.Command{
		Use:   "gate -c FILE",
		Short: "put many servers behind one address",
		Long: `Put many servers behind one address.

  parley gate -c parley.yaml              http://127.0.0.1:7500, or gateway.listen of the file
  parley gate -c parley.yaml --check      print every problem of the file, and start nothing
  parley gate -c parley.yaml --check --live    also connect to each server once
  parley gate status -c parley.yaml       the state of its servers
  parley call http://127.0.0.1:7500/rpc billing.getPlan id=7

FILE lists the servers, as for parley up -c. Its member gateway says which methods go where, who may
call them, and what happens when a server fails. docs/gateway.md describes all of it.

A call is sent once, unless FILE declares its method idempotent or nothing of it was sent. If a
server is down, calls to it fail with error -31006, which names the server in data.upstream.`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gate(cmd.Context(), flags) },
	}
	f := cmd.Flags()
	f.StringVarP(&flags.config, "config", "c", "", "`FILE` with servers and the member gateway")
	f.StringArrayVarP(&flags.listen, "listen", "l", nil, "serve on `TARGET` in place of gateway.listen; repeatable. Port 0 selects a free port")
	f.StringVar(&flags.tlsCert, "tls-cert", "", "PEM `FILE` of the certificate, for https, wss and tls; read again when it changes")
	f.StringVar(&flags.tlsKey, "tls-key", "", "PEM `FILE` of its key")
	f.BoolVar(&flags.insecure, "insecure-no-auth", false, "serve other machines without authentication")
	f.BoolVar(&flags.check, "check", false, "print every problem of FILE as FILE:LINE:COL, or else its servers, and start nothing")
	f.BoolVar(&flags.live, "live", false, "with --check: connect to each server, and list what it offers")
	f.DurationVar(&flags.timeout, "timeout", callTimeout, "with --live: `TIME` to wait for each server")
	cmd.AddCommand(a.gateControls()...)
	return cmd
}

func (a *app) gate(ctx context.Context, flags gateFlags) (err error) {
	file, text, err := a.gateFile(&flags)
	if err != nil {
		return err
	}
	if flags.check {
		return a.gateCheck(ctx, file, flags)
	}
	log := &reporter{w: a.stderr}
	own := file.Gateway
	listener, err := a.listener(serveFlags{tlsCert: own.Cert, tlsKey: own.CertKey, insecure: flags.insecure}, log)
	if err != nil {
		return err
	}
	read := func() (*config.File, []byte, error) { return config.ReadText(a.atHome(flags.config), flags.options()) }
	g, err := gateway.New(&gateway.Options{
		File: file, Report: log.report, Audit: a.stderr, Exposed: flags.insecure,
		Load: func() (*config.File, error) { file, _, err := read(); return file, err },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close(context.WithoutCancel(ctx))) }()
	g.Listener(listener)
	running, err := a.gateListen(ctx, listener, own.Listen)
	if err != nil {
		return err
	}
	for _, t := range running.Targets() {
		fmt.Fprintf(a.stderr, "parley: gateway for %s at %s\n", countOf(len(file.Entries), "server"), t)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if own.Admin != "" {
		admin := &parley.Listener{}
		g.Admin(admin)
		control, err := a.gateListen(ctx, admin, []string{own.Admin})
		if err != nil {
			return errors.Join(err, running.Close())
		}
		fmt.Fprintf(a.stderr, "parley: control methods at %s\n", control.Targets()[0])
		ended := make(chan error, 1)
		go func() { ended <- control.Serve(context.WithoutCancel(ctx)) }()
		defer func() { err = errors.Join(err, control.Close(), <-ended) }()
	}
	watch := &gateWatch{name: flags.config, text: text, file: file, read: read, gateway: g, say: func(line string) { fmt.Fprintf(a.stderr, "parley: %s\n", visible(line, 2000)) }}
	go lookRepeatedly(ctx, watch.reload)
	defer context.AfterFunc(ctx, g.Drain)()
	err = running.RunWithin(ctx, own.Drain)
	if errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(a.stderr, "parley: stopped; calls that were still running were aborted")
		return &silentError{exitRPC}
	}
	return err
}

func (a *app) gateListen(ctx context.Context, l *parley.Listener, addresses []string) (*parley.Server, error) {
	var targets []parley.Target
	for _, text := range addresses {
		t, err := parley.ParseTarget(text)
		if err != nil {
			return nil, err
		}
		targets = append(targets, gateway.Endpoint(t))
	}
	running, err := l.Listen(ctx, targets...)
	if errors.Is(err, parley.ErrAddressInUse) {
		return nil, fmt.Errorf("%w; use --listen with another address (port 0 selects a free port)", err)
	}
	return running, err
}

// A gateWatch reloads the file of a gateway.
type gateWatch struct {
	name    string
	text    []byte // of the last file that was read
	file    *config.File
	read    func() (*config.File, []byte, error)
	gateway *gateway.Gateway
	say     func(line string)
}

// reload replaces the configuration if the file has changed, or if the user approves its programs.
// A file that is missing or being written changes nothing.
func (w *gateWatch) reload(approve bool) {
	file, text, err := w.read()
	if err != nil {
		if approve {
			w.say(fmt.Sprintf("%s: %v; nothing was changed", w.name, bareReason(err)))
		}
		return
	}
	if !approve && bytes.Equal(text, w.text) && sameTokens(file, w.file) {
		return
	}
	w.text, w.file = text, file
	changes, err := w.gateway.Reload(file, approve)
	if err != nil {
		for _, p := range file.Problems {
			w.say(p.In(w.name))
		}
		w.say(fmt.Sprintf("%s: not reloaded: %v", w.name, err))
		return
	}
	w.say("reloaded " + w.name + changesText(changes))
	for _, name := range changes.Waiting {
		w.say(name + " is not approved: it was not in the file when the gateway started; to approve it, run parley gate reload, or send the signal HUP")
	}
	if len(changes.Restart) > 0 {
		w.say("these members apply after a restart: " + strings.Join(changes.Restart, ", "))
	}
}

// sameTokens reports whether two readings of a configuration with the same text found the same file
// of tokens.
func sameTokens(a, b *config.File) bool {
	return reflect.DeepEqual(a.Gateway.Identity, b.Gateway.Identity) && slices.Equal(a.Problems, b.Problems)
}

func changesText(c *gateway.Changes) string {
	var parts []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", c.Added}, {"changed", c.Changed}, {"removed", c.Removed}} {
		if len(part.names) > 0 {
			parts = append(parts, part.what+" "+strings.Join(part.names, ", "))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// options returns how the file is read.
func (f *gateFlags) options() *config.Options {
	return &config.Options{Gateway: &config.GatewayOptions{Listen: f.listen, Cert: f.tlsCert, Key: f.tlsKey, InsecureNoAuth: f.insecure}}
}

// gateFile reads the configuration, and prints all of its problems.
func (a *app) gateFile(flags *gateFlags) (*config.File, []byte, error) {
	switch {
	case a.hasArgv:
		return nil, nil, usagef("parley gate starts the servers of its file; remove -- and the words after it")
	case flags.config == "":
		return nil, nil, usagef("missing -c FILE: the file with the servers, such as parley.yaml")
	case (flags.tlsCert == "") != (flags.tlsKey == ""):
		return nil, nil, usagef("--tls-cert and --tls-key must be used together")
	case flags.live && !flags.check:
		return nil, nil, usagef("--live is for --check")
	}
	path := a.atHome(flags.config)
	file, text, err := config.ReadText(path, flags.options())
	if err != nil {
		return nil, nil, usagef("-c %s: %v", path, bareReason(err))
	}
	a.printWarnings(path, file)
	if len(file.Problems) == 0 {
		return file, text, nil
	}
	a.printProblems(path, file.Problems)
	return nil, nil, usagef("-c %s: %s; nothing was started", path, countOf(len(file.Problems), "problem"))
}
