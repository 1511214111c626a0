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
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Worker is a member of a team that can be reached: agents, tools or methods.
type Worker struct {
	// Agents are asked by steps with agent and skill. By steps with tool they are asked with arguments, as JSON, and the tool's
	// name: package agent/mcpagent makes agents of tools.
	Agents *agent.Client
	Agent  string // which of them; empty where there is only one, or any

	// Named asks about agents by their names, in as few round trips as the protocol has; cards of others are not looked at. An
	// error does not keep it from returning what it found. Nil: all are asked for. Members with the same Agents share it.
	Named func(ctx context.Context, names ...string) ([]agent.Card, error)

	// Peer is asked by steps with call.
	Peer jsonrpc.Peer

	// Close gives up what stands behind it. Nil: nothing does.
	Close func() error

	way *way // of Peer, if Dial made it
}

// A Team is who works on plans, by name. The zero Team is empty. It is safe for concurrent use.
type Team struct {
	mu      sync.Mutex // guards what follows
	workers map[string]*Worker
	cards   map[string][]agent.Card // nil: not asked yet
	turn    map[string]int          // by skill
}

// Add makes a worker a member. It panics if the name is taken, or none.
func (t *Team) Add(name string, w *Worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isName(name) {
		panic(fmt.Sprintf("orchestrator: %q is no name", name))
	}
	if t.workers[name] != nil {
		panic(fmt.Sprintf("orchestrator: there are two members %q", name))
	}
	if t.workers == nil {
		t.workers = map[string]*Worker{}
	}
	t.workers[name] = w
	t.cards = nil
}

// Names returns the members in order.
func (t *Team) Names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.workers))
}

// Worker returns a member, or nil: to make it one of another team too, for as long as this one is open.
func (t *Team) Worker(name string) *Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.workers[name]
}

// Close gives up all members, at the same time.
func (t *Team) Close() error {
	t.mu.Lock()
	workers := slices.Collect(maps.Values(t.workers))
	t.workers, t.cards = nil, nil
	t.mu.Unlock()
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		if w.Close != nil {
			wg.Go(func() { errs[i] = w.Close() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// surveyTime is how long a member has to say what it can do.
const surveyTime = 10 * time.Second

// Survey asks all members at once what agents they are, and returns their cards by the member's name. Members that share a
// client are asked together: those who name their agents in one batch where the protocol has that, or at the same time with
// a call for each if the peer refuses batches, which is remembered; and by one list if one of them names none. Who does not answer
// within 10 s is in the error, and the others in the result all the same.
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

// agentsOf returns the agents that members with one client name, each once, and how to ask about them; nil if one names none.
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

// withSkill returns who declares a skill, by its id, its name or a tag.
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

// choose returns one of those who declare a skill; they take turns.
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

// errStuck says that a function does not return.
var errStuck = errors.New("it does not stop")

// within calls f, and does not wait for it for longer than grace after ctx has ended. f then goes on for nobody.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := f()
		done <- outcome{v, err}
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
