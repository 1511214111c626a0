package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestPatience checks that silence ends a call, that messages restart the time, and that the time
// stops while the user is asked.
func TestPatience(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(p *patience)
		want time.Duration // when it ends
	}{
		{"silence", func(*patience) {}, 10 * time.Second},
		{"news after 8 s", func(p *patience) { time.Sleep(8 * time.Second); p.renew() }, 18 * time.Second},
		{"a question for an hour", func(p *patience) {
			time.Sleep(2 * time.Second)
			resume := p.pause()
			time.Sleep(time.Hour)
			resume()
		}, time.Hour + 12*time.Second},
		{"news during a question", func(p *patience) {
			resume := p.pause()
			p.renew()
			time.Sleep(time.Minute)
			resume()
		}, 70 * time.Second},
		{"two questions", func(p *patience) {
			first, second := p.pause(), p.pause()
			time.Sleep(time.Minute)
			first()
			time.Sleep(time.Minute)
			second()
		}, 130 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, p, stop := newPatience(t.Context(), 10*time.Second, func() []jsonrpc.ID { return []jsonrpc.ID{jsonrpc.IntID(7)} })
			defer stop()
			tt.do(p)
			<-ctx.Done()
			if took := time.Since(began); took != tt.want {
				t.Errorf("%s: it ends after %v, want %v", tt.name, took, tt.want)
			}
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) || len(p.left()) != 1 {
				t.Errorf("%s: %v, %v", tt.name, cause, p.left())
			}
		})
	}
	ctx, p, stop := newPatience(t.Context(), 0, nil)
	p.renew()
	p.pause()()
	if ctx.Err() != nil {
		t.Error("no limit is a limit")
	}
	stop()
}

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		done, total float64
		message     string
		width       int
		want        string
	}{
		{0, 3, "", 80, "░░░░░░░░░░░░░░░░░░░░░░░░ 0/3"},
		{1, 3, "looking", 80, "████████░░░░░░░░░░░░░░░░ 1/3  looking"},
		{3, 3, "done", 80, "████████████████████████ 3/3  done"},
		{7, 3, "too much", 80, "████████████████████████ 7/3  too much"},
		{2.5, 0, "who knows", 80, "▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ 2.5  who knows"},
		{1, 3, "a message that is too long", 40, "████████░░░░░░░░░░░░░░░░ 1/3  a messag…"},
		{1, 3, strings.Repeat("漢", 60), 40, "████████░░░░░░░░░░░░░░░░ 1/3  漢漢漢漢…"},
		{1, 3, "\x1b[2J\n", 80, `████████░░░░░░░░░░░░░░░░ 1/3  \u001b[2J\n`},
	} {
		if got := barOf(tt.done, tt.total, tt.message, tt.width); got != tt.want {
			t.Errorf("%v/%v %q in %d: %q, want %q", tt.done, tt.total, tt.message, tt.width, got, tt.want)
		}
	}
}

// TestScreen checks that lines are written above the bar, and that no bar is drawn while the user
// types.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := &screen{w: &out, bar: true}
	s.progress(1, 2, "half")
	s.line("news")
	done := s.ask()
	s.progress(2, 2, "unseen")
	done()
	s.progress(2, 2, "seen")
	s.clear()
	const half, wipe = "████████████░░░░░░░░░░░░ 1/2  half", "\r\x1b[K"
	if want := half + wipe + "news\n" + half + wipe + "████████████████████████ 2/2  seen" + wipe; out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
	out.Reset()
	s.ask()
	s.clear() // the call ends before the answer
	if out.String() != "\n" {
		t.Errorf("got %q", out.String())
	}
	out.Reset()
	plain := &screen{w: &out}
	plain.progress(1, 2, "half")
	plain.progress(3, 0, "")
	if want := "progress 1/2 half\nprogress 3\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestWrapping(t *testing.T) {
	b := &listing{width: 20}
	b.wrap("  ", "one two three four "+strings.Repeat("x", 30)+" five")
	if want := "  one two three four\n  " + strings.Repeat("x", 30) + "\n  five\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
