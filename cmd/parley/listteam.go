package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// A teamRow is one agent of a member of a team.
type teamRow struct {
	Member     string   `json:"member"`
	Protocol   string   `json:"protocol"`
	Agent      string   `json:"agent"`
	Skills     []string `json:"skills"`
	RoundTrips int      `json:"round_trips"` // of all members at the address
	Target     string   `json:"target"`
	Error      string   `json:"error,omitzero"`
}

// maxSurveys is the maximum number of addresses that are queried at the same time.
const maxSurveys = 16

// listTeam prints the agents and skills of the members of a team. Members at the same address with
// the same credentials share a connection and are queried together.
func (s *survey) listTeam(ctx context.Context, file string, words []string) error {
	if len(words) > 0 || s.app.hasArgv {
		return usagef("--team lists the members of a file; remove the target")
	}
	if s.forced != "" {
		return usagef("--protocol cannot be used with --team: the file has the protocols")
	}
	members, err := orchestrator.ReadTeam(s.app.atHome(file))
	if err != nil {
		return usagef("--team: %v", err)
	}
	s.screen = &screen{w: s.app.stderr}
	if s.reach.trace != "" {
		if s.tracer, err = s.app.tracer(s.reach.trace, ""); err != nil {
			return err
		}
		defer func() { _ = s.tracer.close() }() // reports its error itself
	}
	s.named = make(map[string]namedTarget)
	for _, m := range members { // before the time runs, because the user may be asked
		if _, known := s.named[m.Target]; known || !strings.HasPrefix(m.Target, "@") {
			continue
		}
		var at namedTarget
		if at.target, err = s.app.named(ctx, &s.reach, m.Target); err != nil {
			return err
		}
		at.entry, s.reach.entry = s.reach.entry, nil
		s.named[m.Target] = at
	}
	if s.reach.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.reach.timeout)
		defer cancel()
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards rows and first
		rows  []teamRow
		first error
		slots = make(chan struct{}, maxSurveys)
	)
	for _, names := range groupMembers(members) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found, err := s.listMembers(ctx, members, names)
			mu.Lock()
			defer mu.Unlock()
			rows, first = append(rows, found...), cmp.Or(first, err)
		})
	}
	wg.Wait()
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return &shownError{"cancelled", errInterrupted}
	}
	slices.SortStableFunc(rows, func(a, b teamRow) int { return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Agent, b.Agent)) })
	if err := s.printTeam(ctx, rows); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Error != "" {
			s.screen.line("parley: " + visible(r.Member, 60) + ": " + visible(r.Error, 400))
		}
	}
	if first != nil {
		return &silentError{cmp.Or(agentExit(first), exitAway)}
	}
	return nil
}

// groupMembers returns the names of the members by address: each program is a group of its own.
func groupMembers(members map[string]orchestrator.Member) [][]string {
	at := map[string]int{}
	var groups [][]string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		key := strings.Join([]string{m.Target, m.Protocol, m.Token, string(rawOf(m.Headers))}, "\x00")
		if i, shared := at[key]; shared && m.Target != "" {
			groups[i] = append(groups[i], name)
			continue
		}
		at[key] = len(groups)
		groups = append(groups, []string{name})
	}
	return groups
}

// listMembers queries the members at one address.
func (s *survey) listMembers(ctx context.Context, members map[string]orchestrator.Member, names []string) ([]teamRow, error) {
	m := members[names[0]]
	own := *s
	own.forced, own.brief = m.Protocol, true
	own.tracer = s.tracer.again()
	err := own.aim(m)
	var c *catalog
	if err == nil {
		var wanted []string
		for _, name := range names {
			wanted = append(wanted, members[name].Agent)
		}
		c, err = own.query(ctx, wanted)
	}
	var rows []teamRow
	for _, name := range names {
		row := teamRow{Member: name, Protocol: m.Protocol, Agent: members[name].Agent, Skills: []string{}, RoundTrips: int(own.tracer.trips.Load()), Target: own.shown(m)}
		if err != nil {
			if isUnreachable(err) {
				err, row.RoundTrips = own.unreachable(err), 0
			}
			row.Error = s.reason(ctx, err)
			rows = append(rows, row)
			continue
		}
		before := len(rows)
		rows = append(rows, rowsOf(row, c)...)
		if len(rows) == before {
			row.Error = "the server has no agent " + row.Agent
			err = cmp.Or(err, errNothing)
			rows = append(rows, row)
		}
	}
	return rows, err
}

// reason returns the reason of a failed query.
func (s *survey) reason(ctx context.Context, err error) string {
	if isLate(err) || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return "no response within " + s.reach.timeout.String() + " (--timeout)"
	}
	return s.app.secrets.Address(inOneLine(err.Error()))
}

// shown returns the address of a member for display.
func (s *survey) shown(m orchestrator.Member) string {
	if m.Target != "" {
		return m.Target // as written, so without expanded secrets
	}
	return "-- " + strings.Join(m.Command, " ")
}

// A namedTarget is what a name stands for.
type namedTarget struct {
	target parley.Target
	entry  *config.Entry
}

// aim sets target and credentials to those of a member. Variables are expanded as in a run.
func (s *survey) aim(m orchestrator.Member) error {
	var failed error
	expand := func(text string) string {
		value, secrets, err := config.Expand(text, nil)
		s.app.hide(secrets...)
		failed = cmp.Or(failed, err)
		return value
	}
	if len(m.Command) > 0 {
		var env []string
		for _, pair := range m.Env {
			env = append(env, expand(pair))
		}
		s.target = parley.Command(m.Command...)
		s.target.Env, _ = stdio.CleanEnv(env...)
		return failed
	}
	at, named := s.named[m.Target]
	address := m.Target
	if !named {
		address = expand(address)
	}
	if m.Token != "" {
		s.reach.token, s.reach.tokenFile = expand(m.Token), ""
		s.app.hide(s.reach.token)
	}
	for name, value := range m.Headers {
		s.reach.header = append(slices.Clip(s.reach.header), name+": "+expand(value))
	}
	if failed != nil || named {
		s.target, s.reach.entry = at.target, at.entry
		return failed
	}
	var err error
	s.target, err = parley.ParseTarget(address)
	return err
}

// query reads the catalog of an address. If all members name an agent of ACP, these are requested
// in one batch.
func (s *survey) query(ctx context.Context, wanted []string) (*catalog, error) {
	named := !slices.Contains(wanted, "") && s.forced == config.ACP
	if !named || isHTTP(s.target) && !strings.HasSuffix(strings.TrimSuffix(s.target.Path, "/"), "/rpc") {
		// REST has no batches: one list is the smallest number of requests.
		c, err := finders[s.forced](s, ctx)
		if status, ok := errors.AsType[*httprpc.StatusError](err); !ok || status.Status != 404 || !isHTTP(s.target) || s.forced != config.ACP {
			return c, err
		}
	}
	slices.Sort(wanted)
	c := &catalog{Protocol: config.ACP}
	err := s.agents(ctx, func(ctx context.Context, v *agentCommand) error {
		if isHTTP(v.target) {
			v.binding = "rpc"
		}
		return v.connectACP(ctx)
	}, func(ctx context.Context, v *agentCommand) error {
		v.words = slices.Compact(slices.DeleteFunc(wanted, func(name string) bool { return name == "" }))
		all, missing := v.manifests(ctx)
		if len(all) == 0 && missing != nil {
			return missing
		}
		for i := range all {
			c.Entries = append(c.Entries, entryOfManifest(&all[i]))
		}
		return nil
	})
	return c, err
}

// rowsOf returns the rows of a member: one for each agent that it may use.
func rowsOf(row teamRow, c *catalog) []teamRow {
	if c.Protocol != config.ACP {
		if row.Agent == "" || c.Protocol == config.A2A || c.Protocol == config.Editor {
			row.Agent = c.Name
		}
		for _, e := range c.Entries {
			if e.Kind == kindSkill || e.Kind == kindMethod || e.Kind == kindTool {
				row.Skills = append(row.Skills, e.Name)
			}
		}
		if c.Protocol == config.MCP && row.Agent != c.Name { // the member is one tool
			if !slices.Contains(row.Skills, row.Agent) {
				return nil
			}
			row.Skills = []string{row.Agent}
		}
		return []teamRow{row}
	}
	var rows []teamRow
	for _, e := range c.Entries {
		if row.Agent != "" && e.Name != row.Agent {
			continue
		}
		one := row
		one.Agent, one.Skills = e.Name, e.skills
		if one.Skills == nil {
			one.Skills = []string{}
		}
		rows = append(rows, one)
	}
	return rows
}

// printTeam prints the rows of a team, as text in a table.
func (s *survey) printTeam(ctx context.Context, rows []teamRow) error {
	if f := s.printer.format; f != formText && f != "table" {
		return s.printer.print(ctx, rawOf(rows))
	}
	return s.printer.rows(6, []string{"MEMBER", "PROTOCOL", "AGENT", "SKILLS", "ROUND TRIPS", "TARGET"}, func(row func([]string)) {
		for _, r := range rows {
			skills := visible(strings.Join(r.Skills, ", "), maxAbout)
			if r.Error != "" {
				skills = "(" + visible(r.Error, maxAbout-2) + ")"
			}
			row([]string{visible(r.Member, 40), r.Protocol, visible(r.Agent, 40), skills, trips(r.RoundTrips), visible(r.Target, 80)})
		}
	})
}

func trips(n int) string { return countOf(n, "request") }
