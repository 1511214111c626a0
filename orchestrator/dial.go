package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// DialOptions configures [Dial]. The zero value is ready for use.
type DialOptions struct {
	// Dialer opens all connections except those to child processes: its TLS, Token, Header and
	// limits apply to all members. If nil, the zero Dialer is used. Calls of plain methods have
	// only their step's timeout, unless the Dialer's Limits set a CallTime. Calls from such a peer
	// go to the Dialer's Back, except for [MethodAsk].
	Dialer *parley.Dialer

	// Tokens holds bearer tokens by member name, used unchanged. They replace the tokens of the
	// members.
	Tokens map[string]string

	// Lookup returns environment variables for members that were read from files. If nil,
	// os.LookupEnv is used.
	Lookup func(name string) (string, bool)

	// Secret is called with each credential of a member before the member is dialled, so that the
	// caller can keep it out of logs. If nil, credentials are not reported.
	Secret func(value string)

	// Named returns the member that a target such as @notes names: its Target, Token and Headers, or
	// its Command, Env and Dir. Those of the plan replace its Token and Headers. It is called for one
	// name after the other, before anything is dialled; its error is that of Dial. If nil, names are
	// an error.
	Named func(ctx context.Context, name string) (Member, error)

	// Timeout bounds the opening of each member, including its handshake. Zero means 30 s.
	Timeout time.Duration

	// Restarts is how often a program that exited or did not start is started again within 10
	// minutes. After that its steps fail with an error that reports this. Zero means 5; a negative
	// value means never.
	Restarts int

	// Dir is the working directory of programs and coding agents. If empty, it is the current
	// directory.
	Dir string

	// Report is called with members that could not be reached and with environment entries that
	// make a program run other code. If nil, these reports are dropped.
	Report func(what string, err error)

	// Stderr is called with each line that a program writes to its standard error. If nil, the
	// lines are dropped.
	Stderr func(member, line string)
}

// Dial connects to all members at once. It starts those with a command and dials the others;
// members at the same address share one connection. A member that cannot be reached is still in the
// team, and its steps fail with the reason. Dial fails only if ctx ends, with
// the error of [DialOptions] Named, or with a [*PlanError] if a member uses a variable that is not
// set and has no default. Close the team to disconnect all members.
//
// A member whose program or connection has ended is started or dialled again by the next step that
// uses it. The same holds for a member that could not be reached, but not sooner than 250 ms after
// the last failed try; the pause doubles after each further failure, up to 30 s. Steps in between
// fail with the same error. A call that was running when the connection ended is not sent again,
// unless its step may be retried.
func Dial(ctx context.Context, members map[string]Member, o *DialOptions) (*Team, error) {
	var options DialOptions
	if o != nil {
		options = *o
	}
	if options.Timeout == 0 {
		options.Timeout = 30 * time.Second
	}
	if options.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		options.Dir = dir
	}
	if options.Report == nil {
		options.Report = func(what string, err error) { report.Call(nil, "orchestrator", what, err) }
	}
	if options.Restarts == 0 {
		options.Restarts = defaultStarts
	}
	var (
		wg   sync.WaitGroup
		team = &Team{}
	)
	members, err := options.resolve(ctx, members)
	if err != nil {
		return nil, err
	}
	for _, names := range together(members) {
		unnamed := slices.ContainsFunc(names, func(name string) bool { return members[name].Agent == "" })
		w := newWay(ctx, &dialing{o: &options, name: names[0], m: members[names[0]]}, names, unnamed)
		all := Worker{Named: w.named}
		if w.d.m.Protocol == "jsonrpc" {
			all.Peer, all.way, all.Named = w, w, nil
		} else {
			all.Agents = &agent.Client{Link: w}
		}
		for i, name := range names {
			own := all
			own.Agent = members[name].Agent
			if i == 0 {
				own.Close = w.Close
			}
			team.Add(name, &own)
		}
		wg.Go(func() {
			if _, err := w.use(ctx); err != nil {
				report.Call(options.Report, "orchestrator", ReportUnreachable, fmt.Errorf("%s: %w", w.called(), err))
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), team.Close())
	}
	return team, nil
}

// together groups the names of members that share one connection: those at the same address with
// the same credentials. Each program has its own group.
func together(members map[string]Member) [][]string {
	type place struct{ target, protocol, credentials string }
	at := map[place]int{}
	var groups [][]string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		p := place{m.Target, m.Protocol, m.credentials()}
		if i, shared := at[p]; shared && m.Target != "" {
			groups[i] = append(groups[i], name)
			continue
		}
		at[p] = len(groups)
		groups = append(groups, []string{name})
	}
	return groups
}

// where returns a member's address as it was written.
func (m Member) where() string {
	if m.Target != "" {
		return m.Target
	}
	return strings.Join(m.Command, " ")
}

// A dialing is a member being dialled.
type dialing struct {
	o    *DialOptions
	name string
	m    Member
}

// only returns the name of the agent if there is exactly one, because some protocols require a
// name; otherwise it returns "".
func (d *dialing) only(ctx context.Context, c *agent.Client) string {
	cards, err := c.Agents(ctx)
	if err != nil {
		d.o.Report(ReportAgentList, fmt.Errorf("%s: %w", d.name, err))
	}
	if len(cards) != 1 {
		return ""
	}
	return cards[0].Name
}

func (d *dialing) dialer() *parley.Dialer {
	var own parley.Dialer
	if d.o.Dialer != nil {
		own = *d.o.Dialer
	}
	if d.m.Token == "" && d.m.Headers == nil {
		return &own
	}
	own.Header = own.Header.Clone()
	if own.Header == nil {
		own.Header = http.Header{}
	}
	if d.m.Token != "" {
		own.Token = d.m.Token
		own.Header.Del("Authorization")
	}
	for name, value := range d.m.Headers {
		own.Header.Set(name, value)
	}
	if own.Header.Get("Authorization") != "" && d.m.Token == "" {
		own.Token = "" // the two would contradict each other
	}
	return &own
}

func (d *dialing) open(ctx context.Context) (*opened, error) {
	if d.m.Protocol == "jsonrpc" {
		return d.methods(ctx)
	}
	var (
		o   = &opened{ended: &ending{}}
		err error
		web = strings.HasPrefix(d.m.Target, "http://") || strings.HasPrefix(d.m.Target, "https://")
	)
	switch {
	case d.m.Protocol == "acp" && web:
		o.acp, err = d.acpHTTP(ctx)
	case d.m.Protocol == "a2a" && web:
		o.agents, err = d.a2aHTTP(ctx)
	case d.m.Protocol == "mcp" && (web || strings.HasPrefix(d.m.Target, "sse+http")):
		o.agents, err = d.mcpHTTP(ctx)
	default:
		err = d.onCarrier(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	if o.acp != nil {
		o.agents = acpagent.Client(o.acp)
	}
	o.close = o.agents.Close
	return o, nil
}

// openTransport opens a bidirectional transport to a started program or to an address. Its end is
// recorded in ended.
func (d *dialing) openTransport(ctx context.Context, ended *ending) (jsonrpc.Transport, error) {
	if len(d.m.Command) == 0 {
		t, err := parley.ParseTarget(d.m.Target)
		if err != nil {
			return nil, err
		}
		opened, err := d.dialer().Open(ctx, t)
		if err != nil {
			return nil, err
		}
		return &watched{opened, ended}, nil
	}
	env, risky := stdio.CleanEnv(d.m.Env...)
	if len(risky) > 0 {
		d.o.Report(ReportRiskyEnvironment, fmt.Errorf("%s is started with %s", d.name, strings.Join(risky, ", ")))
	}
	o := &stdio.Options{Env: env, Dir: d.dir()}
	if d.o.Stderr != nil {
		o.Stderr = func(line string) { d.o.Stderr(d.name, line) }
	}
	child, err := stdio.Start(ctx, d.m.Command, o)
	if err != nil {
		return nil, err
	}
	return &watched{child, ended}, nil
}

// dir returns the working directory of a program.
func (d *dialing) dir() string { return cmp.Or(d.m.Dir, d.o.Dir) }

func (d *dialing) info() mcp.Implementation {
	return mcp.Implementation{Name: "parley", Title: "Parley", Version: "0"}
}

func (d *dialing) onCarrier(ctx context.Context, o *opened) error {
	t, err := d.openTransport(ctx, o.ended)
	if err != nil {
		return err
	}
	switch d.m.Protocol {
	case "acp":
		o.acp = acp.Connect(ctx, t, nil)
	case "a2a":
		o.agents = a2aagent.Client(a2a.Connect(ctx, t, nil), nil)
	case "editor":
		o.agents, err = editoragent.Connect(ctx, t, &editoragent.ClientOptions{CWD: d.dir()})
	case "mcp":
		o.agents, err = mcpagent.Connect(ctx, t, d.info(), nil)
	default:
		return errors.Join(fmt.Errorf("unknown protocol %q", d.m.Protocol), t.Close())
	}
	return err
}

// methods connects to a peer of plain JSON-RPC methods. A call's timeout is its step's.
func (d *dialing) methods(ctx context.Context) (*opened, error) {
	var (
		c      = &calls{}
		dialer = *d.dialer()
		o      = &opened{calls: c, ended: &ending{}}
	)
	if dialer.Limits.CallTime == 0 {
		dialer.Limits.CallTime = -1
	}
	dialer.Back, dialer.Mode = c.back(dialer.Back, dialer.Mode)
	if len(d.m.Command) > 0 {
		t, err := d.openTransport(ctx, o.ended)
		if err != nil {
			return nil, err
		}
		conn := jsonrpc.NewConn(t)
		conn.Quiet = true // programs may print other output too
		conn.Handler, conn.Mode = dialer.Back, dialer.Mode
		conn.Limits, conn.Cancellation = dialer.Limits, jsonrpc.CancelRequest
		conn.Start(context.WithoutCancel(ctx))
		c.caller, c.failed = conn, conn.Err
		o.close = conn.Close
		return o, nil
	}
	t, err := parley.ParseTarget(d.m.Target)
	if err != nil {
		return nil, err
	}
	client, err := dialer.Dial(ctx, t)
	if err != nil {
		return nil, err
	}
	// A connection that can end, unlike HTTP.
	if conn, ok := client.Caller.(interface{ Err() error }); ok {
		c.failed = conn.Err
	}
	c.caller, o.close = client, client.Close
	return o, nil
}

// acpHTTP tries the JSON-RPC binding first, which is specific to this module, and then REST, which
// every peer supports.
func (d *dialing) acpHTTP(ctx context.Context) (*acp.Client, error) {
	t, err := parley.ParseTarget(d.m.Target)
	if err != nil {
		return nil, err
	}
	link, err := d.dialer().Dial(ctx, t)
	if err != nil {
		return nil, err
	}
	c := acp.NewClient(link, nil)
	first := c.Ping(ctx)
	if first == nil {
		return c, nil
	}
	_ = c.Close() // the peer does not support JSON-RPC
	p := d.dialer()
	c, err = acphttp.Dial(d.m.Target, &acphttp.DialOptions{TLS: p.TLS, Header: p.Header, Token: p.Token})
	if err != nil {
		return nil, err
	}
	if err := c.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("as REST: %w; as JSON-RPC: %w", err, first), c.Close())
	}
	return c, nil
}

func (d *dialing) a2aHTTP(ctx context.Context) (*agent.Client, error) {
	p := d.dialer()
	c, card, err := a2ahttp.Dial(ctx, d.m.Target, &a2ahttp.Options{TLS: p.TLS, Header: p.Header, Token: p.Token})
	if err != nil {
		return nil, err
	}
	return a2aagent.Client(c, card), nil
}

func (d *dialing) mcpHTTP(ctx context.Context) (*agent.Client, error) {
	p := d.dialer()
	return mcpagent.Client(nil, func(o *mcp.ClientOptions) (*mcp.Client, error) {
		return mcphttp.Connect(ctx, d.m.Target, d.info(), &mcphttp.ClientOptions{Client: *o, TLS: p.TLS, Header: p.Header, Token: p.Token})
	})
}
