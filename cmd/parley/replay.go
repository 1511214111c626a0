package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/capture/replay"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/spf13/cobra"
)

// replayFlags are the flags of the verb.
type replayFlags struct {
	serveFlags
	reach  reachFlags
	export string
	filter string
	colour string
	strict bool
	pace   bool
	ignore []string
	hide   hideFlags
}

func (a *app) replayCommand() *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE [TARGET]",
		Short: "let a recorded session happen again",
		Long: `Let a recorded session happen again: look at it, answer as its server did, or ask as its client did.

  parley replay session.jsonl --filter 'status:error'            show it
  parley replay session.jsonl --stdio                            be the server: put this where the host has the server's command
  parley replay session.jsonl --listen http://127.0.0.1:4000     be the server over HTTP
  parley replay session.jsonl -- ./server --stdio                be the client, and compare the answers: exit 1 if one differs
  parley replay session.jsonl --export har > session.har         for others' tools: har, markdown or session

As a server, a request gets what the recorded one with the same method and params got; messages about it come before. As a
client, requests go out one after the other; what the server asks is answered as it was.`,
		Args: func(_ *cobra.Command, words []string) error {
			switch {
			case len(words) == 0:
				return usagef("which session? parley replay FILE; parley tap --record FILE makes one")
			case len(words) > 2:
				return usagef("parley replay takes a file and a target, and not %q", cut(words[2], 60))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, words []string) error { return a.replay(cmd.Context(), flags, words) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.filter, "filter", "", "show or export only what matches `TERMS`")
	f.StringVar(&flags.export, "export", "", "print the session as `FORM`: har, markdown or session")
	f.BoolVar(&flags.strict, "strict", false, "as a server: refuse params that were not recorded")
	f.BoolVar(&flags.pace, "pace", false, "as a server: take as long as it took then")
	f.StringArrayVar(&flags.ignore, "ignore", nil, "as a client: `MEMBER` of answers that may differ; repeatable")
	f.StringVar(&flags.colour, "color", "auto", "colours: auto, always or never (`WHEN`)")
	flags.serveFlags.register(cmd)
	f.StringVar(&flags.reach.token, "token", "", "as a client: bearer `TOKEN`")
	f.StringArrayVarP(&flags.reach.header, "header", "H", nil, "as a client: send the header `'NAME: VALUE'`; repeatable")
	f.DurationVar(&flags.reach.timeout, "timeout", callTimeout, "as a client: `TIME` to wait for an answer")
	flags.hide.register(cmd)
	return cmd
}

func (a *app) replay(ctx context.Context, flags replayFlags, words []string) error {
	log, err := capture.Open(words[0], lens.Judges()...)
	if err != nil {
		return usagef("%s: %s", words[0], strings.ReplaceAll(bareReason(err).Error(), "capture: ", ""))
	}
	if err := log.Err(); err != nil {
		fmt.Fprintf(a.stderr, "parley: %s: %v\n", words[0], err)
	}
	serves, asks := flags.stdio || len(flags.listen) > 0, a.hasArgv || len(words) == 2
	switch {
	case serves && asks:
		return usagef("a session is replayed as a server (--stdio, --listen) or as a client (TARGET), not both")
	case serves:
		return a.replayServer(ctx, flags, log)
	case asks:
		return a.replayClient(ctx, flags, log, words[1:])
	case flags.export != "":
		return a.replayExport(flags, log)
	}
	return a.replayShow(flags, log)
}

// replayShow prints a line for each row.
func (a *app) replayShow(flags replayFlags, log *capture.Log) error {
	filter, err := capture.ParseFilter(flags.filter, time.Now())
	if err != nil {
		return usagef("--filter: %v", err)
	}
	var colour palette
	wants, err := a.wantsColour(flags.colour, isTerminal(a.stdout))
	if err != nil {
		return err
	}
	if wants {
		colour = colours
	}
	for r := range log.Select(filter, capture.Ref{}) {
		if _, err := fmt.Fprintln(a.stdout, lineOf(&r, colour)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) replayExport(flags replayFlags, log *capture.Log) error {
	filter, err := capture.ParseFilter(flags.filter, time.Now())
	if err != nil {
		return usagef("--filter: %v", err)
	}
	redaction, err := flags.hide.redaction(a.getenv)
	if err != nil {
		return err
	}
	write := map[string]func(io.Writer, *capture.ExportOptions) error{
		"har": log.WriteHAR, "markdown": log.WriteMarkdown, "session": log.WriteSession,
	}[flags.export]
	if write == nil {
		return usagef("--export is har, markdown or session, not %q", flags.export)
	}
	return write(a.stdout, &capture.ExportOptions{Filter: filter, Redact: redaction})
}

// replayServer answers as the recorded server did.
func (a *app) replayServer(ctx context.Context, flags replayFlags, log *capture.Log) error {
	server, err := replay.NewServer(log, capture.Out)
	if err != nil {
		return usagef("%s", strings.TrimPrefix(err.Error(), "replay: "))
	}
	report := &reporter{w: a.stderr}
	server.Strict, server.Pace, server.Report = flags.strict, flags.pace, report.report
	targets, err := listenTargets(flags.serveFlags)
	if err != nil {
		return err
	}
	listener, err := a.listener(flags.serveFlags, report)
	if err != nil {
		return err
	}
	listener.Handler = server
	running, err := listener.Listen(ctx, targets...)
	if err != nil {
		return err
	}
	if !flags.stdio {
		for _, t := range running.Targets() {
			fmt.Fprintf(a.stderr, "parley: replays %d messages at %s\n", server.Len(), t)
		}
	}
	return running.Run(ctx)
}

// replayClient asks as the recorded client did.
func (a *app) replayClient(ctx context.Context, flags replayFlags, log *capture.Log, words []string) error {
	asking, err := replay.NewServer(log, capture.Out)
	if err != nil {
		return usagef("%s", strings.TrimPrefix(err.Error(), "replay: "))
	}
	flags.reach.tokenFile = flags.tokenFile
	target, _, err := a.target(flags.reach, words, true)
	if err != nil {
		return err
	}
	dialer, err := a.dialer(flags.reach)
	if err != nil {
		return err
	}
	dialer.Back = nil
	if back, err := replay.NewServer(log, capture.In); err == nil { // else the server asked nothing
		dialer.Back = back
	}
	var client interface {
		jsonrpc.Peer
		Close() error
	}
	var before func(capture.Ref)
	if (target.Scheme == "http" || target.Scheme == "https") && isMCP(log) {
		web := newWebReplay(log, target, dialer, dialer.Back, (&reporter{w: a.stderr}).report)
		client, before = web, web.before
	} else if client, err = dialer.Dial(ctx, target); err != nil {
		return &dialError{target, err}
	}
	asked := 0
	differences, err := asking.Compare(ctx, client, &replay.CompareOptions{
		Ignore: flags.ignore,
		Before: before,
		Each: func(ref capture.Ref, method string, found []replay.Difference) {
			asked++
			for _, d := range found {
				_, _ = fmt.Fprintf(a.stdout, "#%s %s: %s was %s, is %s\n", ref, visible(method, 60), d.Path, visible(d.Then, 200), visible(d.Now, 200))
			}
		},
	})
	if closing := client.Close(); err == nil {
		err = closing
	}
	if _, unreached := errors.AsType[*url.Error](err); unreached {
		err = &dialError{target, err}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "parley: %d requests, %d differences\n", asked, len(differences))
	if len(differences) > 0 {
		return &silentError{exitRPC}
	}
	return nil
}
