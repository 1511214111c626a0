package playground

import (
	"context"
	"maps"
	"slices"

	"github.com/da1ed7bb/parley/capture"
)

// A Lesson is something to do on a live server, with checks that see whether it was done.
type Lesson struct {
	ID       string
	Title    string
	Target   string   // where it runs unless somebody says otherwise
	Protocol string   // what a target must speak; "" for anything
	Text     []string // paragraphs; `code` between back quotes
	Steps    []Step
	Notes    []Note
}

// A Step is one thing to do.
type Step struct {
	ID    string
	Label string // a word in front, such as an error code
	Title string
	Hint  string
	Draft string // bytes to begin with; "" leaves what is there
	Way   string // bytes that do it, for who asks

	// Check reports whether a row shows that the step was done. It is called for each row of the lesson's target, and again
	// when it changes: while a call waits, when it is answered.
	Check func(s *Scene, row *capture.Row) bool
}

// A Note is something more to know.
type Note struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// A Scene is what a check can see beside its row.
type Scene struct {
	Log    *capture.Log
	Target string
	From   capture.Ref    // the first row that belongs to the lesson; zero for all
	Passed map[string]any // steps of this lesson that are done, by ID
}

// Payload returns the bytes of a row, nil if they are not kept.
func (s *Scene) Payload(r capture.Ref) []byte {
	payload, err := s.Log.Payload(r)
	if err != nil {
		return nil
	}
	return payload
}

// Answer returns the response to a request, if it is there.
func (s *Scene) Answer(row *capture.Row) (answer capture.Row, payload []byte, ok bool) {
	if row.Answer.IsZero() {
		return answer, nil, false
	}
	answer, ok = s.Log.Row(row.Answer)
	return answer, s.Payload(row.Answer), ok
}

// maxScene bounds the rows that a check may look back at.
const maxScene = 10_000

// Rows are the rows of the lesson so far.
func (s *Scene) Rows() []capture.Row {
	rows := s.Log.Rows(s.From, maxScene)
	return slices.DeleteFunc(rows, func(r capture.Row) bool { return r.Target != s.Target })
}

// school is which lesson is open, and what is passed of it.
type school struct {
	lesson *Lesson
	target string
	from   capture.Ref // where it began on the wire
	since  int64       // the last change that was looked at
	passed map[string]string
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
		return 0, badParam("/lesson", "there is no lesson %q", id)
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

// lessonsOpen begins a lesson: from now on what crosses the wire of its target is checked.
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := &p.school; s.lesson == l && s.target == v.Target {
		v.Passed = maps.Clone(s.passed)
		return v, nil // a page that was loaded again goes on
	}
	p.school = school{lesson: l, target: v.Target, from: from, since: p.rec.Rev(), passed: make(map[string]string)}
	p.tellLocked()
	return v, nil
}

func (p *Playground) lessonsClose(context.Context, none) (none, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.school = school{}
	p.tellLocked()
	return none{}, nil
}

type progressView struct {
	Lesson string            `json:"lesson"`
	Target string            `json:"target"`
	Passed map[string]string `json:"passed"`
}

func (p *Playground) progress() (progressView, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.school
	if s.lesson == nil {
		return progressView{}, false
	}
	return progressView{s.lesson.ID, s.target, maps.Clone(s.passed)}, true
}

// watchLessons checks what crosses the wire while a lesson is open.
func (p *Playground) watchLessons() {
	for p.ctx.Err() == nil {
		p.mu.Lock()
		s, changed := p.school, p.changed
		if s.passed != nil {
			s.passed = maps.Clone(s.passed)
		}
		p.mu.Unlock()
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
		p.mu.Lock()
		if now := &p.school; now.lesson == s.lesson && now.target == s.target && now.from == s.from {
			now.since = page.Next
			if now.passed = s.passed; len(s.passed) != before {
				p.tellLocked()
			}
		}
		p.mu.Unlock()
		if !page.More {
			p.awaitRows(page.Next, changed)
		}
	}
}

// awaitRows waits for a change of the recording, or of the lesson.
func (p *Playground) awaitRows(rev int64, changed chan struct{}) {
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
	_ = p.rec.Wait(ctx, rev) // whatever ends it is looked at by the caller
	cancel()
	<-done
}

// examine runs the checks of steps that are not passed yet over rows.
func (p *Playground) examine(s *school, log *capture.Log, rows []capture.Row) {
	scene := &Scene{Log: log, Target: s.target, From: s.from, Passed: make(map[string]any)}
	for id := range s.passed {
		scene.Passed[id] = true
	}
	for i := range rows {
		row := &rows[i]
		if row.Target != s.target || row.Ref.Seq < s.from.Seq {
			continue
		}
		for _, step := range s.lesson.Steps {
			if s.passed[step.ID] == "" && step.Check != nil && step.Check(scene, row) {
				s.passed[step.ID] = row.Ref.String()
				scene.Passed[step.ID] = true
			}
		}
	}
}

type checkResult struct {
	Passed map[string]string `json:"passed"`
}

// lessonsCheck looks at what is recorded already.
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
	s := &school{lesson: l, target: orDefault(in.Target, l.Target), passed: make(map[string]string)}
	p.examine(s, log, log.Rows(capture.Ref{}, 0))
	return checkResult{s.passed}, nil
}
