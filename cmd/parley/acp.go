package main

import (
	"context"
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

const acpHelp = `Use the agents of an ACP server: IBM's Agent Communication Protocol, not the one of code editors (parley edit).

  parley acp agents :3000/acp
  parley acp run :3000/acp words "one word after the other"
  parley acp run ask hello --answer Ada -- parley demo --acp --stdio

An http address is the REST binding; one that ends in /rpc is JSON-RPC by POST, and all other carriers are JSON-RPC too.
What an agent asks is asked on the terminal; without one --answer says it, or the run is left waiting for parley acp resume.`

func (a *app) acpCommand() *cobra.Command {
	cmd := a.protocolCommand("acp", "use the agents of an ACP server", acpHelp, "parley acp agents -- CMD")
	cmd.AddCommand(a.acpAgents(), a.acpRun(), a.acpResume(), a.acpWatch(), a.acpGet(), a.acpCancel(), a.acpSession())
	return cmd
}

// protocolCommand makes the command that a protocol's verbs are below.
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
				return usagef("a verb is missing in front of --: %s", example)
			}
			return cmd.Help()
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	return cmd
}

func (a *app) acpVerb(cmd *cobra.Command, do func(ctx context.Context, v *agentVerb) error) (*cobra.Command, *agentVerb) {
	cmd, v := a.agentVerbCommand(cmd, func(ctx context.Context, v *agentVerb) error { return v.connectACP(ctx) }, do)
	cmd.Flags().StringVar(&v.binding, "binding", "", "`HOW` to speak to an http address: rest or rpc, whatever it ends in")
	cmd.ValidArgsFunction = a.completeAgents(v, ":3000/acp", nil)
	return cmd, v
}

// agentNames offers the agents of a server.
func agentNames(ctx context.Context, v *agentVerb) (list []cobra.Completion) {
	if v.connectACP(ctx) != nil {
		return nil
	}
	all, _ := v.acp.Agents(ctx) // or there are none to offer
	for _, m := range all {
		list = append(list, cobra.CompletionWithDesc(m.Name, firstSentence(m.Description)))
	}
	return list
}

func (v *agentVerb) connectACP(ctx context.Context) error {
	d, err := v.dialer()
	if err != nil {
		return err
	}
	rest := isHTTP(v.target) && !strings.HasSuffix(strings.TrimSuffix(v.target.Path, "/"), "/rpc")
	switch v.binding {
	case "":
	case "rest", "rpc":
		if !isHTTP(v.target) {
			return usagef("--binding is about http addresses; everything else is rpc")
		}
		rest = v.binding == "rest"
	default:
		return usagef("--binding is rest or rpc, not %q", cut(v.binding, 60))
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
	cmd, v := a.acpVerb(&cobra.Command{
		Use:   "agents TARGET [AGENT…]",
		Short: "list the agents, or show the manifests of some",
		Long: `List the agents, or show the manifests of some: many names are one batch over JSON-RPC.

  parley acp agents :3000/acp
  parley acp agents :3000/acp/rpc echo words -o json
  parley acp agents :3000/acp -o json --jq '.[].name'`,
	}, listAgents)
	cmd.ValidArgsFunction = a.completeAgents(v, ":3000/acp", agentNames)
	return cmd
}

func listAgents(ctx context.Context, v *agentVerb) error {
	all, err := v.manifests(ctx)
	if err != nil {
		return err
	}
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
	_, err = fmt.Fprint(v.printer.w, b.String())
	return err
}

// manifests gets those that the words name, or all.
func (v *agentVerb) manifests(ctx context.Context) ([]acp.AgentManifest, error) {
	if len(v.words) == 0 {
		return v.acp.Agents(ctx)
	}
	named, err := v.acp.AgentsNamed(ctx, v.words...)
	if err != nil {
		return nil, err
	}
	var all []acp.AgentManifest
	for _, one := range named {
		if one.Err != nil {
			return nil, one.Err
		}
		all = append(all, one.Manifest)
	}
	return all, nil
}

func (a *app) acpRun() *cobra.Command {
	cmd, v := a.acpVerb(&cobra.Command{
		Use:   "run TARGET AGENT TEXT…",
		Short: "have an agent do something, and see it as it comes",
		Long: `Have an agent do something, and see it as it comes. Ctrl-C cancels the run; --detach leaves it running.

  parley acp run :3000/acp words "one word after the other"
  parley acp run :3000/acp/rpc scribe "water the plants" --yes -o json
  parley acp run :3000/acp courier "a cake, 3 stops of 200ms" --detach`,
	}, runACP)
	v.sending(cmd)
	cmd.ValidArgsFunction = a.completeAgents(v, ":3000/acp", agentNames)
	cmd.Flags().BoolVar(&v.detach, "detach", false, "start the run, print its id, and leave; parley acp watch comes back")
	return cmd
}

func runACP(ctx context.Context, v *agentVerb) error {
	if len(v.words) == 0 {
		return usagef("which agent? It stands behind the address; parley acp agents %s lists them", shellWord(v.target.String()))
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

// printRun shows a run: its id and state for people who want one word for the next command, or the object.
func (v *agentVerb) printRun(ctx context.Context, run *acp.Run) error {
	if v.output.format != formText {
		return v.print(ctx, run)
	}
	if v.detach {
		_, err := fmt.Fprintln(v.printer.w, visible(run.ID, 100))
		return err
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
	return v.say([]agent.Part{agent.Text(run.Text())})
}

func (a *app) acpResume() *cobra.Command {
	cmd, v := a.acpVerb(&cobra.Command{
		Use:   "resume TARGET RUN ANSWER…",
		Short: "answer a run that waits, and see it go on",
		Long: `Answer a run that waits, and see it go on.

  parley acp run :3000/acp ask hello          says how to answer, where nobody sits at a terminal
  parley acp resume :3000/acp RUN Ada`,
	}, resumeRun)
	v.running(cmd)
	return cmd
}

// resumeRun answers a run of ACP, or a task of A2A.
func resumeRun(ctx context.Context, v *agentVerb) error {
	if len(v.words) < 2 {
		return usagef("which run, and what is the answer? Both stand behind the address")
	}
	v.run = v.words[0]
	req := &agent.Request{Run: v.words[0], Answer: agent.Reply(strings.Join(v.words[1:], " "))}
	return v.follow(ctx, func(by agent.Caller) (*agent.Result, error) { return v.runs.Run(ctx, req, by) })
}

func (a *app) acpWatch() *cobra.Command {
	cmd, v := a.acpVerb(&cobra.Command{
		Use:   "watch TARGET RUN",
		Short: "see a run from its beginning to its end; Ctrl-C leaves it running",
	}, watchRun)
	v.running(cmd)
	return cmd
}

// watchRun comes back to a run of ACP, or a task of A2A.
func watchRun(ctx context.Context, v *agentVerb) error {
	id, err := v.one("the id of the run")
	if err != nil {
		return err
	}
	v.run = id
	v.again = strings.Replace(v.resumeWith(), " resume ", " watch ", 1)
	return v.follow(ctx, func(by agent.Caller) (*agent.Result, error) { return v.runs.Attach(ctx, id, by) })
}

func (a *app) acpGet() *cobra.Command {
	cmd, _ := a.acpVerb(&cobra.Command{Use: "get TARGET RUN", Short: "show a run as it is now"}, func(ctx context.Context, v *agentVerb) error {
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
	cmd, _ := a.acpVerb(&cobra.Command{Use: "cancel TARGET RUN", Short: "cancel a run"}, func(ctx context.Context, v *agentVerb) error {
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
	cmd, _ := a.acpVerb(&cobra.Command{Use: "session TARGET SESSION", Short: "show a session: the addresses of its messages"}, func(ctx context.Context, v *agentVerb) error {
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
			fmt.Fprintln(v.printer.w, visible(url, 400))
		}
		return nil
	})
	return cmd
}

// completeAgents offers targets and then, where names is not nil, what it finds there within a second. A Tab starts no child.
func (a *app) completeAgents(v *agentVerb, example string, names func(ctx context.Context, v *agentVerb) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(words) == 0:
			return []cobra.Completion{"http://", "https://", "ws://", "tcp://", "unix:", example}, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
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
		if quiet.target, _, err = a.target(quiet.reach, words, true); err != nil || quiet.target.Scheme == "exec" {
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

// quietVerb is a verb that tells nobody anything.
func (a *app) quietVerb(v *agentVerb) *agentVerb {
	quiet := &agentVerb{
		app:     &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, getenv: a.getenv},
		reach:   v.reach,
		binding: v.binding,
		screen:  &screen{w: io.Discard},
		hangUp:  func() error { return nil },
	}
	quiet.reach.trace = ""
	return quiet
}
