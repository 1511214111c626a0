package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

const a2aHelp = `Use an A2A agent (Agent2Agent protocol, version 1.0 or 0.3, whichever the agent supports).

  parley a2a card :3000/a2a
  parley a2a send :3000/a2a "/words one word after the other"
  parley a2a send "/ask hello" --answer Ada -- parley demo --a2a --stdio

An http address can be the agent card, the host of the well-known path, or the agent itself. The
card selects the binding. WebSocket, tcp, unix and child processes use parley's own binding
(docs/guides/a2a.md). Questions of the agent appear on the terminal. Without a terminal, --answer
answers them, or the task keeps waiting for "parley a2a resume".`

func (a *app) a2aCommand() *cobra.Command {
	cmd := a.protocolCommand("a2a", "use an A2A agent", a2aHelp, "parley a2a card -- CMD")
	cmd.AddCommand(a.a2aCard(), a.a2aSend(), a.a2aResume(), a.a2aWatch(), a.a2aTasks(), a.a2aGet(), a.a2aCancel())
	return cmd
}

func (a *app) a2aSubcommand(cmd *cobra.Command, do func(ctx context.Context, v *agentCommand) error) (*cobra.Command, *agentCommand) {
	cmd, v := a.agentVerbCommand(cmd, func(ctx context.Context, v *agentCommand) error { return v.connectA2A(ctx) }, do)
	cmd.Flags().StringVar(&v.binding, "binding", "", "`BINDING` for http addresses if the card has several: rest or rpc")
	cmd.ValidArgsFunction = a.completeAgents(v, ":3000/a2a", nil)
	return cmd, v
}

func (v *agentCommand) connectA2A(ctx context.Context) error {
	d, err := v.dialer()
	if err != nil {
		return err
	}
	if !isHTTP(v.target) {
		if v.binding != "" {
			return usagef("--binding works only with http addresses")
		}
		d.Related, d.Cancellation = a2a.Related, &a2a.Cancellation
		client, err := d.Dial(ctx, v.target)
		if err != nil {
			return &dialError{v.target, err}
		}
		// The binding is that of v1.0.
		v.a2a = a2a.NewClient(client, &a2a.ClientOptions{Version: a2a.V10})
	} else {
		o := &a2ahttp.Options{HTTP: v.httpClient(d), TLS: d.TLS, Header: d.Header, Token: d.Token, CallTime: -1}
		o.Report = v.report
		switch v.binding {
		case "":
		case "rest":
			o.Bindings = []string{a2a.BindingREST}
		case "rpc":
			o.Bindings = []string{a2a.BindingJSONRPC}
		default:
			return usagef("--binding must be rest or rpc, not %q", cut(v.binding, 60))
		}
		v.a2a, v.card, err = a2ahttp.Dial(ctx, v.target.URL(), o)
		if e, ok := errors.AsType[*httprpc.StatusError](err); ok && e.Status == 404 {
			return &shownError{"no agent card at " + v.target.URL() + " or at the well-known path of its host", err}
		}
		if err != nil {
			return err
		}
	}
	v.runs = a2aagent.Client(v.a2a, v.card)
	v.hangUp = v.a2a.Close
	return nil
}

// about returns the agent card.
func (v *agentCommand) about(ctx context.Context) (*a2a.AgentCard, error) {
	if v.card != nil {
		return v.card, nil
	}
	return v.a2a.Card(ctx)
}

func (a *app) a2aCard() *cobra.Command {
	var extended bool
	cmd, _ := a.a2aSubcommand(&cobra.Command{
		Use:   "card TARGET",
		Short: "show the agent card",
		Long: `Show the agent card.

  parley a2a card :3000/a2a
  parley a2a card http://127.0.0.1:3000 -o json
  parley a2a card :3000/a2a -o json --jq '.skills[].id'`,
	}, func(ctx context.Context, v *agentCommand) (err error) {
		if len(v.words) > 0 {
			return usagef("unexpected argument %q: only TARGET is expected", cut(v.words[0], 60))
		}
		var card *a2a.AgentCard
		if extended {
			card, err = v.a2a.ExtendedCard(ctx)
		} else {
			card, err = v.about(ctx)
		}
		if err != nil {
			return err
		}
		flagHidden(v.screen, "agent", card.Name, card)
		if v.output.format != formText {
			return v.printer.print(ctx, a2a.EncodeCard(card, false))
		}
		return v.showCard(card)
	})
	cmd.Flags().BoolVar(&extended, "extended", false, "show the extended card, which requires authentication")
	return cmd
}

func (v *agentCommand) showCard(card *a2a.AgentCard) error {
	b := v.listing()
	b.entry(card.Name, "  "+card.Version, card.Description)
	for _, i := range card.SupportedInterfaces {
		b.wrap("    ", i.ProtocolBinding+" "+i.ProtocolVersion+"  "+i.URL)
	}
	var can []string
	if card.Capabilities.Streaming {
		can = append(can, "streaming")
	}
	if card.Capabilities.PushNotifications {
		can = append(can, "webhooks")
	}
	if card.Capabilities.ExtendedAgentCard {
		can = append(can, "an extended card")
	}
	if len(can) > 0 {
		b.wrap("    ", "has "+strings.Join(can, ", "))
	}
	if len(card.SecurityRequirements) > 0 {
		b.wrap("    ", "requires authentication")
	}
	for _, s := range card.Skills {
		fmt.Fprintln(b)
		b.entry("  "+s.ID, "  "+s.Name, "")
		b.wrap("      ", s.Description)
		for _, example := range s.Examples {
			b.wrap("      ", "for example: "+example)
		}
	}
	_, err := fmt.Fprint(v.printer.w, b.String())
	return err
}

func (a *app) a2aSend() *cobra.Command {
	cmd, v := a.a2aSubcommand(&cobra.Command{
		Use:   "send TARGET TEXT…",
		Short: "send a message, and print the events of its task",
		Long: `Send a message, and print the events of its task. Ctrl-C cancels the task; --detach leaves it
running.

  parley a2a send :3000/a2a "/words one word after the other"
  parley a2a send :3000/a2a "water the plants" --skill scribe --yes -o json
  parley a2a send :3000/a2a "/courier a cake, 3 stops of 200ms" --detach`,
	}, sendA2A)
	v.sending(cmd)
	f := cmd.Flags()
	f.StringVar(&v.skill, "skill", "", "`ID` of the skill to use, for agents that read the metadata member \"skill\"")
	f.BoolVar(&v.detach, "detach", false, "print the id of the task and exit; parley a2a watch attaches to it")
	// The flag exists, so the error is nil.
	_ = cmd.RegisterFlagCompletionFunc("skill", offering(func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(words) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeAgents(v, "", skillNames)(cmd, words[:1], typed)
	}))
	return cmd
}

// skillNames completes the skills of an agent.
func skillNames(ctx context.Context, v *agentCommand) (list []cobra.Completion) {
	if v.connectA2A(ctx) != nil {
		return nil
	}
	card, err := v.about(ctx)
	if err != nil {
		return nil
	}
	for _, s := range card.Skills {
		list = append(list, cobra.CompletionWithDesc(s.ID, firstSentence(s.Description)))
	}
	return list
}

func sendA2A(ctx context.Context, v *agentCommand) error {
	input, err := v.input(v.words)
	if err != nil {
		return err
	}
	req := &agent.Request{Session: v.session, Input: input}
	if v.skill != "" {
		req.Metadata = req.Metadata.With("skill", v.skill)
	}
	if !v.detach {
		return v.follow(ctx, func(by agent.Caller) (*agent.Result, error) { return v.runs.Run(ctx, req, by) })
	}
	send := &a2a.SendRequest{Message: a2aagent.Input(input), Metadata: a2a.Metadata(req.Metadata), Configuration: &a2a.Configuration{ReturnImmediately: true}}
	send.Message.ContextID = v.session
	e, err := v.a2a.Send(ctx, send)
	switch {
	case err != nil:
		return err
	case e.Task != nil:
		return v.printTask(ctx, e.Task)
	case v.output.format != formText:
		return v.print(ctx, e.Message)
	}
	return v.printParts([]agent.Part{agent.Text(e.Message.Text())}) // the agent has responded already
}

// printTask prints a task in the format of printRun.
func (v *agentCommand) printTask(ctx context.Context, t *a2a.Task) error {
	if v.output.format != formText {
		return v.print(ctx, t)
	}
	if v.detach {
		return v.printer.word(t.ID)
	}
	b := v.listing()
	b.entry(t.ID, "  "+stateName(t.Status.State), "")
	b.wrap("    ", "context "+t.ContextID)
	if t.Status.Message != nil {
		b.wrap("    ", "says: "+t.Status.Message.Text())
	}
	fmt.Fprint(v.printer.w, b.String())
	return v.printParts([]agent.Part{agent.Text(t.Text())})
}

// stateName returns the human-readable name of a state.
func stateName(s a2a.TaskState) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(s), "TASK_STATE_"), "_", " "))
}

func (a *app) a2aResume() *cobra.Command {
	cmd, v := a.a2aSubcommand(&cobra.Command{
		Use:   "resume TARGET TASK ANSWER…",
		Short: "answer a waiting task, and print its further events",
		Long: `Answer a waiting task, and print its further events.

  parley a2a send :3000/a2a "/ask hello"      without a terminal, prints how to answer
  parley a2a resume :3000/a2a TASK Ada
  parley a2a resume :3000/a2a TASK Ada -o json`,
	}, resumeRun)
	v.running(cmd)
	return cmd
}

func (a *app) a2aWatch() *cobra.Command {
	cmd, v := a.a2aSubcommand(&cobra.Command{
		Use:   "watch TARGET TASK",
		Short: "print the events of a task until it ends; Ctrl-C leaves it running",
		Long: `Print the events of a task until it ends. Ctrl-C leaves it running.

  parley a2a send :3000/a2a "/courier a cake, 3 stops of 200ms" --detach
  parley a2a watch :3000/a2a TASK             with the ID that the first command prints
  parley a2a watch :3000/a2a TASK -o ndjson`,
	}, watchRun)
	v.running(cmd)
	return cmd
}

func (a *app) a2aTasks() *cobra.Command {
	cmd, v := a.a2aSubcommand(&cobra.Command{
		Use:   "tasks TARGET",
		Short: "list our tasks at the agent",
		Long: `List our tasks at the agent.

  parley a2a tasks :3000/a2a
  parley a2a tasks :3000/a2a -o json
  parley a2a tasks :3000/a2a -o json --jq '.[].id'`,
	}, func(ctx context.Context, v *agentCommand) error {
		if len(v.words) > 0 {
			return usagef("unexpected argument %q: only TARGET is expected", cut(v.words[0], 60))
		}
		q := &a2a.ListTasksRequest{ContextID: v.session}
		if v.state != "" {
			q.Status = a2a.TaskState("TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(v.state, "-", "_"), " ", "_")))
		}
		all, err := collect(v.a2a.Tasks(ctx, q))
		if err != nil {
			return err
		}
		if v.output.format != formText && v.output.format != "table" {
			return v.print(ctx, all)
		}
		type row struct {
			Task    string `json:"task"`
			State   string `json:"state"`
			Context string `json:"context"`
			Since   string `json:"since"`
		}
		rows := []row{}
		for _, t := range all {
			rows = append(rows, row{t.ID, stateName(t.Status.State), t.ContextID, t.Status.Timestamp.Local().Format("2006-01-02 15:04:05")})
		}
		if len(rows) == 0 {
			v.screen.line("no tasks")
			return nil
		}
		v.printer.format = "table"
		return v.print(ctx, rows)
	})
	cmd.Flags().StringVar(&v.session, "context", "", "only tasks of the conversation `ID`")
	cmd.Flags().StringVar(&v.state, "state", "", "only tasks in `STATE`: working, input-required, completed …")
	return cmd
}

func (a *app) a2aGet() *cobra.Command {
	cmd, _ := a.a2aSubcommand(&cobra.Command{
		Use:   "get TARGET TASK",
		Short: "show the current state of a task",
		Long: `Show the current state of a task.

  parley a2a tasks :3000/a2a                  lists the IDs
  parley a2a get :3000/a2a TASK
  parley a2a get :3000/a2a TASK -o json`,
	}, func(ctx context.Context, v *agentCommand) error {
		id, err := v.one("the id of the task")
		if err != nil {
			return err
		}
		t, err := v.a2a.Task(ctx, &a2a.GetTaskRequest{ID: id})
		if err != nil {
			return err
		}
		return v.printTask(ctx, t)
	})
	return cmd
}

func (a *app) a2aCancel() *cobra.Command {
	cmd, _ := a.a2aSubcommand(&cobra.Command{
		Use:   "cancel TARGET TASK",
		Short: "cancel a task",
		Long: `Cancel a task.

  parley a2a send :3000/a2a "/courier a cake, 30 stops of 1s" --detach
  parley a2a cancel :3000/a2a TASK            with the ID that the first command prints
  parley a2a cancel :3000/a2a TASK -o json`,
	}, func(ctx context.Context, v *agentCommand) error {
		id, err := v.one("the id of the task")
		if err != nil {
			return err
		}
		t, err := v.a2a.Cancel(ctx, id)
		if err != nil {
			return err
		}
		return v.printTask(ctx, t)
	})
	return cmd
}
