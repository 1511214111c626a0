package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/check"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/spf13/cobra"
)

// checkTimeout is the default of --timeout of check: how long each response may take.
const checkTimeout = 5 * time.Second

// A checker is one execution of check.
type checker struct {
	app    *app
	output outputFlags
	reach  reachFlags

	options check.Options
	named   string
	junit   string
	sarif   string
	all     bool

	mcp, acp, a2a bool
}

func (a *app) checkCommand() *cobra.Command {
	c := &checker{app: a}
	cmd := &cobra.Command{
		Use:   "check TARGET",
		Short: "test a server against JSON-RPC 2.0, rule by rule",
		Long: `Test a server against JSON-RPC 2.0, rule by rule.

  parley check :3000/rpc
  parley check :3000/rpc --echo echo --fail fail --sleep sleep --named subtract:minuend,subtrahend
  parley check --strict --hard -o json -- parley demo --stdio

A rule is MUST (a specification requires it), EXPECT (clients rely on it), SHOULD or free. The exit
code is 6 if a MUST fails, with --strict also if an EXPECT fails. Rules that need a method of the
server are not checked unless a flag names it; without such flags, methods called echo, fail, sleep
and subtract are taken from rpc.discover. The server receives invalid messages and is loaded: do not
check a server that others use.`,
		RunE: func(cmd *cobra.Command, words []string) error { return c.run(cmd, words) },
	}
	f := cmd.Flags()
	o := &c.options
	f.StringVar(&o.Echo, "echo", "", "`METHOD` that returns its params unchanged")
	f.StringVar(&o.Fail, "fail", "", "`METHOD` with params {code, message, data} that returns this error")
	f.StringVar(&o.Sleep, "sleep", "", "`METHOD` that waits for params {ms}")
	f.StringVar(&o.Panic, "panic", "", "`METHOD` whose handler panics or throws")
	f.StringVar(&c.named, "named", "", "`METHOD:A,B` with two numbers as params, and their names in order")
	f.Var(&expectedCall{c, "method"}, "method", "call `NAME` and compare the result; repeatable, with --params and --result after it")
	f.Var(&expectedCall{c, "params"}, "params", "`JSON` params of the --method before it")
	f.Var(&expectedCall{c, "result"}, "result", "expected `JSON` result of the --method before it")
	f.StringSliceVar(&o.Only, "only", nil, "check only the rules with these `IDS`, or beginnings such as batch; comma-separated")
	f.BoolVar(&o.Strict, "strict", false, "exit 6 also if an EXPECT fails")
	f.BoolVar(&o.Hard, "hard", false, "add deep nesting, large messages, floods and broken frames")
	f.BoolVar(&c.mcp, "mcp", false, "check the Model Context Protocol instead: IDs, errors, and each version")
	f.BoolVar(&c.a2a, "a2a", false, "check Agent2Agent 1.0 and 0.3 over JSON-RPC instead")
	f.BoolVar(&c.acp, "acp", false, "check the Agent Communication Protocol over JSON-RPC instead")
	f.StringVar(&c.junit, "junit", "", "also write JUnit XML to `FILE`")
	f.StringVar(&c.sarif, "sarif", "", "also write SARIF 2.1.0 to `FILE`")
	f.BoolVar(&c.all, "all", false, "list the rules that passed or were not checked, too")
	c.output.registerWith(cmd, "table", []string{"table", "json"})
	c.reach.register(cmd)
	f.Lookup("timeout").DefValue = checkTimeout.String()
	f.Lookup("timeout").Usage = "`TIME` to wait for each response"
	c.reach.timeout = checkTimeout
	for _, name := range []string{"trace", "jsonrpc"} { // check sends bytes that these do not describe
		f.Lookup(name).Hidden = true
	}
	return cmd
}

// An expectedCall is the value of --method, --params and --result, which belong together by order.
type expectedCall struct {
	c    *checker
	part string
}

func (e *expectedCall) String() string { return "" }

func (e *expectedCall) Type() string { return "string" }

func (e *expectedCall) Set(text string) error {
	calls := &e.c.options.Calls
	if e.part == "method" {
		*calls = append(*calls, check.Call{Method: text})
		return nil
	}
	if len(*calls) == 0 {
		return fmt.Errorf("a --method must come first")
	}
	value, err := jsonrpc.ParseRaw([]byte(plain(text)))
	if err != nil {
		return fmt.Errorf("%q is not JSON", cut(text, 60))
	}
	last := &(*calls)[len(*calls)-1]
	if e.part == "params" {
		last.Params = value.Clone()
	} else {
		last.Result = value.Clone()
	}
	return nil
}

// setup fills the options from the flags.
func (c *checker) setup(target parley.Target) error {
	o := &c.options
	if c.named != "" {
		method, names, found := strings.Cut(c.named, ":")
		o.Named, o.NamedParams = method, strings.Split(names, ",")
		if !found || method == "" || len(o.NamedParams) != 2 || o.NamedParams[0] == "" || o.NamedParams[1] == "" {
			return usagef("--named must be METHOD:A,B, not %q", cut(c.named, 60))
		}
	}
	for _, p := range []struct {
		on   bool
		name string
	}{{c.mcp, "mcp"}, {c.acp, "acp"}, {c.a2a, "a2a"}} {
		switch {
		case p.on && o.Profile != "":
			return usagef("--%s and --%s cannot be used together", o.Profile, p.name)
		case p.on:
			o.Profile = p.name
		}
	}
	if c.reach.timeout <= 0 {
		return usagef("--timeout must be positive: a check waits for each response")
	}
	if c.reach.trace != "" || c.reach.version != "" {
		return usagef("--trace and --jsonrpc have no effect on check; -o json has what was sent and received")
	}
	if err := c.reach.fit(target); err != nil {
		return err
	}
	dialer, err := c.app.dialer(c.reach)
	if err != nil {
		return err
	}
	if dialer.Token != "" {
		if target.Scheme == "tcp" || target.Scheme == "tls" {
			return usagef("--token works with HTTP and WebSocket for check")
		}
		if dialer.Header == nil {
			dialer.Header = map[string][]string{}
		}
		dialer.Header.Set("Authorization", "Bearer "+dialer.Token)
	}
	// A child logs hundreds of invalid messages: its stderr is not shown.
	o.Header, o.TLS, o.Timeout = dialer.Header, dialer.TLS, c.reach.timeout
	return nil
}

func (c *checker) run(cmd *cobra.Command, words []string) error {
	printer, err := c.app.printer(c.output)
	if err != nil {
		return err
	}
	target, words, err := c.app.target(cmd.Context(), &c.reach, words, false)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return usagef("unexpected argument %q: check takes one TARGET", cut(words[0], 60))
	}
	if err := c.setup(target); err != nil {
		return err
	}
	progress := &screen{w: c.app.stderr, bar: isTerminal(c.app.stderr)}
	c.options.Progress = func(done, total int, r check.Result) {
		if progress.bar {
			progress.progress(float64(done), float64(total), r.ID)
		}
	}
	report, err := c.check(cmd.Context(), target)
	if progress.bar {
		progress.clear()
	}
	if err != nil {
		return err
	}
	if err := errors.Join(
		exportTo(c.junit, func(w io.Writer) error { return report.WriteJUnit(w, c.options.Strict) }),
		exportTo(c.sarif, func(w io.Writer) error { return report.WriteSARIF(w, c.options.Strict) })); err != nil {
		return err
	}
	if c.output.format == "json" {
		text, err := json.Marshal(report)
		if err != nil {
			return err
		}
		if err := printer.print(cmd.Context(), text); err != nil {
			return err
		}
	} else if err := c.print(printer, report); err != nil {
		return err
	}
	if report.Verdict == check.Fail {
		return &silentError{exitProtocol}
	}
	return nil
}

// check runs the rules. If there is no server at the target, it returns the error that a call would
// get, with its remedy.
func (c *checker) check(ctx context.Context, target parley.Target) (*check.Report, error) {
	o := &c.options
	o.Probe = true
	report, err := check.Check(ctx, target, o)
	e, ok := errors.AsType[*check.UnreachableError](err)
	if !ok {
		return report, err
	}
	switch err := c.absent(ctx, target, e.Err); exitCode(err) {
	case exitAway, exitAuth, exitCancelled:
		return nil, err
	}
	o.Probe = false // a call reaches something there, which breaks the protocol
	report, err = check.Check(ctx, target, o)
	if e, ok := errors.AsType[*check.UnreachableError](err); ok {
		return nil, &dialError{target, e.Err}
	}
	return report, err
}

// absent returns the error of a call to a target at which check found no server. It is nil, or one
// with another exit code, if there is something after all.
func (c *checker) absent(ctx context.Context, target parley.Target, err error) error {
	one := &call{app: c.app, reach: c.reach, target: target, tls: c.options.TLS}
	if status(err) != 0 {
		return one.explain(ctx, "check", err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		probing, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		if found := one.finder().other(probing, err); found != nil {
			return found
		}
		return &shownError{fmt.Sprintf("check: no response within %s (--timeout)", c.reach.timeout), context.DeadlineExceeded}
	}
	if found := one.dialFailed(ctx, err); is[*placeError](found) || isUnreachable(err) {
		return found
	}
	dialer, err := c.app.dialer(c.reach)
	if err != nil {
		return err
	}
	client, err := dialer.Dial(ctx, target)
	if err != nil {
		return one.dialFailed(ctx, err)
	}
	if err = client.Call(ctx, cmp.Or(c.options.Echo, "ping"), jsonrpc.Raw("[]"), nil); err != nil {
		err = one.explain(ctx, "check", err)
	}
	hangUp(err, client.Close)
	return err
}

// exportTo writes a report to a file, if it has a name.
func exportTo(name string, write func(w io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := private.Open(name)
	if err != nil {
		return err
	}
	if !f.Special {
		err = f.Truncate(0)
	}
	if err == nil {
		err = write(f)
	}
	return errors.Join(err, f.Close())
}

// print writes the report for people: the failed rules with their messages, then a table of the
// families of rules.
func (c *checker) print(p *printer, report *check.Report) error {
	var b strings.Builder
	for _, r := range report.Rules {
		switch {
		case r.Outcome == check.Fail:
			fmt.Fprintf(&b, "%s%-6s %s%s  (%s)\n", p.palette.word, r.Level, visible(r.ID, 100), p.palette.end, r.Section)
			fmt.Fprintf(&b, "  sent      %s\n  received  %s\n  why       %s\n\n", cmp.Or(visible(r.Sent, 400), "(see why)"), cmp.Or(visible(r.Received, 400), "(nothing)"), visible(r.Why, 600))
		case c.all:
			fmt.Fprintf(&b, "%-11s %-6s %s  (%s)", r.Outcome, r.Level, visible(r.ID, 100), r.Section)
			if r.Why != "" {
				fmt.Fprintf(&b, ": %s", visible(r.Why, 200))
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "%-14s %6s %6s %12s\n", "RULES", "PASS", "FAIL", "NOT CHECKED")
	var name string
	var counts [3]int
	flush := func() {
		if name != "" {
			fmt.Fprintf(&b, "%-14s %6d %6d %12d\n", visible(name, 14), counts[0], counts[1], counts[2])
		}
		counts = [3]int{}
	}
	for _, r := range report.Rules {
		if f, _, _ := strings.Cut(r.ID, "/"); f != name {
			flush()
			name = f
		}
		switch r.Outcome {
		case check.Pass:
			counts[0]++
		case check.Fail:
			counts[1]++
		case check.NotChecked:
			counts[2]++
		}
	}
	flush()
	n := report.Counts
	fmt.Fprintf(&b, "%-14s %6d %6d %12d\n\n", "all", n.Pass, n.Fail, n.NotChecked)
	fmt.Fprintf(&b, "%s over %s: %s (failed: %d MUST, %d EXPECT, %d SHOULD)\n", visible(report.Target, 200), report.Transport, report.Verdict, n.Must, n.Expect, n.Should)
	_, err := io.WriteString(p.w, b.String())
	return err
}
