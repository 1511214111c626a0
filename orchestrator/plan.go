package orchestrator

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/expr"
)

// A Plan is a sequence of steps for a team; steps may contain other steps. Parse one with
// [ParsePlan], or build it in Go and check it with [Plan.Check].
//
// Texts are templates: {{ draft.text }} is the text of the result of the step draft. docs/plans.md
// is the full reference.
type Plan struct {
	Name        string
	Description string
	Input       []Input // the inputs of a run
	// Deadline bounds the whole run without waits for the user. Zero means 10 min, a negative value
	// means no bound.
	Deadline time.Duration
	Team     map[string]Member // the members; a [Team] may have more
	Steps    []Step
	Output   string // a template: the result of the run. If empty, the text of the last step

	positions map[string]Position // of parsed plans, by path such as steps[0].prompt
	file      string
}

// An Input is a named input of a plan.
type Input struct {
	Name        string
	Description string
	Required    bool
	Default     any // a JSON value
}

// A Member describes how to reach a member of the team.
type Member struct {
	Target   string   // an address, such as http://127.0.0.1:3000/acp, or a name, such as @notes
	Command  []string // or a program to start, connected over its stdin and stdout
	Protocol string   // acp, a2a, editor, mcp or jsonrpc
	Agent    string   // the agent's name there; empty if there is only one, or if any will do
	Env      []string // additional environment of Command, as NAME=value
	Dir      string   // the working directory of Command; if empty, [DialOptions] Dir

	// Token is the bearer token for Target, and Headers are additional headers for it (HTTP and
	// WebSocket); they are sent to no other member. They replace those of [DialOptions.Dialer]. In
	// a plan file, Target, Token, Headers and Env may contain variables such as ${NAME}, which
	// [Dial] expands: see [config.Expand]. Values set in Go are used unchanged.
	Token   string
	Headers map[string]string

	from *source // nil if made in Go
}

// A Step is one step of a plan. Exactly one of Agent, Skill, Tool, Call, Ask, Steps, Parallel, Map,
// Route and Loop must be set.
type Step struct {
	// ID names the result for later steps: a letter or _, then letters, digits, _ or -. If empty,
	// later steps cannot use the result.
	ID string

	When string // an expression; the step is skipped unless it is true
	// Timeout bounds the step and all steps in it, without waits for the user. Zero means the
	// remaining time of its parent.
	Timeout    time.Duration
	Optional   bool // if the step fails, later steps still run
	Idempotent bool // running the step twice is harmless, so it may be retried
	Retries    int  // the number of retries, up to 10; requires Idempotent

	// Agent, or a member that declares Skill, is called with Prompt.
	Agent   string
	Skill   string
	Prompt  string // a template
	Session string // steps with the same Session and the same Agent or Skill share one conversation

	// Tool calls a tool of an MCP server, as member/tool. Call calls a JSON-RPC method, as
	// member/method.
	Tool string
	Call string
	Args any // a JSON value whose strings are templates; nil for none

	// Ask, a template, is a question to the user; Options are the answers to choose from. Without
	// Options, any text is an answer.
	Ask     string
	Options []string

	// Steps run in order. Each can use the results of the steps before it.
	Steps []Step

	// Parallel holds branches that run at the same time. A branch that uses the result of another
	// waits for it.
	Parallel []Step
	After    []string // in a branch: other branches to wait for without using their results
	Join     Join     // when Parallel or Map is done; default "all"
	// Agree, with a quorum, requires that many equal texts, ignoring white space at the ends.
	Agree bool

	// Map runs Do once for each value of a list, up to Limit at a time.
	Map   string // a template that evaluates to a list
	As    string // the name of the value; default "item"
	Limit int    // how many run at a time; default 4, at most 64
	Do    []Step

	// Route runs the case whose name equals the evaluated template.
	Route string
	Cases map[string][]Step
	Else  []Step // if nil, an unknown case is an error

	// Loop repeats steps until the expression Until is true, at most Times times. Reaching Times is
	// an error unless Until is empty.
	Loop  []Step
	Times int // at most 1,000
	Until string
}

// A Join determines when parallel branches are done. The remaining branches are then cancelled;
// finished branches keep their results.
type Join string

const (
	// JoinAll is done when all branches are OK or skipped. The first failure cancels the others.
	JoinAll     Join = "all"
	JoinAny     Join = "any"     // when one branch is OK
	JoinCollect Join = "collect" // when every branch has ended in any state
)

// Quorum returns the join that is done when n branches are OK. It fails as soon as n can no longer
// be reached.
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
	return "", 0, fmt.Errorf("unknown join %q: use all, any, collect or quorum N", expr.Clip(string(j)))
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

// A Position is a position in a plan file. Line and column count from 1; 0 means unknown, as in
// plans made in Go.
type Position struct {
	Line, Column int
}

// A Problem is one error in a plan.
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

// A PlanError reports why a plan was rejected. Nothing was started.
type PlanError struct {
	File     string
	Problems []Problem // in file order; at most 50
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

// what returns the kind of a step, or "" if it has none or several.
func (s *Step) what() string {
	kinds := s.kinds()
	if len(kinds) != 1 {
		return ""
	}
	return kinds[0]
}

// The kinds of steps, named after their keys.
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
