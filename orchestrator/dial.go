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
	Dialer *parley.Dialer

	// Timeout bounds the opening of each member, its handshake included. Zero means 30 s.
	Timeout time.Duration

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
	var (
		wg   sync.WaitGroup
		team = &Team{}
	)
	for _, names := range together(members) {
		wg.Go(func() {
			one, cancel := context.WithTimeout(ctx, options.Timeout)
			defer cancel()
			d := &dialing{o: &options, name: names[0], m: members[names[0]]}
			w, err := d.open(one)
			if err != nil {
				options.Report(strings.Join(names, ", ")+" cannot be reached", fmt.Errorf("%s: %w", d.m.where(), err))
				err = &StepError{Kind: KindUnreachable, Text: d.m.where() + ": " + err.Error()} // a handshake without an answer too
				w = &Worker{Agents: &agent.Client{Link: away{err}}, Peer: awayPeer{err}}
			}
			only := ""
			if err == nil && d.m.Protocol == "acp" && slices.ContainsFunc(names, func(name string) bool { return members[name].Agent == "" }) {
				only = d.only(one, w.Agents)
			}
			for i, name := range names {
				own := *w
				own.Agent = or(members[name].Agent, only)
				if i > 0 {
					own.Close = nil // the first one's
				}
				team.Add(name, &own)
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

func (d *dialing) open(ctx context.Context) (*Worker, error) {
	if d.m.Protocol == "jsonrpc" {
		return d.methods(ctx)
	}
	var (
		c   *agent.Client
		err error
	)
	http := strings.HasPrefix(d.m.Target, "http://") || strings.HasPrefix(d.m.Target, "https://")
	switch {
	case d.m.Protocol == "acp" && http:
		c, err = d.acpHTTP(ctx)
	case d.m.Protocol == "a2a" && http:
		c, err = d.a2aHTTP(ctx)
	case d.m.Protocol == "mcp" && (http || strings.HasPrefix(d.m.Target, "sse+http")):
		c, err = d.mcpHTTP(ctx)
	default:
		c, err = d.onCarrier(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &Worker{Agents: c, Close: c.Close}, nil
}

// carrier opens a way on which both sides speak: to a program that it starts, or to an address.
func (d *dialing) carrier(ctx context.Context) (jsonrpc.Transport, error) {
	if len(d.m.Command) == 0 {
		t, err := parley.ParseTarget(d.m.Target)
		if err != nil {
			return nil, err
		}
		return d.dialer().Open(ctx, t)
	}
	env, risky := stdio.CleanEnv(d.m.Env...)
	if len(risky) > 0 {
		d.o.Report(d.name+" is started with "+strings.Join(risky, ", "), nil)
	}
	o := &stdio.Options{Env: env, Dir: d.o.Dir}
	if d.o.Stderr != nil {
		o.Stderr = func(line string) { d.o.Stderr(d.name, line) }
	}
	return stdio.Start(ctx, d.m.Command, o)
}

func (d *dialing) info() mcp.Implementation {
	return mcp.Implementation{Name: "parley", Title: "Parley", Version: "0"}
}

func (d *dialing) onCarrier(ctx context.Context) (*agent.Client, error) {
	t, err := d.carrier(ctx)
	if err != nil {
		return nil, err
	}
	switch d.m.Protocol {
	case "acp":
		return acpagent.Client(acp.Connect(ctx, t, nil)), nil
	case "a2a":
		return a2aagent.Client(a2a.Connect(ctx, t, nil), nil), nil
	case "editor":
		return editoragent.Connect(ctx, t, &editoragent.ClientOptions{CWD: d.o.Dir})
	case "mcp":
		return mcpagent.Connect(ctx, t, d.info(), nil)
	}
	return nil, errors.Join(fmt.Errorf("%q is no protocol", d.m.Protocol), t.Close())
}

// methods reaches a peer of plain JSON-RPC methods.
func (d *dialing) methods(ctx context.Context) (*Worker, error) {
	if len(d.m.Command) > 0 {
		t, err := d.carrier(ctx)
		if err != nil {
			return nil, err
		}
		conn := jsonrpc.NewConn(t)
		conn.Quiet = true // programs print other things too
		conn.Limits, conn.Cancellation = d.dialer().Limits, jsonrpc.CancelRequest
		conn.Start(context.WithoutCancel(ctx))
		return &Worker{Peer: conn, Close: conn.Close}, nil
	}
	t, err := parley.ParseTarget(d.m.Target)
	if err != nil {
		return nil, err
	}
	c, err := d.dialer().Dial(ctx, t)
	if err != nil {
		return nil, err
	}
	return &Worker{Peer: c, Close: c.Close}, nil
}

// acpHTTP asks by the JSON-RPC binding first, which is this module's own, and else by REST, which everybody speaks.
func (d *dialing) acpHTTP(ctx context.Context) (*agent.Client, error) {
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
		return acpagent.Client(c), nil
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
	return acpagent.Client(c), nil
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

// away is a member that could not be reached.
type away struct{ err error }

func (a away) Agents(context.Context) ([]agent.Card, error) { return nil, a.err }

func (a away) Do(context.Context, *agent.Request, agent.Caller) (*agent.Result, error) {
	return nil, a.err
}

func (a away) Attach(context.Context, string, agent.Caller) (*agent.Result, error) {
	return nil, a.err
}

func (a away) Close() error { return nil }

type awayPeer struct{ err error }

func (a awayPeer) Call(context.Context, string, any, any) error { return a.err }

func (a awayPeer) Stream(context.Context, string, any, any, func(*jsonrpc.Request) error) error {
	return a.err
}

func (a awayPeer) Notify(context.Context, string, any) error { return a.err }
