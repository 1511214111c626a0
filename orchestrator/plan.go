package orchestrator

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Plan is work for a team: steps that are done one after the other, some of which hold others. Read one with [ParsePlan], or
// make it in Go and let [Plan.Check] look at it.
//
// Texts are templates: {{ draft.text }} is the text that the step draft ended with. docs/plans.md describes all of it.
type Plan struct {
	Name        string
	Description string
	Input       []Input           // what a run is given, by name
	Deadline    time.Duration     // for the whole run; 10 min. Negative: none. Waiting for a person does not count
	Team        map[string]Member // who takes part; a [Team] may have more
	Steps       []Step
	Output      string // a template: what comes of the run. Empty means the text of the last step

	positions map[string]Position // of what was read, by path, such as steps[0].prompt
	file      string
}

// An Input is something that a run is given.
type Input struct {
	Name        string
	Description string
	Required    bool
	Default     any // a JSON value
}

// A Member says where somebody of the team is.
type Member struct {
	Target   string   // an address, such as http://127.0.0.1:3000/acp
	Command  []string // or a program to start, spoken to over its stdin and stdout
	Protocol string   // acp, a2a, editor, mcp or jsonrpc
	Agent    string   // its name there; empty where there is only one, or any
	Env      []string // more environment for Command, as NAME=value
}

// A Step is one thing to do. Exactly one of Agent, Skill, Tool, Call, Ask, Steps, Parallel, Map, Route and Loop says what.
type Step struct {
	ID string // names the result for later steps: a letter or _, then letters, digits, _ or -. Empty: nobody can use the result

	When       string        // an expression; the step is skipped if it is not true
	Timeout    time.Duration // for the step and all in it; 0: what is left to the one around it. Waiting for a person does not count
	Optional   bool          // the steps behind it go on if it fails
	Idempotent bool          // doing it twice does no harm, so that it may be tried again
	Retries    int           // how often it is tried again, up to 10; only if Idempotent

	// An agent of the team, or whoever declares a skill, gets a prompt and answers.
	Agent   string
	Skill   string
	Prompt  string // a template
	Session string // steps with the same word talk to the same agent in one conversation

	// A tool of an MCP server, as member/tool, or a JSON-RPC method, as member/method.
	Tool string
	Call string
	Args any // a JSON value in which texts are templates; nil: none

	// A question to a person: a template, and answers to choose from; none: any text.
	Ask     string
	Options []string

	// Steps, one after the other. What one yields is known to those behind it.
	Steps []Step

	// Branches that run at the same time. One that uses the result of another waits for it.
	Parallel []Step
	After    []string // in a branch: others it waits for without using what they yield
	Join     Join     // when Parallel or Map is done; "all"
	Agree    bool     // with a quorum: so many must say the same, but for white space at the ends

	// Do, once for each value of a list, a few at a time.
	Map   string // a template that is a list
	As    string // the name of the value; "item"
	Limit int    // how many at a time; 4, up to 64
	Do    []Step

	// The case whose name is what the template says.
	Route string
	Cases map[string][]Step
	Else  []Step // nil: a case that is not there is an error

	// Steps that are repeated until an expression is true, Times times at most; then that is an error, unless Until is empty.
	Loop  []Step
	Times int // up to 1,000
	Until string
}

// A Join says when branches that run at the same time are done. The others are then cancelled, and what is done keeps its result.
type Join string

const (
	JoinAll     Join = "all"     // when all are; the first that fails is the end of the others
	JoinAny     Join = "any"     // when one is
	JoinCollect Join = "collect" // when each has ended, whichever way
)

// Quorum is the join that is done when n branches are, and fails as soon as so many cannot be any more.
func Quorum(n int) Join { return Join("quorum " + strconv.Itoa(n)) }

// parse returns the kind and the number of a join.
func (j Join) parse() (kind Join, n int, err error) {
	switch j {
	case "", JoinAll:
		return JoinAll, 0, nil
	case JoinAny, JoinCollect:
		return j, 1, nil
	}
	if rest, ok := strings.CutPrefix(string(j), "quorum"); ok {
		if n, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil && n > 0 {
			return joinQuorum, n, nil
		}
	}
	return "", 0, fmt.Errorf("%q is no join: there are all, any, collect and quorum N", clip(string(j)))
}

const joinQuorum Join = "quorum"

// Bounds of a plan.
const (
	maxPlan     = 256 << 10 // bytes of a plan file
	maxSteps    = 1000
	maxNesting  = 32
	maxBranches = 256
	maxTimes    = 1000
	maxItems    = 10_000
	maxLimit    = 64
	maxRetries  = 10

	defaultLimit    = 4
	defaultDeadline = 10 * time.Minute
)

// A Position is a place in a plan file. Both count from 1; 0 is not known, as in plans from Go.
type Position struct {
	Line, Column int
}

// A Problem is one thing that is wrong with a plan.
type Problem struct {
	Position
	Path string // such as steps[0].prompt
	Text string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.Path + ": " + p.Text
	}
	return fmt.Sprintf("%d:%d: %s: %s", p.Line, p.Column, p.Path, p.Text)
}

// A PlanError says why a plan is refused. Nothing of it was begun.
type PlanError struct {
	File     string
	Problems []Problem // in the order of the file; at most 50
}

func (e *PlanError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		if e.File != "" {
			b.WriteString(e.File + ":")
		}
		b.WriteString(p.String())
	}
	return b.String()
}

const maxProblems = 50

// what says which kind a step is; "" for none, or for more than one.
func (s *Step) what() string {
	kinds := s.kinds()
	if len(kinds) != 1 {
		return ""
	}
	return kinds[0]
}

// The kinds of steps, by their key.
const (
	stepAgent    = "agent"
	stepSkill    = "skill"
	stepTool     = "tool"
	stepCall     = "call"
	stepAsk      = "ask"
	stepSteps    = "steps"
	stepParallel = "parallel"
	stepMap      = "map"
	stepRoute    = "route"
	stepLoop     = "loop"
)

func (s *Step) kinds() (kinds []string) {
	for _, k := range []struct {
		name string
		set  bool
	}{
		{stepAgent, s.Agent != ""}, {stepSkill, s.Skill != ""}, {stepTool, s.Tool != ""}, {stepCall, s.Call != ""}, {stepAsk, s.Ask != ""},
		{stepSteps, s.Steps != nil}, {stepParallel, s.Parallel != nil}, {stepMap, s.Map != ""}, {stepRoute, s.Route != ""}, {stepLoop, s.Loop != nil},
	} {
		if k.set {
			kinds = append(kinds, k.name)
		}
	}
	return kinds
}
