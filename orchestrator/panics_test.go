package orchestrator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/agent"
)

// A brittle member panics.
type brittle struct{ away }

func (brittle) Do(context.Context, *agent.Request, agent.Caller) (*agent.Result, error) {
	panic("in a member")
}

// TestPanicsInARun: functions of the user that run on the goroutines of a run fail their step when
// they panic, and are reported with their stack. An OnEvent that panics changes nothing.
func TestPanicsInARun(t *testing.T) {
	team := new(Team)
	team.Add("a", &Worker{Agents: &agent.Client{Link: brittle{}}})
	team.Add("b", &Worker{Agents: agent.Local(&agent.Agent{Card: agent.Card{Name: "b"}, Run: echo}), Close: func() error { panic("in Close") }})
	var mu sync.Mutex
	var reports []string
	r := &Runner{
		Team:    team,
		OnEvent: func(Event) { panic("in OnEvent") },
		Ask:     func(context.Context, *Question) (*agent.Answer, error) { panic("in Ask") },
		Report: func(what string, err error) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, what+": "+err.Error())
		},
	}
	text := "steps: [{parallel: [{agent: a, prompt: x}, {ask: Really?}, {agent: b, prompt: fine}], join: collect}]"
	report, err := r.Run(t.Context(), plan(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := summary(report)
	if !strings.Contains(got, `"fine"`) || strings.Count(got, "failed (") < 2 {
		t.Errorf("the run: %s", got)
	}
	mu.Lock()
	all := strings.Join(reports, "\n")
	mu.Unlock()
	for _, want := range []string{"in a member", "in OnEvent", "in Ask", "panics_test.go"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not reported", want)
		}
	}
	if err := team.Close(); err == nil || !strings.Contains(err.Error(), "in Close") {
		t.Errorf("Close = %v", err)
	}
}

// TestATeamIsClosedInTime: a member whose Close does not return is left, and the error says so.
func TestATeamIsClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		team := new(Team)
		team.Add("a", &Worker{Close: func() error { <-release; return nil }})
		team.Add("b", &Worker{Close: func() error { return errors.New("of b") }})
		if err := team.Close(); !errors.Is(err, errStuck) || !strings.Contains(err.Error(), "of b") {
			t.Errorf("Close = %v", err)
		}
		close(release)
	})
}
