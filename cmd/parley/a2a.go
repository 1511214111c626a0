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
	"github.com/da1ed7bb/parley/transport/sse"
)

const a2aHelp = `Use an A2A agent: the Agent2Agent protocol, in version 1.0 or 0.3, whichever the agent speaks.

  parley a2a card :3000/a2a
  parley a2a send :3000/a2a "/words one word after the other"
  parley a2a send "/ask hello" --answer Ada -- parley demo --a2a --stdio

An http address is that of the agent card, of what the well-known path stands behind, or of the agent itself; the card says
how to speak to it. WebSocket, tcp, unix and children are parley's own binding (docs/guides/a2a.md). What the agent asks is
asked on the terminal; without one --answer says it, or the task is left waiting for parley a2a resume.`

func (a *app) a2aCommand() *cobra.Command {
	cmd := a.protocolCommand("a2a", "use an A2A agent", a2aHelp, "parley a2a card -- CMD")
	cmd.AddCommand(a.a2aCard(), a.a2aSend(), a.a2aResume(), a.a2aWatch(), a.a2aTasks(), a.a2aGet(), a.a2aCancel())
	return cmd
}

func (a *app) a2aVerb(cmd *cobra.Command, do func(ctx context.Context, v *agentVerb) error) (*cobra.Command, *agentVerb) {
	cmd, v := a.agentVerbCommand(cmd, func(ctx context.Context, v *agentVerb) error { return v.connectA2A(ctx) }, do)
	cmd.Flags().StringVar(&v.binding, "binding", "", "`HOW` to speak over http, if the card leaves a choice: rest or rpc")
	cmd.ValidArgsFunction = a.completeAgents(v, ":3000/a2a", nil)
	return cmd, v
}

func (v *agentVerb) connectA2A(ctx context.Context) error {
	d, err := v.dialer()
	if err != nil {
		return err
	}
	if !isHTTP(v.target) {
		if v.binding != "" {
			return usagef("--binding is about http addresses")
		}
		d.Related, d.Cancellation = a2a.Related, &a2a.Cancellation
		client, err := d.Dial(ctx, v.target)
		if err != nil {
			return &dialError{v.target, err}
		}
		v.a2a = a2a.NewClient(client, &a2a.ClientOptions{Version: a2a.V10}) // the binding is one of v1.0
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
			return usagef("--binding is rest or rpc, not %q", cut(v.binding, 60))
		}
		v.a2a, v.card, err = a2ahttp.Dial(ctx, v.target.URL(), o)
		if e, ok := errors.AsType[*sse.StatusError](err); ok && e.Status == 404 {
			return &toldError{"there is no agent card at " + v.target.URL() + ", nor at the well-known path of its host", err}
		}
		if err != nil {
			return err
		}
	}
	v.runs = a2aagent.Client(v.a2a, v.card)
	v.hangUp = v.a2a.Close
	return nil
}

// about is the agent's card.
func (v *agentVerb) about(ctx context.Context) (*a2a.AgentCard, error) {
	if v.card != nil {
		return v.card, nil
	}
	return v.a2a.Card(ctx)
}

func (a *app) a2aCard() *cobra.Command {
	var extended bool
	cmd, _ := a.a2aVerb(&cobra.Command{
		Use:   "card TARGET",
		Short: "show what the agent says about itself",
		Long: `Show what the agent says about itself.

  parley a2a card :3000/a2a
  parley a2a card http://127.0.0.1:3000 -o json
  parley a2a card :3000/a2a -o json --jq '.skills[].id'`,
	}, func(ctx context.Context, v *agentVerb) (err error) {
		if len(v.words) > 0 {
			return usagef("%q is one word too many", cut(v.words[0], 60))
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
		if v.output.format != formText {
			return v.printer.print(ctx, a2a.EncodeCard(card, false))
		}
		return v.showCard(card)
	})
	cmd.Flags().BoolVar(&extended, "extended", false, "the card for those who have said who they are")
	return cmd
}

func (v *agentVerb) showCard(card *a2a.AgentCard) error {
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
		b.wrap("    ", "wants to know who calls")
	}
	for _, s := range card.Skills {
		fmt.Fprintln(b)
		b.entry("  "+s.ID, "  "+s.Name, "")
		b.wrap("      ", s.Description)
		for _, example := range s.Examples {
			b.wrap("      ", "such as: "+example)
		}
	}
	_, err := fmt.Fprint(v.printer.w, b.String())
	return err
}

func (a *app) a2aSend() *cobra.Command {
	cmd, v := a.a2aVerb(&cobra.Command{
		Use:   "send TARGET TEXT…",
		Short: "send a message, and see what comes of it",
		Long: `Send a message, and see what comes of it. Ctrl-C cancels the task; --detach leaves it running.

  parley a2a send :3000/a2a "/words one word after the other"
  parley a2a send :3000/a2a "water the plants" --skill scribe --yes -o json
  parley a2a send :3000/a2a "/courier a cake, 3 stops of 200ms" --detach`,
	}, sendA2A)
	v.sending(cmd)
	f := cmd.Flags()
	f.StringVar(&v.skill, "skill", "", "the skill that is meant, for agents that look at the metadata \"skill\"")
	f.BoolVar(&v.detach, "detach", false, "do not wait: print the id of the task, and leave; parley a2a watch comes back")
	_ = cmd.RegisterFlagCompletionFunc("skill", func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) { // the flag exists
		if len(words) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeAgents(v, "", skillNames)(cmd, words[:1], typed)
	})
	return cmd
}

// skillNames offers the skills of an agent.
func skillNames(ctx context.Context, v *agentVerb) (list []cobra.Completion) {
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

func sendA2A(ctx context.Context, v *agentVerb) error {
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
	return v.say([]agent.Part{agent.Text(e.Message.Text())}) // it is over already
}

// printTask shows a task as printRun shows a run.
func (v *agentVerb) printTask(ctx context.Context, t *a2a.Task) error {
	if v.output.format != formText {
		return v.print(ctx, t)
	}
	if v.detach {
		_, err := fmt.Fprintln(v.printer.w, visible(t.ID, 100))
		return err
	}
	b := v.listing()
	b.entry(t.ID, "  "+stateName(t.Status.State), "")
	b.wrap("    ", "context "+t.ContextID)
	if t.Status.Message != nil {
		b.wrap("    ", "says: "+t.Status.Message.Text())
	}
	fmt.Fprint(v.printer.w, b.String())
	return v.say([]agent.Part{agent.Text(t.Text())})
}

// stateName is a state for people.
func stateName(s a2a.TaskState) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(s), "TASK_STATE_"), "_", " "))
}

func (a *app) a2aResume() *cobra.Command {
	cmd, v := a.a2aVerb(&cobra.Command{
		Use:   "resume TARGET TASK ANSWER…",
		Short: "answer a task that waits, and see it go on",
		Long: `Answer a task that waits, and see it go on.

  parley a2a send :3000/a2a "/ask hello"      says how to answer, where nobody sits at a terminal
  parley a2a resume :3000/a2a TASK Ada`,
	}, resumeRun)
	v.running(cmd)
	return cmd
}

func (a *app) a2aWatch() *cobra.Command {
	cmd, v := a.a2aVerb(&cobra.Command{
		Use:   "watch TARGET TASK",
		Short: "see a task to its end; Ctrl-C leaves it running",
	}, watchRun)
	v.running(cmd)
	return cmd
}

func (a *app) a2aTasks() *cobra.Command {
	cmd, v := a.a2aVerb(&cobra.Command{
		Use:   "tasks TARGET",
		Short: "list the tasks that the agent has for us",
	}, func(ctx context.Context, v *agentVerb) error {
		if len(v.words) > 0 {
			return usagef("%q is one word too many", cut(v.words[0], 60))
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
			v.screen.line("there are none")
			return nil
		}
		v.printer.format = "table"
		return v.print(ctx, rows)
	})
	cmd.Flags().StringVar(&v.session, "context", "", "only those of the conversation `ID`")
	cmd.Flags().StringVar(&v.state, "state", "", "only those that are `STATE`: working, input-required, completed …")
	return cmd
}

func (a *app) a2aGet() *cobra.Command {
	cmd, _ := a.a2aVerb(&cobra.Command{Use: "get TARGET TASK", Short: "show a task as it is now"}, func(ctx context.Context, v *agentVerb) error {
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
	cmd, _ := a.a2aVerb(&cobra.Command{Use: "cancel TARGET TASK", Short: "cancel a task"}, func(ctx context.Context, v *agentVerb) error {
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
