package main

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/orchestrator"
)

// treeEvery is how often the tree is drawn again while something runs.
const treeEvery = 120 * time.Millisecond

// A treePalette colours a tree. The zero one writes none.
type treePalette struct{ name, ok, bad, busy, faint, end string }

var treeColours = treePalette{name: "\x1b[1m", ok: "\x1b[32m", bad: "\x1b[31m", busy: "\x1b[36m", faint: "\x1b[90m", end: "\x1b[0m"}

// A tree shows a run: a row for each step, below the step that it is part of. On a terminal it is drawn again and again in place,
// until the run ends and it stays. Its methods are safe for concurrent use.
type tree struct {
	w       io.Writer
	palette treePalette
	name    string // of the plan
	width   int    // in columns
	height  int    // in rows

	stop func() // ends the goroutine that draws, and waits for it

	mu     sync.Mutex // guards what is below
	root   node
	drawn  int  // rows that stand on the screen
	paused bool // somebody types there
	began  time.Time
	tick   int
}

// A node is one step.
type node struct {
	id, path string
	kind     string // what the step is
	about    string // such as quorum 2
	member   string
	state    orchestrator.State // empty: not begun
	asking   bool
	try      int
	began    time.Time
	took     time.Duration
	note     string // what it said last, or what is wrong with it
	steps    []*node
}

// newTree makes a tree with a row for each step of the plan that is known to come.
func newTree(w io.Writer, plan *orchestrator.Plan) *tree {
	t := &tree{w: w, width: 80, height: 24, name: plan.Name}
	t.root.add(plan.Steps)
	return t
}

// add makes rows of steps that come. What is in a map, a loop or a route is not known yet.
func (n *node) add(steps []orchestrator.Step) {
	for i := range steps {
		s := &steps[i]
		id := orElse(s.ID, strconv.Itoa(i+1))
		child := &node{id: id, path: joinPath(n.path, id), kind: kindOfStep(s), member: s.Agent}
		switch {
		case s.Parallel != nil, s.Map != "":
			child.about = string(s.Join)
			if s.Join != "" && s.Join != orchestrator.JoinAll && s.Agree {
				child.about += ", agreeing"
			}
		case s.Skill != "":
			child.about = s.Skill
		case s.Tool+s.Call != "":
			member, name, _ := strings.Cut(s.Tool+s.Call, "/")
			child.member, child.about = member, name
		}
		child.add(s.Steps)
		child.add(s.Parallel)
		n.steps = append(n.steps, child)
	}
}

func joinPath(up, id string) string { return strings.TrimPrefix(up+"/"+id, "/") }

func kindOfStep(s *orchestrator.Step) string {
	switch {
	case s.Agent != "":
		return "agent"
	case s.Skill != "":
		return "skill"
	case s.Tool != "":
		return "tool"
	case s.Call != "":
		return "call"
	case s.Ask != "":
		return "ask"
	case s.Parallel != nil:
		return "parallel"
	case s.Map != "":
		return "map"
	case s.Route != "":
		return "route"
	case s.Loop != nil:
		return "loop"
	}
	return "steps"
}

// find returns the row of a path, and makes the rows that are missing on the way to it.
func (n *node) find(path string) *node {
	at := n
	for id := range strings.SplitSeq(path, "/") {
		next := (*node)(nil)
		for _, child := range at.steps {
			if child.id == id {
				next = child
			}
		}
		if next == nil {
			next = &node{id: id, path: joinPath(at.path, id)}
			at.steps = slices.Insert(at.steps, at.placeOf(id), next)
		}
		at = next
	}
	return at
}

// placeOf is where a row comes among those beside it: at the end, but rounds and values by their number.
func (n *node) placeOf(id string) int {
	number, err := strconv.Atoi(id)
	if err != nil {
		return len(n.steps)
	}
	at := len(n.steps)
	for at > 0 {
		before, err := strconv.Atoi(n.steps[at-1].id)
		if err != nil || before < number {
			break
		}
		at--
	}
	return at
}

// start draws the tree from now on, until end.
func (t *tree) start() {
	t.began = time.Now()
	quit, gone := make(chan struct{}), make(chan struct{})
	t.stop = sync.OnceFunc(func() { close(quit); <-gone })
	t.draw()
	go func() {
		defer close(gone)
		ticker := time.NewTicker(treeEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				t.draw()
			case <-quit:
				return
			}
		}
	}()
}

// end leaves the whole tree on the screen, as the report has it; nil says that nothing began.
func (t *tree) end(report *orchestrator.Report) {
	t.stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	if report == nil {
		t.wipeLocked()
		return
	}
	t.root = node{state: report.State, steps: t.root.steps, took: time.Duration(report.Ms) * time.Millisecond}
	t.root.settle()
	t.measure()
	var b bytes.Buffer
	t.appendWipeLocked(&b)
	t.drawn = 0
	b.WriteString(t.whole())
	_, _ = t.w.Write(b.Bytes()) // nobody may be looking
}

// settle marks what never began.
func (n *node) settle() {
	n.asking = false
	if n.state == "" && len(n.steps) == 0 {
		n.state = orchestrator.Skipped
	}
	for _, child := range n.steps {
		child.settle()
	}
}

// fill makes the tree of a report.
func (t *tree) fill(report *orchestrator.Report) {
	var add func(r *orchestrator.Report)
	add = func(r *orchestrator.Report) {
		if r.Path != "" {
			t.root.find(r.Path).take(r)
		}
		for _, s := range r.Steps {
			add(s)
		}
	}
	add(report)
	t.root.state, t.root.took = report.State, time.Duration(report.Ms)*time.Millisecond
}

// take fills a row from the report of its step.
func (n *node) take(r *orchestrator.Report) {
	n.state, n.asking = r.State, false
	n.kind, n.member = orElse(r.Kind, n.kind), orElse(r.Member, n.member)
	n.took = time.Duration(r.Ms) * time.Millisecond
	switch {
	case r.Error != nil && r.State != orchestrator.OK:
		n.note = reason(r)
	case len(r.Output) > 0:
		n.note = said(r.Output)
	}
}

// reason is why a step did not do what it should, without what the mark in front of it says already.
func reason(r *orchestrator.Report) string {
	switch {
	case r.Error.Kind == orchestrator.KindSkipped, r.Error.Kind == orchestrator.KindCancelled, r.Error.Kind == orchestrator.KindTimeout:
		return r.Error.Text
	case r.Error.Step != "" && r.Error.Step != r.Path:
		return "because of " + r.Error.Step
	}
	return r.Error.Kind + ": " + r.Error.Text
}

// said is the end of the first line that something has, for a row.
func said(parts []agent.Part) string {
	if text := firstLine(agent.TextOf(parts)); text != "" {
		return text
	}
	for _, p := range parts {
		switch {
		case p.JSON != nil:
			return string(p.JSON)
		case p.MediaType != "":
			return "[" + p.MediaType + "]"
		}
	}
	return ""
}

// take brings an event of the run into the tree.
func (t *tree) take(e orchestrator.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Path == "" {
		return
	}
	n := t.root.find(e.Path)
	switch e.Kind {
	case orchestrator.EventStarted:
		n.state, n.began, n.try, n.note = orchestrator.Running, time.Now(), e.Try, ""
		n.kind, n.member = orElse(e.Step, n.kind), orElse(e.Member, n.member)
	case orchestrator.EventOutput:
		n.note = orElse(said(e.Parts), n.note)
	case orchestrator.EventProgress:
		if e.Progress != nil {
			n.note = progressNote(e.Progress)
		}
	case orchestrator.EventQuestion:
		n.asking = true
		if e.Question != nil {
			n.note = firstLine(e.Question.Text)
		}
	case orchestrator.EventAnswered:
		n.asking, n.note = false, ""
	case orchestrator.EventRetry:
		if e.Error != nil {
			n.note = "again, since " + e.Error.Kind + ": " + e.Error.Text
		}
	case orchestrator.EventEnded:
		if e.Report != nil {
			n.take(e.Report)
		}
	}
}

func progressNote(p *agent.Progress) string {
	if p.Total > 0 || p.Done > 0 {
		return strings.TrimSpace(ratio(p.Done, p.Total) + "  " + p.Message)
	}
	return p.Message
}

// line writes a line above the tree.
func (t *tree) line(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b bytes.Buffer
	t.appendWipeLocked(&b)
	t.drawn = 0
	b.WriteString(text + "\n")
	_, _ = t.w.Write(b.Bytes()) // nobody may be looking
	if !t.paused {
		t.drawLocked()
	}
}

// pause takes the tree away, for somebody who types, until the function that it returns is called.
func (t *tree) pause() (resume func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipeLocked()
	t.paused = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.paused = false
		t.drawLocked()
	}
}
