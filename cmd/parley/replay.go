package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/capture/replay"
	"github.com/da1ed7bb/parley/capture/sessions"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/spf13/cobra"
)

// replayFlags are the flags of the replay commands.
type replayFlags struct {
	serveFlags
	reach  reachFlags
	export string
	filter string
	output outputFlags
	strict bool
	pace   bool
	ignore []string
	hide   hideFlags
}

func (a *app) replayCommand() *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE [TARGET]",
		Short: "replay a recorded session as a server or a client",
		Long: `Replay a recorded session: print it, respond as its server did, or send requests as its client did.

  parley replay last                                          print the newest session of parley tap
  parley replay session.jsonl --filter 'status:error'         print some messages of a file
  parley replay last -o ndjson                                print one JSON object per message
  parley replay session.jsonl --stdio                         replay the server, as its command
  parley replay session.jsonl --listen http://127.0.0.1:4000  replay the server over HTTP
  parley replay session.jsonl -- ./server --stdio             replay the client, and compare
  parley replay session.jsonl --export har > session.har      convert it: har, html, otlp, markdown

As a server, a request gets the recorded response for the same method and params, after the messages
that belong to it. As a client, requests are sent one after the other, and the server's requests get
the recorded responses. The exit code is 1 if a response differs.`,
		Args: func(_ *cobra.Command, words []string) error {
			switch {
			case len(words) == 0:
				return usagef("missing FILE. Usage: parley replay FILE [TARGET]; parley tap --record FILE creates one")
			case len(words) > 2:
				return usagef("unexpected argument %q; parley replay takes a file and a target", cut(words[2], 60))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, words []string) error { return a.replay(cmd.Context(), flags, words) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.filter, "filter", "", "show or export only messages that match `TERMS`")
	f.StringVar(&flags.export, "export", "", "print the session in `FORMAT`: har, html, markdown, otlp (JSON) or session")
	f.BoolVar(&flags.strict, "strict", false, "as a server: reject params that were not recorded")
	f.BoolVar(&flags.pace, "pace", false, "as a server: respond with the recorded delays")
	f.StringArrayVar(&flags.ignore, "ignore", nil, "as a client: `MEMBER` of responses that may differ; repeatable")
	flags.output.registerWith(cmd, formText, []string{formText, "json", "ndjson"})
	flags.serveFlags.register(cmd)
	f.StringVar(&flags.reach.token, "token", "", "as a client: bearer `TOKEN`")
	f.StringArrayVarP(&flags.reach.header, "header", "H", nil, "as a client: send the header `'NAME: VALUE'`; repeatable")
	f.DurationVar(&flags.reach.timeout, "timeout", callTimeout, "as a client: `TIME` to wait for a response")
	flags.reach.registerServer(cmd)
	flags.hide.register(cmd)
	return cmd
}

func (a *app) replay(ctx context.Context, flags replayFlags, words []string) error {
	log, err := a.openSession(words[0])
	if err != nil {
		return err
	}
	serves, asks := flags.stdio || len(flags.listen) > 0, a.hasArgv || len(words) == 2
	switch {
	case serves && asks:
		return usagef("use --stdio or --listen to replay the server, or TARGET to replay the client, not both")
	case serves:
		return a.replayServer(ctx, flags, log)
	case asks:
		return a.replayClient(ctx, flags, log, words[1:])
	case flags.export != "":
		return a.replayExport(flags, log)
	}
	return a.replayShow(ctx, flags, log)
}

// openSession opens a session file, or a session of the folder of sessions: "last", its name there,
// or a part of it that is unique.
func (a *app) openSession(word string) (*capture.Log, error) {
	file := a.atHome(word)
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(word, `/\.`) {
		if dir := a.sessionsDir(); dir != "" {
			found, err := sessions.Find(dir, word)
			switch {
			case err == nil:
				file = found.Path
			case word == "last":
				return nil, usagef("there is no session yet; parley tap records one")
			case strings.Contains(err.Error(), " may be "):
				return nil, usagef("%s", visible(err.Error(), 1000))
			}
		}
	}
	log, err := capture.Open(file, lens.Judges()...)
	if err != nil {
		return nil, usagef("%s: %s", visible(word, 300), strings.ReplaceAll(bareReason(err).Error(), "capture: ", ""))
	}
	if err := log.Err(); err != nil {
		fmt.Fprintf(a.stderr, "parley: %s: %s\n", visible(word, 300), visible(err.Error(), 1000))
	}
	return log, nil
}

// replayShow prints one line per row.
func (a *app) replayShow(ctx context.Context, flags replayFlags, log *capture.Log) error {
	filter, err := capture.ParseFilter(flags.filter, time.Now())
	if err != nil {
		return usagef("--filter: %v", err)
	}
	if flags.output.jq != "" && flags.output.format == formText {
		flags.output.format = "json"
	}
	p, err := a.printer(flags.output)
	if err != nil {
		return err
	}
	var colour palette
	wants, err := a.wantsColour(flags.output.colour, isTerminal(a.stdout))
	if err != nil {
		return err
	}
	if wants {
		colour = colours
	}
	width, messages, problems := usualWidth, 0, 0
	rows := []replayRow{}
	for r := range log.Select(filter, capture.Ref{}) {
		width = max(width, utf8.RuneCountInString(whatOfRow(&r)))
		switch r.Kind {
		case capture.RowRequest, capture.RowNotification, capture.RowResult, capture.RowError:
			messages++
		}
		for _, finding := range r.Findings {
			if !finding.Doubt {
				problems++
			}
		}
		if p.format != formText {
			rows = append(rows, replayRowOf(&r))
		}
	}
	if p.format != formText {
		return p.print(ctx, rawOf(rows))
	}
	for r := range log.Select(filter, capture.Ref{}) {
		if _, err := fmt.Fprintln(a.stdout, lineOf(&r, colour, width)); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stderr, "parley: %s, %s\n", countOf(messages, "message"), countOf(problems, "problem"))
	return nil
}

// A replayRow is a row of a session as replay -o json prints it.
type replayRow struct {
	Ref      string            `json:"ref"`
	Time     time.Time         `json:"time"`
	Kind     string            `json:"kind"`
	Dir      string            `json:"dir,omitzero"` // out (of the client) or in
	ID       jsonrpc.Raw       `json:"id,omitzero"`
	Method   string            `json:"method,omitzero"`
	Name     string            `json:"name,omitzero"`
	Target   string            `json:"target,omitzero"`
	State    string            `json:"state,omitzero"`
	Code     *int64            `json:"code,omitzero"`
	Brief    string            `json:"brief,omitzero"`
	Ms       float64           `json:"ms,omitzero"`
	Size     int               `json:"size"`
	Call     string            `json:"call,omitzero"` // of a response: the ref of its request
	Findings []capture.Finding `json:"findings,omitzero"`
}

func replayRowOf(r *capture.Row) replayRow {
	out := replayRow{Ref: r.Ref.String(), Time: r.Time, Kind: r.Kind, Dir: map[capture.Dir]string{capture.Out: "out", capture.In: "in"}[r.Dir], Method: r.Method,
		Name: r.Name, Target: r.Target, State: r.State, Brief: r.Brief, Ms: ms(r.Took), Size: r.Size, Findings: r.Findings}
	if r.ID != "" {
		var err error
		if out.ID, err = jsonrpc.ParseRaw([]byte(r.ID)); err != nil { // cut
			out.ID = rawOf(r.ID)
		}
	}
	if r.HasCode || r.Kind == capture.RowHTTP {
		out.Code = &r.Code
	}
	if !r.Call.IsZero() {
		out.Call = r.Call.String()
	}
	return out
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
		"har": log.WriteHAR, "html": log.WriteHTML, "markdown": log.WriteMarkdown, "otlp": log.WriteOTLP, "session": log.WriteSession,
	}[flags.export]
	if write == nil {
		return usagef("--export must be har, html, markdown, otlp or session, not %q", flags.export)
	}
	return write(a.stdout, &capture.ExportOptions{Filter: filter, Redact: redaction})
}

// replayServer responds as the recorded server did.
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

// replayClient sends the requests of the recorded client.
func (a *app) replayClient(ctx context.Context, flags replayFlags, log *capture.Log, words []string) error {
	asking, err := replay.NewServer(log, capture.Out)
	if err != nil {
		return usagef("%s", strings.TrimPrefix(err.Error(), "replay: "))
	}
	flags.reach.tokenFile = flags.tokenFile
	target, _, err := a.target(ctx, &flags.reach, words, true)
	if err != nil {
		return err
	}
	if err := flags.reach.fit(target); err != nil {
		return err
	}
	dialer, err := a.dialer(flags.reach)
	if err != nil {
		return err
	}
	dialer.Back = nil
	// Otherwise the server sent no requests.
	if back, err := replay.NewServer(log, capture.In); err == nil {
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
				_, _ = fmt.Fprintf(a.stdout, "#%s %s: %s was %s, is %s\n", ref, visible(method, 60), visible(d.Path, 200), visible(d.Then, 200), visible(d.Now, 200))
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
