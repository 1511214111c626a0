package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

// follow shows a recording on stderr while it grows. The function that it returns waits until all is shown, once the recording has
// ended.
func (a *app) follow(rec *capture.Recorder, terms, colour string) (wait func(), err error) {
	filter, err := capture.ParseFilter(terms, time.Now())
	if err != nil {
		return nil, usagef("--filter: %v", err)
	}
	f := &follower{w: a.stderr, log: rec.Log, filter: filter}
	wants, err := a.wantsColour(colour, isTerminal(a.stderr))
	if err != nil {
		return nil, err
	}
	if wants {
		f.palette = colours
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		rev := int64(0)
		for rec.Wait(context.Background(), rev) == nil { // it ends with the recording
			page := rec.Since(rev, math.MaxInt) // all there is, since a call that has its answer comes behind it
			rev = page.Next
			slices.SortStableFunc(page.Rows, func(a, b capture.Row) int {
				return cmp.Or(cmp.Compare(a.Ref.Seq, b.Ref.Seq), cmp.Compare(a.Ref.Member, b.Ref.Member))
			})
			for i := range page.Rows {
				f.show(&page.Rows[i])
			}
		}
	}()
	return func() { <-done }, nil
}

// A follower writes a line for each row, as --trace does.
type follower struct {
	w       io.Writer
	log     *capture.Log
	filter  *capture.Filter
	palette palette
	last    capture.Ref // the newest row that was seen
}

// show writes a row that is new. What changes later, such as a call that has its answer, shows in the line of the answer; a call that
// will have none is told again.
func (f *follower) show(r *capture.Row) {
	seen := r.Ref.Seq < f.last.Seq || r.Ref.Seq == f.last.Seq && r.Ref.Member <= f.last.Member
	if !seen {
		f.last = r.Ref
	}
	switch r.Kind {
	case capture.RowHTTP:
		if r.State != capture.StateFailed && r.State != capture.StateUnanswered {
			return
		}
	case capture.RowOpen, capture.RowStderr:
		return // stderr passes by itself
	case capture.RowClose:
		if r.Brief == "" {
			return
		}
	default:
		if seen && (r.State != capture.StateUnanswered && r.State != capture.StateFailed || !r.Answer.IsZero()) {
			return
		}
	}
	if !f.filter.Match(r, func() []byte {
		payload, _ := f.log.Payload(r.Ref) // what is gone holds no text
		return payload
	}) {
		return
	}
	fmt.Fprintln(f.w, lineOf(r, f.palette))
}

// lineOf is a row for people.
func lineOf(r *capture.Row, p palette) string {
	arrow, colour := "·", ""
	switch r.Dir {
	case capture.Out:
		arrow, colour = "→", p.name
	case capture.In:
		arrow, colour = "←", p.number
	}
	what, note := r.Method, ""
	if r.Name != "" {
		what += " " + r.Name
	}
	switch r.Kind {
	case capture.RowNotification:
		note = "notification"
	case capture.RowResult:
		note = r.Brief
		if note == "" {
			note = "ok"
		}
	case capture.RowError:
		note = fmt.Sprintf("error %d %s", r.Code, r.Brief)
	case capture.RowBatch:
		what, note = fmt.Sprintf("batch of %d", r.Members), ""
	case capture.RowHTTP:
		note = fmt.Sprintf("HTTP %d", r.Code)
	case capture.RowOpen:
		what, note = r.Kind, r.Target
	case capture.RowJunk, capture.RowLost, capture.RowClose, capture.RowStderr:
		what, note = r.Kind, r.Brief
	}
	if r.State == capture.StateUnanswered || r.State == capture.StateFailed && r.Kind == capture.RowRequest {
		note = strings.TrimSpace(r.State + " " + r.Brief)
	}
	for _, finding := range r.Findings {
		mark := "✗ "
		if finding.Doubt {
			mark = "? "
		}
		note += "  " + mark + finding.Rule + ": " + finding.Text
	}
	if what == "" {
		what = "?"
	}
	id, took := "", ""
	if r.ID != "" {
		id = "id " + visible(r.ID, 24)
	}
	if r.Took > 0 && r.Kind != capture.RowRequest {
		took = milliseconds(r.Took)
	}
	text := fmt.Sprintf("%-5s %-28s %-8s %10s %9s  %s", r.Ref, visible(what, 60), id, took, bytesOf(r.Size), visible(note, 200))
	return colour + arrow + p.end + " " + strings.TrimRight(text, " ")
}
