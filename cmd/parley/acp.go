package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/acpagent"
)

const acpHelp = `Use the agents of an ACP server (IBM's Agent Communication Protocol). For the Agent Client Protocol
of code editors, see "parley edit".

  parley acp agents :3000/acp
  parley acp run :3000/acp words "one word after the other"
  parley acp run ask hello --answer Ada -- parley demo --acp --stdio

An http address uses the REST binding, or JSON-RPC over POST if it ends in /rpc. All other
transports use JSON-RPC. Questions of an agent appear on the terminal. Without a terminal, --answer
answers them, or the run keeps waiting for "parley acp resume".`

func (a *app) acpCommand() *cobra.Command {
	cmd := a.protocolCommand("acp", "use the agents of an ACP server", acpHelp, "parley acp agents -- CMD")
	cmd.AddCommand(a.acpAgents(), a.acpRun(), a.acpResume(), a.acpWatch(), a.acpGet(), a.acpCancel(), a.acpSession())
	return cmd
}

// protocolCommand returns the parent command of a protocol's commands.
func (a *app) protocolCommand(name, short, long, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(cmd, plain(args[0]))
			}
			if a.hasArgv {
				return usagef("missing command before --: %s", example)
			}
			return cmd.Help()
		},
	}
	return cmd
}

func (a *app) acpSubcommand(cmd *cobra.Command, do func(ctx context.Context, v *agentCommand) error) (*cobra.Command, *agentCommand) {
	cmd, v := a.agentVerbCommand(cmd, func(ctx context.Context, v *agentCommand) error { return v.connectACP(ctx) }, do)
	cmd.Flags().StringVar(&v.binding, "binding", "", "`BINDING` for http addresses: rest or rpc, independent of the path")
	cmd.ValidArgsFunction = a.completeAgents(v, ":3000/acp", nil)
	return cmd, v
}

// agentNames completes the agents of a server.
func agentNames(ctx context.Context, v *agentCommand) (list []cobra.Completion) {
	if v.connectACP(ctx) != nil {
		return nil
	}
	all, _ := v.acp.Agents(ctx) // on an error there is nothing to offer
	for _, m := range all {
		list = append(list, cobra.CompletionWithDesc(m.Name, firstSentence(m.Description)))
	}
	return list
}

func (v *agentCommand) connectACP(ctx context.Context) error {
	d, err := v.dialer()
	if err != nil {
		return err
	}
	rest := isHTTP(v.target) && !strings.HasSuffix(strings.TrimSuffix(v.target.Path, "/"), "/rpc")
	switch v.binding {
	case "":
	case "rest", "rpc":
		if !isHTTP(v.target) {
			return usagef("--binding works only with http addresses; all others use rpc")
		}
		rest = v.binding == "rest"
	default:
		return usagef("--binding must be rest or rpc, not %q", cut(v.binding, 60))
	}
	if rest {
		v.acp, err = acphttp.Dial(v.target.URL(), &acphttp.DialOptions{HTTP: v.httpClient(d), TLS: d.TLS, Header: d.Header, Token: d.Token, CallTime: -1})
		if err != nil {
			return usagef("%v", err)
		}
	} else {
		d.Related = acp.Related
		client, err := d.Dial(ctx, v.target)
		if err != nil {
			return &dialError{v.target, err}
		}
		v.acp = acp.NewClient(client, nil)
	}
	v.runs = acpagent.Client(v.acp)
	v.hangUp = v.acp.Close
	return nil
}

func (a *app) acpAgents() *cobra.Command {
	cmd, v := a.acpSubcommand(&cobra.Command{
		Use:   "agents TARGET [AGENT…]",
		Short: "list the agents, or show the manifests of some",
		Long: `List the agents, or show the manifests of some. Over JSON-RPC, several names are sent as one batch.

  parley acp agents :3000/acp
  parley acp agents :3000/acp/rpc echo words -o json
  parley acp agents :3000/acp -o json --jq '.[].name'`,
	}, listAgents)
	cmd.ValidArgsFunction = a.completeAgents(v, ":3000/acp", agentNames)
	return cmd
}

func listAgents(ctx context.Context, v *agentCommand) error {
	all, missing := v.manifests(ctx)
	if missing != nil && len(all) == 0 {
		return missing
	}
	for _, m := range all {
		flagHidden(v.screen, "agent", m.Name, m)
	}
	return errors.Join(v.printAgents(ctx, all), missing)
}

func (v *agentCommand) printAgents(ctx context.Context, all []acp.AgentManifest) error {
	switch v.output.format {
	case formText:
	case "table":
		type row struct {
			Name        string `json:"name"`
			Takes       string `json:"takes"`
			Gives       string `json:"gives"`
			Description string `json:"description"`
		}
		var rows []row
		for _, m := range all {
			rows = append(rows, row{m.Name, strings.Join(m.InputContentTypes, " "), strings.Join(m.OutputContentTypes, " "), m.Description})
		}
		return v.print(ctx, rows)
	default:
		return v.print(ctx, all)
	}
	b := v.listing()
	for _, m := range all {
		b.entry(m.Name, "", m.Description)
		if m.Metadata == nil || len(v.words) == 0 {
			continue
		}
		for _, c := range m.Metadata.Capabilities {
			b.wrap("      ", "can: "+c.Name+": "+c.Description)
		}
		b.wrap("      ", "takes "+strings.Join(m.InputContentTypes, ", ")+", gives "+strings.Join(m.OutputContentTypes, ", "))
	}
	_, err := fmt.Fprint(v.printer.w, b.String())
	return err
}

// manifests returns the manifests of the named agents, or of all agents if no names are given.
func (v *agentCommand) manifests(ctx context.Context) ([]acp.AgentManifest, error) {
	if len(v.words) == 0 {
		return v.acp.Agents(ctx)
	}
	named, err := v.acp.AgentsNamed(ctx, v.words...)
	if err != nil {
		return nil, err
	}
	var all []acp.AgentManifest
	var missing error
	for i, one := range named {
		if one.Err != nil {
			err := one.Err
			if e, ok := errors.AsType[*acp.Error](err); ok {
				own := *e
				own.Message = visible(v.words[i], 63) + ": " + own.Message
				err = &own
			}
			if missing == nil { // report the first of several
				missing = err
			}
			continue
		}
		all = append(all, one.Manifest)
	}
	return all, missing
}

func (a *app) acpRun() *cobra.Command {
	cmd, v := a.acpSubcommand(&cobra.Command{
		Use:   "run TARGET AGENT TEXT…",
		Short: "run an agent, and print its output as it arrives",
		Long: `Run an agent, and print its output as it arrives. Ctrl-C cancels the run; --detach leaves it
running.

  parley acp run :3000/acp words "one word after the other"
  parley acp run :3000/acp/rpc scribe "water the plants" --yes -o json
  parley acp run :3000/acp courier "a cake, 3 stops of 200ms" --detach`,
	}, runACP)
	v.sending(cmd)
	cmd.ValidArgsFunction = a.completeAgents(v, ":3000/acp", agentNames)
	cmd.Flags().BoolVar(&v.detach, "detach", false, "start the run, print its id and exit; parley acp watch attaches to it")
	return cmd
}

func runACP(ctx context.Context, v *agentCommand) error {
	if len(v.words) == 0 {
		return usagef("missing AGENT; list the agents with: parley acp agents %s", shellWord(v.target.String()))
	}
	input, err := v.input(v.words[1:])
	if err != nil {
		return err
	}
	if !v.detach {
		req := &agent.Request{Agent: v.words[0], Session: v.session, Input: input}
		return v.follow(ctx, func(by agent.Caller) (*agent.Result, error) { return v.runs.Run(ctx, req, by) })
	}
	req := acp.RunCreateRequest{AgentName: v.words[0], SessionID: v.session, Input: acpagent.Input(input)}
	run, err := v.acp.Start(ctx, req)
	if err != nil {
		return err
	}
	return v.printRun(ctx, run)
}

// printRun prints a run: as text its ID and state, so that the ID can be used in the next command,
// or as the JSON object.
func (v *agentCommand) printRun(ctx context.Context, run *acp.Run) error {
	if v.output.format != formText {
		return v.print(ctx, run)
	}
	if v.detach {
		return v.printer.word(run.ID)
	}
	b := v.listing()
	b.entry(run.ID, "  "+run.AgentName+"  "+string(run.Status), "")
	if run.SessionID != "" {
		b.wrap("    ", "session "+run.SessionID)
	}
	if run.AwaitRequest != nil && run.AwaitRequest.Message != nil {
		b.wrap("    ", "asks: "+run.AwaitRequest.Message.Text())
	}
	if run.Error != nil {
		b.wrap("    ", "failed: "+run.Error.Message)
	}
	fmt.Fprint(v.printer.w, b.String())
	return v.printParts([]agent.Part{agent.Text(run.Text())})
}

func (a *app) acpResume() *cobra.Command {
	cmd, v := a.acpSubcommand(&cobra.Command{
		Use:   "resume TARGET RUN ANSWER…",
		Short: "answer a waiting run, and print its further events",
		Long: `Answer a waiting run, and print its further events.

  parley acp run :3000/acp ask hello          without a terminal, prints how to answer
  parley acp resume :3000/acp RUN Ada
  parley acp resume :3000/acp RUN Ada -o json`,
	}, resumeRun)
	v.running(cmd)
	return cmd
}

// resumeRun resumes a waiting ACP run or A2A task with an answer.
func resumeRun(ctx context.Context, v *agentCommand) error {
	if len(v.words) < 2 {
		return usagef("missing RUN or ANSWER. Usage: parley acp resume TARGET RUN ANSWER…")
	}
	v.run = v.words[0]
	req := &agent.Request{Run: v.words[0], Answer: agent.Reply(strings.Join(v.words[1:], " "))}
	return v.follow(ctx, func(by agent.Caller) (*agent.Result, error) { return v.runs.Run(ctx, req, by) })
}

func (a *app) acpWatch() *cobra.Command {
	cmd, v := a.acpSubcommand(&cobra.Command{
		Use:   "watch TARGET RUN",
		Short: "print all events of a run until it ends; Ctrl-C leaves it running",
		Long: `Print all events of a run until it ends. Ctrl-C leaves it running.

  parley acp run :3000/acp courier "a cake, 3 stops of 200ms" --detach
  parley acp watch :3000/acp RUN              with the ID that the first command prints
  parley acp watch :3000/acp RUN -o ndjson`,
	}, watchRun)
	v.running(cmd)
	return cmd
}

// watchRun attaches to an existing ACP run or A2A task.
func watchRun(ctx context.Context, v *agentCommand) error {
	id, err := v.one("the id of the run")
	if err != nil {
		return err
	}
	v.run = id
	v.again = strings.Replace(v.resumeWith(), " resume ", " watch ", 1)
	return v.follow(ctx, func(by agent.Caller) (*agent.Result, error) { return v.runs.Attach(ctx, id, by) })
}

func (a *app) acpGet() *cobra.Command {
	cmd, _ := a.acpSubcommand(&cobra.Command{
		Use:   "get TARGET RUN",
		Short: "show the current state of a run",
		Long: `Show the current state of a run.

  parley acp run :3000/acp courier "a cake, 3 stops of 200ms" --detach
  parley acp get :3000/acp RUN                with the ID that the first command prints
  parley acp get :3000/acp RUN -o json`,
	}, func(ctx context.Context, v *agentCommand) error {
		id, err := v.one("the id of the run")
		if err != nil {
			return err
		}
		run, err := v.acp.Status(ctx, id)
		if err != nil {
			return err
		}
		return v.printRun(ctx, run)
	})
	return cmd
}

func (a *app) acpCancel() *cobra.Command {
	cmd, _ := a.acpSubcommand(&cobra.Command{
		Use:   "cancel TARGET RUN",
		Short: "cancel a run",
		Long: `Cancel a run.

  parley acp run :3000/acp courier "a cake, 30 stops of 1s" --detach
  parley acp cancel :3000/acp RUN             with the ID that the first command prints
  parley acp cancel :3000/acp RUN -o json`,
	}, func(ctx context.Context, v *agentCommand) error {
		id, err := v.one("the id of the run")
		if err != nil {
			return err
		}
		run, err := v.acp.Cancel(ctx, id)
		if err != nil {
			return err
		}
		return v.printRun(ctx, run)
	})
	return cmd
}

func (a *app) acpSession() *cobra.Command {
	cmd, _ := a.acpSubcommand(&cobra.Command{
		Use:   "session TARGET SESSION",
		Short: "show a session: the addresses of its messages",
		Long: `Show a session: the addresses of its messages.

  parley acp run :3000/acp words "one word after the other" -o json --jq .session
  parley acp session :3000/acp SESSION        with the ID that the first command prints
  parley acp session :3000/acp SESSION -o json`,
	}, func(ctx context.Context, v *agentCommand) error {
		id, err := v.one("the id of the session")
		if err != nil {
			return err
		}
		s, err := v.acp.Session(ctx, id)
		if err != nil {
			return err
		}
		if v.output.format != formText {
			return v.print(ctx, s)
		}
		for _, url := range s.History {
			if err := v.printer.word(url); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// completeAgents completes targets and, if names is not nil, the names that it returns for a target
// within one second. Completion never starts a child process.
//
//go:noinline
func (a *app) completeAgents(v *agentCommand, example string, names func(ctx context.Context, v *agentCommand) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(words) == 0:
			return a.completeTargets(v.reach.config, typed, "http://", "https://", "ws://", "tcp://", "unix:", example)
		case len(words) > 1 || names == nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		quiet := a.quietVerb(v)
		var err error
		if quiet.target, _, err = a.target(ctx, &quiet.reach, words, true); err != nil || quiet.target.Scheme == "exec" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var stop func()
		ctx, quiet.patience, stop = newPatience(ctx, 0, nil)
		defer stop()
		found := names(ctx, quiet)
		_ = quiet.hangUp()
		return slices.DeleteFunc(found, func(c cobra.Completion) bool { return !strings.HasPrefix(c, typed) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// quietVerb returns a copy of the command that prints nothing.
func (a *app) quietVerb(v *agentCommand) *agentCommand {
	quiet := &agentCommand{
		app:     a.quiet(),
		reach:   v.reach,
		binding: v.binding,
		screen:  &screen{w: io.Discard},
		hangUp:  func() error { return nil },
	}
	quiet.reach.trace = ""
	return quiet
}
