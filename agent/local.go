package agent

import (
	"context"
	"crypto/rand"
	"fmt"
)

// Local returns a client of agents in this process, which run on the caller's goroutine. It panics
// if two agents have the same name.
func Local(agents ...*Agent) *Client {
	l := &local{all: agents, byName: map[string]*Agent{}}
	for _, a := range agents {
		if l.byName[a.Name] != nil {
			panic("agent: duplicate agent name " + a.Name)
		}
		l.byName[a.Name] = a
	}
	return &Client{Link: l}
}

type local struct {
	all    []*Agent
	byName map[string]*Agent
}

func (l *local) Agents(context.Context) ([]Card, error) {
	cards := make([]Card, len(l.all))
	for i, a := range l.all {
		cards[i] = a.Card
	}
	return cards, nil
}

// Do calls the agent's function.
func (l *local) Do(ctx context.Context, req *Request, c Caller) (*Result, error) {
	a := l.byName[req.Agent]
	if req.Agent == "" && len(l.all) == 1 {
		a = l.all[0]
	}
	switch {
	case a == nil:
		return nil, fmt.Errorf("%w: %.64q", ErrUnknownAgent, req.Agent)
	case req.Run != "":
		return nil, ErrNoAttach
	}
	r := &Run{ID: rand.Text(), Session: req.Session, Protocol: "local", Input: req.Input, Metadata: req.Metadata, Caller: c}
	if r.Session == "" {
		r.Session = rand.Text()
	}
	if err := c.Tell(ctx, Event{Kind: EventStarted, ID: r.ID, Session: r.Session}); err != nil {
		return nil, err
	}
	ctx, done := cancels(ctx, func(error) bool { return true })
	defer done()
	return a.Execute(ctx, r), nil
}

func (l *local) Attach(context.Context, string, Caller) (*Result, error) { return nil, ErrNoAttach }

func (l *local) Close() error { return nil }
