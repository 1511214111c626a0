package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

const runHelp = `Run a plan with a team of agents.

  parley run examples/plans/quorum.yaml question="What is the capital of France?"
  parley run --check examples/plans/review.yaml
  parley run list

A plan lists the steps, the agents that do them, and what runs concurrently; see docs/plans.md. Its
input has the form of named params: name=text, name:=json, name=@file, name:=@file. A terminal shows
the progress and asks the questions of the run. Without a terminal, --answer answers and --decline
declines them; otherwise the step fails. Ctrl-C cancels the running steps at the agents, and the
report is still printed.

Runs are stored in $XDG_STATE_HOME/parley/runs, or in DIR/runs with --state DIR. The commands run
list, run show and run watch read them, also while they run.`

// A planRun is one execution of the run command: its flags and the values derived from them.
type planRun struct {
	app    *app
	output outputFlags
	reach  reachFlags

	check   bool
	teams   string
	schema  bool
	data    string
	state   string
	answers []string

	tokens, tokenFiles []string

	decline bool

	printer *printer
	log     *reporter
	given   []givenAnswer
	id      string
	tree    *tree // nil if no tree is shown
}

// The formats of a report. Text prints the result of the run, and is the default on a terminal.
var runForms = []string{"json", "ndjson", formText}

func (a *app) runCommand() *cobra.Command {
	r := &planRun{app: a}
	cmd := &cobra.Command{
		Use:   "run PLAN [NAME=VALUE…]",
		Short: "run a plan with a team of agents",
		Long:  runHelp,
		Args:  cobra.ArbitraryArgs,
		RunE:  func(cmd *cobra.Command, words []string) error { return r.run(cmd.Context(), words) },
		ValidArgsFunction: func(_ *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(words) == 0 {
				return []cobra.Completion{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
			}
			return inputNames(words[0], typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
	}
	f := cmd.Flags()
	f.BoolVar(&r.check, "check", false, "report errors of the plan, with line and column, and start nothing")
	f.BoolVar(&r.schema, "schema", false, "print the JSON Schema of plans, for editors")
	f.StringVar(&r.teams, "team", "", "`FILE` with a team:, whose members are added to the plan's and replace those of the same name")
	f.StringVarP(&r.data, "data", "d", "", "input as one `JSON` object, @file or - for stdin")
	configFlag(cmd, &r.reach.config)
	f.StringArrayVar(&r.answers, "answer", nil, "answer to a question of a step, a member or a form field: `KEY=VALUE` or KEY:=JSON; repeatable")
	f.BoolVar(&r.decline, "decline", false, "decline all questions")
	stateFlag(cmd, &r.state)
	f.StringArrayVarP(&r.reach.header, "header", "H", nil, "send the header `'NAME: VALUE'` to all members with an address (HTTP and WebSocket; repeatable)")
	f.StringArrayVar(&r.tokens, "token", nil, "bearer token for one member, `MEMBER=TOKEN`, or TOKEN if the team has one address; repeatable; --token-file, or token: in the plan, keeps it out of the process list")
	f.StringArrayVar(&r.tokenFiles, "token-file", nil, "file with the bearer token, `MEMBER=FILE` or FILE; repeatable")
	f.StringVar(&r.reach.tlsCA, "tls-ca", "", "`FILE` of certificates to trust instead of the system's")
	r.output.registerWith(cmd, "", runForms)
	f.Lookup("output").Usage = "output `FORMAT`: json (default), ndjson (live events), or text (default on a terminal)"
	cmd.AddCommand(a.runListCommand(), a.runShowCommand(), a.runWatchCommand(), a.runDeleteCommand(), a.runRepairCommand())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		if cmd.HasParent() && cmd.Name() != "run" {
			return a.usage(cmd)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "Commands:\n  %-11s %s\n  %-11s %s\n  %-11s %s\n  %-11s %s\n  %-11s %s\n\nUsage: %s\n\n%s", "list", "list the stored runs", "show", "show a run",
			"watch", "watch a run live", "delete", "delete ended runs",
			"repair", "recover the intact data of a corrupt folder", cmd.UseLine(), a.flagUsages(cmd))
		return err
	})
	return cmd
}

func stateFlag(cmd *cobra.Command, state *string) {
	cmd.Flags().StringVar(state, "state", "", "`DIR` where runs are kept, or none; $XDG_STATE_HOME/parley if absent")
}

// inputNames completes the inputs of a plan.
func inputNames(file, typed string) (names []cobra.Completion) {
	plan, err := orchestrator.ReadPlan(file)
	if err != nil {
		return nil
	}
	for _, in := range plan.Input {
		if strings.HasPrefix(in.Name, typed) {
			names = append(names, cobra.CompletionWithDesc(in.Name+"=", in.Description))
		}
	}
	return names
}

func (r *planRun) run(ctx context.Context, words []string) error {
	switch {
	case r.app.hasArgv:
		return usagef("parley run starts the programs of the plan's team itself; remove -- and the words after it")
	case r.schema && len(words) == 0:
		_, err := r.app.stdout.Write(orchestrator.Schema)
		return err
	case r.schema:
		return usagef("--schema does not take a plan")
	case len(words) == 0:
		return usagef("missing PLAN. Usage: parley run PLAN [NAME=VALUE…]")
	}
	if err := r.prepare(); err != nil {
		return err
	}
	plan, err := r.app.readPlan(words[0])
	if err != nil {
		return err
	}
	if r.check {
		if len(words) > 1 {
			return usagef("--check takes one plan and no input")
		}
		if r.teams != "" {
			if err := r.join(plan); err != nil {
				return err
			}
		}
		fmt.Fprintf(r.app.stderr, "%s: ok\n", visible(words[0], 300))
		return nil
	}
	if err := r.join(plan); err != nil {
		return err
	}
	input, err := r.input(words[1:])
	if err != nil {
		return err
	}
	if err := fits(plan, input); err != nil {
		return err
	}
	return r.do(ctx, plan, input)
}

// prepare checks the flags.
func (r *planRun) prepare() (err error) {
	terminal := isTerminal(r.app.stdout)
	if r.output.format == "" {
		r.output.format = "json"
		if terminal && r.output.jq == "" {
			r.output.format = formText
		}
	}
	if r.output.jq != "" && r.output.format == formText {
		r.output.format = "json"
	}
	if r.printer, err = r.app.printer(r.output); err != nil {
		return err
	}
	r.log = &reporter{w: r.app.stderr}
	r.given, err = parseGiven(r.answers)
	return err
}

// readPlan reads a plan file. An unreadable or invalid file is a usage error.
func (a *app) readPlan(name string) (*orchestrator.Plan, error) {
	plan, err := orchestrator.ReadPlan(name)
	if faults, ok := errors.AsType[*orchestrator.PlanError](err); ok {
		return nil, a.tellFaults(faults)
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, usagef("cannot read the plan %s: %v", cut(name, 300), path.Err)
	}
	if err != nil {
		return nil, usagef("%v", err)
	}
	return plan, nil
}

// join adds the members of --team to those of the plan, and checks that every named member exists.
func (r *planRun) join(plan *orchestrator.Plan) error {
	if r.teams != "" {
		members, err := orchestrator.ReadTeam(r.teams)
		if faults, ok := errors.AsType[*orchestrator.PlanError](err); ok {
			return r.app.tellFaults(faults)
		}
		if err != nil {
			return usagef("--team: %v", err)
		}
		if plan.Team == nil {
			plan.Team = map[string]orchestrator.Member{}
		}
		maps.Copy(plan.Team, members)
	}
	names := sortedNames(plan.Team)
	if len(names) == 0 {
		names = []string{""} // an empty team, as opposed to an unknown one
	}
	if faults, ok := errors.AsType[*orchestrator.PlanError](plan.Check(names...)); ok {
		return r.app.tellFaults(faults)
	}
	return nil
}

// tellFaults prints the errors of a plan, one per line and without a prefix, so that editors can
// locate them.
func (a *app) tellFaults(faults *orchestrator.PlanError) error {
	for line := range strings.SplitSeq(faults.Error(), "\n") {
		fmt.Fprintln(a.stderr, visible(line, 1000))
	}
	return &silentError{exitUsage}
}

// input returns the named inputs of the run.
func (r *planRun) input(words []string) (map[string]any, error) {
	var raw jsonrpc.Raw
	switch {
	case r.data != "" && len(words) > 0:
		return nil, usagef("-d and %q cannot be used together", cut(words[0], 60))
	case r.data != "":
		text, err := r.app.readData(r.data)
		if err != nil {
			return nil, err
		}
		if raw, err = jsonrpc.ParseRaw(text); err != nil {
			return nil, usagef("-d: %v", err)
		}
	default:
		var err error
		if raw, err = r.app.parseParams(words); err != nil {
			return nil, err
		}
	}
	switch kind(raw) {
	case 0:
		return nil, nil
	case '{':
	default:
		return nil, usagef("input must have names: NAME=VALUE")
	}
	input := map[string]any{}
	for name, value := range raw.Members() {
		input[string(name)] = value
	}
	return input, nil
}

// fits checks an input before any team member is called.
func fits(plan *orchestrator.Plan, input map[string]any) error {
	var takes []string
	for _, in := range plan.Input {
		if _, given := input[in.Name]; !given && in.Required {
			return usagef("input: missing %s; add %s=…%s", in.Name, in.Name, mark(in.Description != "", " ("+in.Description+")"))
		}
		takes = append(takes, in.Name)
	}
	for _, name := range sortedNames(input) {
		if !slices.Contains(takes, name) {
			return usagef("input: the plan has no input %q; it has %s", cut(name, 60), orElse(strings.Join(takes, ", "), "nothing"))
		}
	}
	return nil
}

// do runs the plan and prints the result.
func (r *planRun) do(ctx context.Context, plan *orchestrator.Plan, input map[string]any) error {
	r.id = orchestrator.NewID()
	tokens, err := r.credentials(plan.Team)
	if err != nil {
		return err
	}
	kept, where, err := r.app.openState(r.state, r.id, r.log)
	if err != nil {
		return err
	}
	if kept != nil {
		defer func() { r.leave(kept, where) }()
	}
	dialer, err := r.app.dialer(r.reach)
	if err != nil {
		return err
	}
	team, err := orchestrator.Dial(ctx, plan.Team, &orchestrator.DialOptions{Dialer: dialer, Tokens: tokens, Report: r.report, Stderr: r.stderrLine,
		Secret: func(value string) { r.app.hide(value) }, Named: r.named})
	if err != nil {
		return r.refused(err)
	}
	defer func() { _ = team.Close() }() // errors of members at shutdown do not change the result

	if isTerminal(r.app.stderr) && r.app.getenv("TERM") != "dumb" && r.output.format != "ndjson" {
		r.tree = newTree(r.app.stderr, plan)
		if colour, err := r.app.wantsColour(r.output.colour, true); err == nil && colour {
			r.tree.palette = treeColours
		}
		r.tree.start()
	}
	var told sync.Once // the first event that cannot be written ends the run
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	runner := &orchestrator.Runner{Team: team, Ask: r.ask, Report: r.report, OnEvent: func(e orchestrator.Event) {
		if r.tree != nil {
			r.tree.take(e)
		}
		if r.output.format != "ndjson" {
			return
		}
		if err := r.printEvent(context.WithoutCancel(ctx), e); err != nil {
			told.Do(func() { cancel(err) })
		}
	}}
	if kept != nil {
		runner.Store, runner.Redact = kept, r.app.secrets.KnownJSON
	}
	report, err := runner.RunAs(ctx, r.id, plan, input)
	if r.tree != nil {
		r.tree.end(report)
	}
	if err != nil {
		return r.refused(err)
	}
	return r.finish(context.WithoutCancel(ctx), plan, report, where)
}

// leave closes the store of the run. It removes the folder if no run was started in it.
func (r *planRun) leave(kept *sqlite.Store, dir string) {
	run := &storedRun{dir: dir}
	err := run.summarize(context.Background(), kept, r.id)
	none := errors.Is(err, store.ErrNotFound)
	if err != nil && !none {
		r.report(reportRunList, err)
	}
	if err := kept.Close(); err != nil {
		r.report(reportRunStore, err)
	}
	if none {
		_ = os.RemoveAll(dir) // it is empty
	}
}

// refused returns the error for a run that did not start.
func (r *planRun) refused(err error) error {
	if faults, ok := errors.AsType[*orchestrator.PlanError](err); ok {
		return r.app.tellFaults(faults)
	}
	if is[*orchestrator.InputError](err) {
		return usagef("%v", err)
	}
	return err
}

// finish prints the report, and on stderr one line about each problem.
func (r *planRun) finish(ctx context.Context, plan *orchestrator.Plan, report *orchestrator.Report, where string) error {
	var err error
	switch r.output.format {
	case "ndjson":
	case formText:
		if text := resultOf(report); text != "" {
			err = r.printText(text)
		}
	default:
		err = r.printReport(ctx, r.id, plan.Name, report)
	}
	if err != nil {
		return err
	}
	return r.app.verdict(report, r.id, where)
}

// resultOf returns the result of a run. A run that is not ok has no result, even if some of its
// steps have one.
func resultOf(report *orchestrator.Report) string {
	if report.State != orchestrator.OK {
		return ""
	}
	return report.Text()
}

// verdict reports a run that is not ok on stderr, and returns its exit code.
func (a *app) verdict(report *orchestrator.Report, id, where string) error {
	code := exitRPC
	switch report.State {
	case orchestrator.OK:
		return nil
	case orchestrator.TimedOut:
		code = exitAway
	case orchestrator.Cancelled:
		code = exitCancelled
	}
	why := string(report.State)
	if report.Error != nil {
		why = report.Error.Error()
	}
	if report.State == orchestrator.Cancelled {
		why = "interrupted; the running steps were cancelled at the agents"
	}
	fmt.Fprintf(a.stderr, "parley: %s\n", visible(inOneLine(why), 1000))
	if where != "" {
		fmt.Fprintf(a.stderr, "parley: for details, run: parley run show %s\n", id)
	}
	return &silentError{code}
}

func (r *planRun) printText(text string) error { return r.printer.peer(text) }

// A keptRun is a report with additional details of the stored run.
type keptRun struct {
	ID   string `json:"id"`
	Plan string `json:"plan,omitzero"`
	Text string `json:"text,omitzero"`

	*orchestrator.Report `json:",inline"`
}

func (r *planRun) printReport(ctx context.Context, id, plan string, report *orchestrator.Report) error {
	b, err := json.Marshal(keptRun{ID: id, Plan: plan, Text: resultOf(report), Report: report})
	if err != nil {
		return err
	}
	return r.printer.print(ctx, b)
}

func (r *planRun) printEvent(ctx context.Context, e orchestrator.Event) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return r.printer.line(ctx, b)
}

// report prints a problem that is not part of the run's report.
func (r *planRun) report(what string, err error) {
	text := what
	if err != nil {
		text += ": " + err.Error()
	}
	r.line("parley: " + visible(inOneLine(text), 1000))
}

// stderrLine prints a line that a program of the team wrote to its stderr.
func (r *planRun) stderrLine(member, line string) { r.line(member + ": " + visible(line, 1000)) }

// line writes to stderr, above the tree if there is one.
func (r *planRun) line(text string) {
	if r.tree != nil {
		r.tree.line(text)
		return
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	fmt.Fprintln(r.log.w, text)
}

// stateDir returns the default folder of runs, or "" if the environment defines no such folder.
func (a *app) stateDir() string {
	// Relative paths are invalid (XDG Base Directory Specification)
	if dir := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "parley")
	}
	if home := a.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "parley")
	}
	if dir, err := os.UserConfigDir(); err == nil {
		return filepath.Join(dir, "parley", "state")
	}
	return ""
}

// A stateError reports a folder of runs that cannot be used.
type stateError struct {
	dir string
	err error
}

func (e *stateError) Error() string {
	if fault, ok := errors.AsType[*store.Fault](e.err); ok && fault.Reason == store.ReasonInUse {
		return fmt.Sprintf("%s is in use by another process", e.dir)
	}
	if isCorrupt(e.err) {
		return fmt.Sprintf("%v; to recover intact data, run: parley run repair %s NEWDIR", e.err, e.dir)
	}
	return e.err.Error()
}

func (e *stateError) Unwrap() error { return e.err }
