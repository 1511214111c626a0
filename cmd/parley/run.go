package main

import (
	"bytes"
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

const runHelp = `Let a team of agents do what a plan says.

  parley run examples/plans/quorum.yaml question="What is the capital of France?"
  parley run --check examples/plans/review.yaml
  parley run list

A plan says who does what, what runs at the same time and when that is done; docs/plans.md describes it. It is given input as
a method is its params: name=text, name:=json, name=@file, name:=@file. On a terminal the run is shown as it goes, and what
it asks is asked there; elsewhere --answer says it, or the question is declined. Ctrl-C cancels what runs, at the agents, and
the report is printed all the same.

What a run does is kept in $XDG_STATE_HOME/parley, or where --state says, and read again by run list and run show.`

// A planRun is one run of the verb run: its flags, and what they come to.
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
	decline bool

	printer *printer
	log     *reporter
	given   []givenAnswer
	id      string
	tree    *tree // nil: nobody looks
}

// The forms of a report. Text is what came of the run, and the standard on a terminal.
var runForms = []string{"json", "ndjson", formText}

func (a *app) runCommand() *cobra.Command {
	r := &planRun{app: a}
	cmd := &cobra.Command{
		Use:   "run PLAN [NAME=VALUE…]",
		Short: "let a team of agents do what a plan says",
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
	f.BoolVar(&r.check, "check", false, "say what is wrong with the plan, with line and column, and start nothing")
	f.BoolVar(&r.schema, "schema", false, "print the JSON Schema of plans, for editors")
	f.StringVar(&r.teams, "team", "", "`FILE` with a team: of its own, whose members join the plan's, or replace those of the same name")
	f.StringVarP(&r.data, "data", "d", "", "input as one `JSON` object, @file or - for stdin")
	f.StringArrayVar(&r.answers, "answer", nil, "answer what a step, a member or a form's field asks: `KEY=VALUE` or KEY:=JSON; repeatable")
	f.BoolVar(&r.decline, "decline", false, "decline all questions")
	stateFlag(cmd, &r.state)
	f.StringArrayVarP(&r.reach.header, "header", "H", nil, "send the header `'NAME: VALUE'` to all members with an address (HTTP and WebSocket; repeatable)")
	f.StringVar(&r.reach.token, "token", "", "bearer `TOKEN` for all members with an address; --token-file keeps it out of the process list")
	f.StringVar(&r.reach.tokenFile, "token-file", "", "`FILE` with the bearer token")
	f.StringVar(&r.reach.tlsCA, "tls-ca", "", "`FILE` of certificates to trust instead of the system's")
	r.output.registerWith(cmd, "", runForms)
	f.Lookup("output").Usage = "`FORM` of the report: json, the standard, ndjson (what happens, as it happens), or text (what came of it), the standard on a terminal"
	cmd.AddCommand(a.runListCommand(), a.runShowCommand(), a.runRepairCommand())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		if cmd.HasParent() && cmd.Name() != "run" {
			return a.usage(cmd)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "Verbs:\n  %-11s %s\n  %-11s %s\n  %-11s %s\n\nUsage: %s\n\n%s", "list", "the runs that are kept", "show", "one of them",
			"repair", "save what is sound of a folder that is corrupt", cmd.UseLine(), cmd.LocalFlags().FlagUsages())
		return err
	})
	return cmd
}

func stateFlag(cmd *cobra.Command, state *string) {
	cmd.Flags().StringVar(state, "state", "", "`DIR` where runs are kept, or none; $XDG_STATE_HOME/parley if absent")
}

// inputNames offers what a plan takes.
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
		return usagef("parley run starts the programs of the plan's team; leave out what stands behind --")
	case r.schema && len(words) == 0:
		_, err := r.app.stdout.Write(orchestrator.Schema)
		return err
	case r.schema:
		return usagef("--schema takes no plan")
	case len(words) == 0:
		return usagef("the plan is missing: parley run PLAN [NAME=VALUE…]")
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

// prepare looks at the flags.
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

// readPlan reads a plan file. What is wrong with it, or that it cannot be read, is a mistake of the command line.
func (a *app) readPlan(name string) (*orchestrator.Plan, error) {
	plan, err := orchestrator.ReadPlan(name)
	if faults, ok := errors.AsType[*orchestrator.PlanError](err); ok {
		return nil, a.tellFaults(faults)
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, usagef("the plan %s cannot be read: %v", cut(name, 300), path.Err)
	}
	if err != nil {
		return nil, usagef("%v", err)
	}
	return plan, nil
}

// join adds the members of --team to those of the plan, and looks whether all who are named are there.
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
		names = []string{""} // a team of nobody, not one that is not known yet
	}
	if faults, ok := errors.AsType[*orchestrator.PlanError](plan.Check(names...)); ok {
		return r.app.tellFaults(faults)
	}
	return nil
}

// tellFaults says what is wrong with a plan: a line each and nothing in front, so that editors find the place.
func (a *app) tellFaults(faults *orchestrator.PlanError) error {
	for line := range strings.SplitSeq(faults.Error(), "\n") {
		fmt.Fprintln(a.stderr, visible(line, 1000))
	}
	return &silentError{exitUsage}
}

// input is what the run is given, by name.
func (r *planRun) input(words []string) (map[string]any, error) {
	var raw jsonrpc.Raw
	switch {
	case r.data != "" && len(words) > 0:
		return nil, usagef("-d and %q are two inputs; leave one out", cut(words[0], 60))
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
		return nil, usagef("input goes by name: NAME=VALUE")
	}
	input := map[string]any{}
	for name, value := range members(raw) {
		input[textOf(name)] = jsonrpc.Raw(bytes.Clone(value)) // members are valid for one step
	}
	return input, nil
}

// fits says what is wrong with an input before anybody of the team is called.
func fits(plan *orchestrator.Plan, input map[string]any) error {
	var takes []string
	for _, in := range plan.Input {
		if _, given := input[in.Name]; !given && in.Required {
			return usagef("input: %s is missing: %s=…%s", in.Name, in.Name, mark(in.Description != "", " ("+in.Description+")"))
		}
		takes = append(takes, in.Name)
	}
	for _, name := range sortedNames(input) {
		if !slices.Contains(takes, name) {
			return usagef("input: the plan takes no %q; it takes %s", cut(name, 60), orElse(strings.Join(takes, ", "), "nothing"))
		}
	}
	return nil
}

// do has the plan done, and prints what came of it.
func (r *planRun) do(ctx context.Context, plan *orchestrator.Plan, input map[string]any) error {
	kept, where, err := r.app.openState(r.state, r.log)
	if err != nil {
		return err
	}
	if kept != nil {
		defer kept.Close()
	}
	dialer, err := r.app.dialer(r.reach)
	if err != nil {
		return err
	}
	team, err := orchestrator.Dial(ctx, plan.Team, &orchestrator.DialOptions{Dialer: dialer, Report: r.report, Stderr: r.stderrLine})
	if err != nil {
		return err
	}
	defer func() { _ = team.Close() }() // what a member says at its end changes nothing any more

	if isTerminal(r.app.stderr) && r.app.getenv("TERM") != "dumb" && r.output.format != "ndjson" {
		r.tree = newTree(r.app.stderr, plan)
		if colour, err := r.app.wantsColour(r.output.colour, true); err == nil && colour {
			r.tree.palette = treeColours
		}
		r.tree.start()
	}
	r.id = orchestrator.NewID()
	var told sync.Once // of the events, the first that cannot be written ends the run
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
		runner.Store = kept
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

// refused sorts why a run did not begin.
func (r *planRun) refused(err error) error {
	if faults, ok := errors.AsType[*orchestrator.PlanError](err); ok {
		return r.app.tellFaults(faults)
	}
	if is[*orchestrator.InputError](err) {
		return usagef("%v", err)
	}
	return err
}

// finish prints the report and tells on stderr, in a line, what is wrong with it.
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

// resultOf is what came of a run; of one that is not ok nothing did, however far its steps came.
func resultOf(report *orchestrator.Report) string {
	if report.State != orchestrator.OK {
		return ""
	}
	return report.Text()
}

// verdict tells on stderr how a run ended that is not ok, and makes an exit code of it.
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
		why = "interrupted; what ran was cancelled at the agents"
	}
	fmt.Fprintf(a.stderr, "parley: %s\n", visible(why, 1000))
	if where != "" {
		fmt.Fprintf(a.stderr, "parley: parley run show %s tells more\n", id)
	}
	return &silentError{code}
}

func (r *planRun) printText(text string) error {
	value, err := quote(strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return err
	}
	out := r.printer.appendRaw(nil, value)
	if len(out) == 0 || out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	_, err = r.printer.w.Write(out)
	return err
}

// A keptRun is a report with what else there is to know of a run.
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

// report tells what is wrong and no part of the run's report.
func (r *planRun) report(what string, err error) {
	text := what
	if err != nil {
		text += ": " + err.Error()
	}
	r.line("parley: " + visible(text, 1000))
}

// stderrLine tells what a program of the team writes to its standard error.
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

// stateDir is where runs are kept when nobody says; empty if there is no such place.
func (a *app) stateDir() string {
	if dir := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) { // relative ones are invalid (XDG Base Directory Specification)
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

// openState opens the store of runs, and returns where it is. A folder that was asked for must do; without the usual one a run goes
// on, and is told not to be kept.
func (a *app) openState(flag string, log *reporter) (*sqlite.Store, string, error) {
	if flag == "none" {
		return nil, "", nil
	}
	dir := orElse(flag, a.stateDir())
	s, err := sqlite.Open(dir, &sqlite.Options{Report: log.report})
	if err == nil {
		return s, dir, nil
	}
	if fault, ok := errors.AsType[*store.Fault](err); flag != "" || ok && fault.Reason != store.ReasonInUse && fault.Reason != store.ReasonFailed {
		return nil, "", &stateError{dir, err}
	}
	fmt.Fprintf(a.stderr, "parley: this run is not kept: %s\n", visible((&stateError{dir, err}).Error(), 400))
	return nil, "", nil
}

// A stateError is a folder of runs that cannot be used.
type stateError struct {
	dir string
	err error
}

func (e *stateError) Error() string {
	if fault, ok := errors.AsType[*store.Fault](e.err); ok && fault.Reason == store.ReasonInUse {
		return fmt.Sprintf("%s is in use by another process", e.dir)
	}
	if isCorrupt(e.err) {
		return fmt.Sprintf("%v; parley run repair %s NEWDIR saves what is sound", e.err, e.dir)
	}
	return e.err.Error()
}

func (e *stateError) Unwrap() error { return e.err }
