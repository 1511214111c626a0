package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/orchestrator"
	"golang.org/x/term"
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

func (t *tree) wipeLocked() {
	var b bytes.Buffer
	t.appendWipeLocked(&b)
	t.drawn = 0
	_, _ = t.w.Write(b.Bytes()) // nobody may be looking
}

func (t *tree) appendWipeLocked(b *bytes.Buffer) {
	if t.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA\r\x1b[J", t.drawn)
	}
}

func (t *tree) draw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tick++
	if !t.paused {
		t.drawLocked()
	}
}

// drawLocked draws over what stands there, in one write, so that nothing flickers. Rows are cut, and not wrapped, by the terminal too.
func (t *tree) drawLocked() {
	t.measure()
	rows := t.fitting()
	var b bytes.Buffer
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", t.drawn)
	}
	b.WriteString("\x1b[?7l")
	for _, row := range rows {
		b.WriteString(row + "\x1b[K\n")
	}
	b.WriteString("\x1b[J\x1b[?7h")
	t.drawn = len(rows)
	_, _ = t.w.Write(b.Bytes()) // nobody may be looking
}

// measure looks how large the terminal is.
func (t *tree) measure() {
	if f, ok := t.w.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			t.width, t.height = width, height
		}
	}
}

// whole is all of the tree, a line per row.
func (t *tree) whole() string {
	var b strings.Builder
	for _, row := range t.rows(nil) {
		b.WriteString(row + "\n")
	}
	return b.String()
}

// fitting is as much of the tree as the terminal has room for: branches that are done are folded first, the longest ago in front,
// and if that is not enough the rows furthest from what runs are left out.
func (t *tree) fitting() []string {
	room := max(t.height-1, 3)
	folded := map[*node]bool{}
	t.root.fold(folded, 1+t.root.count()-room)
	rows := t.rows(folded)
	if len(rows) <= room {
		return rows
	}
	last := 0 // the last row of something that runs
	for i, row := range rows {
		if strings.Contains(row, t.spinner()) {
			last = i
		}
	}
	from := min(max(last-room/2, 0), len(rows)-room+1)
	if from <= 1 {
		return append(rows[:room-1:room-1], fmt.Sprintf("   … and %d more", len(rows)-room+1))
	}
	out := append([]string{rows[0], fmt.Sprintf("   … %d above", from)}, rows[from+1:]...)
	return out[:min(len(out), room)]
}

// shown is the state of a row: of one that stands for no step of its own, such as a round of a loop, what those in it come to.
func (n *node) shown() orchestrator.State {
	if n.state != "" || len(n.steps) == 0 {
		return n.state
	}
	all := map[orchestrator.State]int{}
	for _, child := range n.steps {
		all[child.shown()]++
	}
	for _, s := range []orchestrator.State{orchestrator.Running, orchestrator.Interrupted, orchestrator.Failed, orchestrator.TimedOut, orchestrator.Cancelled} {
		if all[s] > 0 {
			return s
		}
	}
	switch {
	case all[""] == len(n.steps):
		return ""
	case all[""] > 0:
		return orchestrator.Running
	case all[orchestrator.OK] > 0:
		return orchestrator.OK
	}
	return orchestrator.Skipped
}

// fold hides the steps of rows that are done, those furthest in first, until so many rows are gone. It returns how many it hid.
func (n *node) fold(folded map[*node]bool, most int) (gone int) {
	for _, child := range n.steps {
		if gone >= most {
			break
		}
		if len(child.steps) == 0 {
			continue
		}
		inner := child.fold(folded, most-gone)
		gone += inner
		if state := child.shown(); gone < most && len(child.steps) > 1 && state != "" && state != orchestrator.Running {
			folded[child] = true
			gone += child.count() - inner
		}
	}
	return gone
}

// rows draws the tree: in columns what, who, how long, and what it says.
func (t *tree) rows(folded map[*node]bool) []string {
	took := t.root.took
	if t.root.state == "" && !t.began.IsZero() {
		took = time.Since(t.began)
	}
	p := t.palette
	var lines []treeLine
	t.collect(&t.root, "", folded, &lines)
	left, who := 0, 0
	for _, l := range lines {
		left, who = max(left, columns(l.prefix)+2+columns(l.what)), max(who, columns(l.who))
	}
	left, who = min(left, max(t.width/2, 20)), min(who, max(t.width/4, 8))
	head := p.name + visible(orElse(t.name, "plan"), 60) + p.end
	if t.root.state != "" {
		head = t.mark(&t.root) + " " + head
	}
	rows := []string{head + "  " + p.faint + shortTime(took) + p.end}
	for _, l := range lines {
		what := clipColumns(l.what, left-columns(l.prefix)-2)
		pad := strings.Repeat(" ", max(left-columns(l.prefix)-2-columns(what), 0))
		row := p.faint + l.prefix + p.end + l.mark + " " + what + pad
		used := left
		if who > 0 {
			name := clipColumns(l.who, who)
			row += "  " + p.faint + name + p.end + strings.Repeat(" ", who-columns(name))
			used += 2 + who
		}
		row += fmt.Sprintf("  %s%6s%s", p.faint, l.took, p.end)
		used += 8
		if room := t.width - used - 3; l.note != "" && room > 4 {
			row += "  " + l.colour + clipColumns(l.note, room) + mark(l.colour != "", p.end)
		}
		rows = append(rows, strings.TrimRight(row, " "))
	}
	return rows
}

type treeLine struct{ prefix, mark, what, who, took, note, colour string }

func (t *tree) collect(n *node, prefix string, folded map[*node]bool, lines *[]treeLine) {
	for i, child := range n.steps {
		branch, below := "├─ ", "│  "
		if i == len(n.steps)-1 {
			branch, below = "└─ ", "   "
		}
		name := visible(child.id, 60)
		for child.kind == "" && len(child.steps) == 1 && !folded[child] { // a round of one step is one row
			child = child.steps[0]
			if _, err := strconv.Atoi(child.id); err != nil {
				name += "/" + visible(child.id, 60)
			}
		}
		l := treeLine{prefix: prefix + branch, mark: t.mark(child), what: name + child.more(), who: visible(mark(child.member != child.id, child.member), 40)}
		switch {
		case child.state == orchestrator.Running && !child.began.IsZero():
			l.took = shortTime(time.Since(child.began))
		case child.state != "" && child.state != orchestrator.Skipped && child.state != orchestrator.Running:
			l.took = shortTime(child.took)
		}
		if len(child.steps) == 0 || child.state != orchestrator.OK && child.state != orchestrator.Running {
			l.note = visible(child.note, 400)
		}
		if folded[child] {
			l.note = fmt.Sprintf("… %d steps", child.count())
		}
		switch child.state {
		case orchestrator.Failed, orchestrator.TimedOut, orchestrator.Interrupted:
			l.colour = t.palette.bad
		case orchestrator.Skipped, orchestrator.Cancelled:
			l.colour = t.palette.faint
		}
		*lines = append(*lines, l)
		if !folded[child] {
			t.collect(child, prefix+below, folded, lines)
		}
	}
}

func (n *node) count() (count int) {
	for _, child := range n.steps {
		count += 1 + child.count()
	}
	return count
}

// more is what stands behind the name of a row.
func (n *node) more() (text string) {
	switch n.kind {
	case "parallel", "map", "loop", "route", "ask":
		text = " " + n.kind
	}
	if n.about != "" {
		text += " " + visible(n.about, 40)
	}
	if n.try > 1 {
		text += fmt.Sprintf(" (try %d)", n.try)
	}
	return text
}

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func (t *tree) spinner() string { return spinner[t.tick%len(spinner)] }

// mark is the sign of a state: a shape, so that it needs no colour.
func (t *tree) mark(n *node) string {
	colour, sign := t.palette.faint, "−" // skipped
	switch state := n.shown(); {
	case n.asking:
		colour, sign = t.palette.busy, "?"
	case state == "":
		sign = "○"
	case state == orchestrator.Running:
		colour, sign = t.palette.busy, t.spinner()
	case state == orchestrator.OK:
		colour, sign = t.palette.ok, "✓"
	case state == orchestrator.Failed:
		colour, sign = t.palette.bad, "✗"
	case state == orchestrator.TimedOut:
		colour, sign = t.palette.bad, "⧖"
	case state == orchestrator.Cancelled:
		sign = "⊘"
	case state == orchestrator.Interrupted:
		colour, sign = t.palette.bad, "!"
	}
	return colour + sign + t.palette.end
}

// shortTime is a duration in few letters.
func shortTime(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// columns is how many columns of a terminal text takes.
func columns(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff ||
		r >= 0x20000 && r <= 0x3fffd): // East Asian Wide and Fullwidth (Unicode, UAX #11), and pictures
		return 2
	}
	return 1
}

// clipColumns cuts text to at most so many columns.
func clipColumns(text string, most int) string {
	if columns(text) <= most {
		return text
	}
	if most <= 0 {
		return ""
	}
	used := 0
	for i, r := range text {
		if used+columnsOf(r) > most-1 {
			return text[:i] + "…"
		}
		used += columnsOf(r)
	}
	return text
}
