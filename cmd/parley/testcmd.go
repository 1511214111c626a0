package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
	"github.com/da1ed7bb/parley/playground/suite"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// maxTestMessage is the maximum size of a message of parley test, in bytes. It is that of the page.
const maxTestMessage = 16 << 20

// A tester is one execution of the test command.
type tester struct {
	app    *app
	output outputFlags
	reach  reachFlags

	options   suite.Options
	variables []string
	protocol  string
	junit     string

	printer *printer
	screen  *screen
}

// A testReport is the output of -o json.
type testReport struct {
	Verdict string          `json:"verdict"` // pass or fail
	Counts  suite.Counts    `json:"counts"`
	Seconds float64         `json:"seconds"`
	Suites  []*suite.Report `json:"suites"`
}

func (a *app) testCommand() *cobra.Command {
	t := &tester{app: a}
	cmd := &cobra.Command{
		Use:   "test SUITE…",
		Short: "run saved calls and check their responses",
		Long: `Run the calls of suites and check their responses. A suite is a YAML or JSON file with calls,
variables, environments and assertions, or a call that the page saved. docs/guides/test.md has the
format.

  parley test suite.yaml --target :3000/rpc
  parley test suite.yaml --target :3000/rpc --env other --only subtract --junit test.xml
  parley test suite.yaml -o json -- parley demo --stdio

The calls of a suite run one after the other; each suite has its own connections. Without an
assertion about the response, an error response fails a call, and so does an MCP tool that reports
an error. The exit code is 0 if all calls passed, or else that of the first that did not: 1 if an
assertion failed, 3 for authentication, 4 if the target cannot be reached or is too slow, 6 if it
violates its protocol. A suite that cannot run is 2, and nothing is sent.`,
		RunE: func(cmd *cobra.Command, words []string) error { return t.run(cmd, words) },
	}
	f := cmd.Flags()
	o := &t.options
	f.StringVar(&o.Environment, "env", "", "use the environment `NAME` of the suite")
	f.StringArrayVar(&t.variables, "var", nil, "set a variable: `NAME=VALUE`, or NAME:=JSON; repeatable")
	f.StringArrayVar(&o.Only, "only", nil, "run only calls with `TEXT` in their names, or a pattern with *; repeatable")
	f.StringVar(&o.Target, "target", "", "use `TARGET` instead of the targets of the suite")
	f.StringVar(&t.protocol, "protocol", "", "`PROTOCOL` of the targets: jsonrpc, mcp, a2a, acp, editor or lsp; by default derived from the address")
	f.BoolVar(&o.Bail, "bail", false, "skip the calls after one that did not pass")
	f.StringVar(&t.junit, "junit", "", "also write JUnit XML to `FILE`")
	t.output.registerWith(cmd, formText, []string{formText, "json"})
	t.reach.register(cmd)
	f.Lookup("timeout").DefValue = "0s"
	f.Lookup("timeout").Usage = "`TIME` to wait for each response; by default the file's, or 1m"
	for _, name := range []string{"trace", "jsonrpc", "framing"} {
		f.Lookup(name).Hidden = true
	}
	return cmd
}

func (t *tester) run(cmd *cobra.Command, words []string) error {
	var err error
	if t.printer, err = t.app.printer(t.output); err != nil {
		return err
	}
	if err := t.setup(cmd, words); err != nil {
		return err
	}
	suites, err := t.read(words)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	var runs []*suite.Run
	var pages []*playground.Options
	for _, s := range suites { // all before anything is sent
		r, err := s.Prepare(&t.options)
		if err != nil {
			return usagef("%s", inOneLine(err.Error()))
		}
		t.app.hide(r.Secrets()...)
		page, err := t.page(ctx, s, r)
		if err != nil {
			return err
		}
		runs, pages = append(runs, r), append(pages, page)
	}
	t.screen = &screen{w: t.app.stderr, bar: isTerminal(t.app.stderr)}
	out := &testReport{Verdict: "pass", Suites: []*suite.Report{}}
	for i, r := range runs {
		if i > 0 && t.options.Bail && out.Verdict != "pass" {
			break
		}
		report, err := t.one(ctx, suites[i], r, pages[i])
		if err != nil {
			return err
		}
		out.Suites = append(out.Suites, report)
		out.Counts.Add(report.Counts)
		out.Seconds += report.Seconds
		if out.Counts.Fail+out.Counts.Error > 0 {
			out.Verdict = "fail"
		}
	}
	if err := exportTo(t.junit, func(w io.Writer) error { return suite.WriteJUnit(w, out.Suites) }); err != nil {
		return err
	}
	if err := t.finish(ctx, out); err != nil {
		return err
	}
	if code := testExit(ctx, out); code != exitOK {
		return &silentError{code}
	}
	return nil
}

// setup completes the options from the flags.
func (t *tester) setup(cmd *cobra.Command, words []string) error {
	o := &t.options
	switch {
	case len(words) == 0:
		return usagef("missing SUITE. Usage: parley test SUITE…")
	case t.app.hasArgv && len(t.app.argv) == 0:
		return usagef("missing command after --")
	case t.app.hasArgv && o.Target != "":
		return usagef("--target and the command after -- are two targets; use only one")
	case t.reach.trace != "" || t.reach.version != "" || t.reach.framing != "":
		return usagef("--trace, --jsonrpc and --framing have no effect on test; -o json has what was sent and received")
	case t.protocol != "" && !slices.Contains(testProtocols, t.protocol):
		return usagef("--protocol is %s, not %q", strings.Join(testProtocols, ", "), cut(t.protocol, 60))
	}
	if t.app.hasArgv {
		o.Target = "-- " + strings.Join(t.app.argv, " ")
	}
	if cmd.Flags().Changed("timeout") {
		if t.reach.timeout <= 0 {
			return usagef("--timeout must be positive: a test waits for each response")
		}
		o.Timeout = t.reach.timeout
	}
	o.Variables = make(suite.Values)
	for _, word := range t.variables {
		name, value, found := strings.Cut(word, "=")
		name, isJSON := strings.CutSuffix(name, ":")
		switch {
		case !found || !suite.IsVariable(name):
			return usagef("--var must be NAME=VALUE or NAME:=JSON, not %q", cut(name, 60))
		case isJSON:
			raw, err := jsonrpc.ParseRaw([]byte(value))
			if err != nil {
				return usagef("--var %s: the value is not JSON; use %s=VALUE for a text", name, name)
			}
			o.Variables[name] = suite.ValueOf(raw)
		default:
			o.Variables[name] = suite.TextValue(value)
		}
	}
	o.Lookup = func(name string) (string, bool) {
		value := t.app.getenv(name)
		return value, value != ""
	}
	return nil
}

// testProtocols are the values of --protocol, and of protocol in a suite.
var testProtocols = []string{playground.ProtocolJSONRPC, playground.ProtocolMCP, playground.ProtocolA2A, playground.ProtocolACP, playground.ProtocolEditor, playground.ProtocolLSP}

// read reads all suites.
func (t *tester) read(names []string) (suites []*suite.Suite, err error) {
	for _, name := range names {
		s, err := suite.Read(t.app.atHome(name))
		switch {
		case is[*suite.Error](err):
			return nil, usagef("%s", inOneLine(err.Error()))
		case err != nil:
			return nil, usagef("%s: %v", name, bareReason(err))
		case s.Protocol != "" && !slices.Contains(testProtocols, s.Protocol):
			return nil, usagef("%s: protocol is %s, not %q", name, strings.Join(testProtocols, ", "), cut(s.Protocol, 60))
		}
		suites = append(suites, s)
	}
	for name := range t.options.Variables {
		if !slices.ContainsFunc(suites, func(s *suite.Suite) bool { return s.Uses(name) }) {
			var known []string
			for _, s := range suites {
				known = append(known, s.VariableNames()...)
			}
			return nil, usagef("--var %s: no call uses {{%s}}%s", name, name, didYouMean(name, known))
		}
	}
	return suites, nil
}

// page returns the options of the Playground that runs a suite, with its targets.
func (t *tester) page(ctx context.Context, s *suite.Suite, r *suite.Run) (*playground.Options, error) {
	o := &playground.Options{
		Headless: true, Version: thisBuild().Version,
		// The recording is needed for one call at a time.
		Recording: capture.Options{MaxDisk: -1, MaxMemory: 8 * maxTestMessage, MaxPayload: maxTestMessage},
	}
	for _, name := range r.Targets() {
		target := playground.Target{Name: name, From: playground.FromFile}
		switch {
		case t.app.hasArgv:
			target.Command = t.app.argv
		case name == s.CommandTarget() && t.options.Target == "":
			target.Command = s.Command
			target.Env, _ = stdio.CleanEnv(r.Env()...)
		default:
			reach := t.reach
			where, err := t.app.parseTarget(ctx, &reach, name)
			if err != nil {
				return nil, err
			}
			if where.Scheme == "stdio" {
				return nil, usagef("stdio: cannot be tested; use command: in the suite, or parley test SUITE -- CMD")
			}
			if err := reach.fit(where); err != nil {
				return nil, err
			}
			dialer, err := t.app.dialer(reach)
			if err != nil {
				return nil, err
			}
			r.Hide(dialer.Token)
			o.TLS = dialer.TLS
			target.Address, target.Protocol = name, protocolAt(where)
			if reach.entry != nil {
				r.Hide(reach.entry.Secrets...)
				target = targetOf(reach.entry)
				target.Name, target.From = name, playground.FromFile
			}
			target.Header, target.Token = dialer.Header, dialer.Token
		}
		switch {
		case t.protocol != "":
			target.Protocol = t.protocol
		case s.Protocol != "":
			target.Protocol = s.Protocol
		}
		o.Targets = append(o.Targets, target)
	}
	return o, nil
}

// one runs a suite and prints its calls.
func (t *tester) one(ctx context.Context, s *suite.Suite, r *suite.Run, o *playground.Options) (report *suite.Report, err error) {
	page, err := playground.New(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		t.screen.clear()
		var why error
		if report != nil && slices.ContainsFunc(report.Calls, func(c suite.CallReport) bool { return c.Kind == suite.TimedOut }) {
			why = context.DeadlineExceeded
		}
		hangUp(why, page.Close)
	}()
	if t.text() {
		fmt.Fprintf(t.app.stdout, "%s%s%s\n", t.printer.palette.word, visible(s.Name, 200), t.printer.palette.end)
	}
	r.Progress(func(done, total int, name string) {
		if t.screen.bar && done < total {
			t.screen.progress(float64(done), float64(total), name)
		}
	})
	r.Done(func(c *suite.CallReport) {
		if t.text() {
			t.screen.clear()
			t.line(c)
		}
	})
	return r.Run(ctx, page), nil
}

// text reports whether the output is for people.
func (t *tester) text() bool { return t.output.format == formText && t.output.jq == "" }

// line prints a call: one line, and what is wrong below it.
func (t *tester) line(c *suite.CallReport) {
	p := t.printer.palette
	var b strings.Builder
	mark, end := "", ""
	if c.Outcome == suite.Failed || c.Outcome == suite.Faulty {
		mark, end = p.word, p.end
	}
	fmt.Fprintf(&b, "  %s%-5s%s  ", mark, c.Outcome, end)
	name := visible(c.Name, 200)
	if c.Outcome == suite.Skipped {
		fmt.Fprintf(&b, "%s: %s\n", name, visible(c.Why, 400))
	} else {
		fmt.Fprintf(&b, "%-40s  %8.1f ms\n", name, c.Milliseconds)
	}
	if mark := c.Outcome; mark == suite.Failed || mark == suite.Faulty {
		if c.Why != "" {
			fmt.Fprintf(&b, "         %s\n", visible(c.Why, 600))
		}
		for _, a := range c.Asserts {
			if !a.OK {
				fmt.Fprintf(&b, "         %s\n           expected  %s\n           received  %s\n", visible(a.Path, 300), visible(a.Expected, 400), visible(a.Received, 400))
			}
		}
		for _, part := range []struct{ name, text string }{{"sent", c.Sent}, {"received", c.Received}, {"repeat", c.Repeat}} {
			if part.text != "" {
				fmt.Fprintf(&b, "         %-8s  %s\n", part.name, visible(part.text, partWidth(part.name)))
			}
		}
	}
	_, _ = io.WriteString(t.app.stdout, b.String()) // an output that is closed is no reason to stop
}

// partWidth returns how many characters of a part of a call are printed. A command that is cut off
// would be of no use.
func partWidth(part string) int {
	if part == "repeat" {
		return 4000
	}
	return 400
}

// finish prints the totals, or the whole report.
func (t *tester) finish(ctx context.Context, out *testReport) error {
	if !t.text() {
		text, err := json.Marshal(out)
		if err != nil {
			return err
		}
		if t.printer.format == formText {
			t.printer.format = "json"
		}
		return t.printer.print(context.WithoutCancel(ctx), text)
	}
	n := out.Counts
	_, err := fmt.Fprintf(t.app.stdout, "%s: %d passed, %d failed, %s, %d skipped in %.1f s\n", out.Verdict, n.Pass, n.Fail, countOf(n.Error, "error"), n.Skip, out.Seconds)
	return err
}

// testExit returns the exit code: that of the first call that did not pass.
func testExit(ctx context.Context, out *testReport) int {
	if errors.Is(context.Cause(ctx), errInterrupted) || ctx.Err() != nil {
		return exitCancelled
	}
	for _, s := range out.Suites {
		for _, c := range s.Calls {
			switch {
			case c.Outcome == suite.Failed:
				return exitRPC
			case c.Outcome != suite.Faulty:
			case c.Kind == suite.Unauthorized:
				return exitAuth
			case c.Kind == suite.Unreachable, c.Kind == suite.TimedOut:
				return exitAway
			case c.Kind == suite.Broken:
				return exitProtocol
			default:
				return exitRPC
			}
		}
	}
	return exitOK
}
