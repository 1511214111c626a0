package playground

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// A Lesson is an exercise on a live server, with checks that detect whether it was done.
type Lesson struct {
	ID       string
	Title    string
	Target   string   // the default target
	Protocol string   // the protocol that the target must speak; "" for any
	Text     []string // paragraphs; `code` in backquotes
	Steps    []Step
	Notes    []Note
}

// A Step is one task of a lesson.
type Step struct {
	ID    string
	Label string // a short word in front, such as an error code
	Title string
	Hint  string
	Draft string // text to start with; "" keeps the current text
	Way   string // a text that solves the step, for people who request it

	Terminal TerminalStep // how the command parley does the step, instead of the page
	// Keep lists values that later steps need: the word for one in their Way and command, such as
	// TOKEN, and the member of this step's result with its value.
	Keep map[string]string

	// Check reports whether a row shows that the step was done. It is called for each row of the
	// lesson's target, and again when the row changes: while a call waits, and when its response
	// arrives.
	Check func(s *Scene, row *capture.Row) bool
}

// A TerminalStep is a step as people do it with the command parley in a terminal.
type TerminalStep struct {
	// Command has the arguments of parley in the syntax of a shell, with single quotes only. A word
	// @NAME is the address of that target, and WAY is the Way of the step. If "", the Way is sent
	// unchanged, with parley call TARGET --raw. A step without both is passed by an earlier command.
	Command string
	Input   string // lines for the command's stdin; "" for none
	Hint    string // replaces the hint of the step if that is about the page
	HTTP    bool   // the HTTP requests are worth a look, too
}

// A Note contains additional information.
type Note struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// A Scene is what a check can access besides its row.
type Scene struct {
	Log    *capture.Log
	Target string
	From   capture.Ref    // the first row that belongs to the lesson; zero means all rows
	Passed map[string]any // completed steps of this lesson, by ID
}

// Payload returns the bytes of a row, or nil if they are not stored.
func (s *Scene) Payload(r capture.Ref) []byte {
	payload, err := s.Log.Payload(r)
	if err != nil {
		return nil
	}
	return payload
}

// Answer returns the response to a request. ok reports whether it has arrived.
func (s *Scene) Answer(row *capture.Row) (answer capture.Row, payload []byte, ok bool) {
	if row.Answer.IsZero() {
		return answer, nil, false
	}
	answer, ok = s.Log.Row(row.Answer)
	return answer, s.Payload(row.Answer), ok
}

// maxScene is the maximum number of rows that a check may examine.
const maxScene = 10_000

// Rows returns the rows since the lesson started.
func (s *Scene) Rows() []capture.Row {
	rows := s.Log.Rows(s.From, maxScene)
	return slices.DeleteFunc(rows, func(r capture.Row) bool { return r.Target != s.Target })
}

// A school contains the open lesson. The zero value has none.
type school struct {
	mu   sync.Mutex
	open attempt
}

// An attempt is an open lesson, with its passed steps.
type attempt struct {
	lesson *Lesson // nil if no lesson is open
	target string
	from   capture.Ref // the lesson's first row
	since  int64       // the last revision that was examined
	passed map[string]string
}

// begin opens a lesson, unless it is open on that target: a reloaded page continues it. It returns
// the passed steps.
func (s *school) begin(fresh *attempt) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.lesson != fresh.lesson || s.open.target != fresh.target {
		s.open = *fresh
	}
	return maps.Clone(s.open.passed)
}

// end closes the lesson.
func (s *school) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = attempt{}
}

// current returns a copy of the attempt.
func (s *school) current() attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.open
	now.passed = maps.Clone(now.passed)
	return now
}

// update stores what was examined of an attempt, and reports whether it is still the current one.
func (s *school) update(a *attempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.lesson != a.lesson || s.open.target != a.target || s.open.from != a.from {
		return false
	}
	s.open = *a
	s.open.passed = maps.Clone(a.passed)
	return true
}

type lessonHead struct {
	ID       string `json:"id"`
	Number   int    `json:"number"`
	Title    string `json:"title"`
	Target   string `json:"target"`
	Protocol string `json:"protocol,omitzero"`
	Steps    int    `json:"steps"`
}

type lessonsResult struct {
	Lessons []lessonHead `json:"lessons"`
}

func (p *Playground) lessonsList(context.Context, none) (lessonsResult, error) {
	out := lessonsResult{Lessons: []lessonHead{}}
	for i := range p.options.Lessons {
		out.Lessons = append(out.Lessons, p.head(i))
	}
	return out, nil
}

func (p *Playground) head(i int) lessonHead {
	l := &p.options.Lessons[i]
	return lessonHead{l.ID, i + 1, l.Title, l.Target, l.Protocol, len(l.Steps)}
}

func (p *Playground) lessonIndex(id string) (int, error) {
	i := slices.IndexFunc(p.options.Lessons, func(l Lesson) bool { return l.ID == id })
	if i < 0 {
		return 0, badParam("/lesson", "unknown lesson %q", id)
	}
	return i, nil
}

type stepView struct {
	ID    string `json:"id"`
	Label string `json:"label,omitzero"`
	Title string `json:"title"`
	Hint  string `json:"hint,omitzero"`
	Draft string `json:"draft,omitzero"`
	Way   string `json:"way,omitzero"`
}

type lessonView struct {
	lessonHead
	Text   []string          `json:"text"`
	Steps  []stepView        `json:"steps"`
	Notes  []Note            `json:"notes"`
	Passed map[string]string `json:"passed"`
	Next   string            `json:"next,omitzero"`
}

type lessonParams struct {
	Lesson string `json:"lesson"`
	Target string `json:"target,omitzero"`
	Log    string `json:"log,omitzero"`
}

// lessonsOpen starts a lesson: from now on, the traffic of its target is checked.
func (p *Playground) lessonsOpen(_ context.Context, in lessonParams) (lessonView, error) {
	i, err := p.lessonIndex(in.Lesson)
	if err != nil {
		return lessonView{}, err
	}
	l := &p.options.Lessons[i]
	v := lessonView{lessonHead: p.head(i), Text: l.Text, Steps: []stepView{}, Notes: append([]Note{}, l.Notes...), Passed: map[string]string{}}
	v.Target = orDefault(in.Target, l.Target)
	for _, s := range l.Steps {
		v.Steps = append(v.Steps, stepView{s.ID, s.Label, s.Title, s.Hint, s.Draft, s.Way})
	}
	if i+1 < len(p.options.Lessons) {
		v.Next = p.options.Lessons[i+1].ID
	}
	p.rec.Flush()
	from := capture.Ref{Seq: 1}
	if rows := p.rec.Since(max(0, p.rec.Rev()-1), 1).Rows; len(rows) > 0 {
		from.Seq = rows[0].Ref.Seq + 1
	}
	fresh := attempt{lesson: l, target: v.Target, from: from, since: p.rec.Rev(), passed: make(map[string]string)}
	v.Passed = p.school.begin(&fresh)
	p.changes.signal()
	return v, nil
}

func (p *Playground) lessonsClose(context.Context, none) (none, error) {
	p.school.end()
	p.changes.signal()
	return none{}, nil
}

type progressView struct {
	Lesson string            `json:"lesson"`
	Target string            `json:"target"`
	Passed map[string]string `json:"passed"`
}

func (p *Playground) progress() (progressView, bool) {
	s := p.school.current()
	if s.lesson == nil {
		return progressView{}, false
	}
	return progressView{s.lesson.ID, s.target, s.passed}, true
}

// watchLessons checks the traffic while a lesson is open.
func (p *Playground) watchLessons() {
	for p.ctx.Err() == nil {
		changed := p.changes.next()
		s := p.school.current()
		if s.lesson == nil {
			select {
			case <-changed:
			case <-p.ctx.Done():
			}
			continue
		}
		page := p.rec.Since(s.since, pageRows)
		before := len(s.passed)
		p.examine(&s, p.rec.Log, page.Rows)
		s.since = page.Next
		if p.school.update(&s) && len(s.passed) != before {
			p.changes.signal()
		}
		if !page.More {
			p.awaitRows(page.Next, changed)
		}
	}
}

// awaitRows waits for a change of the recording or of the lesson.
func (p *Playground) awaitRows(rev int64, changed <-chan struct{}) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	_ = p.rec.Wait(ctx, rev) // the caller examines the state after any result
	cancel()
	<-done
}

// examine runs the checks of the steps that are not yet passed over rows.
func (p *Playground) examine(s *attempt, log *capture.Log, rows []capture.Row) {
	scene := &Scene{Log: log, Target: s.target, From: s.from, Passed: make(map[string]any)}
	for id := range s.passed {
		scene.Passed[id] = true
	}
	for id, row := range s.lesson.Examine(scene, rows) {
		s.passed[id] = row.String()
	}
}

// Examine runs the checks of the steps that are not in s.Passed over rows, in order. It adds the
// steps that pass to s.Passed, and returns them by ID with the row that passed each. Rows of other
// targets and rows before s.From are ignored. A Check that panics has not passed.
func (l *Lesson) Examine(s *Scene, rows []capture.Row) map[string]capture.Ref {
	passed := make(map[string]capture.Ref)
	for i := range rows {
		row := &rows[i]
		if row.Target != s.Target || row.Ref.Seq < s.From.Seq {
			continue
		}
		for _, step := range l.Steps {
			if s.Passed[step.ID] == nil && step.Check != nil && checked(step.Check, s, row) {
				s.Passed[step.ID] = true
				passed[step.ID] = row.Ref
			}
		}
	}
	return passed
}

type checkResult struct {
	Passed map[string]string `json:"passed"`
}

// lessonsCheck checks the rows that are recorded already.
func (p *Playground) lessonsCheck(_ context.Context, in lessonParams) (checkResult, error) {
	i, err := p.lessonIndex(in.Lesson)
	if err != nil {
		return checkResult{}, err
	}
	log, err := p.log(in.Log)
	if err != nil {
		return checkResult{}, err
	}
	l := &p.options.Lessons[i]
	s := &attempt{lesson: l, target: orDefault(in.Target, l.Target), passed: make(map[string]string)}
	p.examine(s, log, log.Rows(capture.Ref{}, 0))
	return checkResult{s.passed}, nil
}

// checked calls a Check.
func checked(check func(*Scene, *capture.Row) bool, scene *Scene, row *capture.Row) (passed bool) {
	_ = rescue.Run(nil, func() { passed = check(scene, row) })
	return passed
}
