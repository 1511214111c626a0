package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/playground"
)

// A pupil does lessons: the user at a terminal, or without one, all steps in a row.
type pupil struct {
	app     *app
	room    *room
	all     []playground.Lesson
	alone   bool          // there is no user: nothing waits
	timeout time.Duration // of one command; 0 means none
	width   int           // of a line of text, in characters
	palette palette
	done    []string // the passed steps of all lessons, as LESSON/STEP

	// Of the current lesson:
	now    *playground.Lesson
	scene  *playground.Scene
	passed map[string]capture.Ref // the rows that passed its steps
	kept   map[string]string      // values of earlier responses, by the words that stand for them
}

// errLeft is returned when the user leaves a lesson.
var errLeft = errors.New("left")

// What a pupil waits for after a command: the tap records what passes soon after it has passed.
const (
	learnSettle = 5 * time.Second        // until the step passes
	learnLook   = 500 * time.Millisecond // the same for a call that the user typed, which may do something else
)

// The messages that a step shows: at most so many, each cut to so many characters.
const (
	learnMessages = 30
	learnMessage  = 400
)

func (p *pupil) print(format string, args ...any) {
	fmt.Fprintf(p.app.stdout, format, args...) // without a reader, the commands still run
}

// text prints a paragraph.
func (p *pupil) text(indent, text string) {
	b := &listing{width: p.width}
	b.wrap(indent, text)
	p.print("%s", b.String())
}

// lesson does one lesson.
func (p *pupil) lesson(ctx context.Context, l *playground.Lesson) error {
	at := slices.IndexFunc(p.all, func(o playground.Lesson) bool { return o.ID == l.ID })
	rec := p.room.rec
	rec.Flush()
	p.now, p.passed, p.kept = l, make(map[string]capture.Ref), make(map[string]string)
	p.scene = &playground.Scene{Log: rec.Log, Target: p.room.recordedAs(l.Target), From: capture.Ref{Seq: 1}, Passed: make(map[string]any)}
	if rows := rec.Rows(capture.Ref{}, 0); len(rows) > 0 {
		p.scene.From.Seq = rows[len(rows)-1].Ref.Seq + 1
	}
	p.print("%sLesson %d of %d: %s%s\n", p.palette.name, at+1, len(p.all), l.Title, p.palette.end)
	for _, paragraph := range l.Text {
		p.print("\n")
		p.text("", paragraph)
	}
	for i := range l.Steps {
		if err := p.step(ctx, i); err != nil {
			return err
		}
	}
	for _, note := range l.Notes {
		p.print("\n")
		p.text("", note.Title)
		p.text("  ", note.Text)
	}
	if p.alone {
		return nil
	}
	outcome := "The lesson is done."
	if left := len(l.Steps) - len(p.passed); left > 0 {
		outcome = countOf(left, "step") + " " + map[bool]string{true: "was", false: "were"}[left == 1] + " skipped."
	}
	if at+1 < len(p.all) {
		outcome += fmt.Sprintf(" Next: %s learn %s", commandName(), p.all[at+1].ID)
	}
	p.print("\n%s\n", outcome)
	return nil
}

// step does one step: it shows the command, waits for the user, and runs commands until the
// messages on the wire pass the step.
func (p *pupil) step(ctx context.Context, i int) error {
	s := &p.now.Steps[i]
	title := s.Title
	if s.Label != "" {
		title = s.Label + ": " + title
	}
	p.print("\n%sStep %d of %d: %s%s\n", p.palette.name, i+1, len(p.now.Steps), title, p.palette.end)
	p.text("", orElse(s.Terminal.Hint, s.Hint))
	if row, ok := p.passed[s.ID]; ok {
		p.print("\nDone by the command above:\n")
		p.evidence(row)
		return nil
	}
	words, err := p.words(s)
	if err != nil {
		return err
	}
	if p.alone {
		p.print("\n%s", p.shown("$ ", words, s.Terminal.Input))
		code, err := p.run(ctx, words, s.Terminal.Input, s, learnSettle)
		if err != nil {
			return err
		}
		if _, ok := p.passed[s.ID]; !ok {
			return fmt.Errorf("the step %q of the lesson %s is not done; its command ended with exit code %d", s.Title, p.now.ID, code)
		}
		return nil
	}
	for {
		if words != nil {
			p.print("\n%s", p.shown("  ", words, s.Terminal.Input))
		}
		p.print("\nPress Enter to run it, or type your own call; s skips the step, q ends.\n> ")
		line, err := p.ask(ctx)
		if errors.Is(err, errElsewhere) {
			if row, ok := p.passed[s.ID]; ok {
				p.print("\n\nDone by a call from elsewhere:\n")
				p.evidence(row)
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		own, input := words, s.Terminal.Input
		switch line = strings.TrimSpace(line); line {
		case "":
			if words == nil {
				continue
			}
		case "s":
			return nil
		case "q":
			return errLeft
		default:
			if own, err = p.typedWords(line); err != nil {
				p.app.complain(err)
				continue
			}
			input = ""
		}
		if _, err := p.run(ctx, own, input, s, map[bool]time.Duration{true: learnSettle, false: learnLook}[line == ""]); err != nil {
			return err
		}
		if _, ok := p.passed[s.ID]; ok {
			p.print("\nDone.\n")
			return nil
		}
		p.print("\nNot yet. %s\n", visible(orElse(s.Terminal.Hint, s.Hint), 400))
	}
}

// errElsewhere ends the wait for a line, because a call from elsewhere passed a step.
var errElsewhere = errors.New("elsewhere")

// ask waits for a line of the user, or until messages that other programs send pass a step.
func (p *pupil) ask(ctx context.Context) (line string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	before := len(p.passed)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			rev := p.room.rec.Rev()
			if p.examine(p.room.rec.Rows(p.scene.From, 0)); len(p.passed) > before {
				cancel(errElsewhere)
				return
			}
			if p.room.rec.Wait(ctx, rev) != nil {
				return
			}
		}
	}()
	line, err = p.app.typed(ctx)
	cancel(nil)
	<-watched // it uses the fields of p
	return line, err
}

// examine passes the steps that rows show.
func (p *pupil) examine(rows []capture.Row) {
	for id, row := range p.now.Examine(p.scene, rows) {
		p.pass(id, row)
	}
}

// words returns the command of a step, without "parley", or nil if it has none.
func (p *pupil) words(s *playground.Step) (words []string, err error) {
	way := s.Way
	for word, value := range p.kept {
		way = strings.ReplaceAll(way, word, value)
	}
	switch {
	case s.Terminal.Command != "":
		if words, err = splitLine(s.Terminal.Command); err != nil {
			return nil, err
		}
		for i, word := range words {
			if value, ok := p.kept[word]; ok {
				words[i] = value
			} else if word == "WAY" {
				words[i] = way
			}
		}
	case way != "":
		words = []string{"call", p.now.Target, "--raw", way}
	}
	return p.addressed(words), nil
}

// addressed replaces the names of the lessons' targets by their addresses.
func (p *pupil) addressed(words []string) []string {
	for i, word := range words {
		if place, ok := p.room.places[word]; ok {
			words[i] = place
		}
	}
	return words
}

// learnable are the commands that a user may run within a lesson.
var learnable = []string{"call", "mcp", "acp", "a2a", "edit", "list", "describe"}

// typedWords returns the command that a user typed: with or without parley in front, or only a
// method with its parameters.
func (p *pupil) typedWords(line string) ([]string, error) {
	words, err := splitLine(line)
	if err != nil {
		return nil, err
	}
	if words[0] == "parley" && len(words) > 1 {
		words = words[1:]
		if !slices.Contains(learnable, words[0]) {
			return nil, usagef("%q cannot be used here; the commands are %s", cut(words[0], 60), strings.Join(learnable, ", "))
		}
	}
	if !slices.Contains(learnable, words[0]) {
		words = append([]string{"call", p.now.Target}, words...)
	}
	return p.addressed(words), nil
}

// shown returns a command as it is typed into a shell.
func (p *pupil) shown(prompt string, words []string, input string) string {
	line := prompt + commandName()
	for _, word := range words {
		line += " " + shellWord(word)
	}
	if input == "" {
		return line + "\n"
	}
	return line + " <<'END'\n" + input + "END\n"
}

// run runs a command of parley in this process and shows its output and the messages on the wire.
// It waits until the step passes, or for the time settle.
func (p *pupil) run(ctx context.Context, words []string, input string, s *playground.Step, settle time.Duration) (code int, err error) {
	from := p.nextRow()
	limited, cancel := ctx, context.CancelFunc(func() {})
	if p.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, p.timeout)
	}
	defer cancel()
	// Both outputs go to one stream, in the order of writing, and no question waits for an answer.
	sub := &app{stdin: strings.NewReader(input), stdout: struct{ io.Writer }{p.app.stdout}, stderr: struct{ io.Writer }{p.app.stdout}, getenv: p.app.getenv, secrets: secret.New(nil)}
	code = sub.main(limited, slices.Clone(words))
	if ctx.Err() != nil {
		return code, context.Cause(ctx)
	}
	if code != exitOK {
		p.print("(exit code %d)\n", code)
	}
	rows := p.settle(ctx, from, s, settle)
	p.messages(rows, s, words)
	return code, nil
}

// nextRow returns the sequence number after all rows.
func (p *pupil) nextRow() int64 {
	p.room.rec.Flush()
	rows := p.room.rec.Rows(p.scene.From, 0)
	if len(rows) == 0 {
		return p.scene.From.Seq
	}
	return rows[len(rows)-1].Ref.Seq + 1
}

// settle waits until the step passes and all requests have their responses, at most for the given
// time, and returns the rows since from.
func (p *pupil) settle(ctx context.Context, from int64, s *playground.Step, most time.Duration) []capture.Row {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	rec := p.room.rec
	for {
		rev := rec.Rev()
		all := rec.Rows(p.scene.From, 0)
		p.examine(all)
		rows := slices.DeleteFunc(all, func(r capture.Row) bool { return r.Ref.Seq < from })
		_, ok := p.passed[s.ID]
		open := slices.ContainsFunc(rows, func(r capture.Row) bool { return r.State == capture.StateWaiting })
		if ok && !open && len(rows) > 0 || rec.Wait(ctx, rev) != nil {
			return rows
		}
	}
}

// pass records that a step was done.
func (p *pupil) pass(id string, ref capture.Ref) {
	p.passed[id] = ref
	if !p.alone {
		p.app.storeDone([]string{p.now.ID + "/" + id})
	}
	row, ok := p.room.rec.Row(ref)
	i := slices.IndexFunc(p.now.Steps, func(s playground.Step) bool { return s.ID == id })
	if !ok || i < 0 {
		return
	}
	for word, member := range p.now.Steps[i].Keep {
		if _, payload, ok := p.scene.Answer(&row); ok {
			p.kept[word] = textOf(memberOf(memberOf(payload, "result"), member))
		}
	}
}

// messages prints rows: the messages of a command as they were sent.
func (p *pupil) messages(rows []capture.Row, s *playground.Step, words []string) {
	var b strings.Builder
	shown, hidden := 0, false
	discovers := slices.Contains(words, "rpc.discover")
	for _, r := range rows {
		switch {
		case r.Kind == capture.RowHTTP && s.Terminal.HTTP:
			fmt.Fprintf(&b, "  HTTP %s %s, status %d\n", visible(r.Method, 20), visible(r.Name, 60), r.Code)
			continue
		case !isMessage(&r) || r.Ref.Member > 0:
			continue
		case r.Method == "rpc.discover" && !discovers:
			hidden = true
			continue
		}
		if shown++; shown <= learnMessages {
			b.WriteString(p.message(&r))
		}
	}
	if shown == 0 {
		p.print("\nNo message was sent to the lesson's server.\n")
		return
	}
	p.print("\nOn the wire:\n%s", b.String())
	if shown > learnMessages {
		p.print("  and %d more\n", shown-learnMessages)
	}
	if hidden {
		p.print("  and rpc.discover, to suggest a method\n")
	}
}

func isMessage(r *capture.Row) bool {
	switch r.Kind {
	case capture.RowRequest, capture.RowNotification, capture.RowResult, capture.RowError, capture.RowBatch, capture.RowJunk:
		return true
	}
	return false
}

// message returns the line of one message.
func (p *pupil) message(r *capture.Row) string {
	arrow, colour := "←", p.palette.number
	if r.Dir == capture.Out {
		arrow, colour = "→", p.palette.text
	}
	payload := bytes.TrimRight(p.scene.Payload(r.Ref), "\r\n")
	text := visible(string(payload), learnMessage)
	if len(payload) > learnMessage {
		text += " (" + bytesOf(len(payload)) + ")"
	}
	return "  " + colour + arrow + p.palette.end + " " + text + "\n"
}

// evidence prints the message that passed a step, and the response to it.
func (p *pupil) evidence(ref capture.Ref) {
	row, ok := p.room.rec.Row(ref)
	if !ok {
		return
	}
	p.print("%s", p.message(&row))
	if answer, _, ok := p.scene.Answer(&row); ok {
		p.print("%s", p.message(&answer))
	}
}
