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

// follow prints a recording on stderr while it grows. wait blocks until the recording has ended and
// everything is printed.
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
		for rec.Wait(context.Background(), rev) == nil { // ends with the recording
			// All rows, since a call whose response arrived moves to the end.
			page := rec.Since(rev, math.MaxInt)
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

// A follower writes one line per row, as --trace does.
type follower struct {
	w       io.Writer
	log     *capture.Log
	filter  *capture.Filter
	palette palette
	last    capture.Ref // the newest row seen
}

// show prints a new row. Later changes of a row, such as the response to a call, are printed with
// the response; a call that stays without a response is printed again.
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
		return // stderr is passed through already
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
		payload, _ := f.log.Payload(r.Ref) // an evicted payload matches no text
		return payload
	}) {
		return
	}
	fmt.Fprintln(f.w, lineOf(r, f.palette, usualWidth))
}

// usualWidth is the width of the column of methods if the longest is not known yet.
const usualWidth = 28

// whatOfRow returns the method of a row and what it is applied to, or another name of the row.
func whatOfRow(r *capture.Row) string {
	what := r.Method
	if r.Name != "" {
		what += " " + r.Name
	}
	switch r.Kind {
	case capture.RowBatch:
		what = fmt.Sprintf("batch of %d", r.Members)
	case capture.RowOpen, capture.RowJunk, capture.RowLost, capture.RowClose, capture.RowStderr:
		what = r.Kind
	}
	return visible(orElse(what, "?"), 60)
}

// lineOf formats a row for people. width is that of the column of methods, in characters.
func lineOf(r *capture.Row, p palette, width int) string {
	arrow, colour := "·", ""
	switch r.Dir {
	case capture.Out:
		arrow, colour = "→", p.name
	case capture.In:
		arrow, colour = "←", p.number
	}
	note := ""
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
	case capture.RowHTTP:
		note = fmt.Sprintf("HTTP %d", r.Code)
	case capture.RowOpen:
		note = r.Target
	case capture.RowJunk, capture.RowLost, capture.RowClose, capture.RowStderr:
		note = r.Brief
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
	id, took, size := "", "", bytesOf(r.Size)
	if r.Size == 0 { // an exchange, whose messages have rows of their own
		size = ""
	}
	if r.ID != "" {
		id = "id " + visible(r.ID, 24)
	}
	if r.Took > 0 && r.Kind != capture.RowRequest {
		took = milliseconds(r.Took)
	}
	text := fmt.Sprintf("%-5s %-*s %-8s %10s %9s  %s", r.Ref, width, whatOfRow(r), id, took, size, visible(note, 200))
	return colour + arrow + p.end + " " + strings.TrimRight(text, " ")
}
