package jsonrpc

import (
	"sync"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// A Gate bounds the requests that run at once in all connections that share it. The zero Gate, and
// nil, have no bound.
//
// A Conn, or the caller that an [Exchange] names, gets at most a quarter of the places while others
// are rejected, and the last eighth of the places is reserved for callers that have no running
// request. A Gate must not be copied after its first use.
type Gate struct {
	// Max bounds the concurrent requests. Requests above it get -31001. Zero means no bound. Max
	// must not change after the first use.
	Max int64

	once sync.Once
	pool budget.Pool

	mu     sync.Mutex // guards the fields below
	guests map[string]*guest
}

// A guest is one caller without a Conn that has running requests.
type guest struct {
	account budget.Account
	from    string
	uses    int // guarded by the Gate's mu
}

// A place is one running request's share of a Gate. The zero place holds nothing.
type place struct {
	gate  *Gate
	conn  *budget.Account // of a Conn
	guest *guest
}

// enter takes a place for a request of x, and reports whether there was one.
func (g *Gate) enter(x *Exchange) (place, bool) {
	if g == nil || g.Max <= 0 {
		return place{}, true
	}
	g.once.Do(func() { g.pool.Max = g.Max })
	p := place{gate: g}
	switch {
	case x.lane != nil:
		p.conn = x.lane.atGate(&g.pool)
	case x.From != "":
		p.guest = g.welcome(x.From)
	}
	if p.take() {
		return p, true
	}
	p.forget()
	return place{}, false
}

func (p *place) account() *budget.Account {
	if p.guest != nil {
		return &p.guest.account
	}
	return p.conn
}

func (p *place) take() bool {
	if a := p.account(); a != nil {
		return a.Take(1)
	}
	return p.gate.pool.Take(1)
}

// pause releases the place for a while. resume takes it again without checking the bound.
func (p *place) pause() {
	if p == nil || p.gate == nil {
		return
	}
	if a := p.account(); a != nil {
		a.Give(1)
	} else {
		p.gate.pool.Give(1)
	}
}

func (p *place) resume() {
	if p == nil || p.gate == nil {
		return
	}
	if a := p.account(); a != nil {
		a.Force(1)
	} else {
		p.gate.pool.Force(1)
	}
}

// enterGate takes a place for the request of j, and reports whether there was one. leaveGate
// releases it.
func (a *Answerer) enterGate(j *job) (ok bool) {
	if j.place, ok = a.Gate.enter(j.origin.x); !ok {
		return false
	}
	j.run.mu.Lock()
	j.run.place = &j.place
	j.run.mu.Unlock()
	return true
}

func (j *job) leaveGate() {
	j.run.mu.Lock()
	defer j.run.mu.Unlock()
	j.run.place = nil // a call that outlives the handler neither releases nor takes a place
	if j.run.waits.Load() == 0 {
		j.place.pause()
	}
	j.place.forget()
	j.place = place{}
}

func (g *Gate) welcome(from string) *guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.guests[from]
	if w == nil {
		if g.guests == nil {
			g.guests = make(map[string]*guest)
		}
		w = &guest{from: from}
		w.account.Pool = &g.pool
		g.guests[from] = w
	}
	w.uses++
	return w
}

// forget releases the guest.
func (p *place) forget() {
	if p.guest == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.guest.uses--; p.guest.uses == 0 {
		delete(p.gate.guests, p.guest.from)
	}
}
