package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Worker is a reachable member of a team: agents, tools or methods.
type Worker struct {
	// Agents is called by steps with agent and skill. Steps with tool call it with the tool's name
	// and JSON arguments: package agent/mcpagent turns tools into agents.
	Agents *agent.Client
	Agent  string // the agent to use; empty if there is only one, or if any will do

	// Named returns the cards of the named agents, in as few round trips as the protocol allows,
	// without fetching other cards. It may return cards together with an error. If nil, all cards
	// are listed. Members with the same Agents share one Named.
	Named func(ctx context.Context, names ...string) ([]agent.Card, error)

	// Peer is called by steps with call.
	Peer jsonrpc.Peer

	// Close releases the connection. If nil, there is nothing to release.
	Close func() error

	way *way // of Peer, if it was made by Dial
}

// A Team holds the members that execute plans, by name. The zero Team is empty. It is safe for
// concurrent use.
type Team struct {
	mu      sync.Mutex // guards the fields below
	workers map[string]*Worker
	cards   map[string][]agent.Card // nil until listed
	turn    map[string]int          // the next candidate by skill
}

// Add adds a member. It panics if the name is empty or in use.
func (t *Team) Add(name string, w *Worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isName(name) {
		panic(fmt.Sprintf("orchestrator: %q is not a valid name", name))
	}
	if t.workers[name] != nil {
		panic(fmt.Sprintf("orchestrator: duplicate member %q", name))
	}
	if t.workers == nil {
		t.workers = map[string]*Worker{}
	}
	t.workers[name] = w
	t.cards = nil
}

// Names returns the sorted names of the members.
func (t *Team) Names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.workers))
}

// Worker returns a member, or nil if the name is unknown. It may be added to another team while
// this team is open.
func (t *Team) Worker(name string) *Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.workers[name]
}

// Close closes all members concurrently.
func (t *Team) Close() error {
	t.mu.Lock()
	workers := slices.Collect(maps.Values(t.workers))
	t.workers, t.cards = nil, nil
	t.mu.Unlock()
	ends := make(chan error, len(workers))
	open := 0
	for _, w := range workers {
		if w.Close != nil {
			open++
			go func() { ends <- rescue.Call(nil, w.Close) }()
		}
	}
	late := time.NewTimer(closeTime)
	defer late.Stop()
	var errs []error
	for range open {
		select {
		case err := <-ends:
			errs = append(errs, err)
		case <-late.C:
			return errors.Join(append(errs, fmt.Errorf("orchestrator: close a member: %w", errStuck))...)
		}
	}
	return errors.Join(errs...)
}

// closeTime bounds Close of a Team: the longest member is a program, which gets 12 s to end.
const closeTime = 15 * time.Second

// surveyTime bounds how long a member may take to list its agents.
const surveyTime = 10 * time.Second

// Survey requests the agent cards of all members at once and returns them by member name. Members
// that share a client are queried together: by one batch for the agents they name, if the protocol
// has batches; by concurrent calls if the peer refuses batches, which is remembered; or by one list
// request if a member names no agent. A member that does not respond within 10 s is in the error;
// the result still contains the others.
func (t *Team) Survey(ctx context.Context) (map[string][]agent.Card, error) {
	t.mu.Lock()
	byClient := map[*agent.Client][]string{}
	for name, w := range t.workers {
		if w.Agents != nil {
			byClient[w.Agents] = append(byClient[w.Agents], name)
		}
	}
	workers := maps.Clone(t.workers)
	t.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		errs  []error
		cards = map[string][]agent.Card{}
	)
	for client, names := range byClient {
		wg.Go(func() {
			slices.Sort(names)
			ask := client.Agents
			if wanted, named := agentsOf(workers, names); named != nil {
				ask = func(ctx context.Context) ([]agent.Card, error) { return named(ctx, wanted...) }
			}
			found, err := within(ctx, func() ([]agent.Card, error) { return ask(ctx) })
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", strings.Join(names, ", "), err))
			}
			for _, name := range names {
				only := workers[name].Agent
				for _, card := range found {
					if only == "" || card.Name == only {
						cards[name] = append(cards[name], card)
					}
				}
			}
		})
	}
	wg.Wait()
	t.mu.Lock()
	t.cards = cards
	t.mu.Unlock()
	return maps.Clone(cards), errors.Join(errs...)
}

// agentsOf returns the distinct agents that members with one client name, and the function to query
// them. It returns nil if a member names none.
func agentsOf(workers map[string]*Worker, members []string) (names []string, named func(context.Context, ...string) ([]agent.Card, error)) {
	for _, member := range members {
		w := workers[member]
		if w.Agent == "" || w.Named == nil {
			return nil, nil
		}
		names, named = append(names, w.Agent), w.Named
	}
	slices.Sort(names)
	return slices.Compact(names), named
}

// A candidate is an agent that declares a skill.
type candidate struct {
	member string
	agent  string
}

// withSkill returns the agents that declare a skill, matched by ID, name or tag.
func (t *Team) withSkill(skill string) (found []candidate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, member := range slices.Sorted(maps.Keys(t.cards)) {
		for _, card := range t.cards[member] {
			if slices.ContainsFunc(card.Skills, func(s agent.Skill) bool {
				return strings.EqualFold(s.ID, skill) || strings.EqualFold(s.Name, skill) ||
					slices.ContainsFunc(s.Tags, func(tag string) bool { return strings.EqualFold(tag, skill) })
			}) {
				found = append(found, candidate{member, card.Name})
			}
		}
	}
	return found
}

// choose returns an agent that declares a skill, in turn.
func (t *Team) choose(skill string) (candidate, bool) {
	found := t.withSkill(skill)
	if len(found) == 0 {
		return candidate{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == nil {
		t.turn = map[string]int{}
	}
	n := t.turn[skill]
	t.turn[skill] = n + 1
	return found[n%len(found)], true
}

// errStuck reports that a function does not return.
var errStuck = errors.New("it does not stop")

// within calls f and stops waiting for it when grace has passed after ctx ended. f then continues
// in the background and its result is dropped.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		o.err = rescue.Call(nil, func() (err error) {
			o.v, err = f()
			return err
		})
		done <- o
	}()
	select {
	case o := <-done:
		return o.v, o.err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case o := <-done:
		return o.v, o.err
	case <-late.C:
		var none T
		return none, errStuck
	}
}
