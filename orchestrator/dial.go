package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// DialOptions tune Dial. The zero value is ready for use.
type DialOptions struct {
	// Dialer opens what is no child process: its TLS, Token, Header and limits are used for all members. Nil means the zero Dialer.
	// Calls of plain methods have the time of their steps alone, unless its Limits have a CallTime. What such a peer calls goes to its Back,
	// but for [MethodAsk].
	Dialer *parley.Dialer

	// Timeout bounds the opening of each member, its handshake included. Zero means 30 s.
	Timeout time.Duration

	// Restarts is how often a program that has ended, or did not start, is started again within 10 minutes. After that its steps fail,
	// and say so. Zero means 5, negative means never.
	Restarts int

	// Dir is where programs run, and where coding agents work. Empty means the current folder.
	Dir string

	// Report is told who could not be reached, and of environment entries that make a program run other code. Nil drops it.
	Report func(what string, err error)

	// Stderr is told each line that a program writes to its standard error. Nil drops them.
	Stderr func(member, line string)
}

// Dial reaches all members at once: those with a command are started, the others are dialled, and those at the same address share
// one connection. Who cannot be reached is a member
// all the same, whose steps fail with the reason; only when ctx ends there is no team. Close the team to give all of them up.
//
// A member whose program or connection has ended is started or dialled again by the next step that uses it. So is one that could
// not be reached, but not sooner than 250 ms after the last try, and twice that after each that failed too, up to 30 s; steps in between
// fail with the same error. What was under way when it ended is not sent again, unless its step may be retried.
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
		options.Report = func(string, error) {}
	}
	if options.Restarts == 0 {
		options.Restarts = defaultStarts
	}
	var (
		wg   sync.WaitGroup
		team = &Team{}
	)
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
				options.Report(w.called()+" cannot be reached", err)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), team.Close())
	}
	return team, nil
}

// together puts the names of members into groups that share one way: those at the same address. Each program is its own.
func together(members map[string]Member) [][]string {
	type place struct{ target, protocol string }
	at := map[place]int{}
	var groups [][]string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		p := place{m.Target, m.Protocol}
		if i, shared := at[p]; shared && m.Target != "" {
			groups[i] = append(groups[i], name)
			continue
		}
		at[p] = len(groups)
		groups = append(groups, []string{name})
	}
	return groups
}

// where is a member's address as it was written.
func (m Member) where() string {
	if m.Target != "" {
		return m.Target
	}
	return strings.Join(m.Command, " ")
}

// A dialing is one member on the way.
type dialing struct {
	o    *DialOptions
	name string
	m    Member
}

// only returns the name of the one agent that there is, since some protocols want a name; and nothing if there are more.
func (d *dialing) only(ctx context.Context, c *agent.Client) string {
	cards, err := c.Agents(ctx)
	if err != nil {
		d.o.Report(d.name+" does not say which agents it has", err)
	}
	if len(cards) != 1 {
		return ""
	}
	return cards[0].Name
}

func (d *dialing) dialer() *parley.Dialer {
	if d.o.Dialer == nil {
		return &parley.Dialer{}
	}
	return d.o.Dialer
}

func (d *dialing) open(ctx context.Context) (*opened, error) {
	if d.m.Protocol == "jsonrpc" {
		return d.methods(ctx)
	}
	var (
		o    = &opened{ended: &ending{}}
		err  error
		http = strings.HasPrefix(d.m.Target, "http://") || strings.HasPrefix(d.m.Target, "https://")
	)
	switch {
	case d.m.Protocol == "acp" && http:
		o.acp, err = d.acpHTTP(ctx)
	case d.m.Protocol == "a2a" && http:
		o.agents, err = d.a2aHTTP(ctx)
	case d.m.Protocol == "mcp" && (http || strings.HasPrefix(d.m.Target, "sse+http")):
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

// carrier opens a way on which both sides speak: to a program that it starts, or to an address. Its end goes into ended.
func (d *dialing) carrier(ctx context.Context, ended *ending) (jsonrpc.Transport, error) {
	if len(d.m.Command) == 0 {
		t, err := parley.ParseTarget(d.m.Target)
		if err != nil {
			return nil, err
		}
		carrier, err := d.dialer().Open(ctx, t)
		if err != nil {
			return nil, err
		}
		return &watched{carrier, ended}, nil
	}
	env, risky := stdio.CleanEnv(d.m.Env...)
	if len(risky) > 0 {
		d.o.Report(d.name+" is started with "+strings.Join(risky, ", "), nil)
	}
	o := &stdio.Options{Env: env, Dir: d.o.Dir}
	if d.o.Stderr != nil {
		o.Stderr = func(line string) { d.o.Stderr(d.name, line) }
	}
	child, err := stdio.Start(ctx, d.m.Command, o)
	if err != nil {
		return nil, err
	}
	return &watched{child, ended}, nil
}

func (d *dialing) info() mcp.Implementation {
	return mcp.Implementation{Name: "parley", Title: "Parley", Version: "0"}
}

func (d *dialing) onCarrier(ctx context.Context, o *opened) error {
	t, err := d.carrier(ctx, o.ended)
	if err != nil {
		return err
	}
	switch d.m.Protocol {
	case "acp":
		o.acp = acp.Connect(ctx, t, nil)
	case "a2a":
		o.agents = a2aagent.Client(a2a.Connect(ctx, t, nil), nil)
	case "editor":
		o.agents, err = editoragent.Connect(ctx, t, &editoragent.ClientOptions{CWD: d.o.Dir})
	case "mcp":
		o.agents, err = mcpagent.Connect(ctx, t, d.info(), nil)
	default:
		return errors.Join(fmt.Errorf("%q is no protocol", d.m.Protocol), t.Close())
	}
	return err
}

// methods reaches a peer of plain JSON-RPC methods. The time of a call is its step's.
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
		t, err := d.carrier(ctx, o.ended)
		if err != nil {
			return nil, err
		}
		conn := jsonrpc.NewConn(t)
		conn.Quiet = true // programs print other things too
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
	if conn, ok := client.Caller.(interface{ Err() error }); ok { // one that can end: over HTTP there is none
		c.failed = conn.Err
	}
	c.caller, o.close = client, client.Close
	return o, nil
}

// acpHTTP asks by the JSON-RPC binding first, which is this module's own, and else by REST, which everybody speaks.
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
	_ = c.Close() // it is no JSON-RPC
	p := d.dialer()
	c, err = acphttp.Dial(d.m.Target, &acphttp.DialOptions{TLS: p.TLS, Header: p.Header, Token: p.Token})
	if err != nil {
		return nil, err
	}
	if err := c.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("as REST: %w", err), fmt.Errorf("as JSON-RPC: %w", first), c.Close())
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
