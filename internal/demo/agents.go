package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/agent"
)

// The demo's agents. Each is written once with package agent and served in all protocols. No agent
// uses a model; each demonstrates one feature of agents.

// Bounds of one request.
const (
	maxStops   = 100
	maxPace    = 10 * time.Second
	wordPause  = 40 * time.Millisecond
	wordsTime  = 10 * time.Second // for all words together
	skillEntry = "skill"          // metadata of a request that names an agent
)

// Agents returns the demo's agents. version is the demo's version. report receives errors that are
// not sent to clients.
func Agents(version string, report func(what string, err error)) []*agent.Agent {
	all := []*agent.Agent{
		{Card: agent.Card{
			Name: "echo", Title: "Echo", Description: "Repeats the message, part by part, of any kind.",
			Input: []string{"*/*"}, Output: []string{"*/*"},
			Skills: []agent.Skill{{ID: "echo", Name: "Echo", Description: "Repeats the message.", Tags: []string{"demo"}, Examples: []string{"hello"}}},
		}, Run: echoBack},
		{Card: agent.Card{
			Name: "words", Title: "Words", Description: "Repeats the message word by word, to show a streamed answer.",
			Skills: []agent.Skill{{ID: "words", Name: "Stream words", Description: "Streams a text word by word.", Tags: []string{"demo", "streaming"}, Examples: []string{"one word after the other"}}},
		}, Run: sayWords},
		{Card: agent.Card{
			Name: "ask", Title: "Ask", Description: "Asks for your name before it answers.",
			Skills: []agent.Skill{{ID: "ask", Name: "Ask back", Description: "Asks a question before it answers.", Tags: []string{"demo", "question"}, Examples: []string{"good morning"}}},
		}, Run: askName},
		{Card: agent.Card{
			Name: "slow", Title: "Slow", Description: "Works for some seconds, reports progress, and can be cancelled. The text can set the duration: 20 steps of 200ms.",
			Skills: []agent.Skill{{ID: "slow", Name: "Take time", Description: "Works step by step with progress.", Tags: []string{"demo", "progress", "cancel"}, Examples: []string{"20 steps of 200ms"}}},
		}, Run: takeTime},
		{Card: agent.Card{
			Name: "scribe", Title: "Scribe", Description: "Streams a note about the message, and requests permission to save it as note.md: in an editor as a file, elsewhere as an artifact.",
			Output: []string{"text/plain", "text/markdown"},
			Skills: []agent.Skill{{ID: "scribe", Name: "Write a note", Description: "Drafts a note and requests permission to save it.", Tags: []string{"demo", "permission", "artifact"}, Examples: []string{"water the plants on Friday"}}},
		}, Run: writeNote},
		{Card: agent.Card{
			Name: "courier", Title: "Courier", Description: "Delivers the message from stop to stop. It takes long enough to leave and rejoin it. The text can set the duration: 5 stops of 1s.",
			Skills: []agent.Skill{{ID: "courier", Name: "Deliver", Description: "A long task to leave and rejoin.", Tags: []string{"demo", "long-running"}, Examples: []string{"a cake to the harbour, 5 stops of 1s"}}},
		}, Run: deliver},
	}
	for _, a := range all {
		a.Version, a.Report = version, report
	}
	return all
}

func echoBack(ctx context.Context, r *agent.Run) error {
	for _, p := range r.Parts() {
		if err := r.Emit(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func sayWords(ctx context.Context, r *agent.Run) error {
	return streamWords(ctx, r, r.Text())
}

// streamWords sends text word by word. If there are many words, the last ones are sent faster.
func streamWords(ctx context.Context, r *agent.Run, text string) error {
	words := strings.SplitAfter(text, " ")
	pause := min(wordPause, wordsTime/time.Duration(len(words)))
	for i, word := range words {
		if i > 0 {
			if err := waitFor(ctx, pause); err != nil {
				return err
			}
		}
		if word == "" {
			continue
		}
		if err := r.Say(ctx, word); err != nil {
			return err
		}
	}
	return nil
}

func askName(ctx context.Context, r *agent.Run) error {
	a, err := r.Ask(ctx, &agent.Question{Text: "What is your name?"})
	if err != nil {
		return err
	}
	name := strings.TrimSpace(a.Text())
	if a.Declined || name == "" {
		return r.Say(ctx, "Then I will call you friend. Your message: "+r.Text())
	}
	return r.Say(ctx, fmt.Sprintf("Hello %s! Your message: %s", name, r.Text()))
}

func takeTime(ctx context.Context, r *agent.Run) error {
	steps, pause := pace(r.Text(), 10, 500*time.Millisecond)
	for i := range steps {
		if err := r.Progress(ctx, agent.Progress{Message: fmt.Sprintf("step %d of %d", i+1, steps), Done: float64(i), Total: float64(steps)}); err != nil {
			return err
		}
		if err := waitFor(ctx, pause); err != nil {
			return err
		}
	}
	if err := r.Progress(ctx, agent.Progress{Message: "done", Done: float64(steps), Total: float64(steps)}); err != nil {
		return err
	}
	return r.Say(ctx, fmt.Sprintf("Done, after %d steps.", steps))
}

// pace returns the number of steps and the pause between them that a text requests: its first
// separate number, and its first duration.
func pace(text string, steps int, pause time.Duration) (int, time.Duration) {
	seenSteps, seenPause := false, false
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == ' ' || c == ',' || c == '\n' }) {
		if n, err := strconv.Atoi(word); err == nil && n > 0 && !seenSteps {
			steps, seenSteps = min(n, maxStops), true
		} else if d, err := time.ParseDuration(word); err == nil && d > 0 && !seenPause {
			pause, seenPause = min(d, maxPace), true
		}
	}
	return steps, pause
}

func deliver(ctx context.Context, r *agent.Run) error {
	stops, pause := pace(r.Text(), 10, time.Second)
	for i := range stops {
		if err := r.Progress(ctx, agent.Progress{Message: fmt.Sprintf("on the way to stop %d", i+1), Done: float64(i), Total: float64(stops)}); err != nil {
			return err
		}
		if err := waitFor(ctx, pause); err != nil {
			return err
		}
		if err := r.Say(ctx, fmt.Sprintf("Stop %d of %d: passed on.\n", i+1, stops)); err != nil {
			return err
		}
	}
	return r.Say(ctx, "Delivered: "+r.Text()+"\n")
}

// Front combines several agents into one, for protocols in which an address is one agent. The
// metadata "skill" of a request, or a slash and a name at the start of its text, selects the agent.
// All other requests go to first, which must be one of them.
func Front(version, first string, all []*agent.Agent) *agent.Agent {
	byName := make(map[string]*agent.Agent, len(all))
	card := agent.Card{
		Name: "parley-demo", Title: "Parley demo", Version: version,
		Description: "Small agents at one address. /words, /slow and so on at the start of a text select one, as does the metadata \"skill\"; " + first + " handles all other texts.",
		Input:       []string{"*/*"}, Output: []string{"*/*"},
	}
	for _, a := range all {
		byName[a.Name] = a
		skill := agent.Skill{ID: a.Name, Name: a.DisplayName(), Description: a.Description, Tags: []string{"demo"}}
		if len(a.Skills) > 0 {
			skill.Tags = a.Skills[0].Tags
			for _, example := range a.Skills[0].Examples {
				skill.Examples = append(skill.Examples, "/"+a.Name+" "+example)
			}
		}
		card.Skills = append(card.Skills, skill)
	}
	return &agent.Agent{Card: card, Run: func(ctx context.Context, r *agent.Run) error {
		return whoIsMeant(r, byName, first).Run(ctx, r)
	}, Report: byName[first].Report}
}

// whoIsMeant returns the selected agent, and removes its name from the text.
func whoIsMeant(r *agent.Run, byName map[string]*agent.Agent, first string) *agent.Agent {
	var name string
	if r.Metadata.Get(skillEntry, &name) && byName[name] != nil {
		return byName[name]
	}
	for i, m := range r.Input {
		if m.Role != agent.RoleUser || len(m.Parts) == 0 || !m.Parts[0].IsText() {
			continue
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(m.Parts[0].Text), " ")
		name, isCommand := strings.CutPrefix(word, "/")
		if !isCommand || byName[name] == nil {
			continue
		}
		r.Input = slices.Clone(r.Input)
		r.Input[i].Parts = slices.Clone(m.Parts)
		r.Input[i].Parts[0].Text = strings.TrimSpace(rest)
		return byName[name]
	}
	return byName[first]
}

// errTwice reports a duplicate name in --agent.
var errTwice = errors.New("duplicate agent name")

// AddAgent adds an agent to all.
func AddAgent(all []*agent.Agent, a *agent.Agent) ([]*agent.Agent, error) {
	if err := agent.CheckName(a.Name); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(o *agent.Agent) bool { return o.Name == a.Name }) {
		return nil, errTwice
	}
	return append(all, a), nil
}
