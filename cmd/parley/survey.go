package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/spf13/cobra"
)

// A survey finds out which protocol a target supports and reads everything that it offers.
type survey struct {
	app    *app
	reach  reachFlags
	login  loginFlags
	forced string // the protocol of --protocol, or "" to detect it
	brief  bool   // read only methods, tools, agents and skills

	named map[string]namedTarget // by @NAME; for the members of a team

	printer *printer
	tracer  *tracer
	screen  *screen
	target  parley.Target
}

// protocols are the protocols of a survey, in the order in which help lists them.
var protocols = []string{config.JSONRPC, config.MCP, config.ACP, config.A2A, config.Editor}

func (s *survey) register(cmd *cobra.Command) {
	s.reach.register(cmd)
	s.protocolFlag(cmd)
	s.login.register(cmd)
}

// protocolFlag registers --protocol.
func (s *survey) protocolFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.forced, "protocol", "", "`PROTOCOL` of the target: jsonrpc, mcp, acp, a2a or editor; by default it is detected")
	// The flag exists, so the error is nil.
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(protocols, cobra.ShellCompDirectiveNoFileComp))
}

// open parses the target and opens the trace. close ends it.
func (s *survey) open(ctx context.Context, words []string, colour string) (rest []string, end func() error, err error) {
	if s.forced != "" && !slices.Contains(protocols, s.forced) {
		return nil, nil, usagef("--protocol must be one of %s, not %q", strings.Join(protocols, ", "), cut(s.forced, 60))
	}
	if s.target, rest, err = s.app.target(ctx, &s.reach, words, true); err != nil {
		return nil, nil, err
	}
	if err := s.reach.fit(s.target); err != nil {
		return nil, nil, err
	}
	end = func() error { return nil }
	if s.reach.trace != "" {
		if s.tracer, err = s.app.tracer(s.reach.trace, colour); err != nil {
			return nil, nil, err
		}
		end = s.tracer.close
	}
	s.screen = &screen{w: s.app.stderr}
	return rest, end, nil
}

// A catalog is what a target offers.
type catalog struct {
	Protocol    string         `json:"protocol"`
	Version     string         `json:"version,omitzero"` // of the protocol
	Name        string         `json:"name,omitzero"`
	Release     string         `json:"release,omitzero"` // of the server
	Description string         `json:"description,omitzero"`
	Entries     []catalogEntry `json:"entries"`
}

// Kinds of an entry.
const (
	kindMethod   = "method"
	kindTool     = "tool"
	kindResource = "resource"
	kindTemplate = "template"
	kindPrompt   = "prompt"
	kindSkill    = "skill"
	kindAgent    = "agent"
	kindTask     = "task"
)

// kinds are the kinds of an entry in the order in which they are listed.
var kinds = []string{kindMethod, kindTool, kindResource, kindTemplate, kindPrompt, kindAgent, kindSkill, kindTask}

// A catalogEntry is one part of a catalog: a method, a tool, a skill and so on.
type catalogEntry struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Signature   string `json:"signature,omitzero"` // what follows the name, such as (a: number) -> number
	Description string `json:"description,omitzero"`

	fields  []param       // parameters, in the order of the server
	results []param       // the result or its members; nil if it has none
	lines   []string      // further facts for people
	skills  []string      // names of the skills of an agent
	schema  jsonrpc.Raw   // what --schema prints
	object  func() any    // the object of the server, for programs
	about   func() string // a longer description; nil if Description is complete
}

// A finder reads the catalog of a target in one protocol.
type finder func(s *survey, ctx context.Context) (*catalog, error)

var finders = map[string]finder{
	config.JSONRPC: (*survey).methods,
	config.MCP:     (*survey).features,
	config.ACP:     (*survey).manifests,
	config.A2A:     (*survey).skills,
	config.Editor:  (*survey).editorAgent,
}

// errNothing reports that nothing with the requested name exists at a target.
var errNothing = errors.New("not found")

// find returns the catalog of the target. Without --protocol it tries the protocols one after
// another, the most likely first. The result has an error if none of them has a catalog.
func (s *survey) find(ctx context.Context) (*catalog, error) {
	order := []string{s.forced}
	if s.forced == "" {
		order = s.likely()
	}
	var end time.Time
	if s.reach.timeout > 0 {
		end = time.Now().Add(s.reach.timeout)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	var denied, late, speaks, exited, missing error
	for i, protocol := range order {
		// A server that ignores the messages of another protocol must not use up all the time.
		trial, cancel := ctx, context.CancelFunc(func() {})
		if !end.IsZero() && i < len(order)-1 {
			trial, cancel = context.WithDeadline(ctx, time.Now().Add(time.Until(end)/2))
		}
		found, err := finders[protocol](s, trial)
		cancel()
		switch {
		case err == nil:
			return found, nil
		case ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted):
			return nil, &shownError{"cancelled", errInterrupted}
		case isLate(err):
			late = err
		case isUnreachable(err):
			return nil, s.unreachable(err)
		case is[*usageError](err):
			return nil, err
		case isAuth(err) || exitCode(err) == exitAuth || is[*loginError](err):
			denied = cmp.Or(denied, err)
		case len(order) == 1 && !errors.Is(err, jsonrpc.ErrMethodNotFound):
			return nil, err
		case is[*stdio.ExitError](err):
			exited = cmp.Or(exited, err)
		case protocol == config.JSONRPC && is[*jsonrpc.Error](err):
			speaks = err
		case protocol == config.JSONRPC && isHTTP(s.target) && isMissing(status(err)):
			missing = err
		}
	}
	switch {
	case denied != nil && is[*shownError](denied):
		return nil, denied
	case denied != nil:
		return nil, &shownError{"the server requires authentication; use --token-file FILE", denied}
	case exited != nil:
		e, _ := errors.AsType[*stdio.ExitError](exited)
		return nil, &shownError{s.target.String() + ": " + e.Error(), exited}
	case late != nil:
		return nil, &shownError{fmt.Sprintf("no response within %s (--timeout)", s.reach.timeout), context.DeadlineExceeded}
	case speaks != nil && s.forced == config.JSONRPC:
		return nil, &shownError{s.target.String() + " has no rpc.discover, so its methods cannot be listed; call them with parley call", errNothing}
	case speaks != nil:
		return nil, &shownError{s.target.String() + " responds to JSON-RPC, but has neither rpc.discover nor MCP, ACP or A2A, so nothing can be listed", errNothing}
	}
	if missing != nil {
		if d, err := s.dialer(); err == nil {
			return nil, (&placeFinder{target: s.target, tls: d.TLS, paths: []string{"/rpc", "/mcp", "/"}}).missing(ctx, missing)
		}
	}
	return nil, &shownError{fmt.Sprintf("nothing to list at %s: it supports none of %s", s.target, strings.Join(order, ", ")), errNothing}
}

// isUnreachable reports whether err means that no protocol can reach the target.
func isUnreachable(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial" || is[*dialError](err) || is[*net.DNSError](err) ||
		is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err)
}

// unreachable returns an error of isUnreachable with the target and the reason.
func (s *survey) unreachable(err error) error {
	if is[*dialError](err) {
		return err
	}
	return &dialError{s.target, err}
}

// likely returns the protocols to try on the target, the most likely first.
func (s *survey) likely() []string {
	if e := s.reach.entry; e != nil && slices.Contains(protocols, e.Protocol) {
		return first(e.Protocol, slices.Clone(protocols))
	}
	switch {
	case s.target.Scheme == "exec":
		return []string{config.MCP, config.JSONRPC, config.Editor, config.A2A, config.ACP}
	case strings.HasPrefix(s.target.Scheme, "sse+"):
		return []string{config.MCP}
	}
	order := []string{config.JSONRPC, config.MCP, config.ACP, config.A2A}
	if !isHTTP(s.target) && s.target.Scheme != "ws" && s.target.Scheme != "wss" {
		order = append(order, config.Editor)
	}
	where, _, _ := strings.Cut(s.target.Path, "?")
	for part := range strings.SplitSeq(strings.Trim(where, "/"), "/") {
		switch {
		case part == "mcp" || part == "sse":
			return first(config.MCP, order)
		case part == "acp" || part == "agents":
			return first(config.ACP, order)
		case part == "a2a" || part == ".well-known" || strings.HasPrefix(part, "agent-card") || part == "agent.json":
			return first(config.A2A, order)
		}
	}
	return order
}

// first moves a protocol to the begin of the order.
func first(protocol string, order []string) []string {
	return append([]string{protocol}, slices.DeleteFunc(order, func(p string) bool { return p == protocol })...)
}

// dialer returns a Dialer for one trial.
func (s *survey) dialer() (*parley.Dialer, error) {
	d, err := s.app.dialer(s.reach)
	if err != nil {
		return nil, err
	}
	d.Limits.CallTime = -1 // the context has the deadline
	d.Timeout = -1
	d.Stderr = func(line string) { s.screen.line(s.app.childLine(line)) }
	if s.tracer != nil {
		d.Tap = s.tracer.see
	}
	return d, nil
}

// methods reads the OpenRPC document.
func (s *survey) methods(ctx context.Context) (*catalog, error) {
	d, err := s.dialer()
	if err != nil {
		return nil, err
	}
	client, err := d.Dial(ctx, s.target)
	if err != nil {
		return nil, &dialError{s.target, err}
	}
	document, err := openrpc.Discover(ctx, client)
	hangUp(orCause(ctx, err), client.Close)
	if err != nil {
		return nil, err
	}
	return catalogOfMethods(document), nil
}

// orCause returns the error for hangUp: err, or the reason why ctx ended.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// mcpCommand returns an MCP command without questions for this target.
func (s *survey) mcpCommand() *mcpCommand {
	v := &mcpCommand{app: s.app, reach: s.reach, login: s.login, log: "none", decline: true, printer: s.printer, tracer: s.tracer,
		target: s.target, screen: s.screen, trouble: make(chan struct{}, 1), hangUp: func() error { return nil }}
	v.reach.timeout = 0
	return v
}

// agentCommand returns an agent command without questions for this target.
func (s *survey) agentCommand() *agentCommand {
	v := &agentCommand{app: s.app, reach: s.reach, printer: s.printer, tracer: s.tracer, target: s.target, screen: s.screen,
		hangUp: func() error { return nil }}
	v.reach.timeout = 0
	return v
}

// agents connects with a command of an agent protocol, runs read and disconnects.
func (s *survey) agents(ctx context.Context, connect, read func(context.Context, *agentCommand) error) error {
	v := s.agentCommand()
	var stop func()
	ctx, v.patience, stop = newPatience(ctx, 0, nil)
	defer stop()
	err := connect(ctx, v)
	if err == nil {
		err = read(ctx, v)
	}
	if e := v.loginError(ctx, err); err != nil && e != nil {
		err = e
	}
	hangUp(orCause(ctx, err), v.hangUp)
	return err
}

// cardFits reports whether an agent card that was found at the well-known path of the host belongs
// to the target: the target is the host itself, the card, or an interface of the card.
func (s *survey) cardFits(urls []string) bool {
	where, _, _ := strings.Cut(s.target.Path, "?")
	if !isHTTP(s.target) || s.forced != "" || path.Clean("/"+where) == "/" || strings.HasSuffix(where, ".json") {
		return true
	}
	for _, address := range urls {
		u, err := url.Parse(address)
		if err == nil && (path.Clean("/"+u.Path) == path.Clean("/"+where) || strings.HasPrefix(path.Clean("/"+u.Path), path.Clean("/"+where)+"/")) {
			return true
		}
	}
	return false
}
