package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/da1ed7bb/parley/orchestrator"
)

func (t *tree) wipeLocked() {
	var b bytes.Buffer
	t.appendWipeLocked(&b)
	t.drawn = 0
	drawOn(t.w, b.Bytes())
}

func (t *tree) appendWipeLocked(b *bytes.Buffer) {
	if t.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA"+toColumn0+wipeBelow, t.drawn)
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

// drawLocked redraws the tree in place with one write, so that it does not flicker. It cuts rows to
// the terminal's width, and disables wrapping in the terminal too.
func (t *tree) drawLocked() {
	t.measure()
	rows := t.fitting()
	var b bytes.Buffer
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA"+toColumn0, t.drawn)
	}
	b.WriteString(wrapOff)
	for _, row := range rows {
		b.WriteString(row + wipeRow + "\n")
	}
	b.WriteString(wipeBelow + wrapOn)
	t.drawn = len(rows)
	drawOn(t.w, b.Bytes())
}

// measure updates the size of the terminal.
func (t *tree) measure() {
	if width, height, err := sizeOf(t.w); err == nil && width > 0 && height > 0 {
		t.width, t.height = width, height
	}
}

// whole returns the whole tree, one line per row.
func (t *tree) whole() string {
	var b strings.Builder
	for _, row := range t.rows(nil) {
		b.WriteString(row + "\n")
	}
	return b.String()
}

// fitting returns the part of the tree that fits the terminal: it first folds branches that have
// ended, the oldest first, and then omits the rows furthest from the running steps.
func (t *tree) fitting() []string {
	room := max(t.height-1, 3)
	folded := map[*node]bool{}
	t.root.fold(folded, 1+t.root.count()-room)
	rows := t.rows(folded)
	if len(rows) <= room {
		return rows
	}
	last := 0 // the last row of a running step
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

// shown returns the state of a row. For a row without a step of its own, such as a round of a loop,
// it is derived from the rows below.
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

// fold hides the steps of rows that have ended, the innermost first, until most rows are hidden. It
// returns the number of hidden rows.
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

// rows draws the tree in columns: step, member, time and last output.
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
		// A round of one step is one row.
		for child.kind == "" && len(child.steps) == 1 && !folded[child] {
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

// more returns the text after the name of a row.
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

// mark returns the sign of a state. Its shape is unique, so that it can be read without colour.
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

// shortTime formats a duration in few characters.
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

// columns returns the number of terminal columns that text occupies.
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
		// East Asian Wide and Fullwidth (Unicode, UAX #11), and pictures.
		r >= 0x20000 && r <= 0x3fffd):
		return 2
	}
	return 1
}

// clipColumns cuts text to the given number of columns.
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
