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

// treeEvery is the interval at which the tree is redrawn during a run.
const treeEvery = 120 * time.Millisecond

// A treePalette holds the colours of a tree. The zero palette uses no colours.
type treePalette struct{ name, ok, bad, busy, faint, end string }

var treeColours = treePalette{name: "\x1b[1m", ok: "\x1b[32m", bad: "\x1b[31m", busy: "\x1b[36m", faint: "\x1b[90m", end: "\x1b[0m"}

// A tree shows a run: a row for each step, below the step that contains it. On a terminal it is
// redrawn in place until the run ends; the last drawing remains. Its methods are safe for
// concurrent use.
type tree struct {
	w       io.Writer
	palette treePalette
	name    string // of the plan
	width   int    // in columns
	height  int    // in rows

	stop func() // stops the drawing goroutine and waits for it

	mu     sync.Mutex // guards the fields below
	root   node
	drawn  int  // rows currently on the screen
	paused bool // the user is typing
	began  time.Time
	tick   int
}

// A node is one step.
type node struct {
	id, path string
	kind     string // kind of the step
	about    string // details, such as quorum 2
	member   string
	state    orchestrator.State // empty if it has not started
	asking   bool
	try      int
	began    time.Time
	took     time.Duration
	note     string // its last output or its error
	steps    []*node
}

// newTree returns a tree with a row for each step that the plan defines statically.
func newTree(w io.Writer, plan *orchestrator.Plan) *tree {
	t := &tree{w: w, width: 80, height: 24, name: plan.Name}
	t.root.add(plan.Steps)
	return t
}

// add adds rows for steps. The steps of a map, a loop or a route are added when they start.
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

// find returns the row of a path. It creates missing rows on the way.
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

// placeOf returns the index of a new row among its siblings: at the end, but rounds and values are
// ordered by number.
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

// start draws the tree periodically until end is called.
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

// end draws the whole tree for the last time, from the report. report is nil if the run did not
// start.
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
	drawOn(t.w, b.Bytes())
}

// settle marks the steps that never started.
func (n *node) settle() {
	n.asking = false
	if n.state == "" && len(n.steps) == 0 {
		n.state = orchestrator.Skipped
	}
	for _, child := range n.steps {
		child.settle()
	}
}

// fill builds the tree from a report.
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

// reason returns why a step failed, without repeating the sign of its state.
func reason(r *orchestrator.Report) string {
	switch {
	case r.Error.Kind == orchestrator.KindSkipped, r.Error.Kind == orchestrator.KindCancelled, r.Error.Kind == orchestrator.KindTimeout:
		return r.Error.Text
	case r.Error.Step != "" && r.Error.Step != r.Path:
		return "because of " + r.Error.Step
	}
	return r.Error.Kind + ": " + r.Error.Text
}

// said returns the first line of parts, or a description of the first part without text, for a row.
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

// take applies an event of the run to the tree.
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
	drawOn(t.w, b.Bytes())
	if !t.paused {
		t.drawLocked()
	}
}

// pause removes the tree while the user types, until resume is called.
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
