package orchestrator

import (
	"fmt"
	"sync/atomic"
)

// Bounds limits what one run may use, counted over all its steps, maps and loops. In each field
// zero means the default and a negative value means no bound. A run that reaches a bound ends as
// Failed with [KindBounds], and its running steps are cancelled.
type Bounds struct {
	// Steps counts the started steps, including each value of a map and each round of a loop. The
	// default is 100,000.
	Steps  int64
	Calls  int64 // calls of members and questions, counting each try; default 50,000
	Events int64 // events, including output and progress of agents; default 1,000,000
	Bytes  int64 // bytes of output of all steps; default 64 MiB
}

// KindBounds is the Kind of the [StepError] of a run that reached one of its [Bounds].
const KindBounds = "bounds"

// A spending counts what a run has used of its bounds.
type spending struct {
	bounds                      Bounds
	steps, calls, events, bytes atomic.Int64
}

func (s *spending) init(b Bounds) {
	set := func(field *int64, standard int64) {
		switch {
		case *field == 0:
			*field = standard
		case *field < 0:
			*field = 1<<63 - 1
		}
	}
	set(&b.Steps, 100_000)
	set(&b.Calls, 50_000)
	set(&b.Events, 1_000_000)
	set(&b.Bytes, 64<<20)
	s.bounds = b
}

// spend adds n to a counter. If that exceeds the bound, it ends the run.
func (x *run) spend(used *atomic.Int64, n, most int64, what string) error {
	if used.Add(n) <= most {
		return nil
	}
	used.Add(-n) // later calls get the same error
	err := &StepError{Kind: KindBounds, Text: fmt.Sprintf("a run can have at most %d %s", most, what)}
	x.cancel(err)
	return err
}

func (x *run) spendSteps(n int64) error {
	return x.spend(&x.spent.steps, n, x.spent.bounds.Steps, "steps")
}

func (x *run) spendCall() error {
	return x.spend(&x.spent.calls, 1, x.spent.bounds.Calls, "calls")
}

func (x *run) spendEvent() error {
	return x.spend(&x.spent.events, 1, x.spent.bounds.Events, "events")
}

func (x *run) spendOutput(parts []AgentPart) error {
	n := int64(0)
	for i := range parts {
		n += 64 + int64(len(parts[i].Text)+len(parts[i].JSON)+len(parts[i].Data)+len(parts[i].URL))
	}
	return x.spend(&x.spent.bytes, n, x.spent.bounds.Bytes, "bytes of output")
}
